"""Hooking on the emulated device: its kernels give the values of components."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from engines.onyx.cuda_hooking import HookingCudaEngine
from engines.onyx.engine import OnyxEngine
from harness.contract import Phases
from harness.device.compilation import Compiled
from harness.emulation.arrays import DeviceArray, allocated
from harness.emulation.compiler import library
from harness.language import Inputs
from tests.engines.test_hooking import GRAPHS, HOOKED, check, expected, flood


@pytest.fixture
def hooking_emulated(emulated, monkeypatch):
    """Return the emulated device, for the kernels of hooking, too."""

    def made(source, headers, _):
        return Compiled(str(library(source, headers)).encode(), "")

    here = "engines.onyx.cuda_hooking"
    monkeypatch.setattr(f"{here}.compiled", made)
    monkeypatch.setattr(f"{here}.architecture", lambda _: "sm_90")
    monkeypatch.setattr(f"{here}.open_device", lambda _: SimpleNamespace())
    monkeypatch.setattr(f"{here}.require_memory", lambda _: None)
    monkeypatch.setattr(f"{here}.BLOCK", 64)
    return emulated


@pytest.mark.parametrize("reducer", ["min", "max"])
@pytest.mark.parametrize("name", GRAPHS)
def test_the_kernels_give_the_values_of_components(name, reducer, hooking_emulated):
    check(GRAPHS[name](), reducer, 3, hooking_emulated)


def test_an_engine_is_prepared_again_for_another_problem(hooking_emulated):
    engine = OnyxEngine(HOOKED).on(hooking_emulated)
    for reducer, name in (("min", "grid"), ("max", "scattered"), ("max", "mesh")):
        graph = GRAPHS[name]()
        engine.prepare(flood(reducer), graph, 1, hooking_emulated, Phases())
        own = np.random.default_rng(0).integers(-9, 9, (graph.num_vertices, 1)).astype(np.float32)
        engine.reset(Inputs({"own": own}))
        engine.run(1)
        assert np.array_equal(engine.values("x"), expected(graph, own, reducer))
    engine.close()


def test_values_before_a_run_may_be_on_the_device(hooking_emulated):
    engine, graph = OnyxEngine(HOOKED).on(hooking_emulated), GRAPHS["mesh"]()
    engine.prepare(flood("min"), graph, 1, hooking_emulated, Phases())
    own = np.random.default_rng(0).integers(-9, 9, (graph.num_vertices, 1)).astype(np.float32)
    engine.reset(Inputs({"own": allocated(own)}))
    engine.run(1)
    assert np.array_equal(engine.values("x"), expected(graph, own, "min"))
    engine.close()


@pytest.mark.parametrize("features", [1, 3, 8])
def test_the_memory_is_that_of_the_arrays_which_a_closed_engine_releases(features, hooking_emulated):
    """Values are on the device twice: before a run, and as :meth:`device_values` copies them."""
    graph, phases, engine = GRAPHS["mesh"](), Phases(), HookingCudaEngine(HOOKED)
    engine.prepare(flood("min"), graph, features, hooking_emulated, phases)
    assert list(phases.seconds) == ["compile", "transform", "load", "upload"]
    own = np.random.default_rng(0).integers(-9, 9, (graph.num_vertices, features)).astype(np.float32)
    engine.reset(Inputs({"own": own}))
    engine.run(1)
    values = engine.device_values("x")
    assert np.array_equal(values.get(), expected(graph, own, "min"))
    held = [one for one in vars(engine).values() if isinstance(one, DeviceArray)]
    assert engine.bytes_needed(graph, 4 * features) == sum(one.nbytes for one in [*held, values])
    store = engine._store
    engine.close()
    assert not store._arrays
    assert not [one for one in vars(engine).values() if isinstance(one, DeviceArray)]
    engine.close()
