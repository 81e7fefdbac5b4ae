"""Matrices of libraries at the boundaries of runs: rows one entry shorter than a run, of exactly one, and longer."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.sparse

from engines.libraries.matrix import RUN, Pattern
from harness.api import Arrays
from harness.graph import Graph
from harness.language import Inputs, K
from tests.engines.problems import STRATEGIES, prepared
from tests.engines.programs import traced


def csr(values, columns, offsets, shape):
    made = scipy.sparse.csr_array((values, columns, offsets), shape=shape)
    made.columns = columns
    return made


@pytest.mark.parametrize("run", [1, 2, 3, None])
def test_rows_at_the_boundaries_of_a_run_are_summed_whole_in_any_order(run):
    """Sums of small integers are exact in float32."""
    size, width = run or 2, 4
    degrees = sorted({0, 1, size - 1, size, size + 1, 2 * size - 1, 2 * size, 2 * size + 1})
    for row in [*itertools.product(degrees, repeat=2), *itertools.permutations(degrees[1:5], 3)]:
        offsets = np.concatenate([[0], np.cumsum(row)]).astype(np.int32)
        columns = (np.arange(offsets[-1]) * 3 % width).astype(np.int32)
        values = (1.0 + np.arange(offsets[-1]) % 7).astype(np.float32)
        dense = np.arange(1.0, 2 * width + 1, dtype=np.float32).reshape(width, 2)
        found = Pattern.of(columns, offsets, width, Arrays(), csr, run).matrix(values) @ dense
        terms = values[:, None] * dense[columns]
        wanted = [terms[first:last].sum(axis=0) for first, last in itertools.pairwise(offsets)]
        np.testing.assert_array_equal(found, np.array(wanted), err_msg=str(row))


def summed(p, self):
    p.vertex("a", K)
    p.vertex("x", K, start=0.0)
    p.over_edges(into="heard", reduce="sum")(lambda src: src.a)
    p.over_vertices(lambda v: {"x": v.heard})
    p.repeat(1)
    p.output("x", bound=1e-6)


@pytest.mark.parametrize("strategy", ["scipy", "torch"])
def test_hubs_of_exactly_one_run_stand_beside_longer_and_shorter_ones(strategy):
    degrees = [RUN - 1, RUN, RUN + 1, 2 * RUN - 1, RUN, 2 * RUN, 1, 2 * RUN + 1, 0, RUN]
    count = 2 * RUN + 1 + len(degrees)
    sources = np.concatenate([np.arange(degree) + len(degrees) for degree in degrees])
    targets = np.repeat(np.arange(len(degrees)), degrees)
    graph = Graph.from_edges(sources, targets, num_vertices=count, name="runs")
    program, name = traced(summed, "summed"), STRATEGIES[strategy]
    values = (np.arange(2 * count) % 5).astype(np.float32).reshape(count, 2)
    engine = prepared(*name, program, graph, 2)
    engine.reset(Inputs({"a": values}, dict(program.parameters)))
    engine.run(1)
    wanted = np.zeros((count, 2), np.float32)
    np.add.at(wanted, targets, values[sources])
    np.testing.assert_array_equal(engine.values("x"), wanted)
    engine.close()
