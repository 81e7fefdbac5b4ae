"""A run continues while sources move, on emulated CUDA devices, whatever arrays held before."""

from __future__ import annotations

import pytest

from tests.engines.moving_sources import STEPS, check_twice, moving, pair
from tests.engines.test_cuda import prepared


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("schedule", ["changes-pull", "changes-push-edges", "gunrock"])
def test_moving_sources_keep_a_run_going(schedule, name, emulated):
    program = moving(name)
    engine = prepared(schedule, program, pair(), 1, emulated)
    check_twice(engine, program)
    engine.close()
