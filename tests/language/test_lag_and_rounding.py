"""The allowed errors of sums whose sources lag: the error of the additions and the lag do not cancel."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.kcore import KCore
from harness.algorithms.pagerank import PageRank
from harness.graph import Graph
from harness.language import Inputs, K, trace
from harness.language.converged import answer_at_limit
from harness.language.criterion import PROPAGATED_SHARE
from harness.language.rounding import LAG, UNIT, Pattern, RoundedRun, causes, patterns
from harness.language.sampled import Sample
from tests.language.programs import program_of

# In-degrees about 2 tolerance / u + 1 = 3303, for which the injected error of a sum is as large as the injected lag.
DEGREES = np.arange(2900, 3801, 100)
LEAVES = 4000


def hubs():
    """Return a graph of leaves, hubs with DEGREES in-edges from the first of these, and sinks.

    Leaves have edges to 1 to 7 sinks, so that their out-degrees differ.
    """
    leaves, first_sink = np.arange(LEAVES), LEAVES + len(DEGREES)
    rows = [(leaves[:degree], LEAVES + number) for number, degree in enumerate(DEGREES)]
    rows += [(leaves[leaves % 7 >= sink], first_sink + sink) for sink in range(7)]
    sources = np.concatenate([found for found, _ in rows])
    targets = np.concatenate([np.full(len(found), target) for found, target in rows])
    return Graph.from_edges(sources, targets, num_vertices=first_sink + 7, name="hubs")


def in_worst_order(terms):
    """Return the float32 sum of positive terms, added one after the other so that each addition rounds down the most.

    Greedy: of the distinct terms that are left, the one whose addition loses most is added next.
    """
    values, counts = np.unique(terms, return_counts=True)
    total = np.float32(0.0)
    for _ in range(len(terms)):
        left = np.flatnonzero(counts)
        sums = (total + values[left]).astype(np.float32)
        lost = np.float64(total) + values[left].astype(np.float64) - sums
        chosen = int(lost.argmax())
        counts[left[chosen]] -= 1
        total = sums[chosen]
    return total


def float32_ranks(graph, program, inputs):
    """Return the ranks after one superstep whose sums over edges are added in the worst order found; float32[V, 1]."""
    teleport = inputs.properties["teleport"][:, 0]
    alpha = np.float32(inputs.parameters["alpha"])
    degrees = graph.out_degrees
    message = (teleport / np.maximum(degrees, 1).astype(np.float32)).astype(np.float32)
    dangling = np.float32(teleport[degrees == 0].sum(dtype=np.float64))
    offsets, neighbours = graph.csc.offsets, graph.csc.neighbours
    sums = np.array(
        [in_worst_order(message[neighbours[low:high]]) for low, high in itertools.pairwise(offsets)],
        np.float32,
    )
    factor = np.float32(1) - alpha + alpha * dangling
    return (factor * teleport + alpha * sums).astype(np.float32)[:, None]


def test_the_worst_order_of_float32_additions_is_allowed_at_every_degree():
    algorithm, graph = PageRank(), hubs()
    program = trace(algorithm)
    inputs = algorithm.inputs(graph, 1)
    found = float32_ranks(graph, program, inputs)
    sample = Sample.of(program, graph, np.arange(graph.num_vertices), np.zeros(graph.num_vertices, np.int8))
    reduced = sample.reduced(graph, inputs, 1, None)
    exact, response = sample._superstep(inputs, 1, None, reduced, ("rank",))
    off = np.abs(found - exact["rank"])[:, 0] / exact["rank"][:, 0]
    hub = slice(LEAVES, LEAVES + len(DEGREES))
    assert (off[hub] > 64 * UNIT).all(), "the orders lose much more than a few roundings"
    assert sample.compared(inputs, 1, None, {"rank": found}, reduced=reduced).ok
    assert (off[hub] < response["rank"][hub, 0] / exact["rank"][hub, 0]).all()


def test_an_entry_may_be_off_by_the_errors_of_its_sum_and_the_lag():
    algorithm, graph = PageRank(), hubs()
    answer = answer_at_limit(trace(algorithm), graph, 1, algorithm.inputs(graph, 1), 1)
    alpha, tolerance = algorithm.alpha, algorithm.tolerance
    teleport, dangling = 1.0 / graph.num_vertices, np.count_nonzero(graph.out_degrees == 0) / graph.num_vertices
    hub = slice(LEAVES, LEAVES + len(DEGREES))
    received = answer.values["rank"][hub, 0] - (1 - alpha + alpha * dangling) * teleport
    allowed = answer.allowances["rank"].entries[hub, 0]
    lag = 2 * PROPAGATED_SHARE * tolerance
    assert (allowed >= 0.99 * ((DEGREES - 1) * UNIT + lag) * received).all()


def test_a_wrong_rank_of_such_a_hub_is_still_found():
    algorithm, graph = PageRank(), hubs()
    program = trace(algorithm)
    inputs = algorithm.inputs(graph, 1)
    found = float32_ranks(graph, program, inputs)
    sample = Sample.of(program, graph, np.arange(graph.num_vertices), np.zeros(graph.num_vertices, np.int8))
    reduced = sample.reduced(graph, inputs, 1, None)
    found[LEAVES + 4] *= np.float32(1 + 1e-3)
    assert not sample.compared(inputs, 1, None, {"rank": found}, reduced=reduced).ok


@pytest.mark.parametrize("cause", [0, 1])
def test_causes_have_opposite_signs_in_one_of_the_runs(cause):
    program = trace(PageRank())
    assert causes(program) == ["share", LAG, "dangling"]
    assert Pattern(cause=cause) in patterns(program, 1)


@pytest.mark.parametrize("features", [*range(1, 19), 31, 32, 33, 63, 64, 65, 100, 127, 128, 129])
def test_any_two_features_of_a_product_have_opposite_signs_in_one_of_the_runs(features):
    program = trace(BeliefPropagation())
    found = [pattern.feature for pattern in patterns(program, features)]
    bits = [bit for bit in found if bit is not None]
    sign = np.array([np.arange(features) >> bit & 1 for bit in bits]).reshape(len(bits), features)
    assert len(np.unique(sign, axis=1).T) == features
    assert bits == list(range(len(bits))), "and no run is repeated"
    assert all((row.min(), row.max()) == (0, 1) for row in sign), "and every run has two signs"
    assert [pattern.feature for pattern in patterns(trace(PageRank()), features) if pattern.cause is None] == [None]


@pytest.mark.parametrize("number", range(9))
def test_any_two_causes_have_opposite_signs_in_one_of_the_runs(number):
    def build(p, self):
        p.vertex("x", K, start=1.0)
        for place in range(number):
            p.over_graph(into=f"total_{place}", reduce="sum")(lambda v: v.x)
        p.over_vertices(lambda v, graph: {"x": sum((getattr(graph, f"total_{i}") for i in range(number)), v.x)})
        p.repeat(1)
        p.output("x", bound=1e-3)

    program = program_of(build)
    assert len(causes(program)) == number
    bits = [pattern.cause for pattern in patterns(program, 3) if pattern.cause is not None]
    assert bits == list(range(len(bits)))
    assert len({tuple(cause >> bit & 1 for bit in bits) for cause in range(number)}) == number
    assert all(len({cause >> bit & 1 for cause in range(number)}) == 2 for bit in bits)


def test_a_program_without_a_tolerance_has_no_lag():
    assert LAG not in causes(trace(KCore()))


def averaged(*, relative=False, tolerance=0.125):
    """Return a program whose only reduction copies the value of the source on a ring."""

    def build(p, self):
        p.vertex("given", K)
        p.vertex("x", K, start="given")
        p.over_edges(into="met", reduce="sum")(lambda src: src.x)
        p.over_vertices(lambda v: {"x": v.met})
        p.until_settled(self.tolerance, at_most=9, relative=relative)
        p.output("x", bound=1e-3)

    return program_of(build, tolerance=tolerance)


@pytest.mark.parametrize("relative", [False, True])
@pytest.mark.parametrize("share", [0.25, 1.0])
def test_a_source_may_lag_by_its_share_of_the_tolerance_but_never_beyond_zero(relative, share):
    x = np.array([[4.0, -4.0], [-0.01, 0.01], [0.0, -0.5], [2.0, 0.002]])
    ring = Graph.from_edges(np.arange(4), (np.arange(4) + 1) % 4, num_vertices=4, name="ring")
    met = {}
    for tolerance in (0.125, 0.0):
        run = RoundedRun(averaged(relative=relative, tolerance=tolerance), ring, 2, lag=share)
        run.reset(Inputs({"given": x.astype(np.float32)}, {"tolerance": tolerance}))
        run.run_stages()
        met[tolerance] = run.values("met")
    sent = np.roll(x.astype(np.float32), 1, axis=0).astype(np.float64)
    assert np.array_equal(met[0.0], sent)  # the sum of one value is not rounded
    lag = share * 0.125
    np.testing.assert_allclose(
        np.abs(met[0.125] - sent), lag * np.abs(sent) if relative else np.minimum(lag, np.abs(sent))
    )


def test_reductions_over_the_graph_have_the_roundings_of_their_length():
    def build(p, self):
        p.vertex("x", K, start=1.0)
        for reducer in ("sum", "prod", "min", "max"):
            p.over_graph(into=reducer, reduce=reducer)(lambda v: v.x)
        p.over_vertices(lambda v, graph: {"x": v.x + graph.sum + graph.prod + graph.min + graph.max})
        p.repeat(1)
        p.output("x", bound=1e-3)

    for count in (1, 64):
        run = RoundedRun(program_of(build), Graph.from_edges([], [], num_vertices=count, name="bare"), 3)
        run.reset(Inputs({}))
        run.run_stages()
        roundings = (32 + np.log2(count)) * UNIT
        for reducer, exact in (("sum", count), ("prod", 1), ("min", 1), ("max", 1)):
            error = np.abs(run.values(reducer) - exact) / exact
            np.testing.assert_allclose(error, roundings if reducer in ("sum", "prod") else 0.0, rtol=1e-3)
