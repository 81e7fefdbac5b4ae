"""Recognise programs whose answer does not depend on the order of messages; their subgraphs may run asynchronously."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.api import change_driven

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engines.outofmemory.schedules import ScaphSchedule
    from harness.api import FoldGroup
    from harness.api.cuda import LoweredProgram


def ordered(lowered: LoweredProgram, groups: Sequence[FoldGroup]) -> str:
    """Return why the answer of a program depends on the order of its messages; empty if it does not.

    ``groups``: the stages of each kernel.
    """
    forms, control = change_driven(lowered.program), lowered.program.control
    if isinstance(forms, str):
        return forms
    sums = next((form.reduction.name for form in forms if form.kind != "monotone"), "")
    if sums:
        return f"{sums} is a sum, of which every message counts once"
    if len(forms) != 1 or control.alternate:
        return "the program has several reductions, or updates its sides in turn"
    if not control.settles or lowered.criterion is not None:
        return "the program does not end when nothing moves"
    tracking = lowered.tracking(groups, change_driven=True)
    for group in tracking.groups:
        if group.kind == "graph":
            return f"{tracking.name(group)} reduces over the graph in every superstep"
        for step in group.vertex_steps:
            for name in step.writes:
                if tracking.listening_groups(name) and not tracking.bounds_only(group, name):
                    return f"{step.name} does more than bound {name!r}"
    return ""


def out_of_step(lowered: LoweredProgram, groups: Sequence[FoldGroup], schedule: ScaphSchedule) -> str:
    """Return why a program cannot run with the rounds of a schedule; empty if it can."""
    reason = ordered(lowered, groups) if schedule.repeats else ""
    return (
        f"{schedule.repeats} processes subgraphs asynchronously, but {reason}; give {schedule.once}" if reason else ""
    )
