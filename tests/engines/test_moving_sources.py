"""A run continues while sources move, even if they are propagated in the same superstep and change nothing."""

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
