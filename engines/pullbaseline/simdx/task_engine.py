"""Runs programs with active vertices; the device decides lists, filters and directions (secs. 4, 5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from engines.pullbaseline.simdx.activity import Activity, activity
from engines.pullbaseline.simdx.residency import ResidentEngine
from engines.pullbaseline.simdx.tasks import SIZES, TaskFunctions, task_kernels
from harness.api import EngineFailure, Launch, Over, RunStatistics, Superstep

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from harness.api import CudaKernelBuilder, Inputs

THREADS = 512  # of a block: a global barrier waits for half as many blocks as with 256
BLOCKS = 512  # of kernels that are not fused: about as many as an H100 holds at once
MOST_RESIDENT = 2048 * 160  # threads of a device, at most
TURNS = 2  # times that the fused kernels are queued before the host tests whether the run has ended
# Positions in the struct TaskManager of filters.cuh, in 64-bit words.
VOTES, FAILED, VERTICES, ARCS, PULLED, WORDS = 18, 19, 20, 21, 22, 25


class TaskEngine(ResidentEngine):
    """Runs a program with active vertices.

    ``active``: a program's activity, or why it has none; then :class:`ThreadEngine` runs the program.
    """

    active: Activity | str

    # planning ---------------------------------------------------------------------------------------------------------
    def plan(self) -> None:
        """Plan the kernels of the steps, or the fused kernels."""
        self.active = activity(self.program)
        self.change_driven = isinstance(self.active, Activity)
        if isinstance(self.active, str):
            self.direction, self.block = "pull", THREADS if self.fused else type(self).block
            super().plan()
            return
        self.direction, self.block = "push", THREADS
        assert self.resolved.pull_share is not None
        self.dense_share = self.resolved.pull_share

        def make(name: str, template: str, signature: Sequence[tuple[str, str]]) -> CudaKernelBuilder:
            return self.builder(name, template, signature)

        functions = TaskFunctions(self.active, self.resolved, make)
        for kernel in task_kernels(functions, self.resolved):
            blocks = 1 if kernel.name == "note_superstep" else BLOCKS
            self.launches.append(Launch(kernel, Over.ALL_VERTICES, 1, blocks=blocks))

    @property
    def fused(self) -> bool:
        """Whether one launch runs many supersteps."""
        return self.resolved.fusion != "none"

    def by_degree(self, degrees: NDArray[Any]) -> tuple[NDArray[np.bool_], ...]:
        """Return which vertices are in the small, the middle and the large list by the given degrees, bool[V] each."""
        warp, block = self.schedule.warp_degree, self.schedule.block_degree
        return degrees < warp, (degrees >= warp) & (degrees <= block), (degrees >= warp) & (degrees > block)

    def own_arrays(self) -> dict[str, tuple[int, type[np.generic]]]:
        """Return the engine's arrays with the lists, the bins of the maximum number of threads, and the filters'
        state."""
        if isinstance(self.active, str):
            return super().own_arrays() | self.lock_array()
        vertices, stage = self.graph.num_vertices, self.active.reduction
        found: dict[str, tuple[int, type[np.generic]]] = {
            f"{size}_active": (int(np.count_nonzero(mask)), np.uint32)
            for size, mask in zip(SIZES, self.by_degree(self.graph.out_degrees), strict=True)
        }
        blocks = max(self.blocks_of.values(), default=MOST_RESIDENT // self.block) if self.fused else BLOCKS
        bin_size = self.resolved.bin_size or 0
        found |= self.lock_array()
        found |= {
            "bins": (bin_size * blocks * self.block, np.uint32), "bin_counts": (blocks * self.block, np.uint32),
            "marks": (vertices, np.uint32), "bits": (vertices // 32 + 1, np.uint32),
            "found": (len(SIZES) * blocks * (1 + self.block // 32), np.uint32), "tasks": (WORDS, np.int64),
        }  # fmt: skip
        if self.active.adds:
            stride = self.layout.stride(stage.message.shape)
            found[f"sent_{self.active.metadata}"] = (vertices * stride, np.float32)
        return found

    # running ----------------------------------------------------------------------------------------------------------
    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Reset all properties to their initial state; nothing is sent yet.

        Vertices whose metadata are not the identity are active.
        """
        super().reset(inputs, state)
        if isinstance(self.active, str):
            return
        import cupy

        arrays, vertices = self.memory.arrays, self.graph.num_vertices
        arrays[f"vertex_{self.active.reduction.into}"].fill(self.active.identity)
        arrays["marks"].fill(0)
        if self.active.adds:
            arrays[f"sent_{self.active.metadata}"].fill(0)
        shape = self.program.properties[self.active.metadata].shape
        stride = self.layout.stride(shape)
        width = self.layout.dims(shape)[-1] if shape else 1
        start = arrays[f"vertex_{self.active.metadata}"][: vertices * stride].reshape(vertices, stride)[:, :width]
        heard = start != self.active.identity
        active = heard.any(axis=1) if self.active.quiet else cupy.ones(vertices, np.bool_)
        words = np.zeros(WORDS, np.int64)
        degrees = self.graph.out_degrees
        listed = active.get()
        for number, mask in enumerate(self.by_degree(degrees)):
            found = np.flatnonzero(mask & listed).astype(np.uint32)
            arrays[f"{SIZES[number]}_active"][: len(found)].set(found)
            words[number] = len(found)
            words[PULLED + number] = self.tables.pieces[SIZES[number]][0][1]
        words[len(SIZES)] = int(degrees[listed].sum())
        words[VOTES] = self.active.votes and vertices > 0 and _alike(start, heard)
        words[VERTICES], words[ARCS] = vertices, self.graph.num_edges
        arrays["tasks"][:WORDS].set(words)
        self.filters: list[str] = []  # of every superstep, for figs. 7 and 11
        self.state.note(active=int(listed.sum()))
        cupy.cuda.Device().synchronize()

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps.

        Raises EngineFailure if a bin overflows and the schedule allows only the online filter.
        """
        statistics = super().run(max_supersteps)
        if self.schedule.filter == "online" and int(self.memory.arrays["tasks"][FAILED]):
            raise EngineFailure(
                f"a bin of {self.resolved.bin_size} vertices overflowed in superstep {self.done}, and the "
                "online filter is the only one; give filter=jit, or a larger bin_size"
            )
        return statistics

    def queue(self, first: int, wanted: int, past: Any) -> None:
        """Queue the fused kernels alternately; a kernel ends at once if the direction is not its own."""
        if not self.fused or isinstance(self.active, str):
            super().queue(first, wanted, past)
            return
        done = -1
        while True:
            self.launch_together(past, TURNS * list(self.blocks_of))
            found = self.state.fields()
            if found["settled"] or found["superstep"] >= wanted:
                return
            if found["superstep"] == done:
                raise EngineFailure(f"the fused kernels stand still at superstep {done}; run with fusion=none")
            done = found["superstep"]

    def superstep_of(self, active: int, edges: int, dense: int) -> Superstep:
        """Return the superstep's statistics with the direction; ``dense`` also encodes the filter (see
        ``Superstep::how``)."""
        if isinstance(self.active, str):
            return super().superstep_of(active, edges, dense)
        self.filters.append("ballot" if dense & 2 else "online")
        return Superstep(active, edges, "pull" if dense & 1 else "push")

    def explain(self) -> str:
        """Explain the engine, with the reason if a program has no active vertices."""
        told = [f"bulk-synchronous: {self.active}"] if isinstance(self.active, str) else []
        return "\n".join([*told, super().explain()])


def _alike(start: Any, heard: Any) -> bool:
    """Return whether, for each feature, all values except the identity are equal; ``start``, ``heard``: CuPy arrays [V,
    k]."""
    import cupy

    least = cupy.where(heard, start, np.inf).min(axis=0)
    most = cupy.where(heard, start, -np.inf).max(axis=0)
    return bool(((least == most) | ~heard.any(axis=0)).all())
