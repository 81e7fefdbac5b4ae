"""Onyx on CUDA, ``direction=adaptive``: a push of changes whose accumulators are rebuilt by a pull.

If few sources have moved, a superstep pushes their changes into accumulators that the run keeps. If many have moved,
owners of vertices gather over all in-edges instead, and store the same accumulators without atomic operations (Beamer
et al. 2012, *Direction-optimizing breadth-first search*, for any program that can push changes). The device decides at
the end of the previous superstep, by the number of edges of the sources that moved.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engines.onyx import cuda_templates as templates
from engines.onyx.cuda_pull import PullKernels
from harness.api.cuda import CHANGING, NEVER, OVER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engines.onyx.cuda_push import PushKernels
    from harness.api import FoldGroup
    from harness.api.cuda import Condition, CudaKernelBuilder


class RebuildingPulls(PullKernels):
    """Builds the kernels that rebuild accumulators in a plan that pushes changes.

    ``pushes``: the kernels of the other supersteps. ``either``: these kernels also run in untracked supersteps, which
    count their edges themselves.
    """

    def __init__(self, pushes: PushKernels, *, either: bool) -> None:
        super().__init__(pushes.setting, pushes.choices)
        self.pushes, self.either = pushes, either
        self.tracking = replace(pushes.tracking, change_driven=False)
        self.idle = NEVER
        self.bottom_up = self.choices.bottom_up
        if self.bottom_up:
            self.enough = templates.UNTIL
            self.scans_ahead = self.setting.feature_aware  # these pulls reduce no matrices

    @property
    def rounds(self) -> int:
        """0: an owner's vertices are a grid apart."""
        return 0

    def depth(self, group: FoldGroup) -> int:
        """Return the number of edges that are fetched at once; fewer if a row may end early."""
        depth = super().depth(group)
        return min(depth, self.choices.policy.searched_edges) if self.bottom_up else depth

    def recompute_test(self, group: FoldGroup) -> tuple[str, list[tuple[str, str]]]:
        """Return the test whether to gather a vertex: all are, unless no message can improve it."""
        return (self.bottom_up.wanted, []) if self.bottom_up else super().recompute_test(group)

    def _unless(self, group: FoldGroup, *, dirty_only: bool) -> Condition:
        return OVER | CHANGING

    def _gathering(
        self, kernel: str, group: FoldGroup, mapped: tuple[str, str], across: str, doubled: tuple[str, ...],
        more: Sequence[tuple[str, str]] = (),
    ) -> CudaKernelBuilder:  # fmt: skip
        """Return the builder of a gather that stores accumulators and flags their readers.

        The gather over the vertices that no list has counts the edges, unless every gather counts those that it reads.
        """
        builder = super()._gathering(f"{kernel}_rebuilt", group, mapped, across, doubled, more)
        for stage in group.edge_stages:
            self.pushes.make_stale(builder, stage, "finish")
        if self.bottom_up:
            self.bottom_up.share(builder)
            self.bottom_up.stop(builder, group.edge_stages[0])
        if not more:
            tracked = " && !run->untracked" if self.either else ""
            edges = f"{len(group.edge_stages)} * Count(in_offsets[last] - in_offsets[first])"
            builder.root.line(f"if (blockIdx.x == 0 && threadIdx.x == 0{tracked}) {{")
            if not self.bottom_up:
                builder.root.line(f"    run->edges += {edges};")
            builder.root.line("    ++run->dense;")
            builder.root.line("}")
        return builder
