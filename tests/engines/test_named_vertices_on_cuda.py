"""A CUDA device runs programs that name vertices by values, as emulated devices do."""

from __future__ import annotations

import pytest

from tests.emulation.test_named_vertices import EVERY, check

pytestmark = pytest.mark.gpu


@pytest.mark.parametrize(("schedule", "program", "graph"), EVERY)
def test_answers(schedule, program, graph, device):
    name, features = program
    check(schedule, name, features, graph, device)
