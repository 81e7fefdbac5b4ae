"""Near-far on the emulated device: its kernel gives the values of supersteps."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from engines.onyx.engine import OnyxEngine
from engines.onyx.schedule import OnyxSchedule
from engines.pullbaseline.schedules import SimdxSchedule
from engines.pullbaseline.simdx.engine import SimdxEngine
from engines.pushbaseline.gunrock.engine import GunrockEngine
from engines.pushbaseline.schedules import GunrockSchedule
from harness.contract import No
from harness.device.compilation import Compiled
from harness.emulation.compiler import library
from harness.lowering.cuda import near_far
from tests.emulation.device import ATTRIBUTES, emulate
from tests.engines.near_far import GRAPHS, PROGRAMS, check, scattered

STEPS = GunrockEngine(GunrockSchedule(order="near_far", delta=3.0))


def emulate_near_far(monkeypatch, *, racing=False):
    """Have the kernels of near-far run on the emulated device, with small blocks and pieces."""

    def made(source, headers, _):
        return Compiled(str(library(source, headers, racing=racing)).encode(), "")

    monkeypatch.setattr(near_far, "compiled", made)
    monkeypatch.setattr(near_far, "architecture", lambda _: "sm_90")
    monkeypatch.setattr(near_far, "open_device", lambda _: SimpleNamespace(attributes=ATTRIBUTES))
    monkeypatch.setattr(near_far, "require_memory", lambda _: None)
    monkeypatch.setattr(near_far, "BLOCK", 64)
    monkeypatch.setattr(near_far, "LONG", 40)


@pytest.fixture
def emulated_near_far(emulated, monkeypatch):
    """Return the emulated device, for the kernels of near-far, too."""
    emulate_near_far(monkeypatch)
    return emulated


@pytest.mark.parametrize("name", ["scattered", "hub", "roads"])
@pytest.mark.parametrize("style", [OnyxEngine(OnyxSchedule(order="near_far", delta=3.0)), STEPS])
def test_no_threads_race(name, style, emulated, monkeypatch):
    device = emulate(monkeypatch, racing=True)
    emulate_near_far(monkeypatch, racing=True)
    check(style, "lengths", GRAPHS[name](), 2, device)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("program", "features"), [("lengths", 1), ("lengths", 3), ("smallest edge", 2)])
def test_the_kernel_gives_the_values_of_supersteps(name, program, features, emulated_near_far):
    check(OnyxEngine(OnyxSchedule(order="near_far")), program, GRAPHS[name](), features, emulated_near_far)


@pytest.mark.parametrize("name", GRAPHS)
@pytest.mark.parametrize(("program", "features"), [("lengths", 2), ("smallest edge", 1)])
def test_launches_of_single_steps_give_the_same(name, program, features, emulated_near_far):
    check(GunrockEngine(GunrockSchedule(order="near_far")), program, GRAPHS[name](), features, emulated_near_far)


def test_launches_of_single_steps_do_the_work_of_one_launch(emulated_near_far):
    graph = GRAPHS["roads"]()
    one, many = (
        check(engine, "lengths", graph, 1, emulated_near_far)
        for engine in (
            SimdxEngine(SimdxSchedule(order="near_far", delta=4.0)),
            GunrockEngine(GunrockSchedule(order="near_far", delta=4.0)),
        )
    )
    assert one == many
    assert one["supersteps"] > 8


@pytest.mark.parametrize("program", [name for name in PROGRAMS if name not in ("lengths", "smallest edge")])
def test_other_messages(program, emulated_near_far):
    check(OnyxEngine(OnyxSchedule(order="near_far")), program, scattered(8), 2, emulated_near_far)


@pytest.mark.parametrize("delta", [0.25, 3.0, 1e30])
@pytest.mark.parametrize("seed", range(4))
def test_random_graphs_with_any_delta(seed, delta, emulated_near_far):
    graph = scattered(seed, vertices=60, edges=240)
    check(OnyxEngine(OnyxSchedule(order="near_far", delta=delta)), "lengths", graph, 2, emulated_near_far, seed)


def test_a_small_delta_visits_fewer_edges(emulated_near_far):
    roads = GRAPHS["roads"]()
    narrow, wide = (
        check(OnyxEngine(OnyxSchedule(order="near_far", delta=delta)), "lengths", roads, 1, emulated_near_far)
        for delta in (1.0, 1e30)
    )
    assert narrow["edges"] < wide["edges"]
    assert narrow["thresholds"] > wide["thresholds"] == 1


def test_a_full_collection_of_a_block_is_appended_directly(emulated_near_far, monkeypatch):
    text = near_far.NearFarCudaEngine.source
    monkeypatch.setattr(
        near_far.NearFarCudaEngine, "source", lambda self: text(self).replace("ROOM = 1024", "ROOM = 3")
    )
    check(OnyxEngine(OnyxSchedule(order="near_far")), "lengths", GRAPHS["hub"](), 2, emulated_near_far)


def test_the_pieces_of_hubs_are_those_of_their_edges(monkeypatch):
    monkeypatch.setattr(near_far, "LONG", 40)
    graph = GRAPHS["skewed"]()
    degrees = np.diff(graph.csr.offsets)
    assert near_far.pieces_of(graph.facts) == sum(-(-int(one) // 40) for one in degrees[degrees > 40]) > 0


def test_more_items_than_their_numbers_are_refused(emulated_near_far, monkeypatch):
    monkeypatch.setattr(near_far, "MOST_ITEMS", 500)
    answer = OnyxEngine(OnyxSchedule(order="near_far")).supports(
        PROGRAMS["lengths"], scattered(1), 3, emulated_near_far
    )
    assert answer == No("order=near_far numbers vertices times features up to 500; take fewer features")
