"""Onyx on CUDA devices: the plan of a program, a pure function of program, schedule and facts."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from engines.onyx.cuda_adaptive import RebuildingPulls
from engines.onyx.cuda_choices import doubled_vertices, setting_of, thresholds_of
from engines.onyx.cuda_edge_changes import EdgeChanges, doubled_edges, order_of
from engines.onyx.cuda_fused_next_superstep import last_reader, reduces_alone, update_and_reduce
from engines.onyx.cuda_hubs import VerticesByDegree, middle_edges
from engines.onyx.cuda_parts import ARRAYS, PartsOfSources
from engines.onyx.cuda_persistent import persist
from engines.onyx.cuda_pull import PullKernels, whole_warp
from engines.onyx.cuda_push import PushKernels
from engines.onyx.cuda_tracking_policy import tracked_runs
from engines.onyx.policy import DEFAULT, Policy, lane_groups_of_vertex
from engines.onyx.resolve import UNTRACKED, directed, not_adaptive, not_bottom_up, resolve, sums_matrices
from harness.api import EdgeReduce, EdgeUpdate, FoldGroup, GraphReduce, No, change_driven
from harness.api.cuda import (
    CHANGING,
    OVER,
    LoweredProgram,
    Over,
    PlanDraft,
    VertexReduce,
    made_at_sources,
    refusal,
    sparse,
    table,
    work,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from engines.onyx.cuda_kernels import Choices, Kernels
    from engines.onyx.schedule import OnyxSchedule
    from harness.api import DeviceFacts, Expression, GraphFacts, Program
    from harness.api.cuda import CudaKernel, CudaPlan, CudaSetting

FOLDER = Path(__file__).parent


def plan(
    program: Program, schedule: OnyxSchedule, facts: GraphFacts, features: int, device: DeviceFacts,
    policy: Policy = DEFAULT,
) -> CudaPlan | No:  # fmt: skip
    """Return the plan of a program on a CUDA device, or why it cannot run."""
    lowered, given = LoweredProgram.of(program, masked=True), schedule
    schedule = directed(schedule, lowered.program, features, facts, device, policy)
    reason = refused(lowered.program, schedule, facts, features)
    if reason:
        return No(reason)
    resolved = resolve(schedule, lowered.program, features, facts, device, policy)
    if makes_messages(schedule, facts, features, policy):
        lowered = replace(lowered, program=made_at_sources(lowered.program))
    pushes_changes = schedule.change_driven and schedule.direction != "pull"
    forms = change_driven(lowered.program) if pushes_changes else ()
    assert not isinstance(forms, str), forms
    setting, choices = setting_of(lowered, resolved, facts, features, forms, policy)
    messages = {form.reduction.name: form.message for form in forms}
    persistent, cached = bool(resolved.persistent), resolved.cache_mb is not None
    planner = OnyxPlanner(setting, choices, messages, persistent=persistent, consecutive=cached)
    planner.draft.extension = tracked_runs(setting, resolved, choices)
    planner.plan_stages()
    reason = persist(planner.draft, choices) if resolved.persistent else ""
    if reason and given.persistent is None:  # a default, which not all kernels allow
        return plan(program, replace(resolved, persistent=False), facts, features, device, policy)
    if reason:
        return No(f"persistent=true: {reason}")
    made = planner.draft.finish(resolved, FOLDER, thresholds_of(resolved, policy))
    if isinstance(made, No) and choices.adaptive and given.direction is None:  # a default, too: more than is tracked
        return plan(program, replace(given, direction="pull", change_driven=False), facts, features, device, policy)
    return made


def makes_messages(schedule: OnyxSchedule, facts: GraphFacts, features: int, policy: Policy) -> bool:
    """Return whether a message is computed once for its source instead of once for each edge."""
    visits_all = schedule.direction == "pull" and not schedule.change_driven
    return visits_all and facts.average_degree >= policy.made_degree + policy.made_degree_of_feature * features


def refused(program: Program, schedule: OnyxSchedule, facts: GraphFacts, features: int) -> str:
    """Return why a schedule cannot run a lowered program; empty if no reason is known before planning."""
    reason = refusal(program, facts, features, change_driven=schedule.change_driven, tracks_edges=True)
    if not reason and schedule.persistent and schedule.edges == "streamed":
        return "persistent=true reads all edges where they are; set edges=resident or edges=mapped"
    if not reason and schedule.direction == "pull" and schedule.balance == "edge" and sums_matrices(program):
        return "balance=edge keeps the sums of rows in registers, which k x k matrices do not fit; set balance=warp"
    if not reason and schedule.balance == "parts":
        reason = not_in_parts(program, schedule)
    if not reason and schedule.direction == "adaptive" and not schedule.change_driven:
        return UNTRACKED
    if not reason and schedule.direction == "adaptive":
        reason = not_adaptive(program)
    if not reason and schedule.bottom_up:
        reason = not_bottom_up(program, schedule)
    if not reason and schedule.change_driven and schedule.direction != "pull":
        forms = change_driven(program)
        return forms if isinstance(forms, str) else ""
    return reason


def not_in_parts(program: Program, schedule: OnyxSchedule) -> str:
    """Return why the out-edges of vertices cannot be pushed in parts; empty if they can."""
    if schedule.direction == "pull":
        return "balance=parts splits the out-edges of pushes; set direction=push or adaptive, or balance=warp or edge"
    if schedule.in_parts:
        return "balance=parts visits vertices in no order of their edges, which are not all in memory; set balance=warp"
    if any(isinstance(stage, EdgeUpdate) for stage in program.stages):
        return "balance=parts does not track edges that change; set balance=warp or edge"
    return ""


class OnyxPlanner:
    """Add the launches of a superstep to a draft.

    ``messages``: what a push of changes sends, by the name of the reduction. ``persistent``: one launch runs all
    supersteps, with another number of blocks than the launches have. ``consecutive``: edges are cached, so that kernels
    work on consecutive vertices, and neither warps nor blocks own listed ones.
    """

    def __init__(
        self, setting: CudaSetting, choices: Choices, messages: Mapping[str, Expression], *, persistent: bool = False,
        consecutive: bool = False,
    ) -> None:  # fmt: skip
        self.setting, self.choices, self.messages = setting, choices, messages
        self.persistent, self.consecutive = persistent, consecutive
        self.policy, self.facts, self.layout = choices.policy, setting.facts, setting.layout
        self.lane_group, self.tracking = setting.lane_group, setting.tracking
        self.draft = PlanDraft(setting)

    def plan_stages(self) -> None:
        """Add the launches of all groups, in order.

        If tracking may pause, each stage also has the launches of full propagation; in each superstep one of the two
        halves does nothing.
        """
        made = PushKernels if self.setting.direction == "push" else PullKernels
        kernels = made(self.setting, self.choices)
        untracked = made(self.setting, self.choices, untracked=True) if self.choices.pauses else None
        for group in self.tracking.groups:
            if group.kind == "graph":
                self._plan_reductions(kernels, group)
                continue
            if untracked:  # first: buffers are swapped after either half
                planned = len(self.draft.launches)
                self._plan_group(untracked, group)
                added = self.draft.launches[planned:]
                self.draft.launches[planned:] = [replace(launch, optional=True) for launch in added]
            self._plan_group(kernels, group)

    def _plan_group(self, kernels: PushKernels | PullKernels, group: FoldGroup) -> None:
        self.draft.most = "few" if kernels.tracking.change_driven and self.setting.direction == "push" else "some"
        if group.kind == "vertex":
            self.draft.add(kernels.vertices(group, self._last_read(kernels, group)), Over.VERTICES)
        elif group.kind == "named":
            for stage in group.stages:
                assert isinstance(stage, VertexReduce)
                self.draft.add(kernels.clear(stage), Over.VERTICES)
                self.draft.add(kernels.reduction_at_named(stage), Over.VERTICES)
        elif group.kind == "update":
            self._plan_updates(kernels, group)
        elif isinstance(kernels, PushKernels):
            self._plan_scatter(kernels, group)
        elif self.choices.tiles:
            self._plan_segments(kernels, group)
        else:
            self._plan_gather(kernels, group)

    def _last_read(self, kernels: Kernels, group: FoldGroup) -> list[EdgeReduce]:
        """Return the accumulators that are dead after this group and recomputed by the fused update."""
        reductions = kernels.fused_next_superstep[1] if kernels.fused_next_superstep else ()
        return [stage for stage in reductions if last_reader(stage, self.tracking.groups) is group]

    def _plan_scatter(self, kernels: PushKernels, group: FoldGroup) -> None:
        over, lanes = (Over.OUT_EDGES, self.lane_group.lanes) if kernels.tiles else (Over.SOURCES, 1)
        tracked = kernels.tracking.change_driven
        either = self.choices.pauses and not self.tracking.edges(group)  # nothing stores what edges have sent
        if either and kernels.untracked:
            return
        unless = OVER | CHANGING if tracked else OVER
        most: Literal["some"] | None = "some" if either else None  # they usually process all edges
        if self.choices.bottom_up:
            self.draft.own(*self.choices.bottom_up.buffers())
        if self.choices.adaptive:
            self._plan_owners(RebuildingPulls(kernels, either=either), group, ())
        else:
            for stage in group.edge_stages:
                cleared = kernels.clear(stage, unless=unless, either=either)
                self.draft.add(cleared, Over.VERTICES, most=most)
            self._plan_parts(partial(kernels.scatter, group, either=either), kernels, over, lanes, most=most)
        if tracked:
            summed = [stage for stage in group.edge_stages if kernels.sums_changes(stage)]
            for stage in summed:
                stride = self.layout.stride(stage.message.shape)
                self.draft.own(work(f"change_{stage.into}", self.facts.num_vertices * stride))
                self.draft.add(kernels.clear(stage, array="change", unless=unless), Over.VERTICES)
            self._plan_parts(partial(kernels.changes, group, self.messages, tiles=False), kernels, Over.SOURCES, 1)
            if kernels.tiles:
                self.draft.add(kernels.changes(group, self.messages, tiles=True), over, lanes)
            for stage in summed:
                self.draft.add(kernels.collect(stage), Over.VERTICES)
            kernels.sent_edges.plan(self.draft, group, over, lanes)
            noted = any(kernels.sends_with(one) for one in self.tracking.groups if one.kind == "vertex")
            if self.tracking.sources(group) and not noted:
                self.draft.add(kernels.sent(group), Over.SOURCES, 1)

    def _plan_parts(
        self, kernel: Callable[..., CudaKernel], kernels: PushKernels, over: Over, lanes: float,
        most: Literal["some"] | None = None,
    ) -> None:  # fmt: skip
        """Plan a push; if vertices of many edges are split, two launches that do not depend on each other.

        ``kernel``: builds it, with the argument ``parts``. ``over``, ``lanes``, ``most``: of the launch that is not
        split.
        """
        parts = PartsOfSources(self.policy.split_degree, self.policy.part_edges, self.setting.sides)
        count = parts.count(self.facts) if kernels.parts else 0
        if not count:
            self.draft.add(kernel(), over, lanes, most=most)
            return
        for name in ARRAYS:
            self.draft.own(table(name, count, parts))
        split, others = kernel(parts=True), kernel(parts=False)
        self.draft.add(split, parts, 32, most="some", apart=split.name)
        self.draft.add(others, over, lanes, most=most, apart=split.name)

    def _plan_segments(self, kernels: PullKernels, group: FoldGroup) -> None:
        run, dense, tracked = self._run_of_lane_group(), "", kernels.tracking.change_driven
        unless = reduces_alone(kernels)
        if tracked:
            unless |= sparse(kernels.number(group))
            dense = f"dirty_{self.tracking.name(group)}"
            self._plan_marks(kernels, group)
        within = run if kernels.abreast(group.edge_stages) == 1 else 0
        for stage in group.edge_stages:
            self.draft.add(kernels.clear(stage, run=within, unless=unless, dense=dense), Over.VERTICES)
        # a block takes a tile of `run` edges for each of its lane groups
        self.draft.add(kernels.segments(group, run, unless=unless), Over.IN_EDGES, 32 / self.lane_group.per_warp / run)
        if tracked:
            self._plan_owners(kernels, group, (), dirty_only=True)

    def _plan_gather(self, kernels: PullKernels, group: FoldGroup) -> None:
        doubled = doubled_vertices(self.tracking, group)
        for name in doubled:
            self.draft.double(f"vertex_{name}")
        if not self.tracking.change_driven:
            self._plan_owners(kernels, group, doubled, tuple(f"vertex_{name}" for name in doubled))
            return
        if kernels.untracked:
            self._plan_owners(kernels, group, doubled)
            return
        self._plan_marks(kernels, group)
        self._plan_owners(kernels, group, doubled)
        if doubled:
            self.draft.add(kernels.commit(group, doubled), Over.VERTICES, 1)

    def _plan_owners(
        self, kernels: PullKernels, group: FoldGroup, doubled: tuple[str, ...], swaps: tuple[str, ...] = (), *,
        dirty_only: bool = False,
    ) -> None:  # fmt: skip
        """Plan the hubs, by blocks, then the middle vertices, by warps, then others, by owners of a few lane groups."""
        share, many = self._share(group), 0
        apart = f"{self.tracking.name(group)}{'_untracked' * bool(kernels.untracked)}"
        for listed, of_each in self._listed(group, share):
            kernel = kernels.gather_listed(group, listed.name, doubled, dirty_only=dirty_only)
            self.draft.add(kernel, listed, of_each, most="some", apart=apart)
            self.draft.own(table(listed.name, listed.count(self.facts), listed))
            many = listed.least
        kernel = kernels.gather(group, share, doubled, many=many, dirty_only=dirty_only)
        self._add_gather(kernels, kernel, share, swaps, apart)

    def _listed(self, group: FoldGroup, share: int) -> list[tuple[VerticesByDegree, int]]:
        """Return the lists of vertices of many in-edges, the most first, each with the threads that own a vertex."""
        if self.consecutive or not self._joins(group):
            return []
        found, sides, most = [], self.setting.sides, None
        if self.facts.max_in_degree >= self.hub:
            found.append((VerticesByDegree("hubs", self.hub, None, sides), self.setting.block))
            most = self.hub - 1
        owners = whole_warp(self.lane_group.per_warp)
        if self.setting.feature_aware and share * self.policy.fewest_owners <= owners:
            lists = [
                VerticesByDegree("middle", least * share, most, sides)
                for least in middle_edges(self.facts, self.policy, share)
            ]
            fewest = self.policy.middle_share * self.facts.num_edges
            fits = [one for one in lists if one.least < self.hub and one.count(self.facts) * one.least > fewest]
            found += [(one, 32) for one in fits[:1]]
        return found

    @property
    def hub(self) -> int:
        """The number of in-edges from which a block owns a vertex."""
        return self.policy.hub_edges[sums_matrices(self.setting.program)] * self._lane_groups_of_vertex

    def _add_gather(
        self, kernels: PullKernels, kernel: CudaKernel, share: int, swaps: tuple[str, ...], apart: str
    ) -> None:  # fmt: skip
        """Add the owners of the vertices that no list has; ``apart``: the name that its launches have in common."""
        if kernels.rounds:
            self.draft.add(kernel, Over.VERTICES, 32 / kernels.rounds, swaps, most="all", apart=apart)
            return
        gathered = 4 * self.layout.features * self.facts.num_edges / max(1, self.facts.num_vertices)
        short = kernels.tracking.change_driven or gathered < self.policy.long_gather
        most: Literal["some", "resident"] = "resident" if self.choices.small_degrees and short else "some"
        self.draft.add(kernel, Over.VERTICES, share * self.lane_group.lanes, swaps, most=most, apart=apart)

    def _plan_marks(self, kernels: PullKernels, group: FoldGroup) -> None:
        if self.tracking.sources(group):
            self.draft.add(kernels.mark(group), Over.SOURCES, 1)

    def _share(self, group: FoldGroup) -> int:
        """Return the number of lane groups that own a vertex together.

        It is a power of two near an eighth of the average degree or above, or one if parts cannot be combined.
        """
        return self._lane_groups_of_vertex if self._joins(group) else 1

    def _joins(self, group: FoldGroup) -> bool:
        """Return whether several lane groups can have parts of a sum.

        They cannot for matrices in shared memory or in the memory of threads, nor for rows so long that they are stored
        there too.
        """
        for stage in group.edge_stages:
            dims = self.layout.dims(stage.message.shape)
            if dims and self.lane_group.slots(dims[-1]) * math.prod(dims[:-1]) > self.policy.most_joined:
                return False
            if len(dims) == 2 and not self.setting.feature_aware:
                return False
        return True

    @property
    def _lane_groups_of_vertex(self) -> int:
        """Lane groups of a warp that own a vertex, by the average degree; one thread if features are in a loop."""
        if not self.setting.feature_aware:
            return 1
        return lane_groups_of_vertex(self.facts, self.lane_group.per_warp, self.policy)

    def _run_of_lane_group(self) -> int:
        """Return the number of edges of a tile that a lane group processes."""
        lane_groups = self.setting.block // 32 * self.lane_group.per_warp
        return max(self.policy.fewest_edges, self.policy.tile // lane_groups)

    def _plan_updates(self, kernels: Kernels, group: FoldGroup) -> None:
        if kernels.tracking.change_driven:
            EdgeChanges(kernels, group).plan(self.draft)
            return
        order = order_of(self.setting.direction)
        if kernels.fused_next_superstep:
            self._plan_fused_next_superstep(kernels, *kernels.fused_next_superstep)
            return
        for stage in group.stages:
            assert isinstance(stage, EdgeUpdate)
            array = f"{order}_{stage.updates}"
            over, lanes = (Over.ALL_EDGES, self.lane_group.lanes) if kernels.tiles else (Over.ALL_VERTICES, 1)
            if kernels.untracked:
                doubled = doubled_edges(self.tracking, self.setting.direction, group)
                in_place = array not in doubled  # as this group writes where changes are tracked
                self.draft.add(kernels.update(stage, order, in_place=in_place), over, lanes)
                continue
            self.draft.double(array)
            self.draft.add(kernels.update(stage, order), over, lanes, (array,))

    def _plan_fused_next_superstep(
        self, kernels: Kernels, update: EdgeUpdate, reductions: tuple[EdgeReduce, ...]
    ) -> None:
        """Plan the update, fused with the reductions of the next superstep."""
        array = f"csc_{update.updates}"
        in_place = kernels.untracked and array not in self.setting.flipped  # as where changes are tracked
        run = self.policy.lane_run if self.lane_group.lanes == 1 else self._run_of_lane_group()
        at_once = self.lane_group.lanes == 1 and self.setting.feature_aware and kernels.pipeline
        depth = run if at_once else kernels.depth_of_update(update)
        kernel = update_and_reduce(kernels, update, reductions, run, depth, in_place=in_place)
        swaps: tuple[str, ...] = ()
        if not kernels.untracked:  # the tracked half has the second buffer, and swaps it
            self.draft.double(array)
            swaps = (array,)
        self.draft.add(kernel, Over.IN_EDGES, 32 / self.lane_group.per_warp / run, swaps)

    def _plan_reductions(self, kernels: Kernels, group: FoldGroup) -> None:
        for stage in group.stages:
            assert isinstance(stage, GraphReduce)
            of_block = self.setting.block // 32 * self.lane_group.per_warp
            blocks = min(self.policy.blocks_of_reduction, max(1, -(-self.facts.num_vertices // of_block)))
            ticket = f"ticket_{stage.into}"
            blocks = self.policy.blocks_of_reduction if self.persistent else blocks
            partial = work(f"partial_{stage.into}", blocks * self.layout.stride(stage.value.shape))
            self.draft.own(partial, work(ticket, 1, "uint32"))
            self.draft.add(kernels.reduction(stage, ticket), Over.ALL_VERTICES, blocks=blocks, most="some")
