"""The layout of properties in device memory, in rows padded for loads of 8 or 16 bytes, and their split among lanes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.language import K, Program
from harness.language.expressions import walk
from harness.lowering.layout import Layout

WARP = 32


def device_stride(lanes: int) -> int:
    """Return the floats from one row to the next: a multiple of four from three features on, so that rows are 16-byte
    aligned.

    A gathered row of 5 to 7 features then lies in one sector of 32 bytes; tightly packed rows would take one and a half
    on average.
    """
    return lanes if lanes <= 2 else -(-lanes // 4) * 4


@dataclass(frozen=True)
class DeviceLayout(Layout):
    """The layout of every shape for ``features`` features on a device."""

    @property
    def panels(self) -> int:
        """Return the number of passes of a kernel over its work, each with other features of rows."""
        return 1

    def row_stride(self, lanes: int) -> int:
        """Return :func:`device_stride`."""
        return device_stride(lanes)


@dataclass(frozen=True)
class LaneGroupShape:
    """The division of a value among ``lanes`` of a lane group, each with runs of ``width`` consecutive features."""

    lanes: int
    width: int

    @classmethod
    def of(cls, longest: int, feature_aware: bool, width: int) -> LaneGroupShape:
        """Return the lane group for values of up to ``longest`` features.

        Consecutive lanes hold consecutive features (FA), or one thread holds all of them (NFA). Beyond what a warp
        holds at once, a lane holds several runs.
        """
        if not feature_aware:
            return cls(1, 1)
        fitting = max(w for w in (1, 2, 4) if w <= width and (w == 1 or longest > w // 2))
        return cls(min(WARP, -(-longest // fitting)), fitting)

    @classmethod
    def for_program(
        cls, program: Program, features: int, feature_aware: bool, width: int | None = None
    ) -> LaneGroupShape:
        """Return the lane group for the longest row of a program.

        ``width``: maximum number of features that a lane loads at once; None: 4, or 1 if it would hold columns of
        matrices that need too many registers.
        """
        layout = DeviceLayout(features)
        longest = longest_row(program, layout)
        return cls.of(longest, feature_aware, width or (4 if rows_held(program, layout) <= most_rows(longest) else 1))

    @property
    def per_warp(self) -> int:
        """Return the number of lane groups of a warp."""
        return WARP // self.lanes

    def feature(self, slot: int, member: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return the feature that lanes hold in a slot, by their number in the lane group.

        ``LaneGroup::feature`` of lane_groups.cuh computes the same.
        """
        return slot // self.width * (self.lanes * self.width) + member * self.width + slot % self.width

    def slots(self, n: int) -> int:
        """Return the number of values that a lane holds of ``n``."""
        run = self.lanes * self.width
        return self.width * -(-n // run)


def longest_row(program: Program, layout: DeviceLayout) -> int:
    """Return the largest number of features of any value of a program."""
    shapes = {node.shape for stage in program.stages for node in walk(*stage.expressions())}
    shapes |= {prop.shape for prop in program.properties.values()}
    return max((layout.dims(shape)[-1] for shape in shapes if shape), default=1)


def rows_held(program: Program, layout: DeviceLayout) -> int:
    """Return the most rows of a matrix of which a lane holds columns; 0 if it holds none.

    Matrices that are only read, as factors of products with rows, stay in memory. K rows count as 32 or more: such
    matrices were not measured with few features.
    """
    values = [value for stage in program.stages for value in stage.expressions()]
    held = [node for node in walk(*values) if node.op != "read"]
    shapes = [node.shape for node in (*values, *held) if len(node.shape) == 2]
    return max((max(layout.dims(shape)[0], WARP if shape[0] == K else 0) for shape in shapes), default=0)


def most_rows(longest: int) -> int:
    """Return the most rows of matrices of which a lane holds four columns; ``longest``: the features of the longest
    row.

    Multimodal learning with 3 views, whole runs with 4 columns over those with 1: grid of 3 million vertices 0.31 for
    k = 1, 0.53 for k = 4, 0.64 to 0.67 for k = 16 and 32, 0.85 for k = 64; R-MAT 18 0.43, 0.61, 0.85, 0.76, 1.12;
    mesh of 300,000 vertices 0.75, 0.82, 0.59, 0.99, 1.08; R-MAT 21, k = 4 and 16: 0.97, 1.13 (H200, 28 November 2026).
    """
    return 3 if longest <= WARP else 0
