"""The parts of a published sweep: its command, its failures, where it was measured."""

from __future__ import annotations

import pytest

from harness.records.published import PublishedSweep
from harness.report.failures import failures
from harness.report.publication import _command, _device, _every, _failure, _provenance, named_papers, named_sweeps
from tests.records.samples import record

MACHINE = {"cpu": "A CPU", "threads": 2, "cores": 4, "python": "3.12", "harness": "0.1", "packages": {"numpy": "2.5"},
           "commit": "c0ffee"}  # fmt: skip
GPU = {**MACHINE, "gpu": {"name": "A GPU", "driver": "580", "cuda": "13.0", "uuid": "x"}}


@pytest.mark.parametrize(
    ("environment", "outcome", "text"),
    [
        (MACHINE, "ok", "A CPU, 2 of 4 cores"),
        (GPU, "ok", "A GPU, driver 580, CUDA 13.0"),
        (GPU, "wrong", ""),
        ({}, "ok", ""),
    ],
)
def test_where_a_record_was_measured(environment, outcome, text):
    assert _device(record(outcome=outcome, environment=environment)) == text


@pytest.mark.parametrize(
    ("cells", "command"),
    [
        ([["graph=rmat", "engine=a"]], "onyx-harness graph=rmat engine=a"),
        (
            [
                ["engine=a", "features=1", "graph=rmat"],
                ["engine=b", "features=1", "graph=rmat"],
                ["engine=a", "features=8", "graph=rmat"],
            ],
            "onyx-harness graph=rmat engine=a,b features=1,8",
        ),
        (
            [["device=cuda", "+experiment=demo", "engine=a"], ["device=cuda", "+experiment=demo", "engine=b"]],
            "onyx-harness +experiment=demo device=cuda",
        ),
    ],
)
def test_the_command_of_a_sweep_has_the_values_of_all_cells(cells, command):
    sweep = {"cells": [{"overrides": cell} for cell in cells]}
    assert _command(sweep) == command
    assert _command({**sweep, "commands": ["a=1,2", "b=3"]}) == "onyx-harness a=1,2; onyx-harness b=3"


def test_texts_are_listed_once_in_order():
    assert _every(["b", "", "a|c", "b"]) == "a\\|c; b"


def lost(engine, algorithm="flood"):
    config = {**record()["config"], "engine": engine, "algorithm": algorithm}
    return record(engine, None, outcome="unsupported", reason="no | form", config=config)


def test_a_failure_names_its_first_kinds_and_counts_its_cells():
    [one] = failures([lost("a")])
    assert _failure(one) == "- unsupported: no \\| form (flood by a; 1 cell)"
    [three] = failures([lost("a"), lost("a"), lost("b", "drain")])
    assert _failure(three) == "- unsupported: no \\| form (flood by a, drain by b; 3 cells)"
    many = failures([lost(name) for name in "abcdefghij"])[0]
    assert _failure(many).endswith(", ...; 10 cells)")


def test_the_measurement_of_a_sweep():
    records = [
        record("b", environment=GPU, started="2026-01-02T03:04:05+00:00"),
        record("a", environment=MACHINE, started="2026-01-01T00:00:59+00:00"),
        record("c", None, outcome="crashed", environment={}, graph={}, started="2026-01-03T00:00:00+00:00"),
    ]
    sweep = PublishedSweep("demo", "onyx-harness engine=a,b,c,d", 5, None, None, tuple(records))
    rows = dict(line.strip("| ").split(" | ", 1) for line in _provenance(sweep, records).splitlines()[2:])
    assert rows == {
        "command": "`onyx-harness engine=a,b,c,d`", "device": "A CPU, 2 of 4 cores; A GPU, driver 580, CUDA 13.0",
        "date": "2026-01-01 00:00 to 2026-01-03 00:00 UTC", "commit": "c0ffee",
        "versions": "numpy 2.5, onyx-harness 0.1, Python 3.12", "graphs": "ring: 1,000 vertices, 20,000 edges",
        "cells": "5, of which 2 ok, 1 crashed, 2 not run",
    }  # fmt: skip


def test_the_places_of_a_page():
    page = "<!-- sweep: one -->\n<!-- end of sweep -->\n<!-- paper: two -->\nx\n<!-- end of paper -->\n"
    assert (named_sweeps(page), named_papers(page)) == (["one"], ["two"])
