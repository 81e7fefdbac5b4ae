"""A run in several calls has the statistics of a run in one, on an emulated device under every schedule."""

from __future__ import annotations

import pytest

from harness.contract import Phases
from tests.engines.cuda_schedules import cuda_engine
from tests.engines.problems import problem, program

MOST = 7
CHOSEN = ("simdx-lists", "pull", "changes-pull-sparse", "changes-push", "gunrock", "tigr", "emogi")


@pytest.mark.short_run(rows=10**6)
@pytest.mark.parametrize("schedule", CHOSEN)
def test_a_run_in_two_parts_has_the_statistics_of_one(schedule, emulated):
    graph, inputs = problem("sssp", "rmat", 1)
    engine = cuda_engine(schedule)
    engine.prepare(program("sssp"), graph, 1, emulated, Phases())
    engine.reset(inputs)
    whole = engine.run(MOST)
    assert len(whole.supersteps) > 4
    for parts in ((1, 6), (2, 5), (3, 4), (1, 1, 1, 4)):
        engine.reset(inputs)
        found = engine.run(parts[0])
        for most in parts[1:]:
            found = found.followed_by(engine.run(most))
        assert found == whole, parts
    engine.close()
