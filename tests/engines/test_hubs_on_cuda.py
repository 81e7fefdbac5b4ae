"""Hubs of thousands of messages on a CUDA device, with programs whose stated bounds do not depend on degrees.

Sums of n float32 numbers one after another may have n - 1 rounding errors (Higham 2002, eq. 4.4), and have less than
half of that if all are equal. Atomic additions come in another order in every superstep, and so do the errors.
"""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from harness.contract import Phases
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.fresh import SEED, drawn_problem
from tests.engines.problems import ALGORITHMS, new_engine, outputs_of
from tests.engines.test_matrix_on_cuda import Row, check

LEAVES = 3000
IN_TURN = LEAVES / 2 * 2.0**-24  # relative error of a sum of equal messages
# An engine, options, and whether sums may be made one message after another.
SCHEDULES = [
    ("onyx", {"balance": "edge"}, True),
    ("onyx", {"balance": "warp"}, False),  # a block sums the results of its lane groups
    ("onyx", {"direction": "push"}, True),
    ("gunrock", {}, True),
    ("tigr", {}, True),
    ("emogi", {}, True),
    ("scaph", {}, True),
    ("simdx", {}, False),
    ("cusparse", {}, False),
    ("torch", {}, False),
]

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.parametrize("features", [1, 3]),
    pytest.mark.parametrize(("engine", "options", "in_turn"), SCHEDULES),
]


@pytest.mark.parametrize("name", ["pagerank", "feature_diffusion"])
def test_a_hub_of_many_messages(name, engine, options, in_turn, features, device):
    """The hub's error returns to it two supersteps later, in addition to the new sum's error: PageRank multiplies it by
    alpha^2, and diffusion sums at the hub twice."""
    more = {"pagerank": IN_TURN / (1 - ALGORITHMS["pagerank"].alpha ** 2), "feature_diffusion": 2 * IN_TURN}[name]
    check(Row(engine, options, name, features, ("hub",)), device, more=more if in_turn else 0.0)


def test_a_run_stops_where_the_rounding_errors_of_a_hub_allow(engine, options, in_turn, features, device):
    """Hubs and authorities: the hub has most of the authority, and the errors of its sum are part of the change that
    must not exceed the tolerance. Runs stop some supersteps apart, between which small scores lose a fifth. The scores
    are those of the reference after as many supersteps."""
    print(f"HARNESS_SEED={SEED} repeats the draws")  # shown if the test fails
    hits, rng = ALGORITHMS["hits"], np.random.default_rng(SEED)
    graph, draws = drawn_problem("hits", "hub", features, rng)
    settling, endless = trace(hits), trace(replace(hits, tolerance=0.0))
    reference = ReferenceRun(endless, graph, features)
    noise = 2 * (IN_TURN if in_turn else np.log2(LEAVES) * 2.0**-24)  # of two sums, one after another or by halves
    with closing(new_engine(engine, options)) as run:
        run.prepare(settling, graph, features, device, Phases())
        for inputs in draws:
            run.reset(inputs)
            statistics = run.run(hits.supersteps)
            taken = len(statistics.supersteps)
            reference.reset(inputs)
            reference.run(taken - 1)
            before = {name: np.array(values) for name, values in outputs_of(reference, endless).items()}
            reference.run(1)
            expected = outputs_of(reference, endless)
            found = compare(settling, outputs_of(run, settling), expected)
            assert found.ok, f"after {taken} supersteps: {found.detail}"
            moved = max(np.abs(expected[name] - before[name]).sum(axis=0).max() for name in expected)
            assert taken == hits.supersteps or moved <= hits.tolerance + noise
