"""Programs with names that have a meaning in C++ or CUDA, emulated: each kernel gets the right arrays."""

from __future__ import annotations

import pytest

from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.names import awkward, quartets
from tests.engines.programs import edges_and_loops, inputs_for, traced
from tests.engines.test_cuda import SUPERSTEPS, check_every_superstep

FEATURES = 5
CASES = [
    pytest.param(schedule, stages, marks=() if (i % 9, j) == (0, i // 9) else (pytest.mark.full,))
    for i, schedule in enumerate(SCHEDULES)
    for j, stages in enumerate([*quartets(), ("messages", "messages_tiles", "clear_got", "clear_template")])
]


@pytest.mark.parametrize(("schedule", "stages"), CASES)
def test_awkward_names(schedule, stages, emulated):
    program, graph = traced(awkward(stages), "awkward"), edges_and_loops()
    inputs = inputs_for(program, graph, FEATURES, seed=1)
    check_every_superstep(schedule, program, graph, inputs, FEATURES, emulated, SUPERSTEPS, repeatable=True)
