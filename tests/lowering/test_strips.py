"""Updates of long rows in strips: the same values as whole rows, and what strips cannot express."""

from __future__ import annotations

import numpy as np
import pytest

from engines.lonestar.cpu_engine import LonestarCpuEngine
from engines.lonestar.schedule import LonestarSchedule
from harness.contract import Device, Phases
from harness.graph.generators import random_ratings
from harness.language import Inputs, K, dot, largest, maximum, mean, normalize, sqrt, total, where
from harness.language.reference import ReferenceRun
from harness.lowering.cpu import strips as strips_module
from harness.lowering.cpu.strips import AVX2_LANES, AVX512_LANES, WHOLE, Strips, strips_of, updated_lanes
from tests.language.programs import program_of


@pytest.mark.parametrize("features", [1, 8, 33, 40, 128, 255])
@pytest.mark.parametrize("lanes", [8, 32])
def test_strips_have_every_feature_once(features, lanes):
    found = strips_of(features, lanes)
    starts = [strips.start + number * strips.lanes for strips in found for number in range(strips.count)]
    lengths = [strips.lanes for strips in found for _ in range(strips.count)]
    assert sum(lengths) == features
    assert all(strips.lanes and strips.count for strips in found)
    assert starts == [sum(lengths[:i]) for i in range(len(lengths))]
    assert max(lengths) <= lanes
    assert strips_of(40, 32) == [Strips(0, 32, 1), Strips(32, 8, 1)]


def chained(src, dst, graph):
    """Reduce reductions, which takes three passes, and choose a row by a scalar and features by a row."""
    error = 0.5 - dot(src.x, dst.x)
    down = error * dst.x - 0.1 * src.x
    size = sqrt(1.0 + mean(down * down))
    share = total(src.x * where(graph.superstep > 0, down, src.x)) / 10.0
    bent = where(down > 0.0, down, 0.5 * down)
    return {
        "src": {"x": src.x + 0.1 / size * down, "n": src.n + share},
        "dst": {"x": dst.x + graph.rate * (error + bent)},
    }


def extremes(src, dst, graph):
    return {
        "src": {"x": maximum(src.x, -0.5) * 0.9},
        "dst": {"x": where(dst.x > src.x, dst.x, 0.5 * src.x), "n": src.n},
    }


def normalised(src, dst, graph):
    return {"src": {"x": normalize(src.x + dst.x, "l2")}, "dst": {"n": dst.n + 1.0}}


def stepped(update):
    def build(p, self):
        p.graph("rate")
        p.vertex("seed", K)
        p.vertex("x", K, start="seed")
        p.vertex("n", start=0.0)
        p.vertex("pair", (2,), start=0.5)
        p.over_edges(update="both")(update)
        p.repeat(2)
        p.output("x", bound=1e-5)
        p.output("n", bound=1e-5)

    return program_of(build)


@pytest.mark.short_run(rows=1, always="chained-33")
@pytest.mark.parametrize(
    ("features", "lanes"), [(WHOLE, AVX2_LANES), (WHOLE + 1, AVX512_LANES), (100, AVX2_LANES), (100, AVX512_LANES)]
)
@pytest.mark.parametrize("update", [chained, extremes, normalised])
def test_values_are_those_of_float64(update, features, lanes, monkeypatch):
    check_values(update, features, lanes, monkeypatch)


def check_values(update, features, lanes, monkeypatch):
    """Compare the values of an update of rows in strips of some lanes with the float64 reference."""
    monkeypatch.setattr(strips_module, "updated_lanes", lambda: lanes)
    program, graph = stepped(update), random_ratings(users=30, items=20, num_ratings=200, seed=2)
    engine = LonestarCpuEngine(LonestarSchedule(order="levels", shuffle=False))
    engine.prepare(program, graph, features, Device(threads=1), Phases())
    seed = np.random.default_rng(0).uniform(-0.3, 0.3, (graph.num_vertices, features)).astype(np.float32)
    inputs = Inputs({"seed": seed, "rate": np.float32(0.02)})
    engine.reset(inputs)
    engine.run(2)
    exact = ReferenceRun(program, graph, features)
    exact.reset(inputs)
    exact.run(2)
    for name in ("x", "n"):
        np.testing.assert_allclose(engine.values(name), exact.values(name), rtol=2e-5, atol=2e-6)
    in_strips = features > WHOLE and update is not normalised
    assert ("for strip" in engine.explain()) == in_strips
    assert (f"_load{lanes}(vertex_x" in engine.explain()) == in_strips
    assert ("not updated in strips, which have no normalize" in engine.explain()) == (
        features > WHOLE and update is normalised
    )


def one_product(src, dst, graph):
    return {"src": {"x": src.x - dot(src.x, dst.x) * dst.x}, "dst": {"n": dst.n + 1.0}}


def largest_of_row(src, dst, graph):
    return {"src": {"x": src.x / largest(dst.x)}, "dst": {"n": dst.n + 1.0}}


def scaled_by_a_pair(src, dst, graph):
    return {"src": {"x": src.x * total(src.pair * dst.pair)}, "dst": {"n": dst.n + 1.0}}


@pytest.mark.parametrize(
    ("update", "passes", "missing"),
    [(extremes, 1, ""), (one_product, 2, ""), (chained, 3, ""), (normalised, 0, "normalize"),
     (largest_of_row, 0, "reduce_max"), (scaled_by_a_pair, 0, "mul of another shape than the rows")],
)  # fmt: skip
def test_there_is_a_pass_for_each_reduction_that_waits_for_another(update, passes, missing):
    program, graph = stepped(update), random_ratings(users=30, items=20, num_ratings=200, seed=2)
    engine = LonestarCpuEngine(LonestarSchedule(order="levels", shuffle=False))
    engine.generate(program, graph, 96, Device(threads=1))  # whole strips of any length
    shown = engine.explain()
    assert shown.count("for strip") == passes
    assert (f"not updated in strips, which have no {missing}" in shown) == bool(missing)
    assert ("not updated in strips" in shown) == bool(missing)


@pytest.mark.parametrize(("features", "lanes"), [("+avx2,+avx512f,+avx512vl", 16), ("+avx2,-avx512vl", 8)])
def test_a_strip_that_is_written_has_the_lanes_of_a_register(features, lanes, monkeypatch):
    monkeypatch.setenv("NUMBA_CPU_FEATURES", features)
    assert updated_lanes() == lanes
