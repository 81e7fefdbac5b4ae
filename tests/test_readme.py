"""The examples of the README, the tutorial and the presets run, and the quick start is two commands."""

from __future__ import annotations

import importlib
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from harness.contract import AlgorithmSpec, Device, EngineSpec, Phases, schedule_from_options
from harness.graph import Graph
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.plugins import load_plugins

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()
PAGES = [README, *((ROOT / "docs" / name).read_text() for name in ("tutorial.md", "presets.md"))]


def block(marker: str) -> str:
    """Return the code block after a marker."""
    found = [block for page in PAGES for block in re.findall(rf"<!-- {marker} -->\n```\w+\n(.*?)```", page, re.DOTALL)]
    assert len(found) == 1, f"{len(found)} blocks are marked {marker!r}"
    return found[0]


@pytest.fixture
def example(tmp_path, monkeypatch) -> Callable[[str], ModuleType]:
    """Import an example as a module."""
    monkeypatch.syspath_prepend(tmp_path)

    def load(marker: str) -> ModuleType:
        name = f"readme_{marker.split()[-1]}"
        (tmp_path / f"{name}.py").write_text(block(marker))
        monkeypatch.delitem(sys.modules, name, raising=False)
        return importlib.import_module(name)

    return load


def test_quick_start_is_two_commands():
    for marker in ("quick start: compare", "quick start: test"):
        assert len(block(marker).strip().splitlines()) == 1
    assert len(re.findall("quick start: ", README)) == 2


def test_the_quick_start_names_the_packages_functions():
    assert ".venv/bin/onyx-harness" in block("quick start: compare")
    assert "constraints.txt" in block("quick start: test")


@pytest.mark.parametrize(
    "name", ["onyx", "scipy", *(pytest.param(name, marks=pytest.mark.full) for name in ("gunrock", "tigr", "simdx"))]
)
def test_the_algorithm_runs_on_every_engine(example, name):
    algorithm = example("example: algorithm").HeatDiffusion()
    generator = np.random.default_rng(3)
    graph = Graph.from_edges(
        generator.integers(0, 50, 300), generator.integers(0, 50, 300), num_vertices=50, weights=generator.random(300),
        name="random", duplicates="sum",
    )  # fmt: skip
    program, inputs = trace(algorithm), algorithm.inputs(graph, 5)
    reference = ReferenceRun(program, graph, 5)
    reference.reset(inputs)
    reference.run(100)
    spec = load_plugins().engine(name)
    module, _, attribute = spec.factory.partition(":")
    engine = getattr(importlib.import_module(module), attribute)(schedule_from_options(spec, {}))
    engine.prepare(program, graph, 5, Device(threads=1), Phases())
    engine.reset(inputs)
    assert engine.run(100).settled
    found = compare(program, {"heat": engine.values("heat")}, {"heat": reference.values("heat")})
    assert found.ok, found.detail
    engine.close()


def test_the_plugin_is_one(example):
    plugin = example("example: plugin")
    (engine,), (algorithm,) = plugin.onyx_engines(), plugin.onyx_algorithms()
    assert isinstance(engine, EngineSpec)
    assert isinstance(algorithm, AlgorithmSpec)
    assert schedule_from_options(engine, {"blocks": 3}).blocks == 3


def test_the_python_example_of_the_tutorial_runs():
    tutorial = (ROOT / "docs" / "tutorial.md").read_text()
    source = re.search(r"```python\n(.*?)```", tutorial, re.DOTALL)[1]
    assert "assert " in source
    exec(source, {})


def test_the_query_of_kept_answers_runs(tmp_path, monkeypatch):
    duckdb = pytest.importorskip("duckdb", reason="queries need the extra 'query'")
    query = re.search(r"```sql\n(.*?)```", (ROOT / "docs" / "answers.md").read_text(), re.DOTALL)[1]
    monkeypatch.chdir(tmp_path)
    for cell, answer in {"a": "30 AS vertex, 1.0 AS distance", "b": "7 AS vertex, 2.0 AS distance, 1 AS other"}.items():
        folder = tmp_path / "results" / "sweep" / cell
        folder.mkdir(parents=True)
        duckdb.sql(f"COPY (SELECT {answer}) TO '{folder / 'answer.parquet'}'")
    found = duckdb.sql(query)
    assert found.columns == ["vertex", "distance"]
    assert [(vertex, float(distance)) for vertex, distance in found.fetchall()] == [(7, 2.0), (30, 1.0)]


def test_the_python_example_is_that_of_its_page():
    page = (ROOT / "docs" / "python-api.md").read_text()
    assert f"<!-- example: pagerank -->\n```python\n{block('example: python')}```" in page  # which a test runs
