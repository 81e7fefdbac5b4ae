"""Slow inputs are made once for all cells of a problem, and are validated whenever they are opened."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest

from harness.campaign import inputs_cache
from harness.campaign.fingerprint import Fingerprint
from harness.campaign.inputs_cache import inputs_for, read_only, with_hash
from harness.language import Inputs


@pytest.fixture
def made(tmp_path, monkeypatch):
    """Make inputs and count the calls."""
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setattr(inputs_cache, "LEAST_S", 0.0)
    calls = []

    def make():
        calls.append(1)
        arrays = {"seed": np.arange(12, dtype=np.float32).reshape(4, 3), "known": np.array([True, False, True, False])}
        return Inputs(arrays, {"alpha": 0.1, "clamp": True})

    return make, calls


def folders(tmp_path):
    return sorted(path for path in (tmp_path / "inputs").iterdir() if path.is_dir())


def test_inputs_are_made_once_and_mapped(made, tmp_path):
    make, calls = made
    first, second = inputs_for(["a problem"], make), inputs_for(["a problem"], make)
    assert len(calls) == 1
    for found, inputs_hash in (first, second):
        assert inputs_hash == with_hash(make())[1]
        assert dict(found.parameters) == {"alpha": 0.1, "clamp": True}
        for name, array in make().properties.items():
            np.testing.assert_array_equal(found.properties[name], array, strict=True)
            assert not found.properties[name].flags.writeable


def test_other_problems_have_other_inputs(made, tmp_path):
    make, calls = made
    inputs_for(["a problem"], make)
    inputs_for(["another problem"], make)
    assert (len(calls), len(folders(tmp_path))) == (2, 2)


def test_quickly_made_inputs_are_not_stored(made, tmp_path, monkeypatch):
    make, calls = made
    monkeypatch.setattr(inputs_cache, "LEAST_S", 60.0)
    for _ in range(2):
        found, inputs_hash = inputs_for(["a problem"], make)
        assert inputs_hash == with_hash(make())[1]
        assert not any(array.flags.writeable for array in found.properties.values())
    assert (len(calls), folders(tmp_path)) == (4, [])


@pytest.mark.parametrize("file", ["0.npy", "inputs.json"])
def test_damaged_inputs_are_made_again(made, tmp_path, file, caplog):
    make, _ = made
    inputs_for(["a problem"], make)
    (folder,) = folders(tmp_path)
    damaged = bytearray((folder / file).read_bytes())
    damaged[-2] ^= 1
    (folder / file).write_bytes(damaged)
    found, _ = inputs_for(["a problem"], make)
    np.testing.assert_array_equal(found.properties["seed"], make().properties["seed"])
    assert "making them again" in caplog.text
    caplog.clear()
    inputs_for(["a problem"], make)
    assert caplog.text == ""


def test_the_least_recently_used_inputs_are_removed(made, tmp_path, monkeypatch):
    make, _ = made
    inputs_for(["old"], make)
    (old,) = folders(tmp_path)
    monkeypatch.setattr(inputs_cache, "MOST_BYTES", 1)
    kept, _ = inputs_for(["another"], make)  # too large to be stored
    assert folders(tmp_path) == [old]
    monkeypatch.setattr(inputs_cache, "MOST_BYTES", 1 + sum(file.stat().st_size for file in old.iterdir()))
    inputs_for(["new"], make)
    assert len(folders(tmp_path)) == 1
    assert folders(tmp_path) != [old]
    np.testing.assert_array_equal(kept.properties["seed"], make().properties["seed"])


def test_folders_that_another_process_removes_meanwhile_are_no_error(made, tmp_path, monkeypatch):
    make, _ = made
    inputs_for(["old"], make)
    (old,) = folders(tmp_path)
    is_file = Path.is_file

    def then_removed(path):
        found = is_file(path)
        if path.parent == old:
            shutil.rmtree(old, ignore_errors=True)
        return found

    monkeypatch.setattr(Path, "is_file", then_removed)
    monkeypatch.setattr(inputs_cache, "MOST_BYTES", 1 + sum(file.stat().st_size for file in old.iterdir()))
    inputs_for(["new"], make)
    assert not old.exists()


def test_parameters_that_json_changes_are_not_stored(tmp_path, made):
    _, calls = made

    def make():
        calls.append(1)
        return Inputs({}, {"alpha": float("nan")})

    inputs_for(["a problem"], make)
    inputs_for(["a problem"], make)
    assert len(calls) == 2


@pytest.mark.parametrize(
    ("parameters", "stored"),
    [
        ({}, True),
        ({"a": 0.5, "n": 3, "on": True}, True),
        ({"a": float("inf")}, True),
        ({"a": 1e-300, "b": float("nan")}, False),
    ],
)
def test_inputs_are_stored_if_every_parameter_comes_back_as_it_was(tmp_path, made, parameters, stored):
    calls = []

    def make():
        calls.append(1)
        return Inputs({"x": np.arange(3.0)}, dict(parameters))

    for _ in range(2):
        found = inputs_for(["of parameters"], make)[0]
        assert {name: (type(value), repr(value)) for name, value in found.parameters.items()} == {
            name: (type(value), repr(value)) for name, value in parameters.items()
        }
        assert found.properties["x"].tolist() == [0.0, 1.0, 2.0]
    assert len(calls) == (1 if stored else 2)


def test_mapped_inputs_need_no_fingerprint(made):
    from types import SimpleNamespace

    make, _ = made
    empty = SimpleNamespace(arrays=lambda: iter(()))
    problem = SimpleNamespace(inputs=inputs_for(["a problem"], make)[0], graph=empty, start=None)
    assert Fingerprint(problem)._arrays == {}
    problem.inputs = make()
    assert sorted(Fingerprint(problem)._arrays) == ["input known", "input seed"]


def test_a_scalar_of_the_graph_stays_a_scalar():
    kept = read_only(Inputs({"number": np.float32(3.0)})).properties["number"]
    assert (kept.shape, float(kept), kept.flags.writeable) == ((), 3.0, False)


def test_the_hash_of_inputs_has_names_values_types_shapes_and_parameters():
    first = {"a": np.arange(6, dtype=np.int32), "b": np.zeros(2)}
    others = [
        (first, {"rate": 0.25}), (first, {"eta": 0.5}), (first, {}), ({"a": first["a"]}, {"rate": 0.5}),
        ({"a": first["a"], "c": first["b"]}, {"rate": 0.5}), ({**first, "a": first["a"] + 1}, {"rate": 0.5}),
        ({**first, "a": first["a"].astype(np.uint32)}, {"rate": 0.5}),
        ({**first, "a": first["a"].reshape(2, 3)}, {"rate": 0.5}),
    ]  # fmt: skip
    known = with_hash(Inputs(first, {"rate": 0.5}))[1]
    assert with_hash(Inputs({"b": first["b"], "a": first["a"].copy()}, {"rate": 0.5}))[1] == known
    assert len({known, *(with_hash(Inputs(*one))[1] for one in others)}) == 1 + len(others)
