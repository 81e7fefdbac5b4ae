"""Kernels folded and optimised by hand for two programs (thesis fig. 7.4), the yardstick for folding by the lowering.

They keep Onyx's data layout, its convergence test and the program's answer, and use what only a person knows of the
program: that labels and messages are not negative. k is a power of two up to 128. Beside the ``.cu`` files here, which
NVRTC compiles, this is all there is: arrays, launches, answers.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness.device.compilation import Compiled, compiled
from harness.device.cuda import allow_shared_memory
from harness.graph import Graph
from harness.language import Inputs

FOLDER = Path(__file__).parent
BLOCK = 256
RESIDENT = 16  # blocks for each multiprocessor that share out the arcs


def source(name: str, features: int, constants: Mapping[str, int]) -> tuple[str, dict[str, str]]:
    """The source of ``<name>.cu`` for k features, and what it includes."""
    given = {"K": features, "BLOCK": BLOCK, **constants}
    defined = "".join(f"#define {key} {value}\n" for key, value in given.items())
    text = (FOLDER / f"{name}.cu").read_text(encoding="utf-8")
    return defined + text, {"rows.cuh": (FOLDER / "rows.cuh").read_text(encoding="utf-8")}


def built(name: str, features: int, chip: str, **constants: int) -> Compiled:
    """The kernels of ``<name>.cu`` for a chip."""
    if features not in (1, 2, 4, 8, 16, 32, 64, 128):
        raise ValueError(f"features={features}: the kernels written by hand take powers of two up to 128")
    return compiled(*source(name, features, constants), chip)


class HandWritten:
    """Loads one module for the current device; subclasses hold arrays and launch."""

    def __init__(self, name: str, kernels: tuple[str, ...], graph: Graph, features: int, **constants: int) -> None:
        import cupy

        self.cupy, self.graph, self.features = cupy, graph, features
        device = cupy.cuda.Device()
        self.multiprocessors = device.attributes["MultiProcessorCount"]
        module = cupy.cuda.function.Module()
        module.load(built(name, features, f"sm_{device.compute_capability}", **constants).code)
        self.functions = {kernel: module.get_function(kernel) for kernel in kernels}
        self.lanes = max(1, features // 4)
        self.moved = cupy.zeros(1, np.uint32)
        self.offsets = cupy.asarray(graph.csc.offsets.astype(np.uint32))
        self.neighbours = cupy.asarray(graph.csc.neighbours)

    def launch(self, kernel: str, blocks: int, arguments: tuple[Any, ...], shared: int = 0) -> None:
        """Queue a kernel on the current stream."""
        self.functions[kernel]((blocks,), (BLOCK,), arguments, shared_mem=shared)

    def over_vertices(self) -> int:
        """Blocks in which every vertex has a team."""
        return -(-self.graph.num_vertices * self.lanes // BLOCK)

    def run(self, supersteps: int) -> None:
        """Queue that many supersteps more."""
        for _ in range(supersteps):
            self.superstep()

    def superstep(self) -> None:
        """Queue one superstep."""
        raise NotImplementedError


class LabelPropagationByHand(HandWritten):
    """``harness.algorithms.label_propagation``, clamped. ``skip``: vertices that are clamped do not gather."""

    def __init__(self, graph: Graph, inputs: Inputs, features: int, *, skip: bool = False) -> None:
        super().__init__("label_propagation", ("superstep",), graph, features, SKIP=int(skip))
        weights = graph.in_weights if graph.in_weights is not None else np.ones(graph.num_edges, np.float32)
        self.weights = self.cupy.asarray(weights)
        self.seeds = self.cupy.asarray(inputs.properties["seed"], np.float32)
        self.labelled = self.cupy.asarray(inputs.properties["labelled"], np.bool_)
        self.labels, self.next = self.seeds.copy(), self.cupy.empty_like(self.seeds)
        self.alpha, self.tolerance = (np.float32(inputs.parameters[name]) for name in ("alpha", "tolerance"))

    def superstep(self) -> None:
        """One kernel."""
        arguments = (
            self.offsets, self.neighbours, self.weights, self.labels, self.seeds, self.labelled, self.next,
            np.uint32(self.graph.num_vertices), self.alpha, self.tolerance, self.moved,
        )  # fmt: skip
        self.launch("superstep", self.over_vertices(), arguments)
        self.labels, self.next = self.next, self.labels

    def values(self) -> Any:
        """The labels, float32 [V, k]."""
        return self.labels.get()


class BeliefPropagationByHand(HandWritten):
    """``harness.algorithms.belief_propagation`` with rule=sum, one potential for all arcs and no damping, k >= 2.

    A superstep makes messages and the sums of the next superstep: before the first, sums are made of phi alone, as all
    messages start equal. After n supersteps beliefs are those of n + 1 supersteps of the program.
    """

    def __init__(self, graph: Graph, inputs: Inputs, features: int) -> None:
        super().__init__("belief_propagation", ("messages", "beliefs"), graph, features)
        cupy, given = self.cupy, inputs.properties
        self.rows = cupy.asarray(graph.csc.row_of_arc.astype(np.uint32, copy=False))
        self.reverse = cupy.asarray(graph.reverse_edges.astype(np.uint32, copy=False))
        self.phi = cupy.asarray(given["phi"], np.float32)
        self.psi = cupy.asarray(given["psi"], np.float32)
        self.sums, self.blank = cupy.log(self.phi), cupy.empty_like(self.phi)
        self.belief = cupy.empty_like(self.phi)
        shape = (graph.num_edges, features)
        self.messages, self.next = cupy.ones(shape, np.float32), cupy.empty(shape, np.float32)
        self.tolerance = np.float32(inputs.parameters["tolerance"])
        teams = BLOCK // self.lanes
        self.tile = teams * (8 if self.lanes == 1 else 16)
        self.shared = 4 * features * features if features > 8 else 0
        if self.shared > 40 * 1024:
            allow_shared_memory(self.functions["messages"], self.shared)
        self._make_beliefs()

    def _make_beliefs(self) -> None:
        arguments = (self.phi, self.sums, self.belief, self.blank, np.uint32(self.graph.num_vertices))
        self.launch("beliefs", self.over_vertices(), arguments)

    def superstep(self) -> None:
        """Messages with the sums of the next superstep, then beliefs."""
        arcs = self.graph.num_edges
        blocks = max(1, min(-(-arcs // self.tile), RESIDENT * self.multiprocessors))
        arguments = (
            self.rows, self.neighbours, self.reverse, self.psi, self.sums, self.messages, self.next, self.blank,
            np.uint32(arcs), self.tolerance, self.moved,
        )  # fmt: skip
        self.launch("messages", blocks, arguments, self.shared)
        self.messages, self.next = self.next, self.messages
        self.sums, self.blank = self.blank, self.sums
        self._make_beliefs()

    def values(self) -> Any:
        """The beliefs, float32 [V, k]."""
        return self.belief.get()
