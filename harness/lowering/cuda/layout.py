"""The layout of properties in device memory, in rows padded for loads of 8 or 16 bytes, and their split among lanes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.language import Program
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

        ``width``: maximum number of features that a lane loads at once; None: 4, or 1 if it holds columns of matrices.
        """
        width = width or (1 if has_matrices(program) else 4)
        return cls.of(longest_row(program, DeviceLayout(features)), feature_aware, width)

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


def has_matrices(program: Program) -> bool:
    """Return whether a lane holds columns of matrices, of which narrow ones need fewer registers.

    Matrices that are only read, as factors of products with rows, stay in memory.
    """
    values = [value for stage in program.stages for value in stage.expressions()]
    held = [node for node in walk(*values) if node.op != "read"]
    return any(len(node.shape) == 2 for node in (*values, *held))
