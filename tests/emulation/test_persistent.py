"""Persistent kernels, emulated. Blocks run one after another, so a kernel with a global barrier has one block."""

from __future__ import annotations

import pytest

from harness.lowering.cuda import executor
from tests.engines import test_persistent_on_cuda as on_cuda

TODAY = [*on_cuda.CASES[:2], *on_cuda.CASES[2::9]]


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(
    ("name", "way", "features"),
    [pytest.param(*case, marks=() if case in TODAY else (pytest.mark.full,)) for case in on_cuda.CASES],
)
def test_the_run_is_the_same(name, way, features, emulated, monkeypatch):
    on_cuda.test_the_run_is_the_same(name, way, features, emulated, monkeypatch)


@pytest.mark.parametrize("way", ["all owners", pytest.param("all edges", marks=pytest.mark.full)])
def test_ranks_that_alternate_settle_in_the_same_superstep(way, emulated, monkeypatch):
    on_cuda.test_ranks_that_alternate_settle_in_the_same_superstep(way, "grid", emulated, monkeypatch)


def test_a_longer_run_has_records_of_its_own(emulated, monkeypatch):
    """The kernel is launched with the new array of records, for which the old one has no room."""
    monkeypatch.setattr(executor, "USUAL_SUPERSTEPS", 2)
    name, way, features = TODAY[0]
    on_cuda.test_the_run_is_the_same(name, way, features, emulated, monkeypatch)


def test_a_run_of_several_parts_is_the_same_and_has_few_records(emulated, monkeypatch):
    """A run that may have a million supersteps reads its records after each part."""
    name, way, features = TODAY[0]
    program = on_cuda.program(name)
    graph, inputs = on_cuda.problem(name, "rmat", features)
    runs = []
    for most in (1 << 14, 2):
        monkeypatch.setattr(executor, "USUAL_SUPERSTEPS", min(most, 1024))
        monkeypatch.setattr(executor, "MOST_SUPERSTEPS", most)
        _, engine = on_cuda.both(monkeypatch, way, program, graph, features, emulated)
        engine.reset(inputs)
        done, run = engine.run(1_000_000), engine.executor.run_in_progress
        assert len(run.past) == most
        runs.append((done, [engine.values(output).tolist() for output in program.outputs]))
        engine.close()
    assert runs[0] == runs[1]
    assert done.settled
    assert run.launches == -(-len(done.supersteps) // 2) > 2
