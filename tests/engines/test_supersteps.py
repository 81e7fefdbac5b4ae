"""Supersteps on small graphs equal their table: active sources, visited edges, directions, reasons, and bytes read.

So a schedule that gives the right answer with more work is found. The counts of pushes are also those of the reference.
"""

import numpy as np
import pytest

from harness.language.reference import ReferenceRun
from tests.engines.problems import ALGORITHMS, prepared, program, small
from tests.engines.superstep_tables import GRAPHS, MOST, RUNS, lines, written

RENEW = "if that is intended: python -m tests.engines.superstep_tables"
PUSHES = [run for run, (name, options, *_) in RUNS.items() if name in ("gunrock", "emogi") or "pushes what" in run]


@pytest.mark.parametrize("run", RUNS)
def test_supersteps_are_those_of_the_table(run):
    assert list(lines(run)) == written()[run], RENEW


def test_the_table_has_every_run():
    assert list(written()) == list(RUNS), RENEW


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("graph_name", GRAPHS)
@pytest.mark.parametrize("run", PUSHES)
def test_a_push_visits_the_edges_of_the_vertices_that_moved_before(run, graph_name):
    name, options, algorithm, features = RUNS[run]
    chosen = ALGORITHMS[algorithm]
    graph = chosen.prepare_graph(small(graph_name))
    inputs = chosen.inputs(graph, features)
    engine, reference = (
        prepared(name, options, program(algorithm), graph, features),
        ReferenceRun(program(algorithm), graph, features),
    )
    for one in (engine, reference):
        one.reset(inputs)
    (output,) = program(algorithm).outputs
    before, wanted = reference.values(output).copy(), []
    for _ in range(MOST):
        reference.run(1)
        now = reference.values(output).copy()
        moved = (now != before).reshape(len(now), -1).any(axis=1)
        wanted.append((np.count_nonzero(moved), int(graph.out_degrees[moved].sum())))
        before = now
    found = [(step.active, step.edges) for step in engine.run(MOST).supersteps]
    engine.close()
    assert found[1:] == wanted[: len(found) - 1]
    assert not any(active for active, _ in wanted[len(found) - 1 :]) or len(found) == MOST


# Runs with several rounds have one part. Useful bytes of a part: test_scaph_order.py.
PARTS = [run for run, (_, options, *_) in RUNS.items() if "rounds" not in options and "counters" not in options]


@pytest.mark.short_run(rows=8)
@pytest.mark.parametrize("first", [1, 2, 3])
@pytest.mark.parametrize("run", PARTS)
def test_a_run_in_two_parts_has_the_statistics_of_one(run, first):
    """Every superstep, in the second run of a prepared engine as in the first."""
    name, options, algorithm, features = RUNS[run]
    chosen, most = ALGORITHMS[algorithm], 7
    graph = chosen.prepare_graph(small("rmat"))
    inputs = chosen.inputs(graph, features)
    engine = prepared(name, options, program(algorithm), graph, features)
    engine.reset(inputs)
    whole = engine.run(most)
    engine.reset(inputs)
    begun = engine.run(first)
    found = begun if begun.settled else begun.followed_by(engine.run(most - first))
    engine.close()
    assert found == whole
