"""A run goes on while sources move, though they are propagated, and change nothing, in the same superstep."""

from __future__ import annotations

import pytest

from tests.engines.moving_sources import STEPS, check_twice, moving, pair
from tests.engines.problems import CHANGE_DRIVEN, prepared


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("strategy", CHANGE_DRIVEN)
def test_moving_sources_keep_a_run_going(strategy, name):
    program = moving(name)
    engine = prepared(*CHANGE_DRIVEN[strategy], program, pair(), 1)
    check_twice(engine, program)
    engine.close()
