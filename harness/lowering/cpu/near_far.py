"""Near-far on the CPU (:mod:`harness.lowering.near_far`): a compiled loop for each feature, on threads.

A thread of Numba's pool finds the values of one feature, alone, and then those of the next that is left. One feature
is therefore found by one thread: where few vertices are near, as on roads, a superstep takes less time than to divide
it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numba
import numpy as np

from harness.language.priority_order import PriorityOrder
from harness.lowering.cpu.modules import load_module
from harness.lowering.near_far import Array, Counts, NearFarEngine, inputs_of, message_text

if TYPE_CHECKING:
    from harness.contract import Device, Phases
    from harness.graph import Graph
    from harness.language import Program

OPERATORS = {
    "add": "({} + {})", "sub": "({} - {})", "mul": "({} * {})", "min": "min({}, {})", "max": "max({}, {})",
    "const": "float32({})",
}  # fmt: skip
IN_NEAR, IN_FAR = 1, 2
# A message reads `value` and the inputs of edge e. Values have a row for each feature. A thread has three lists of
# vertices and a row of `waits`: whether a vertex is in the next near list, or in the far pile; it is once in each, and
# its value is read when it is taken out. The first split takes all that have a value.
SOURCE = '''"""Generated: near-far."""

from numba import float32, int64, njit, types, uint8, uint32

from harness.lowering.cpu.parallel_for import launch_dynamic

INFINITY = float("inf")
OFFSETS = types.Array(int64, 1, "C", readonly=True)
IDS = types.Array(uint32, 1, "C", readonly=True)
INPUTS = types.Array(float32, 1, "C", readonly=True)
COUNTS = types.Array(int64, 2, "C")


@njit(nogil=True, error_model="numpy", _nrt=False)
def solve_feature(feature, worker, counts, offsets, neighbours, values, lists, waits_of_all, delta{names}):
    own, waits = values[feature], waits_of_all[worker]
    near, following, far = lists[worker, 0], lists[worker, 1], lists[worker, 2]
    worst = float32({worst})
    in_near = in_far = 0
    for v in range(len(own)):
        waits[v] = 0
        if own[v] != worst:
            far[in_far] = v
            waits[v] = {far}
            in_far += 1
    supersteps = thresholds = edges = 0
    threshold = worst
    while True:
        best, kept = worst, 0
        for i in range(in_far):
            v = far[i]
            if thresholds and not threshold {better} own[v]:
                waits[v] = 0  # it has sent this value
            else:
                best = {choose}(best, own[v])
                far[kept] = v
                kept += 1
        in_far = kept
        if in_far == 0:
            break
        threshold = float32(best {advance} delta)
        if not best {better} threshold:
            threshold = best
        thresholds += 1
        kept = 0
        for i in range(in_far):
            v = far[i]
            if threshold {better} own[v]:
                far[kept] = v
                kept += 1
            else:
                waits[v] = {near}
                near[in_near] = v
                in_near += 1
        in_far = kept
        while in_near:
            supersteps += 1
            sent, in_near = in_near, 0
            for i in range(sent):
                u = near[i]
                waits[u] &= {far}
                value = own[u]
                edges += offsets[u + 1] - offsets[u]
                for e in range(offsets[u], offsets[u + 1]):
{inputs}                    message = {message}
                    v = neighbours[e]
                    if message {better} own[v]:
                        own[v] = message
                        if threshold {better} message:
                            if not waits[v] & {far}:
                                waits[v] |= {far}
                                far[in_far] = v
                                in_far += 1
                        elif not waits[v] & {near}:
                            waits[v] |= {near}
                            following[in_near] = v
                            in_near += 1
            near, following = following, near
    counts[feature, 0], counts[feature, 1], counts[feature, 2] = supersteps, thresholds, edges


@njit(
    int64(
        int64, int64, COUNTS, OFFSETS, IDS, types.Array(float32, 2, "C"), types.Array(uint32, 3, "C"),
        types.Array(uint8, 2, "C"), float32{types}
    ),
    nogil=True, cache=True,
)
def solve(features, threads, counts, offsets, neighbours, values, lists, waits, delta{names}):
    return launch_dynamic(
        solve_feature, features, threads, (counts, offsets, neighbours, values, lists, waits, delta{names})
    )
'''


def source_of(order: PriorityOrder) -> str:
    """Return the source of the module of a program."""
    named, least = inputs_of(order), order.sign > 0
    reads = "".join(f"{' ' * 20}{named[name]} = {named[name]}s[e]\n" for name in order.inputs)
    names = [f"{named[name]}s" for name in order.inputs] + [named[name] for name in order.parameters]
    kinds = ["INPUTS"] * len(order.inputs) + ["float32"] * len(order.parameters)
    return SOURCE.format(
        types="".join(f", {one}" for one in kinds), names="".join(f", {one}" for one in names), inputs=reads,
        message=message_text(order, OPERATORS, named), worst="INFINITY" if least else "-INFINITY",
        better="<" if least else ">", choose="min" if least else "max", advance="+" if least else "-",
        near=IN_NEAR, far=IN_FAR,
    )  # fmt: skip


class NearFarCpuEngine(NearFarEngine):
    """Near-far with a compiled loop, the features divided among the threads."""

    # SSSP from 8 sources, world's highways, ms with 0.25 to 64 times the mean, doubled each time: 428, 412, 387, 384,
    # 395, 424, 458, 632, 874 (one thread, 26 November 2026).
    default_widths: ClassVar[float] = 2.0
    _solve: Callable[..., int]

    def bytes_needed(self, graph: Graph, lanes: int, inputs: int, device: Device) -> int:
        """Return the bytes of the values at the start and in a run, and of the lists of each thread."""
        return (8 * lanes + 13 * workers(device, lanes)) * graph.num_vertices

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Compile the loop, and allocate the lists."""
        self.close()
        self.pose(program, graph, features)
        with phases("compile"):
            self._solve = load_module(source_of(self.order), "near_far").solve
        self._threads, count = workers(device, self.lanes), graph.num_vertices
        self._lists = np.empty((self._threads, 3, count), np.uint32)
        self._waits = np.empty((self._threads, count), np.uint8)

    def start(self, values: Array, edges: tuple[Array, ...], parameters: tuple[np.float32, ...]) -> None:
        """Copy the values, one row after the other for each feature."""
        self._values = np.array(values.T, np.float32, order="C")
        self._inputs: tuple[Any, ...] = (*edges, *parameters)

    def solve(self) -> Counts:
        """Find the values of one feature after another, each thread for some of them."""
        edges, counts = self.graph.csr, np.zeros((self.lanes, 3), np.int64)
        self._solve(
            self.lanes, self._threads, counts, edges.offsets, edges.neighbours, self._values,
            self._lists, self._waits, self.delta, *self._inputs,
        )  # fmt: skip
        supersteps, thresholds, visited = counts.sum(axis=0).tolist()
        return Counts(supersteps, thresholds, visited)

    def answer(self) -> Array:
        """Return a copy of the values."""
        return np.ascontiguousarray(self._values.T)

    def explain(self) -> str:
        """Return the order, and the source of the loop."""
        return f"{super().explain()}\n\n{source_of(self.order)}"

    def close(self) -> None:
        """Release the arrays."""
        for name in ("_lists", "_waits", "_values", "_inputs"):
            self.__dict__.pop(name, None)


def workers(device: Device, lanes: int) -> int:
    """Return the number of threads that find features at the same time."""
    return max(1, min(device.threads, lanes, int(numba.config.NUMBA_NUM_THREADS)))  # type: ignore[attr-defined]
