"""Random small programs on random small graphs, emulated: every engine for CUDA devices agrees with the reference."""

from __future__ import annotations

import pytest

from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.programs import inputs_for
from tests.engines.test_cuda import check_every_superstep
from tests.engines.test_random_programs import SUPERSTEPS, random_graph, random_program

FEATURES = (1, 3, 4, 8, 17, 33)
SEEDS = range(200, 208)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(
    ("schedule", "seed"),
    [
        pytest.param(schedule, seed, marks=() if i == 3 * j else (pytest.mark.full,))
        for i, schedule in enumerate(SCHEDULES)
        for j, seed in enumerate(SEEDS)
    ],
)
def test_random_programs(schedule, seed, emulated):
    features = FEATURES[(seed + list(SCHEDULES).index(schedule)) % len(FEATURES)]
    program = random_program(seed)
    for number in range(3):
        graph = random_graph(10 * seed + number)
        inputs = inputs_for(program, graph, features, seed)
        check_every_superstep(schedule, program, graph, inputs, features, emulated, SUPERSTEPS, repeatable=True)
