"""Options for problems larger than a device's memory, panels of features, and engines for kinds of devices."""

from __future__ import annotations

import dataclasses
from typing import ClassVar

import numpy as np
import pytest

from harness.contract import Device, No, RunStatistics, ScheduleError, Superstep, Transfers
from harness.edge_places import AUTO, EdgeOptions, Place, Placement
from harness.options import options_in
from harness.panels.panel import Panel, largest_panel, panels_of, together
from harness.per_device import PerDevice


@pytest.mark.parametrize(
    ("options", "placement", "in_parts"),
    [
        ({}, Placement(), False),
        ({"edges": "resident"}, Placement(Place.RESIDENT), False),
        ({"edges": "mapped"}, Placement(Place.MAPPED), False),
        ({"edges": "mapped", "cache_mb": 1.5}, Placement(Place.MAPPED, cache_bytes=1_500_000), True),
        ({"edges": "streamed"}, Placement(Place.STREAMED, 32_000_000), True),
        ({"edges": "streamed", "window_mb": 0.5, "codes": "plain"}, Placement(Place.STREAMED, 500_000), True),
        ({"edges": "streamed", "codes": "packed"}, Placement(Place.STREAMED, 32_000_000, packed=True), True),
        ({"edges": "managed"}, Placement(Place.MANAGED, advice="read_mostly"), False),
        *(
            ({"edges": "managed", "advice": advice}, Placement(Place.MANAGED, advice=advice), False)
            for advice in ("read_mostly", "accessed_by", "prefetch", "none")
        ),
    ],
)
def test_the_place_that_a_schedule_selects(options, placement, in_parts):
    schedule = EdgeOptions(**options)
    assert Placement.of(schedule) == placement
    assert schedule.in_parts is in_parts
    assert Placement.of(object()) == Placement()


def test_places_and_advice_are_the_known_ones_only():
    values = {item.name: item.values for item in options_in(EdgeOptions)}
    assert values == {
        "edges": ("resident", "mapped", "streamed", "managed"), "window_mb": (),
        "advice": ("read_mostly", "accessed_by", "prefetch", "none"), "cache_mb": (), "codes": ("plain", "packed"),
        "panel": (),
    }  # fmt: skip


STREAMED = "whose windows are unpacked before kernels read them; edges={} are read where they are; omit codes"


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"window_mb": 4.0}, "window_mb=4 applies only to edges=streamed; omit it"),
        ({"window_mb": 0.5, "edges": "mapped"}, "window_mb=0.5 applies only to edges=streamed; omit it"),
        ({"codes": "plain"}, f"codes=plain applies only to edges=streamed, {STREAMED.format('resident')}"),
        (
            {"codes": "packed", "edges": "managed"},
            f"codes=packed applies only to edges=streamed, {STREAMED.format('managed')}",
        ),
        ({"advice": "none"}, "advice=none applies only to edges=managed; omit it"),
        ({"advice": "none", "edges": "streamed"}, "advice=none applies only to edges=managed; omit it"),
        ({"cache_mb": 2.0}, "cache_mb=2 applies only to edges=mapped; omit it"),
        ({"cache_mb": 2.0, "edges": "streamed"}, "cache_mb=2 applies only to edges=mapped; omit it"),
        ({"panel": "all"}, "panel='all' is a number of features; give an integer, or auto"),
        ({"panel": 1.5}, "panel=1.5 is a number of features; give an integer, or auto"),
        ({"panel": True}, "panel=True is a number of features; give an integer, or auto"),
    ],
)
def test_options_of_another_place_are_refused(options, message):
    with pytest.raises(ScheduleError) as met:
        EdgeOptions(**options)
    assert str(met.value) == message


@pytest.mark.parametrize(
    ("options", "filled"),
    [
        ({}, {"edges": "resident"}),
        ({"edges": "mapped", "cache_mb": 2.0}, {"edges": "mapped", "cache_mb": 2.0}),
        ({"edges": "streamed"}, {"edges": "streamed", "window_mb": 32, "codes": "plain"}),
        (
            {"edges": "streamed", "window_mb": 4.0, "codes": "packed"},
            {"edges": "streamed", "window_mb": 4.0, "codes": "packed"},
        ),
        ({"edges": "managed"}, {"edges": "managed", "advice": "read_mostly"}),
        (
            {"edges": "managed", "advice": "prefetch", "panel": AUTO},
            {"edges": "managed", "advice": "prefetch", "panel": AUTO},
        ),
    ],
)
def test_options_that_apply_are_filled_in(options, filled):
    known = {
        name: value
        for name, value in dataclasses.asdict(EdgeOptions(**options).with_place()).items()
        if value is not None
    }
    assert known == filled


def test_panels_cover_all_features_and_the_last_one_is_repeated():
    panels = panels_of(5, 2)
    assert panels == (Panel(0, 2, 2), Panel(2, 4, 2), Panel(4, 5, 2))
    values = np.arange(15).reshape(3, 5)
    assert [panel.of(values).tolist()[0] for panel in panels] == [[0, 1], [2, 3], [4, 4]]
    into = np.full((3, 5), -1)
    for panel in panels:
        panel.put(into, panel.of(values))
    assert (into == values).all()
    assert panels_of(4, 4) == (Panel(0, 4, 4),)
    assert np.shares_memory(panels[0].of(values), values)


@pytest.mark.parametrize(
    ("features", "most", "width"),
    [
        (10, 10, 10),
        (10, 100, 10),
        (10, 9, 8),
        (10, 5, 5),
        (10, 4, 4),
        (10, 3, 3),
        (10, 1, 1),
        (10, 0, 1),
        (64, 33, 32),
        (64, 31, 24),
        (100, 50, 50),
        (100, 52, 52),
        (7, 6, 4),
        (7, 4, 4),
        (7, 3, 3),
    ],
)
def test_the_largest_panel_is_as_narrow_as_its_number_allows(features, most, width):
    asked = []
    assert largest_panel(features, lambda one: asked.append(one) or one <= most) == width
    assert len(asked) <= 8


def test_the_statistics_of_panels_together():
    one = RunStatistics(True, [Superstep(5, 10, "push"), Superstep(2, 3, "pull")], Transfers(8, {"read": 4}))
    other = RunStatistics(True, [Superstep(7, 1, "pull")])
    found = together([one, RunStatistics(True), other])
    assert found == RunStatistics(True, [Superstep(7, 11, "push"), Superstep(2, 3, "pull")], Transfers(8, {"read": 4}))
    assert together([one, RunStatistics(False)]).settled is False
    twice = together([one, dataclasses.replace(one, transfers=Transfers(1, {"read": 2, "copied": 3}))])
    assert twice.transfers == Transfers(9, {"read": 6, "copied": 3})
    assert together([other]).transfers is None


class OnlyCuda(PerDevice):
    engines: ClassVar = {"cuda": "nowhere:Engine"}


def test_a_device_without_code_is_refused_by_name():
    engine = OnlyCuda(EdgeOptions())
    assert engine.supports(None, None, 1, Device("cpu")) == No("this engine has no cpu code; it runs on: cuda")
    with pytest.raises(AssertionError, match=r"prepare\(\) comes first"):
        engine.run(1)
    engine.close()
