"""Onyx on CUDA devices."""

from __future__ import annotations

from pathlib import Path

from engines.onyx.cuda_kernels import Kernels
from engines.onyx.schedule import OnyxSchedule
from harness.api import CudaEngine, EdgeUpdate, FoldGroup, Graph, GraphReduce, Launch, Program, fold_groups, unfolded

BLOCKS_OF_REDUCTION = 16  # their partial values are brought together by one team


class OnyxCudaEngine(CudaEngine):
    """Feature-aware and folded, pushing or pulling everything in every superstep."""

    schedule: OnyxSchedule
    templates = Path(__file__).parent

    def __init__(self, schedule: OnyxSchedule) -> None:
        super().__init__(schedule)
        self.feature_aware, self.direction = schedule.feature_aware, schedule.direction
        self.width, self.block = schedule.vector_width, schedule.block_size or 256

    def refusal(self, program: Program, graph: Graph, features: int) -> str:
        """Why this schedule cannot run the program; empty when it can."""
        if self.schedule.change_driven:
            return "propagating changes only has no CUDA code yet; set change_driven=false"
        if self.direction == "pull" and self.schedule.balance == "edge":
            return "pulling over equal tiles of edges has no CUDA code yet; set balance=warp, or direction=push"
        return super().refusal(program, graph, features)

    def groups(self) -> tuple[FoldGroup, ...]:
        """Folded as the schedule says."""
        return fold_groups(self.program, self.schedule.direction) if self.schedule.fold else unfolded(self.program)

    def plan(self) -> None:
        """The launches of a superstep."""
        kernels = Kernels(self)
        for group in self.tracking.groups:
            if group.kind == "vertex":
                self.launches.append(Launch(kernels.vertices(group), "vertices", self.team.lanes))
            elif group.kind == "graph":
                self._plan_reductions(kernels, group)
            elif group.kind == "update":
                self._plan_updates(kernels, group)
            elif self.direction == "pull":
                self._plan_gather(kernels, group)
            else:
                self._plan_scatter(kernels, group)

    def _plan_scatter(self, kernels: Kernels, group: FoldGroup) -> None:
        for stage in group.edge_stages:
            self.launches.append(Launch(kernels.clear(stage), "vertices", self.team.lanes))
        over, lanes = ("arcs", self.team.lanes) if kernels.tiles else ("sources", 1)
        self.launches.append(Launch(kernels.scatter(group), over, lanes))

    def _plan_gather(self, kernels: Kernels, group: FoldGroup) -> None:
        sources = set(self.tracking.sources(group))
        written = {name for step in group.vertex_steps for name in step.writes} & self.tracking.live(group.stages)
        # what others still read through an edge goes to a second buffer; alternating sides never read what they write
        doubled = () if self.program.control.alternate else tuple(sorted(written & sources))
        for name in doubled:
            stride = self.layout.stride(self.program.properties[name].shape)
            self.rooms[f"next_vertex_{name}"] = self.graph.num_vertices * stride
        share = self._share(group)
        kernel = kernels.gather(group, share, doubled)
        swaps = tuple(f"vertex_{name}" for name in doubled)
        self.launches.append(Launch(kernel, "vertices", share * self.team.lanes, swaps))

    def _share(self, group: FoldGroup) -> int:
        """Teams that own a vertex together: a power of two near half the average degree; one where matrices lie in
        shared memory, or sums in the memory of threads."""
        for stage in group.edge_stages:
            dims = self.layout.dims(stage.message.shape)
            if len(dims) == 2 and self.team.slots(dims[1]) * dims[0] > 64:
                return 1
        if not self.feature_aware:
            return 1
        degree, share = self.graph.num_edges / max(1, self.graph.num_vertices), 1
        while 2 * share <= self.team.teams and 4 * share <= degree:
            share *= 2
        return share

    def _plan_updates(self, kernels: Kernels, group: FoldGroup) -> None:
        order = "csc" if self.direction == "pull" else "csr"
        for stage in group.stages:
            assert isinstance(stage, EdgeUpdate)
            stride = self.layout.stride(self.program.properties[stage.updates].shape)
            self.rooms[f"next_{order}_{stage.updates}"] = self.graph.num_edges * stride
            over, lanes = ("all arcs", self.team.lanes) if kernels.tiles else ("all", 1)
            self.launches.append(Launch(kernels.update(stage, order), over, lanes, (f"{order}_{stage.updates}",)))

    def _plan_reductions(self, kernels: Kernels, group: FoldGroup) -> None:
        for stage in group.stages:
            assert isinstance(stage, GraphReduce)
            parts = BLOCKS_OF_REDUCTION * (self.block // 32) * self.team.teams
            self.rooms[f"partial_{stage.into}"] = parts * self.layout.stride(stage.value.shape)
            first = Launch(kernels.reduction(stage), "all", self.team.lanes, blocks=BLOCKS_OF_REDUCTION)
            joined = Launch(kernels.joined(stage), f"teams {BLOCKS_OF_REDUCTION}", 1, blocks=1)
            self.launches += [first, joined]
