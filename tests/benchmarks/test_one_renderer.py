"""Kernels that the CUDA renderer writes as C++ with vector extensions agree with the float64 reference."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from harness.algorithms.als import ALS
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.pagerank import PageRank
from harness.graph.generators import rmat
from harness.language.validation import compare
from harness.lowering.cpu import engine
from tests.benchmarks.one_renderer import superstep as superstep_module
from tests.benchmarks.one_renderer.measure import error, operations
from tests.benchmarks.one_renderer.superstep import Superstep, compiled, wheel_compiler

COMPILERS = {"wheel": wheel_compiler(), "host": [host] if (host := shutil.which("c++")) else None}
FOUND = {name: command for name, command in COMPILERS.items() if command}
# Operations of an edge and of a vertex, counted by hand from the formulas.
CASES = [
    (PageRank(), 1, (2, 6)),
    (LabelPropagation(seeds="random"), 32, (64, 64 + 64 + 3 * 32 + 1)),
    (ALS(sides="all", ratings="drawn"), 8, (2 * 8 + 2 * 64, 1 + 64 + 64 + 512 // 3 + 128)),
]


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case[0].name)
def case(request):
    algorithm, features, counts = request.param
    graph = rmat(scale=7, edge_factor=16, symmetric=True, max_weight=4)
    return Superstep(algorithm, graph, features), counts


@pytest.mark.skipif(not FOUND, reason="no C++ compiler: install the wheel ziglang, or c++")
def test_the_kernel_agrees_with_the_reference(case, tmp_path):
    superstep, _ = case
    expected = superstep.expected()
    superstep.result()
    assert np.isnan(superstep.result()).all()
    for name, command in FOUND.items():
        (folder := tmp_path / name).mkdir()
        superstep.load(compiled(superstep.rendered.source, folder, command))()
        values = superstep.result()
        verdict = compare(superstep.setting.program, {superstep.written: values}, {superstep.written: expected})
        assert verdict.ok, f"{name}: {verdict.detail}"
        assert error(values, expected) < 1e-5


@pytest.mark.parametrize("cache_bytes", [1, 1 << 30])
def test_both_kernels_prefetch_or_neither_does(cache_bytes, monkeypatch):
    monkeypatch.setattr(superstep_module, "own_cache_bytes", lambda: cache_bytes)
    monkeypatch.setattr(engine, "own_cache_bytes", lambda: cache_bytes)
    made = Superstep(PageRank(), rmat(scale=7, edge_factor=16, symmetric=True), 8)
    prefetches = ["prefetch<" in made.rendered.source, "are prefetched 32 edges ahead" in made.executor.plan.text]
    assert prefetches == [cache_bytes == 1] * 2


def test_operations_are_those_of_the_formulas(case):
    superstep, (edge, vertex) = case
    assert operations(superstep) == edge * superstep.graph.num_edges + vertex * superstep.graph.num_vertices
