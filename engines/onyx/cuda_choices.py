"""Onyx on CUDA: the choices of a resolved schedule for one program and graph: folding, panels, buffers, pauses."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engines.onyx.cuda_bottom_up import BottomUp
from engines.onyx.cuda_edge_changes import doubled_edges
from engines.onyx.cuda_fused_next_superstep import fused_next_superstep
from engines.onyx.cuda_kernels import Choices
from engines.onyx.cuda_panels import panel_of
from engines.onyx.policy import small_degrees
from harness.api import fold_groups, unfolded
from harness.api.cuda import CudaSetting, DeviceLayout, KeptAccumulators, LaneGroupShape, Thresholds, flips_of
from harness.api.directions import message_bound

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engines.onyx.policy import Policy
    from engines.onyx.schedule import OnyxSchedule
    from harness.api import Direction, FoldGroup, GraphFacts
    from harness.api.cuda import Delta, LoweredProgram, Tracking


def setting_of(
    lowered: LoweredProgram,
    schedule: OnyxSchedule,
    facts: GraphFacts,
    features: int,
    forms: Sequence[Delta],
    policy: Policy,
) -> tuple[CudaSetting, Choices]:
    """Return the setting that all kernels share, and the choices.

    ``schedule``: resolved. ``forms``: the change-driven forms of a push of changes.
    """
    assert schedule.block_size is not None
    program, adaptive = lowered.program, schedule.direction == "adaptive"
    direction: Direction | None = "push" if schedule.direction == "adaptive" else schedule.direction
    assert direction is not None
    kept = KeptAccumulators.of(program, facts, forms, schedule.rebuild) if forms else KeptAccumulators()
    choices, lane_group = _choices(lowered, schedule, facts, features, policy)
    # lane groups that share a row cannot continue with vertex steps
    together = direction == "pull" and not choices.tiles
    groups = fold_groups(program, "pull" if together else "push") if schedule.fold else unfolded(program)
    # it never pauses in a push whose sums are never rebuilt, or are exact: integers move only a few times, and all at
    # once if at all
    pauses = schedule.change_driven and (direction == "pull" or bool(kept.rebuild and kept.whole is None))
    tracking = lowered.tracking(groups, change_driven=schedule.change_driven)
    setting = CudaSetting(
        lowered=lowered, facts=facts, layout=DeviceLayout(features), lane_group=lane_group, tracking=tracking,
        direction=direction,
        feature_aware=schedule.feature_aware, block=schedule.block_size, flipped=_flipped(tracking, direction),
        accumulators=kept,
    )  # fmt: skip
    bound = message_bound(program) if schedule.bottom_up else ""
    bottom_up = None if isinstance(bound, str) else BottomUp(setting, bound)
    return setting, replace(choices, pauses=pauses, adaptive=adaptive, bottom_up=bottom_up)


def _choices(
    lowered: LoweredProgram, schedule: OnyxSchedule, facts: GraphFacts, features: int, policy: Policy
) -> tuple[Choices, LaneGroupShape]:
    """Return the choices, and the lane group of the longest row, or of a panel."""
    program, aware = lowered.program, schedule.feature_aware
    lane_group = LaneGroupShape.for_program(program, features, aware, schedule.vector_width)
    segments = schedule.direction == "pull" and schedule.balance == "edge"
    fused = fused_next_superstep(program) if segments and schedule.fold else None
    rolls_alone = fused and not schedule.change_driven  # else in untracked supersteps, where there are no panels
    panel = panel_of(program, features) if segments and aware and not rolls_alone else 0
    if panel:
        fused, lane_group = None, LaneGroupShape.of(panel, aware, lane_group.width)
    tiles, pipeline = schedule.balance == "edge", bool(schedule.pipeline)
    parts = schedule.balance == "parts"
    return Choices(tiles, parts, pipeline, fused, panel, small_degrees(facts, policy), policy, pauses=False), lane_group


def _flipped(tracking: Tracking, direction: Direction) -> dict[str, str]:
    """Return the arrays whose buffers the device swaps, by the name of the count of swaps.

    Every kernel needs to know these buffers; several groups may swap them.
    """
    flipped: dict[str, str] = {}
    for group in tracking.groups if tracking.change_driven else ():
        vertices = (f"vertex_{name}" for name in doubled_vertices(tracking, group))
        flipped |= {array: flips_of(array) for array in (*vertices, *doubled_edges(tracking, direction, group))}
    return flipped


def doubled_vertices(tracking: Tracking, group: FoldGroup) -> tuple[str, ...]:
    """Return the properties that a gather writes and that are still read through edges, which go to a second buffer.

    Alternating sides never read what they write.
    """
    if group.kind != "edge+vertex" or tracking.program.control.alternate:
        return ()
    written = {name for step in group.vertex_steps for name in step.writes} & tracking.live(group.stages)
    return tuple(sorted(written & set(tracking.sources(group))))


def thresholds_of(schedule: OnyxSchedule, policy: Policy) -> Thresholds:
    """Return the thresholds at which a run changes between ways of processing. ``schedule``: resolved."""
    assert schedule.dense_share is not None
    if schedule.direction == "adaptive":
        return Thresholds(dense=policy.dense_share_cuda)
    return Thresholds(dense=schedule.dense_share, rebuild=policy.rebuild_share)
