"""Memory transactions of a plan: its kernels' accesses, by the lanes of its traversals, on a sample of the graph."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from harness.lowering.buffers import Holds
from harness.lowering.cuda.access_patterns import Mapped, MappingError, Work, mapping_of
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.modules import headers
from harness.lowering.cuda.plan import CudaPlan
from harness.lowering.graph_store import GraphStore
from harness.transactions import Atomics, Behaviour, KernelBehaviour, Lanes, Load, Step, atomics, loads

ARCS = 1 << 19  # approximate number sampled in every kernel
# Of an H100, if no device reports its own. They limit the number of blocks; as many may run at once as threads allow
# (registers and shared memory may allow fewer).
MULTIPROCESSORS, THREADS_AT_ONCE = 132, 2048
# Conditions on the state of a run, their values in a superstep over everything, the first one, and the fields of
# ``Run`` that they read.
UNTRACKED = r"run->untracked"  # true while a run begins without tracking
_CONDITIONS: tuple[tuple[str, bool, set[str]], ...] = (
    (r"run->over\(\)", False, {"settled", "superstep", "limit"}),
    (r"run->rebuilding", True, {"rebuilding"}),
    (UNTRACKED, False, {"untracked"}),
    (r"run->untracked != run->stretch", False, {"untracked", "stretch"}),
    (r"run->resuming", False, {"resuming"}),
    (r"run->sparse\(\d+\)", False, {"superstep", "frontier", "dense_arcs"}),
    (r"run->sparse_rows\(\d+\)", False, {"superstep", "frontier", "dense_rows"}),
    (r"run->superstep", True, {"superstep"}),  # of work that only the first one does
)
_COUNT = 8  # bytes of such a field


def behaviour_of(plan: CudaPlan, store: GraphStore, declared: Sequence[Mapped]) -> Behaviour:
    """Return the loads and atomic operations of a superstep over everything.

    ``store``: of the graph. ``declared``: the engine's mappings. Counts that depend on values assume that everything
    moves: a comparison ends at the first feature, and conditional reads are made. Raises MappingError.
    """
    ranges, graph = plan.work_ranges(store), store.graph
    tables = {name: array for one in plan.tables for name, array in one.named(store.table(one)).items()}
    text = "\n".join(headers(plan.templates).values())
    kernels: dict[str, KernelBehaviour] = {}
    looked = whole = 0.0
    for launch in plan.modelled:
        if not ranges.has_work(launch.over, 0):
            continue
        kernel = launch.kernel
        mapped, captured = mapping_of(kernel, declared, text)
        first, last = ranges.bounds(launch.over, 0)
        blocks = launch.blocks_over(last - first, plan.threads, MULTIPROCESSORS, THREADS_AT_ONCE // plan.threads)
        work = Work(
            kernel, graph, plan.team, plan.threads, blocks, first, last, captured, tables,
            np.dtype(plan.edge_position).itemsize, ARCS, _arguments(plan, kernel),
        )  # fmt: skip
        untracked = plan.tracking_policy is not None and plan.tracking_policy.begins_untracked
        idle, counted = _entered(work, untracked=untracked)
        if not idle:
            counted = sum((_of_step(step, work) for step in mapped.walk(work)), counted)
            counted += _around(work)
        counted = counted.times(kernel.panels)  # panels start on sectors, so their counts are equal
        kernels[kernel.name] = kernels.get(kernel.name, KernelBehaviour()) + counted
        looked, whole = looked + work.looked, whole + work.whole
    return Behaviour("model", kernels, looked / whole if whole else 1.0)


def _arguments(plan: CudaPlan, kernel: CudaKernel) -> dict[str, Holds]:
    """Return what the arrays hold that a kernel takes, by the names of its arguments."""
    names = {name: plan.parities.get(name, name) for name in kernel.arguments}
    return {name: plan.named[array].holds for name, array in names.items() if array in plan.named}


def _of_step(step: Step, work: Work) -> KernelBehaviour:
    counted = KernelBehaviour()
    lanes = step.lanes
    if not len(lanes.weights):
        return counted
    for load in step.loads:
        counted += KernelBehaviour(loads=loads(_addresses(lanes, load), lanes.active, load.size, lanes.weights))
    for operation in step.atomics:
        counted += KernelBehaviour(atomics=atomics(_addresses(lanes, operation), lanes.active, lanes.weights))
    for access in work.kernel.accesses:
        if access.block in step.blocks and access.kind in step.kinds:
            counted += access.behaviour(lanes, work.team)
    return counted


def _addresses(lanes: Lanes, element: Load) -> NDArray[np.int64]:
    return lanes[element.index] * element.size


def _entered(work: Work, *, untracked: bool) -> tuple[bool, KernelBehaviour]:
    """Return whether a kernel is idle in a superstep over everything, and what its threads read to decide that."""
    fields: set[str] = set()
    idle = False
    for term in work.kernel.unless.split("||"):
        value, looked = _condition(work.kernel, term.strip(), untracked=untracked)
        fields |= looked
        if value:
            idle = True
            break
    if not idle:
        fields |= {field for pattern, _, looked in _CONDITIONS if _met(pattern, work.kernel) for field in looked}
        fields |= {name for name, holds in work.holds.items() if holds is Holds.FLIPS}  # to select the buffer
    lanes = work.everyone()
    address = np.zeros(lanes.active.shape, np.int64)
    counted = loads(address, lanes.active, _COUNT, lanes.weights).times(len(fields))
    return idle, KernelBehaviour(loads=counted)


def _met(pattern: str, kernel: CudaKernel) -> bool:
    """Return whether a kernel's statements test a condition; one after "or" is not tested, because all is active."""
    return re.search(rf"(?<!\|\| ){pattern}", kernel.source) is not None


def _condition(kernel: CudaKernel, term: str, *, untracked: bool) -> tuple[bool, set[str]]:
    for pattern, usual, fields in _CONDITIONS:
        if re.fullmatch(f"!?{pattern}", term):
            value = untracked if pattern == UNTRACKED else usual
            return value != term.startswith("!"), fields
    raise MappingError(f"kernel {kernel.name!r} does nothing if {term!r}, a condition of which the model knows nothing")


def _around(work: Work) -> KernelBehaviour:
    """Return what every thread does once, around the traversal, and the counts of every block that had work."""
    own = [access for access in work.kernel.accesses if access.block == "kernel" and access.kind == "load"]
    counted = sum((access.behaviour(work.everyone(), work.team) for access in own), KernelBehaviour())
    counts = min(work.blocks, work.busy_blocks) * work.kernel.counters
    return counted + KernelBehaviour(atomics=Atomics(counts, counts, counts))


__all__ = ["ARCS", "MULTIPROCESSORS", "behaviour_of"]
