"""Run algorithms under the reference, as a campaign does."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.language import trace
from harness.language.reference import ReferenceRun


def answer(algorithm, graph, features, supersteps=None):
    """Return the values of the algorithm's output, in float64, and whether the run settled."""
    program = trace(algorithm)
    prepared = algorithm.prepare_graph(graph)
    reference = ReferenceRun(program, prepared, features)
    reference.reset(algorithm.inputs(prepared, features))
    statistics = reference.run(supersteps or program.max_supersteps)
    (output,) = program.outputs
    return reference.values(output), statistics.settled


def data(name):
    """Return a file of the real data; skip the test if there is none."""
    folder = os.environ.get("HARNESS_DATA")
    if folder is None:
        pytest.skip("HARNESS_DATA names no folder of real graphs")
    return Path(folder) / name
