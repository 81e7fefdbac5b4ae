"""Graphs that are made row by row, against the description of their numbers, with Python's integers and SciPy."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy.stats

from harness.graph.generators import rmat_rows, urand_rows
from harness.graph.generators.counters import key_of, number, uniform
from harness.graph.generators.rows import DEGREES, DESTINATIONS, SCRAMBLING, WEIGHTS

MASK = 2**64 - 1
# The first outputs of SplitMix64 from two states, by the reference code of S. Vigna.
KNOWN = {
    0: [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F, 0xF88BB8A8724C81EC, 0x1B39896A51A8749B],
    1234567: [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821],
}


def splitmix(state, place):
    """Return output ``place`` of SplitMix64 from a state."""
    z = (state + (place + 1) * 0x9E3779B97F4A7C15) & MASK
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ z >> 27) * 0x94D049BB133111EB & MASK
    return z ^ z >> 31


def stream(seed, which):
    """Return the numbers of a stream of a seed, by their place."""
    key = splitmix(splitmix(seed & MASK, 0), which)
    return lambda place: splitmix(key, place)


@pytest.mark.parametrize("state", KNOWN)
def test_numbers_are_those_of_splitmix(state):
    assert [int(number(np.uint64(state), np.uint64(place))) for place in range(5)] == KNOWN[state]
    assert [splitmix(state, place) for place in range(5)] == KNOWN[state]


@pytest.mark.parametrize("seed", [0, 1, 2**63 + 5, -1])
def test_streams_are_keyed_by_seed_and_stream(seed):
    for which in (DEGREES, DESTINATIONS, WEIGHTS):
        key = key_of(seed, which)
        assert int(key) == splitmix(splitmix(seed % 2**64, 0), which)
        drawn = stream(seed, which)(3)
        assert float(uniform(key, np.uint64(3))) == ((drawn >> 11) + 0.5) / 2**53


def choice(drawn, choices):
    return drawn * choices >> 64


def check_weights(graph, seed, most):
    drawn = stream(seed, WEIGHTS)
    assert graph.weights.tolist() == [1 + choice(drawn(e), most) for e in range(graph.num_edges)]


@pytest.mark.parametrize(("vertices", "least", "most", "seed"), [(300, 0, 5, 3), (7, 4, 4, 1), (33, 9, 40, 2**40)])
def test_even_rows(vertices, least, most, seed):
    graph = urand_rows(vertices, least, most, seed, max_weight=5)
    degrees, ends = stream(seed, DEGREES), stream(seed, DESTINATIONS)
    lengths = [least + choice(degrees(v), most - least + 1) for v in range(vertices)]
    assert graph.csr.offsets.tolist() == [0, *np.cumsum(lengths)]
    drawn = [choice(ends(e), vertices) for e in range(sum(lengths))]
    rows = np.split(np.array(drawn), np.cumsum(lengths)[:-1])
    assert graph.csr.neighbours.tolist() == [end for row in rows for end in sorted(row.tolist())]
    assert (graph.csr.offsets.dtype, graph.csr.neighbours.dtype, graph.weights.dtype) == (
        np.int64,
        np.uint32,
        np.float32,
    )
    check_weights(graph, seed, 5)


def permuted(number, scale):
    """Return the number of a source of the recursive matrix in the graph."""
    shift = max(1, (scale + 1) // 2)
    for factor in SCRAMBLING:
        number = number * factor % 2**scale
        number ^= number >> shift
    return number


@pytest.mark.parametrize("permute", [False, True])
@pytest.mark.parametrize("scale", [1, 4, 5, 8])
def test_rows_of_the_recursive_matrix(scale, permute):
    """Means are below 10, so that degrees are quantiles of Poisson variables at the uniform numbers."""
    a, b, c, d = quadrants = (0.5, 0.125, 0.25, 0.125)
    factor, seed, size = 9.0 / (2 * (a + b)) ** scale, 11, 2**scale
    graph = rmat_rows(scale, factor, *quadrants, seed=seed, permuted=permute, max_weight=3)
    number = {permuted(source, scale) if permute else source: source for source in range(size)}
    assert sorted(number) == list(range(size))
    degrees, ends = stream(seed, DEGREES), stream(seed, DESTINATIONS)
    lengths = []
    for v in range(size):
        ones = number[v].bit_count()
        mean = factor * size * (a + b) ** (scale - ones) * (c + d) ** ones
        lengths.append(int(scipy.stats.poisson(mean).ppf(((degrees(v) >> 11) + 0.5) / 2**53)))
    assert graph.csr.offsets.tolist() == [0, *np.cumsum(lengths)]
    words = math.ceil(scale / 2)  # two bits of a destination take one number
    limits = [round(b / (a + b) * 2**32), round(d / (c + d) * 2**32)]
    neighbours = []
    for v in range(size):
        row = []
        for e in range(int(graph.csr.offsets[v]), int(graph.csr.offsets[v + 1])):
            bits = [
                (ends(e * words + bit // 2) >> 32 * (bit % 2)) % 2**32 < limits[number[v] >> bit & 1]
                for bit in range(scale)
            ]
            drawn = sum(one << bit for bit, one in enumerate(bits))
            row.append(permuted(drawn, scale) if permute else drawn)
        neighbours += sorted(row)
    assert graph.csr.neighbours.tolist() == neighbours
    assert graph.num_edges > 2
    check_weights(graph, seed, 3)
