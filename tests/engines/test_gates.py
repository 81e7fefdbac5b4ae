"""Edges that change and sources that move, each also without the other, on the CPU (``gates.py``)."""

from __future__ import annotations

import pytest

from tests.engines import gates
from tests.engines.problems import CHANGE_DRIVEN, prepared


@pytest.mark.full
@pytest.mark.parametrize("strategy", ["gunrock", "push", "pull", "pull-sparse"])
def test_every_superstep_has_the_values_of_numpy(strategy):
    graph, features = gates.graph(), 3
    gates.check(prepared(*CHANGE_DRIVEN[strategy], gates.program(), graph, features), graph, features)
