"""Onyx on CUDA: one launch runs all supersteps (:mod:`harness.lowering.cuda.persistent`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.onyx.resolve import sums_matrices
from harness.api import EdgeUpdate
from harness.api.cuda import make_persistent

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engines.onyx.cuda_kernels import Choices
    from engines.onyx.policy import Policy
    from harness.api import Program
    from harness.api.cuda import Launch, PlanDraft


def persist(draft: PlanDraft, choices: Choices) -> str:
    """Combine the launches of a draft in one kernel; return why they cannot be, or an empty text."""
    reason, setting = whole_grids(draft.launches), draft.setting
    if not reason:
        tracks = setting.tracking.change_driven
        at_once = threads_at_once(setting.program, setting.layout.features, choices.policy, tracks=tracks)
        make_persistent(draft, "supersteps", at_once=at_once)
    return reason


def whole_grids(launches: Sequence[Launch]) -> str:
    """Return why launches cannot run with any number of blocks; empty if they can."""
    for launch in launches:
        if launch.kernel.panels > 1:
            return f"{launch.kernel.name} processes its features in {launch.kernel.panels} panels of blocks"
        if launch.most == "all":
            return f"{launch.kernel.name} needs a block for every few vertices, whose rows take a whole warp"
    return ""


def threads_at_once(program: Program, features: int, policy: Policy, *, tracks: bool = False) -> int:
    """Return the number of a persistent kernel's threads that must fit on a multiprocessor.

    ``tracks``: changes are tracked.
    """
    one, several, many = policy.threads_at_once
    large = sums_matrices(program) or any(isinstance(stage, EdgeUpdate) for stage in program.stages)
    long = policy.long_tracked_row if tracks else policy.long_row
    return many if large or features >= long else several if features > 1 else one
