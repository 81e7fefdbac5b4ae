"""Cells whose features run in panels: validated whole and on a sample, warm, and refused, by the command."""

from __future__ import annotations

import json

import pytest

pytestmark = pytest.mark.full  # each starts the command and compiles kernels
CELL = ("engine=onyx", "graph=rmat", "graph.scale=8", "features=5", "engine.panel=2", "measure.repetitions=2")


def record_of(command_here, folder, *arguments):
    """Run a cell and return its record."""
    finished = command_here(*CELL, *arguments)
    (path,) = folder.glob("results/*/*/record.json")
    return json.loads(path.read_text()), finished


@pytest.mark.parametrize("more", [(), ("validate=sampled",), ("warm.change=0.01", "algorithm.tolerance=1e-6")])
def test_a_cell_in_panels_is_right(more, command_here, tmp_path):
    record, finished = record_of(command_here, tmp_path, "algorithm=pagerank", *more)
    assert record["outcome"] == "ok", record["reason"] + finished.stdout + finished.stderr
    assert record["schedule"]["panel"] == 2
    assert record["warm"] or record["supersteps"][0][1] == 3 * record["graph"]["edges"]  # of three panels


def test_a_program_whose_features_are_not_independent_is_unsupported_with_the_reason(command_here, tmp_path):
    record, finished = record_of(command_here, tmp_path, "algorithm=label_propagation", "algorithm.seeds=random")
    assert record["outcome"] == "unsupported"
    assert "panel=2 of 5 features: n_aggr normalises over features (l1)" in record["reason"]
    assert "engine.panel=null would run it" in record["reason"]
    assert record["reason"] in " ".join(finished.stdout.split())
