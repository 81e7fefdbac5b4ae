"""Onyx's plan on the CPU: a pure function of program, schedule, graph facts and device facts."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from engines.onyx.cpu_adaptive import plan_adaptive
from engines.onyx.cpu_pull import GatherPass, StaleOnly, plan_gather
from engines.onyx.cpu_push import plan_scatter
from engines.onyx.direction_choice import DirectionChoice, meaningless
from engines.onyx.estimates import visited_share
from engines.onyx.policy import DEFAULT, Policy
from engines.onyx.resolve import UNTRACKED, directed, far_rows, not_adaptive, resolve
from engines.onyx.schedule import OnyxSchedule
from harness.api import (
    DeviceFacts,
    GraphFacts,
    GraphReduce,
    No,
    Program,
    change_driven,
    fold_groups,
    unfolded,
)
from harness.api.cpu import (
    CpuPlan,
    CpuPolicy,
    CpuSetting,
    LoweredProgram,
    PlanDraft,
    Resending,
    VertexReduce,
    plan_count,
    plan_graph,
    plan_named,
    plan_update,
    plan_vertices,
    unsupported,
)


def plan(
    program: Program, schedule: OnyxSchedule, graph: GraphFacts, features: int, device: DeviceFacts,
    runs: CpuPolicy, policy: Policy = DEFAULT,
) -> CpuPlan | No:  # fmt: skip
    """Return the plan of a traced program, or the reason why the schedule cannot run it.

    ``runs``, ``policy``: the constants of runs, and of the choices made before.
    """
    given, schedule = schedule, directed(schedule, LoweredProgram.of(program).program, features, graph, device, policy)
    assert schedule.direction is not None
    assert schedule.change_driven is not None
    reason = meaningless(given, device) or refusal(program, schedule, graph, features)
    if reason:
        return No(reason)
    direction: Literal["push", "pull"] = "push" if schedule.direction == "adaptive" else schedule.direction
    setting = CpuSetting.of(
        program, graph, features, device,
        lambda it: fold_groups(it, direction) if schedule.fold else unfolded(it),
        direction=direction, feature_aware=schedule.feature_aware, changes=schedule.change_driven,
        rebuild=schedule.rebuild, policy=runs,
    )  # fmt: skip
    resolved = resolve(schedule, setting.program, features, graph, device, policy)
    assert resolved.dense_share is not None
    choice = DirectionChoice.of(given, resolved, setting.program, features, graph, device)
    draft, gathered = PlanDraft(setting), []
    visits = policy.visited_share_cpu if schedule.dense_share is None else None
    prefetched = policy.prefetched_edges if far_rows(graph, features, device, policy) else 0
    for group in setting.tracking.groups:
        if group.kind == "graph":
            for stage in group.stages:
                assert isinstance(stage, GraphReduce)
                plan_graph(draft, stage)
        elif group.kind == "vertex":
            plan_vertices(draft, group)
        elif group.kind == "named":
            for stage in group.stages:
                assert isinstance(stage, VertexReduce)
                plan_named(draft, stage)
        elif group.kind == "update":
            plan_update(draft, group)
        else:
            gathered.append(setting.tracking.name(group))
            if choice is not None:
                plan_adaptive(draft, group, choice, prefetched)
            elif direction == "pull":
                plan_gather(draft, group, resolved.dense_share, visits, policy.kept_part, prefetched)
            else:
                plan_scatter(draft, group)
    if schedule.change_driven:
        plan_count(draft, tuple(gathered))
    return draft.finish(
        "OnyxCpuEngine", resolved, narrowing=narrowing(setting, resolved), missed=missed(setting, schedule),
        estimates=[*(choice.lines if choice else ()), *estimates(draft, graph, prefetched)],
    )  # fmt: skip


def refusal(program: Program, schedule: OnyxSchedule, graph: GraphFacts, features: int) -> str:
    """Return why this schedule cannot run the program; empty if it can."""
    lowered = LoweredProgram.of(program).program
    reason = unsupported(lowered, graph, features, change_driven=schedule.change_driven, tracks_edges=True)
    if reason:
        return reason
    for name in OnyxSchedule.GPU_ONLY:
        if getattr(schedule, name) is not None:
            return f"schedule option {name} has no meaning on the CPU; leave it unset"
    if schedule.direction == "adaptive" and not schedule.change_driven:
        return UNTRACKED
    reason = not_adaptive(lowered) if schedule.direction == "adaptive" else ""
    if not reason and schedule.change_driven and schedule.direction != "pull":
        forms = change_driven(lowered)
        return forms if isinstance(forms, str) else ""
    return reason


def narrowing(setting: CpuSetting, schedule: OnyxSchedule) -> Resending | StaleOnly | None:
    """Return how a warm run begins with only the stale vertices; None if it begins with all vertices.

    A pull recomputes only the stale vertices if they have few in-edges and no stage needs the results of a reduction at
    other vertices. A push of extrema sends from the senders. Sums that are kept must be built first, so that all
    messages are sent once.
    """
    if not schedule.change_driven:
        return None
    if schedule.direction != "pull":
        return Resending() if setting.accumulators.extrema else None
    tracking = setting.tracking
    between = {name for group in tracking.groups for name in tracking.live(group.stages)}
    properties = [setting.program.properties[name] for name in between]
    if any(prop.role == "temporary" and prop.place == "vertex" for prop in properties):
        return None
    assert schedule.dense_share is not None
    return StaleOnly(schedule.dense_share * setting.facts.num_edges)


def estimates(draft: PlanDraft, graph: GraphFacts, prefetched: int) -> list[str]:
    """Return the estimates by which a pull chooses, as text."""
    found = []
    for one in draft.passes:
        if not isinstance(one, GatherPass):
            continue
        rows = f"are prefetched {prefetched} edges ahead" if prefetched else "are near, or in a core's cache"
        found.append(f"{one.name}: rows of sources {rows}")
        if one.change_driven:
            visited = visited_share(graph, one.dense_share)
            found.append(
                f"{one.name}: sources that moved are followed if at most {one.dense_share:.3g} of the edges leave "
                f"them, which is estimated to visit {visited:.2g} of all edges"
            )
        if one.visits is not None:
            found.append(f"{one.name}: during a run, up to {one.visits:.2g} of the edges may be visited by following")
        if one.pauses:
            found.append(f"{one.name}: other supersteps are untracked, and visit all edges but those of fixed vertices")
    return found


def missed(setting: CpuSetting, schedule: OnyxSchedule) -> list[str]:
    """Return what is not folded, tracked or vectorised in a plan, with the reasons."""
    reasons, tracking = [], setting.tracking
    if not schedule.feature_aware:
        reasons.append("rows as vector values: feature_aware is off")
    if not schedule.fold:
        reasons.append("stages in one kernel: fold is off")
    elif schedule.direction != "pull":
        reasons.append("vertex steps in one kernel with edges: owners of destinations push, not owners of sources")
    for before, after in pairwise(tracking.groups if schedule.fold else ()):
        names = f"{tracking.name(before)} with {tracking.name(after)}"
        reasons.append(f"folding {names}: one needs what the other makes of all vertices or edges")
    forms = change_driven(setting.program)
    if not schedule.change_driven:
        reasons.append("propagating changes only: change_driven is off")
    elif isinstance(forms, str):
        reasons.append(f"pushing changes: {forms}; destinations of sources that moved are recomputed instead")
    return reasons
