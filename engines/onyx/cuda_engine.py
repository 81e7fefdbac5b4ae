"""Onyx on CUDA devices."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import numpy as np

from engines.onyx.cuda_edge_changes import EdgeChanges, doubled_edges, order_of
from engines.onyx.cuda_kernels import Choices
from engines.onyx.cuda_panels import panel_of
from engines.onyx.cuda_pull import PullKernels
from engines.onyx.cuda_push import PushKernels
from engines.onyx.cuda_rolled import last_reader, reduces_alone, rolled, update_and_reduce
from engines.onyx.policy import DEFAULT, small_degrees, teams_of_vertex, untracked_share
from engines.onyx.resolve import resolve, sums_matrices
from engines.onyx.schedule import OnyxSchedule
from harness.api import (
    CudaEngine,
    DeviceFacts,
    EdgeReduce,
    EdgeUpdate,
    FoldGroup,
    Graph,
    GraphReduce,
    KeptAccumulators,
    Launch,
    Over,
    Pieces,
    Program,
    Tables,
    Teams,
    TeamShape,
    by_side,
    change_driven,
    fold_groups,
    unfolded,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from engines.onyx.cuda_kernels import Kernels
    from harness.api import CudaKernel, Mapped


class OnyxCudaEngine(CudaEngine):
    """Feature-aware, change-driven, folded (thesis ch. 4-6); see :class:`OnyxSchedule` for its options."""

    schedule: OnyxSchedule
    resolved: OnyxSchedule
    templates = Path(__file__).parent
    tracks_edges = True
    rebuild_share = 0.9  # whole messages then cost no more than changes, for which two values are read
    policy = DEFAULT

    def __init__(self, schedule: OnyxSchedule) -> None:
        super().__init__(schedule)
        self.feature_aware, self.direction = schedule.feature_aware, schedule.direction
        self.change_driven = schedule.change_driven

    def refusal(self, program: Program, graph: Graph, features: int) -> str:
        """Return why this schedule cannot run the program; empty if it can."""
        reason = self.schedule.refusal() or super().refusal(program, graph, features)
        if reason:
            return reason
        if self.direction == "pull" and self.schedule.balance == "edge" and sums_matrices(program):
            return "balance=edge keeps the sums of rows in registers, which k x k matrices do not fit; set balance=warp"
        if self.change_driven and self.direction == "push":
            forms = change_driven(program)
            return forms if isinstance(forms, str) else ""
        return ""

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Begin with the stale vertices.

        A pull recomputes only these vertices, if no stage needs the results of a reduction at other vertices. A push
        sends extrema from the senders. Kept sums are built first.
        """
        if not self.change_driven or any(group.kind == "update" for group in self.tracking.groups):
            return
        if self.direction == "push":
            if self.accumulators.extrema:
                self.begin_with(stale, senders)
            return
        between = {name for group in self.tracking.groups for name in self.tracking.live(group.stages)}
        properties = [self.program.properties[name] for name in between]
        if not any(prop.role == "temporary" and prop.place == "vertex" for prop in properties):
            self.begin_with(stale, np.zeros_like(senders))

    def resolve(self) -> OnyxSchedule:
        """Return the schedule with every option filled in, and set the attributes that lowering reads from it."""
        facts = DeviceFacts("cuda")
        found = resolve(self.schedule, self.program, self.layout.features, self.graph.facts, facts, self.policy)
        assert found.dense_share is not None
        assert found.block_size is not None
        assert found.balance is not None
        self.dense_share, self.block, self.width = found.dense_share, found.block_size, found.vector_width
        self.balance, self.small_degrees = found.balance, small_degrees(self.graph.facts, self.policy)
        return found

    def groups(self) -> tuple[FoldGroup, ...]:
        """Return the groups of stages, folded according to the schedule.

        Teams that share a row cannot continue with its vertex steps.
        """
        segments = self.direction == "pull" and self.balance == "edge"
        self.rolled = rolled(self.program) if segments and self.schedule.fold else None
        rolls_alone = self.rolled and not self.change_driven  # else in untracked supersteps, where there are no panels
        in_panels = segments and self.feature_aware and not rolls_alone
        self.panel = panel_of(self.program, self.layout.features) if in_panels else 0
        if self.panel:
            self.rolled = None
            self.team = TeamShape.of(self.panel, self.feature_aware, self.team.width)
        together = self.direction == "pull" and self.balance == "warp"
        return (
            fold_groups(self.program, "pull" if together else "push") if self.schedule.fold else unfolded(self.program)
        )

    def plan(self) -> None:
        """Plan the launches of a superstep.

        If tracking may pause, each stage also has the launches of full propagation; in each superstep one of the two
        halves does nothing.
        """
        if self.change_driven and self.direction == "push":
            forms = change_driven(self.program)
            assert not isinstance(forms, str)
            self.messages = {form.reduction.name: form.message for form in forms}
            self.accumulators = KeptAccumulators.of(self.program, self.graph.facts, forms, self.schedule.rebuild)
        for group in self.tracking.groups if self.change_driven else ():  # every kernel needs to know these buffers
            doubled = (*(f"vertex_{name}" for name in self._doubled(group)), *doubled_edges(self, group))
            self.flipped |= {array: f"flips_{array}" for array in doubled}  # several groups may flip them
        self._allow_pauses()
        made = {"push": PushKernels, "pull": PullKernels}[self.direction]
        pipeline = bool(self.resolved.pipeline)
        choices = Choices(self.balance == "edge", pipeline, self.rolled, self.panel, self.small_degrees, self.policy)
        kernels = made(self, choices)
        untracked = made(self, choices, untracked=True) if self.tracking.pauses else None
        for group in self.tracking.groups:
            if group.kind == "graph":
                self._plan_reductions(kernels, group)
                continue
            if untracked:  # first: buffers are swapped after either half
                planned = len(self.launches)
                self._plan_group(untracked, group)
                self.launches[planned:] = [replace(launch, untracked=True) for launch in self.launches[planned:]]
            self._plan_group(kernels, group)

    def _allow_pauses(self) -> None:
        """Decide whether tracking pauses while nearly everything moves, and when.

        It does not pause in a push whose sums are never rebuilt, or are exact: integers move only a few times, and all
        at once if at all.
        """
        kept = self.accumulators
        if not self.change_driven or (self.direction == "push" and not (kept.rebuild and kept.whole is None)):
            return
        self.tracking = replace(self.tracking, pauses=True)
        self.begins_untracked = self._edges_change()
        self.untracked_share = untracked_share(
            self.graph.facts, self.policy, pulls=self.direction == "pull", dense_share=self.dense_share,
            edges_change=self.begins_untracked,
        )  # fmt: skip
        reducers = {stage.reducer for group in self.tracking.groups for stage in group.edge_stages}
        self.patience = self.policy.patience if reducers & {"sum", "prod"} else self.policy.patience_with_extrema

    def _edges_change(self) -> bool:
        """Return whether any stage reads edges that change. From a cold start all of them change for a while."""
        return any(self.tracking.edges(group) for group in self.tracking.propagating())

    def _plan_group(self, kernels: PushKernels | PullKernels, group: FoldGroup) -> None:
        self.most = "few" if kernels.tracking.change_driven and self.direction == "push" else "some"
        if group.kind == "vertex":
            self.add(kernels.vertices(group, self._last_read(kernels, group)), Over.VERTICES)
        elif group.kind == "update":
            self._plan_updates(kernels, group)
        elif isinstance(kernels, PushKernels):
            self._plan_scatter(kernels, group)
        elif self.balance == "edge":
            self._plan_segments(kernels, group)
        else:
            self._plan_gather(kernels, group)

    def mappings(self) -> Sequence[Mapped]:
        """Return the access patterns of the traversals in the templates."""
        from engines.onyx.cuda_walks import MAPPINGS

        return MAPPINGS

    def _last_read(self, kernels: Kernels, group: FoldGroup) -> list[EdgeReduce]:
        """Return the accumulators that are dead after this group and recomputed by the fused update."""
        reductions = kernels.rolled[1] if kernels.rolled else ()
        return [stage for stage in reductions if last_reader(stage, self.tracking.groups) is group]

    def _plan_scatter(self, kernels: PushKernels, group: FoldGroup) -> None:
        over, lanes = (Over.OUT_EDGES, self.team.lanes) if kernels.tiles else (Over.SOURCES, 1)
        tracked = kernels.tracking.change_driven
        either = self.tracking.pauses and not self.tracking.edges(group)  # nothing stores what edges have sent
        if either and kernels.untracked:
            return
        rebuilding = " || !run->rebuilding" if tracked else ""
        most: Literal["some"] | None = "some" if either else None  # they usually process all edges
        for stage in group.edge_stages:
            self.add(kernels.clear(stage, unless=f"run->over(){rebuilding}", either=either), Over.VERTICES, most=most)
        self.add(kernels.scatter(group, either=either), over, lanes, most=most)
        if tracked:
            summed = [stage for stage in group.edge_stages if kernels.sums_changes(stage)]
            for stage in summed:
                stride = self.layout.stride(stage.message.shape)
                self.rooms[f"change_{stage.into}"] = self.graph.num_vertices * stride
                self.add(kernels.clear(stage, array="change", unless=f"run->over(){rebuilding}"), Over.VERTICES)
            self.add(kernels.changes(group, self.messages, tiles=False), Over.SOURCES, 1)
            if kernels.tiles:
                self.add(kernels.changes(group, self.messages, tiles=True), over, lanes)
            for stage in summed:
                self.add(kernels.collect(stage), Over.VERTICES)
            kernels.sent_edges.plan(group, over, lanes)
            if self.tracking.sources(group):
                self.add(kernels.sent(group), Over.SOURCES, 1)

    def _plan_segments(self, kernels: PullKernels, group: FoldGroup) -> None:
        run, dense, tracked = self._run_of_team(), "", kernels.tracking.change_driven
        unless = reduces_alone(kernels)
        if tracked:
            unless += f" || run->sparse({kernels.number(group)})"
            dense = f"dirty_{self.tracking.name(group)}"
            self._plan_marks(kernels, group)
        within = run if kernels.abreast(group.edge_stages) == 1 else 0
        for stage in group.edge_stages:
            self.add(kernels.clear(stage, run=within, unless=unless, dense=dense), Over.VERTICES)
        # a block takes a tile of `run` edges for each of its teams
        self.add(kernels.segments(group, run, unless=unless), Over.IN_EDGES, 32 / self.team.teams / run)
        if tracked:
            self._plan_owners(kernels, group, (), dirty_only=True)

    def _plan_gather(self, kernels: PullKernels, group: FoldGroup) -> None:
        doubled = self._doubled(group)
        for name in doubled:
            self.double(f"vertex_{name}", self.graph.num_vertices, name)
        if not self.change_driven:
            self._plan_owners(kernels, group, doubled, tuple(f"vertex_{name}" for name in doubled))
            return
        if kernels.untracked:
            self._plan_owners(kernels, group, doubled)
            return
        self._plan_marks(kernels, group)
        self._plan_owners(kernels, group, doubled)
        if doubled:
            self.add(kernels.commit(group, doubled), Over.VERTICES, 1)

    def _plan_owners(
        self, kernels: PullKernels, group: FoldGroup, doubled: tuple[str, ...], swaps: tuple[str, ...] = (), *,
        dirty_only: bool = False,
    ) -> None:  # fmt: skip
        """Plan the hubs first, by blocks, then all other vertices by owners of a few teams."""
        share = self._share(group)
        hub = self.hub if self.graph.facts.max_in_degree >= self.hub and self._joins(group) else 0
        if hub:
            kernel = kernels.gather_hubs(group, doubled, dirty_only=dirty_only)
            self.launches.append(Launch(kernel, Pieces("hubs"), self.block))
        self._add_gather(kernels, kernels.gather(group, share, doubled, hub=hub, dirty_only=dirty_only), share, swaps)

    @property
    def hub(self) -> int:
        """The number of in-edges from which a block owns a vertex."""
        return self.policy.hub_edges[sums_matrices(self.program)] * self._teams_of_vertex

    def bytes_needed(self) -> int:
        """Return the bytes of device memory, with the list of hubs."""
        hubs = np.count_nonzero(self.graph.in_degrees >= self.hub) if self._owns_hubs else 0
        return super().bytes_needed() + 4 * int(hubs)

    @property
    def _owns_hubs(self) -> bool:
        return any(launch.over == Pieces("hubs") for launch in self.launches)

    def transform(self) -> Tables:
        """Return the hub vertices, which blocks own, sorted, uint32; nothing if there are none."""
        if not self._owns_hubs:
            return Tables()
        hubs = np.flatnonzero(self.graph.in_degrees >= self.hub).astype(np.uint32)
        return Tables({"hubs": hubs}, {"hubs": by_side(hubs, self.sides)})

    def _add_gather(self, kernels: PullKernels, kernel: CudaKernel, share: int, swaps: tuple[str, ...]) -> None:
        if kernels.rounds:
            self.launches.append(Launch(kernel, Over.VERTICES, 32 / kernels.rounds, swaps, most="all"))
            return
        gathered = 4 * self.layout.features * self.graph.num_edges / max(1, self.graph.num_vertices)
        short = kernels.tracking.change_driven or gathered < self.policy.long_gather
        most: Literal["some", "resident"] = "resident" if self.small_degrees and short else "some"
        self.launches.append(Launch(kernel, Over.VERTICES, share * self.team.lanes, swaps, most=most))

    def _plan_marks(self, kernels: PullKernels, group: FoldGroup) -> None:
        if self.tracking.sources(group):
            self.add(kernels.mark(group), Over.SOURCES, 1)

    def _doubled(self, group: FoldGroup) -> tuple[str, ...]:
        """Return the properties that a gather writes and that are still read through edges, which go to a second
        buffer.

        Alternating sides never read what they write.
        """
        if group.kind != "edge+vertex" or self.program.control.alternate:
            return ()
        written = {name for step in group.vertex_steps for name in step.writes} & self.tracking.live(group.stages)
        return tuple(sorted(written & set(self.tracking.sources(group))))

    def _share(self, group: FoldGroup) -> int:
        """Return the number of teams that own a vertex together.

        It is a power of two near an eighth of the average degree or above, or one if parts cannot be combined.
        """
        return self._teams_of_vertex if self._joins(group) else 1

    def _joins(self, group: FoldGroup) -> bool:
        """Return whether several teams can have parts of a sum.

        They cannot for matrices in shared memory or in the memory of threads, nor for rows so long that they are stored
        there too.
        """
        for stage in group.edge_stages:
            dims = self.layout.dims(stage.message.shape)
            if dims and self.team.slots(dims[-1]) * math.prod(dims[:-1]) > self.policy.most_joined:
                return False
            if len(dims) == 2 and not self.feature_aware:
                return False
        return True

    @property
    def _teams_of_vertex(self) -> int:
        """Teams of a warp that own a vertex, by the average degree; one thread if features are in a loop."""
        return teams_of_vertex(self.graph.facts, self.team.teams, self.policy) if self.feature_aware else 1

    def _run_of_team(self) -> int:
        """Return the number of edges of a tile that a team processes."""
        return max(self.policy.fewest_edges, self.policy.tile // (self.block // 32 * self.team.teams))

    def _plan_updates(self, kernels: Kernels, group: FoldGroup) -> None:
        if kernels.tracking.change_driven:
            EdgeChanges(kernels, group).plan()
            return
        order = order_of(self)
        if kernels.rolled:
            self._plan_rolled(kernels, *kernels.rolled)
            return
        for stage in group.stages:
            assert isinstance(stage, EdgeUpdate)
            array = f"{order}_{stage.updates}"
            over, lanes = (Over.ALL_EDGES, self.team.lanes) if kernels.tiles else (Over.ALL_VERTICES, 1)
            if kernels.untracked:
                in_place = array not in doubled_edges(self, group)  # as this group writes where changes are tracked
                self.add(kernels.update(stage, order, in_place=in_place), over, lanes)
                continue
            self.double(array, self.graph.num_edges, stage.updates)
            self.add(kernels.update(stage, order), over, lanes, (array,))

    def _plan_rolled(self, kernels: Kernels, update: EdgeUpdate, reductions: tuple[EdgeReduce, ...]) -> None:
        """Plan the update, fused with the reductions of the next superstep."""
        array = f"csc_{update.updates}"
        in_place = kernels.untracked and array not in self.flipped  # as where changes are tracked
        run = self.policy.lane_run if self.team.lanes == 1 else self._run_of_team()
        at_once = self.team.lanes == 1 and self.feature_aware and kernels.pipeline
        depth = run if at_once else kernels.depth_of_update(update)
        kernel = update_and_reduce(kernels, update, reductions, run, depth, in_place=in_place)
        swaps: tuple[str, ...] = ()
        if not kernels.untracked:  # the tracked half has the second buffer, and swaps it
            self.double(array, self.graph.num_edges, update.updates)
            swaps = (array,)
        self.add(kernel, Over.IN_EDGES, 32 / self.team.teams / run, swaps)

    def _plan_reductions(self, kernels: Kernels, group: FoldGroup) -> None:
        for stage in group.stages:
            assert isinstance(stage, GraphReduce)
            blocks = self.policy.blocks_of_reduction
            parts = blocks * (self.block // 32) * self.team.teams
            self.rooms[f"partial_{stage.into}"] = parts * self.layout.stride(stage.value.shape)
            self.launches.append(Launch(kernels.reduction(stage), Over.ALL_VERTICES, self.team.lanes, blocks=blocks))
            self.launches.append(Launch(kernels.joined(stage), Teams(blocks), 1, blocks=1))
