"""Each step from one version of a record to the next, field by field."""

from __future__ import annotations

import math

import pytest

from harness.records import SCHEMA_VERSION, NewerRecord, RecordError
from harness.records.versions import _STEPS, upgraded
from tests.records.samples import record


def test_every_earlier_version_has_a_step():
    assert sorted(_STEPS) == list(range(1, SCHEMA_VERSION))


@pytest.mark.parametrize(
    ("solve", "cores", "marks", "stopped"),
    [
        ({"low": 1.0, "high": 1.25, "median": 1.0}, 0.2, [], "precise"),
        ({"low": 1.0, "high": 1.251, "median": 1.0}, 0.21, ["busy"], "budget"),
        ({"low": 2.0, "high": 2.5, "median": 2.0}, None, [], "precise"),
        (None, 0.0, [], None),
    ],
)
def test_version_2_has_rounds_marks_and_why_the_measurement_stopped(solve, cores, marks, stopped):
    earlier = {"environment": {"other_cores": cores}, "solve": solve, "config": {"measure": {"width": 0.25}}}
    found = _STEPS[1](earlier)
    assert (found["round"], found["marks"]) == (1, marks)
    if solve is None:
        assert found["solve"] is None
    else:
        assert found["solve"] == {**solve, "stopped": stopped, "rounds": None}
    unknown = _STEPS[1]({**earlier, "config": {}})
    assert solve is None or unknown["solve"]["stopped"] == "budget"


def test_version_3_has_infinities_and_the_method_of_validation():
    earlier = {"metrics": {"a": None, "b": 0.5}, "validation": {"error": None, "ok": False}}
    found = _STEPS[2](earlier)
    assert math.isnan(found["metrics"]["a"])
    assert found["metrics"]["b"] == 0.5
    assert found["validation"] == {"error": math.inf, "ok": False, "against": "the float64 reference"}
    right = _STEPS[2]({"metrics": {}, "validation": {"error": 0.25, "ok": True}})
    assert right["validation"]["error"] == 0.25
    assert _STEPS[2]({"metrics": {}, "validation": None})["validation"] is None


def test_later_versions_add_fields_without_a_value():
    assert _STEPS[3]({"a": 1}) == {"a": 1, "warm": None}
    assert _STEPS[4]({"a": 1}) == {"a": 1, "memory": None}
    assert _STEPS[5]({"a": 1}) == {"a": 1}
    assert _STEPS[6]({"warm": None, "solve": None}) == {
        "warm": None,
        "solve": None,
        "accuracy": None,
        "resolution": None,
    }


def test_version_7_has_the_exact_confidence_of_both_times():
    samples = {"samples": [3.0, 1.0, 2.0], "low": 9.0, "high": 9.0, "median": 2.0}
    found = _STEPS[6]({"warm": {"arcs_examined": 4, "kind": "delete", "cold": samples}, "solve": samples})
    exact = {**samples, "low": 1.0, "high": 3.0, "confidence": 0.75}
    assert found["solve"] == exact
    assert found["warm"] == {"edges_examined": 4, "kind": "delete", "cold": exact}


def test_version_8_has_other_names():
    found = _STEPS[7]({"warm": {"told": "cold", "seed": 1}, "memory": {"told": "no GPU", "model": None}})
    assert found == {"warm": {"start": "cold", "seed": 1}, "memory": {"reason": "no GPU", "model": None}}
    assert _STEPS[7]({"warm": None, "memory": None}) == {"warm": None, "memory": None}


LATE = ("floor", "host_bytes", "metrics_by_superstep", "lost_updates", "transfers", "link", "choices")


def test_fields_that_came_without_a_version_are_added():
    present = record()
    early = {name: value for name, value in present.items() if name not in LATE}
    found = upgraded(early)
    assert {name: found[name] for name in LATE} == {
        "floor": None,
        "host_bytes": None,
        "metrics_by_superstep": {},
        "lost_updates": None,
        "transfers": None,
        "link": None,
        "choices": [],
    }
    assert upgraded(present) == present
    transfers = {"visited_bytes": 1, "seconds": {"a": 1.0}}
    assert upgraded({**present, "transfers": transfers})["transfers"] == {**transfers, "data": {}}
    assert upgraded({**present, "transfers": {"visited_bytes": 1}})["transfers"]["seconds"] == {}


@pytest.mark.parametrize("version", [0, -1, None, "7", True, 1.0])
def test_a_version_is_a_number_from_1(version):
    with pytest.raises(RecordError, match="which is not a version of a record"):
        upgraded({"schema": version})


def test_a_newer_version_needs_a_newer_harness():
    with pytest.raises(NewerRecord) as met:
        upgraded({"schema": SCHEMA_VERSION + 1})
    known = f"this harness knows versions up to {SCHEMA_VERSION}; install a newer one"
    assert str(met.value) == f"field 'schema' is {SCHEMA_VERSION + 1}, and {known}"


@pytest.mark.parametrize("version", [1, 2, 6, 7])
def test_half_a_record_is_refused_with_its_version(version):
    with pytest.raises(RecordError, match=f"this is not a record of version {version}: KeyError: "):
        upgraded({"schema": version})
