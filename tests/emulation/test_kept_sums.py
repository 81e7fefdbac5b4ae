"""Small changes of kept sums on an emulated CUDA device."""

from __future__ import annotations

import pytest

from tests.engines import small_changes
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.test_cuda import prepared

NEVER_REBUILT = {
    "onyx": ("onyx", {"direction": "push", "rebuild": 0}),
    "onyx by warps": ("onyx", {"direction": "push", "balance": "warp", "rebuild": 0}),
    "onyx in loops": ("onyx", {"direction": "push", "feature_aware": False, "rebuild": 0}),
    "gunrock": ("gunrock", {"rebuild": 0}),
}


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("schedule", NEVER_REBUILT)
def test_small_changes_add_up(schedule, emulated, monkeypatch):
    monkeypatch.setitem(SCHEDULES, schedule, NEVER_REBUILT[schedule])
    engine = prepared(schedule, small_changes.program(), small_changes.star(), small_changes.FEATURES, emulated)
    for giant in small_changes.GIANTS:
        small_changes.check(engine, giant)
    engine.close()
