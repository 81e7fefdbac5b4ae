"""Graphs made row by row: their distributions, and that only their parameters decide."""

import math
import os

import numpy as np
import pytest
import scipy.stats

from harness.graph import GraphError, slices
from harness.graph.generators import rmat, rmat_rows, urand_rows
from harness.graph.generators.counters import key_of, poisson, uniform
from harness.graph.generators.row_kernels import scrambled, unscrambled
from harness.graph.generators.rows import DEGREES, DESTINATIONS, EvenRows, RmatRows, neighbours_of, offsets_of
from harness.graph.pages import private_pages

QUADRANTS = (0.57, 0.19, 0.19, 0.05)
MADE = {
    "rmat_rows": lambda seed=1: rmat_rows(scale=9, edge_factor=8, seed=seed, max_weight=16),
    "urand_rows": lambda seed=1: urand_rows(num_vertices=300, seed=seed, max_weight=16),
}
HASHES = {
    "rmat_rows": "fc178688b6da1bf58a0d7599ed7c5e863099c988",
    "urand_rows": "8821bac622b9a1ccc1bec02af433401fad4e1eaa",
}
LEAST = 1e-6  # probability of a correct sample beyond it


def fits(counts, expected, fixed=1):
    """Check counts against expected ones by a chi-square test; ``fixed``: sums that are equal by construction."""
    counts, expected = (np.asarray(one, np.float64).ravel() for one in (counts, expected))
    many = expected >= 5
    counts = np.append(counts[many], counts[~many].sum())
    expected = np.append(expected[many], expected[~many].sum())
    used = expected > 0
    assert not counts[~used].any()
    assert used.sum() > fixed, "too few numbers"
    distance = ((counts - expected)[used] ** 2 / expected[used]).sum()
    assert scipy.stats.chi2.sf(distance, used.sum() - fixed) > LEAST, distance


@pytest.mark.parametrize("name", MADE)
def test_only_the_seed_decides(name, monkeypatch):
    graph = MADE[name]()
    graph.validate()
    assert graph.content_hash == HASHES[name]
    assert graph.content_hash != MADE[name](seed=2).content_hash
    for threads, size in ((1, 100), (5, 7), (3, 1 << 20)):
        monkeypatch.setattr(slices, "SLICE", size)
        monkeypatch.setattr(os, "sched_getaffinity", lambda _, threads=threads: set(range(threads)))
        assert MADE[name]().content_hash == graph.content_hash


@pytest.mark.parametrize("make", [rmat_rows, urand_rows])
def test_arrays_are_made_in_pages_of_their_own(make):
    graph = make(max_weight=2)
    for array in (graph.csr.offsets, graph.csr.neighbours, graph.weights):
        assert private_pages(array) is not None
        assert not array.flags.writeable
    assert private_pages(graph.csr.neighbours[:-1]) is None, "a part of the pages"
    assert private_pages(np.zeros(4)) is None


@pytest.mark.parametrize("mean", [0.01, 1.0, 9.9, 10.0, 37.5, 4000.0])
def test_degrees_are_poisson_variables(mean):
    key = key_of(5, DEGREES)
    drawn = np.array([poisson(mean, key, np.uint64(v)) for v in range(20_000)])
    known = scipy.stats.poisson(mean)
    bounds = np.unique(known.ppf(np.linspace(0, 1, 21)[1:-1]))
    expected = np.diff(np.concatenate([[0.0], known.cdf(bounds), [1.0]])) * len(drawn)
    fits(np.bincount(np.searchsorted(bounds, drawn), minlength=len(bounds) + 1), expected)


def test_streams_and_numbers_are_unrelated():
    keys = [key_of(seed, stream) for seed in range(2) for stream in range(3)]
    drawn = np.array([[uniform(key, np.uint64(i)) for i in range(4000)] for key in keys])
    assert ((drawn > 0) & (drawn < 1)).all()
    shifted = np.concatenate([drawn, np.roll(drawn, 1, axis=1)])
    related = np.corrcoef(shifted)[~np.eye(len(shifted), dtype=bool)]
    assert np.abs(related).max() < 6 / math.sqrt(4000)


@pytest.mark.parametrize("permuted", [False, True])
def test_out_degrees_have_the_means_of_the_bits_of_their_vertices(permuted):
    scale, edges = 12, 2.0**18
    recipe = RmatRows(scale, edges, QUADRANTS, 3, permuted)
    degrees = np.diff(offsets_of(recipe, 2**scale))
    _, inverses, shift, mask = recipe._permutation
    sources = [int(unscrambled(np.uint64(v), inverses, shift, mask)) for v in range(2**scale)]
    ones = np.array([source.bit_count() for source in sources])
    assert sorted(sources) == list(range(2**scale))
    assert permuted or sources == list(range(2**scale))
    means = edges * 0.76 ** (scale - ones) * 0.24**ones
    of_class = np.bincount(ones, means)
    fits(np.bincount(ones, degrees), of_class, fixed=0)
    scattered = ((degrees - means) ** 2 / means).sum()  # the variance of a Poisson variable is its mean
    assert abs(scattered - len(means)) < 5 * math.sqrt(2 * len(means) + (1 / means).sum())


@pytest.mark.parametrize("scale", range(12))
def test_vertices_are_permuted(scale):
    factors, inverses, shift, mask = RmatRows(scale, 0, QUADRANTS, 1, True)._permutation
    numbers = [int(scrambled(np.uint64(v), factors, shift, mask)) for v in range(2**scale)]
    assert sorted(numbers) == list(range(2**scale))
    assert [int(unscrambled(np.uint64(v), inverses, shift, mask)) for v in numbers] == list(range(2**scale))


def test_bits_of_destinations_have_their_probabilities():
    graph = rmat_rows(scale=9, edge_factor=400, permuted=False)
    source, destination = graph.csr.row_of_edge, graph.csr.neighbours
    for bit in range(9):
        pair = 2 * (source >> bit & 1) + (destination >> bit & 1)
        fits(np.bincount(pair, minlength=4), graph.num_edges * np.array(QUADRANTS))


def test_levels_are_independent():
    graph = rmat_rows(scale=3, edge_factor=40_000, permuted=False)
    counts = np.zeros((8, 8))
    np.add.at(counts, (graph.csr.row_of_edge, graph.csr.neighbours), 1)
    quadrant = np.array(QUADRANTS).reshape(2, 2)
    fits(counts, graph.num_edges * np.kron(quadrant, np.kron(quadrant, quadrant)))


def test_edges_are_distributed_as_those_of_rmat():
    drawn = rmat(scale=11, edge_factor=64, permuted=False, self_loops=True, parallel_edges=True, seed=8)
    rows = rmat_rows(scale=11, edge_factor=64, permuted=False, seed=9)
    assert abs(rows.num_edges - drawn.num_edges) < 5 * math.sqrt(drawn.num_edges)
    tables = []
    for graph in (drawn, rows):
        blocks = np.zeros((16, 16))
        np.add.at(blocks, (graph.csr.row_of_edge >> 7, graph.csr.neighbours >> 7), 1)
        tables.append(blocks.ravel())
    assert scipy.stats.chi2_contingency(np.array(tables)).pvalue > LEAST
    for side in ("out_degrees", "in_degrees"):
        bins = [np.bincount(np.frexp(getattr(graph, side))[1], minlength=16) for graph in (drawn, rows)]
        used = np.array(bins)[:, np.sum(bins, axis=0) > 10]
        assert scipy.stats.chi2_contingency(used).pvalue > LEAST


def test_a_permuted_graph_has_the_degrees_of_the_other_one():
    plain, permuted = (rmat_rows(scale=11, edge_factor=64, permuted=one) for one in (False, True))
    for side in ("out_degrees", "in_degrees"):
        bins = [np.bincount(np.frexp(getattr(graph, side))[1], minlength=16) for graph in (plain, permuted)]
        used = np.array(bins)[:, np.sum(bins, axis=0) > 10]
        assert scipy.stats.chi2_contingency(used).pvalue > LEAST
    assert plain.out_degrees.argmax() == plain.in_degrees.argmax() == 0
    assert permuted.out_degrees.argmax() != 0 or scrambled_zero(11) == 0
    assert permuted.out_degrees.argmax() == permuted.in_degrees.argmax()


def scrambled_zero(scale):
    factors, _, shift, mask = RmatRows(scale, 0, QUADRANTS, 1, True)._permutation
    return int(scrambled(np.uint64(0), factors, shift, mask))


@pytest.mark.parametrize(("vertices", "least", "most"), [(3000, 16, 48), (1 << 11, 0, 31), (601, 200, 201)])
def test_degrees_and_destinations_of_even_rows_are_uniform(vertices, least, most):
    graph = urand_rows(num_vertices=vertices, least_degree=least, most_degree=most)
    graph.validate()
    degrees = graph.out_degrees
    assert degrees.min() >= least
    assert degrees.max() <= most
    choices = most - least + 1
    fits(np.bincount(degrees - least, minlength=choices), np.full(choices, vertices / choices))
    fits(np.bincount(graph.csr.neighbours, minlength=vertices), np.full(vertices, graph.num_edges / vertices))


@pytest.mark.parametrize(("vertices", "degree"), [(1, 5), (7, 0)])
def test_all_rows_may_have_one_length(vertices, degree):
    graph = urand_rows(num_vertices=vertices, least_degree=degree, most_degree=degree)
    graph.validate()
    assert graph.out_degrees.tolist() == [degree] * vertices


@pytest.mark.parametrize("make", [rmat_rows, urand_rows])
def test_weights_are_uniform(make):
    graph = make(max_weight=7)
    fits(np.bincount(graph.weights.astype(int), minlength=8)[1:], np.full(7, graph.num_edges / 7))


@pytest.mark.parametrize(
    "recipe",
    [EvenRows(1 << 17, 1 << 15, 3 << 15, 1), RmatRows(17, 2.0**33, QUADRANTS, 1, True)],
    ids=["even", "rmat"],
)
def test_positions_of_edges_take_64_bits(recipe):
    """Only the offsets of a graph of about 2^33 edges are made, and some of its last rows."""
    offsets, degrees = offsets_of(recipe, 1 << 17), np.empty(1 << 17, np.int64)
    recipe.degrees(0, degrees)
    assert offsets[-1] == sum(map(int, degrees))
    assert abs(int(offsets[-1]) - 2**33) < 2**33 // 500
    assert (np.diff(offsets) >= 0).all()
    last = 1 << 17
    first = last - 3
    base = int(offsets[first])
    assert base > 1 << 32
    rows = np.zeros(int(offsets[-1]) - base, np.uint32)
    recipe.rows(offsets, first, last, base, rows)
    alone = np.zeros(int(degrees[-1]), np.uint32)
    recipe.rows(offsets, last - 1, last, int(offsets[-2]), alone)
    np.testing.assert_array_equal(rows[len(rows) - len(alone) :], alone)
    cut = np.zeros_like(rows)
    recipe.rows(offsets - (1 << 32), first, last, base - (1 << 32), cut)
    assert (cut != rows).mean() > 0.5, "positions modulo 2^32 give other edges"
    assert (np.diff(rows[: degrees[first]].astype(np.int64)) >= 0).all()


def test_rows_do_not_depend_on_the_rows_that_are_made_together():
    recipe = RmatRows(8, 2000.0, QUADRANTS, 4, True)
    offsets = offsets_of(recipe, 256)
    whole = neighbours_of(recipe, offsets)
    for first in range(0, 256, 37):
        last = min(first + 37, 256)
        part = np.zeros(offsets[last] - offsets[first], np.uint32)
        recipe.rows(offsets, first, last, int(offsets[first]), part)
        np.testing.assert_array_equal(part, whole[offsets[first] : offsets[last]])
    assert DESTINATIONS != DEGREES


@pytest.mark.parametrize(
    ("make", "wrong", "text"),
    [
        (rmat_rows, {"scale": 32}, "must be 0..31"), (rmat_rows, {"scale": 31, "edge_factor": 33}, "2\\*\\*36 edges"),
        (rmat_rows, {"a": 0.5}, "add up to 1"), (rmat_rows, {"edge_factor": -1}, "2\\*\\*36 edges"),
        (rmat_rows, {"max_weight": (1 << 24) + 1}, "float32 is exact"), (urand_rows, {"max_weight": -1}, "float32"),
        (urand_rows, {"num_vertices": 0}, "1 to 2"), (urand_rows, {"num_vertices": (1 << 31) + 1}, "1 to 2"),
        (urand_rows, {"least_degree": 5, "most_degree": 4}, "least_degree <= most_degree"),
        (urand_rows, {"most_degree": 1 << 21}, "at most 2\\*\\*36 edges"),
    ],
)  # fmt: skip
def test_wrong_parameters_are_refused(make, wrong, text):
    with pytest.raises(GraphError, match=text):
        make(**wrong)


ONE_VERTEX = {"a": 1, "b": 0, "c": 0, "d": 0, "scale": 8}


@pytest.mark.parametrize("parameters", [{"scale": 0}, {"scale": 1}, {"edge_factor": 0}, ONE_VERTEX])
def test_extreme_parameters_give_graphs(parameters):
    graph = rmat_rows(**parameters)
    graph.validate()
    if parameters.get("a") == 1:
        assert (graph.out_degrees > 0).sum() == 1
        assert graph.has_self_loops
