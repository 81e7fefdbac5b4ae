"""Kept figures of a device: every part of the device's identity, varied by itself, has figures of its own."""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from harness.contract import Device
from harness.device import figures
from harness.device.figures import figures_of, known_figures

CPU, CUDA = Device("cpu", threads=2), Device("cuda")


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a machine whose parts can be changed; its cache is empty."""
    driver = tmp_path / "version"
    driver.write_text("driver 1")
    made = SimpleNamespace(model="a processor", cores={0, 1}, uuid="GPU-1", driver=driver, folder=tmp_path / "figures")
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setattr(figures, "cpu_model", lambda: made.model)
    monkeypatch.setattr(figures.os, "sched_getaffinity", lambda _: made.cores)
    monkeypatch.setattr(figures, "describe", lambda index: SimpleNamespace(uuid=f"{made.uuid}/{index}", name="a card"))
    monkeypatch.setattr(figures, "_DRIVER", driver)
    return made


def unread():
    pytest.fail("measured again")


CHANGES = {
    "model": lambda machine: setattr(machine, "model", "another processor"),
    "cores": lambda machine: setattr(machine, "cores", {0, 2}),
    "fewer cores": lambda machine: setattr(machine, "cores", {0}),
    "uuid": lambda machine: setattr(machine, "uuid", "GPU-2"),
    "driver": lambda machine: machine.driver.write_text("driver 2"),
    "no driver": lambda machine: machine.driver.unlink(),
}


@pytest.mark.parametrize(
    ("device", "change", "name", "after"),
    [
        (CPU, "name", "b", CPU),
        (CPU, "threads", "a", Device("cpu", threads=3)),
        (CPU, "model", "a", CPU),
        (CPU, "cores", "a", CPU),
        (CPU, "fewer cores", "a", CPU),
        (CPU, "kind", "a", CUDA),
        (CUDA, "name", "b", CUDA),
        (CUDA, "index", "a", Device("cuda", index=1)),
        (CUDA, "uuid", "a", CUDA),
        (CUDA, "driver", "a", CUDA),
        (CUDA, "no driver", "a", CUDA),
        (CUDA, "kind", "a", CPU),
    ],
    ids=lambda value: value.kind if isinstance(value, Device) else value,
)
def test_figures_of_another_device_are_not_used_and_do_not_replace_those_of_the_first(
    machine, device, change, name, after
):
    assert figures_of("a", device, lambda: {"rate": 1}) == (("rate", 1.0),)
    before = vars(machine).copy()
    CHANGES.get(change, lambda _: None)(machine)
    assert known_figures(name, after) is None
    assert figures_of(name, after, lambda: {"rate": 2}) == (("rate", 2.0),)
    assert known_figures(name, after) == (("rate", 2.0),)
    vars(machine).update(before)
    machine.driver.write_text("driver 1")
    assert figures_of("a", device, unread) == (("rate", 1.0),)


@pytest.mark.parametrize(
    ("device", "model"),
    [(CPU, "a processor, threads 2"), (Device(threads=7), "a processor, threads 7"), (CUDA, "a card")],
)
def test_the_kept_file_has_the_device_and_its_figures_in_their_order(machine, device, model):
    measured = {"b": 2, "a": 0.125, "c": 1e-9}
    found = figures_of("some", device, lambda: measured)
    assert found == (("b", 2.0), ("a", 0.125), ("c", 1e-9)) == figures_of("some", device, unread)
    [file] = machine.folder.glob("some-*.json")
    assert json.loads(file.read_text()) == {"device": model, "figures": measured}


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", "{}", '{"figures": 1}', '{"figures": {"rate": "fast"}}', '{"figures": {"a": null}}']
)
def test_a_damaged_file_is_measured_again(machine, text):
    figures_of("some", CPU, lambda: {"rate": 1})
    [file] = machine.folder.iterdir()
    file.write_text(text)
    assert known_figures("some", CPU) is None
    assert figures_of("some", CPU, lambda: {"rate": 3}) == (("rate", 3.0),) == known_figures("some", CPU)


def test_a_measurement_that_fails_keeps_nothing(machine):
    def fail():
        raise OSError("no clock")

    with pytest.raises(OSError, match="no clock"):
        figures_of("some", CPU, fail)
    assert known_figures("some", CPU) is None
    assert figures_of("some", CPU, lambda: {"rate": 1}) == (("rate", 1.0),)


@pytest.mark.parametrize(("sizes", "shared"), [((), 0), (((1, 32), (2, 512), (3, 128)), 512), (((3, 7),), 7)])
def test_the_shared_bytes_of_the_cache_are_the_largest(monkeypatch, sizes, shared):
    monkeypatch.setattr(figures, "cache_sizes", lambda: sizes)
    assert figures.cache_bytes() == shared
