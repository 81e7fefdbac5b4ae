"""How properties lie in device memory, in rows padded for loads of 8 or 16 bytes, and how teams share them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from harness.lowering.layout import Layout

WARP = 32


def device_stride(lanes: int) -> int:
    """Floats from one row to the next: a multiple of four from three features on, so that every row starts on 16 bytes.

    A gathered row of 5 to 7 features then lies in one sector of 32 bytes, where rows packed tightly would take one and
    a half on average.
    """
    return lanes if lanes <= 2 else -(-lanes // 4) * 4


@dataclass(frozen=True)
class DeviceLayout(Layout):
    """The layout of every shape for ``features`` features on a device."""

    def row_stride(self, lanes: int) -> int:
        """See :func:`device_stride`."""
        return device_stride(lanes)


@dataclass(frozen=True)
class TeamShape:
    """How lanes share a value: ``lanes`` of a team, each with runs of ``width`` consecutive features."""

    lanes: int
    width: int

    @classmethod
    def of(cls, longest: int, feature_aware: bool, width: int) -> TeamShape:
        """For values of up to ``longest`` features: consecutive lanes on consecutive features (FA), or one thread for
        all of them (NFA). Beyond what a warp holds at once a lane takes several runs."""
        if not feature_aware:
            return cls(1, 1)
        fitting = max(w for w in (1, 2, 4) if w <= width and (w == 1 or longest > w // 2))
        return cls(min(WARP, -(-longest // fitting)), fitting)

    @property
    def teams(self) -> int:
        """Teams of a warp."""
        return WARP // self.lanes

    def feature(self, slot: int, member: NDArray[np.int64]) -> NDArray[np.int64]:
        """The feature that lanes hold in a slot, by their number in the team (``Team::feature`` of teams.cuh)."""
        return slot // self.width * (self.lanes * self.width) + member * self.width + slot % self.width

    def slots(self, n: int) -> int:
        """Values that a lane holds of ``n``."""
        run = self.lanes * self.width
        return self.width * -(-n // run)
