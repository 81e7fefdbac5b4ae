"""Edges that change and sources that move, each also without the other, on the emulated device (``gates.py``)."""

from __future__ import annotations

import pytest

from tests.engines import gates
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.test_cuda import prepared

TODAY = {
    "changes-push": 3, "changes-push-edges": 1, "changes-pull": 33, "changes-pull-edges-sparse": 1, "pull-edges": 3
}  # fmt: skip


@pytest.mark.short_run(rows=99)
@pytest.mark.parametrize(
    ("schedule", "features"),
    [
        pytest.param(schedule, features, marks=() if TODAY.get(schedule) == features else (pytest.mark.full,))
        for schedule in SCHEDULES
        if not schedule.startswith("gunrock")  # which refuses edges that change on a GPU
        for features in (1, 3, 33)
    ],
)
def test_every_superstep_has_the_values_of_numpy(schedule, features, emulated):
    graph = gates.graph()
    gates.check(prepared(schedule, gates.program(), graph, features, emulated), graph, features)
