"""A run continues while sources move, even if they are propagated in the same superstep and change nothing."""

from __future__ import annotations

import pytest

from tests.engines.moving_sources import STEPS, check_twice, moving, pair
from tests.engines.problems import CHANGE_DRIVEN, prepared


def by_turns():
    """Return (strategy, steps); of the two that push, which compile the most kernels, one is left to ``-m full``."""
    for i, name in enumerate(STEPS):
        left_out = ("push", "gunrock")[i % 2]
        for strategy in CHANGE_DRIVEN:
            yield pytest.param(strategy, name, marks=(pytest.mark.full,) if strategy == left_out else ())


@pytest.mark.parametrize(("strategy", "name"), list(by_turns()))
def test_moving_sources_keep_a_run_going(strategy, name):
    program = moving(name)
    engine = prepared(*CHANGE_DRIVEN[strategy], program, pair(), 1)
    check_twice(engine, program)
    engine.close()
