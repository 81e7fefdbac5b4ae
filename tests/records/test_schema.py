from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import pytest

from harness.records import RECORD_FILE, SCHEMA_VERSION, Mark, RecordError, read_record, validate, write_record
from harness.records.floor import Rates, Work, floor_of
from harness.records.schema import json_schema
from harness.records.versions import upgraded
from tests.records.samples import accurate_record, record, warm_record

PUBLISHED = Path(__file__).parents[2] / "docs" / "record-schema.json"
KEPT = sorted((Path(__file__).parent / "versions").glob("*.json"))


def test_the_published_schema_is_the_one_in_force():
    message = "it is out of date: python -m harness.records schema > docs/record-schema.json"
    assert json.loads(PUBLISHED.read_text()) == json_schema(), message


def test_the_command_prints_the_schema():
    finished = subprocess.run(
        [sys.executable, "-m", "harness.records", "schema"], capture_output=True, text=True, check=True
    )
    assert finished.stdout == PUBLISHED.read_text()


def test_the_schema_names_and_describes_every_field():
    fields = json_schema()["$defs"]["Record"]
    assert set(fields["required"]) == set(fields["properties"]) == set(record())
    assert "UTC" in fields["properties"]["started"]["description"]
    for name, field in json_schema()["$defs"]["Warm"]["properties"].items():
        assert len(field["description"].split()) >= 4, name


def test_the_schema_knows_numbers_that_are_not_finite():
    made = json_schema()["$defs"]
    for field in (
        made["Record"]["properties"]["metrics"]["additionalProperties"], made["Validation"]["properties"]["error"],
        made["Accuracy"]["properties"]["error"], made["Accuracy"]["properties"]["error_before"],
    ):  # fmt: skip
        assert field["anyOf"] == [{"type": "number"}, {"enum": ["Infinity", "-Infinity", "NaN"]}]
        assert "type" not in field


def test_an_error_that_was_null_in_version_2_was_infinite():
    kept = json.loads((PUBLISHED.parents[1] / "tests" / "records" / "versions" / "2-ok.json").read_text())
    kept["validation"]["error"] = None
    assert upgraded(kept)["validation"]["error"] == float("inf")


def test_there_is_a_kept_sample_of_every_version():
    assert {int(path.name.split("-")[0]) for path in KEPT} == set(range(1, SCHEMA_VERSION + 1))


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_record_of_any_version_is_read_as_one_of_the_present(path):
    kept = json.loads(path.read_text())
    assert kept["schema"] == int(path.name.split("-")[0])
    read = read_record(path)
    assert read["schema"] == SCHEMA_VERSION
    for name in ("cell", "labels", "reason", "phases", "supersteps"):
        assert read[name] == kept[name]
    if kept["solve"]:
        assert read["solve"]["samples"] == kept["solve"]["samples"]


def test_a_record_of_version_1_gets_the_marks_it_would_have_had():
    read = read_record(KEPT[1])
    assert read["environment"]["other_cores"] > 0.2
    assert (read["round"], read["marks"], read["solve"]["stopped"]) == (1, [Mark.BUSY], "precise")
    assert read["solve"]["rounds"] is None


def test_intervals_of_earlier_versions_get_the_confidence_that_their_samples_allow():
    kept = json.loads((PUBLISHED.parents[1] / "tests" / "records" / "versions" / "6-ok.json").read_text())
    few = {**kept["solve"], "samples": [1.0, 2.0, 3.0], "confidence": 0.95}
    read = upgraded({**kept, "solve": few})
    assert (read["solve"]["low"], read["solve"]["high"], read["solve"]["confidence"]) == (1.0, 3.0, 0.75)
    assert read["accuracy"] is None


def test_edges_examined_had_another_name_in_version_6():
    kept = json.loads((PUBLISHED.parents[1] / "tests" / "records" / "versions" / "6-ok.json").read_text())
    warm = dict(warm_record()["warm"])
    earlier = {"arcs_examined": warm.pop("edges_examined"), **warm}
    assert upgraded({**kept, "warm": earlier})["warm"]["edges_examined"] == earlier["arcs_examined"]


def test_the_start_of_a_warm_run_and_why_counts_are_missing_had_another_name_in_version_7():
    kept = json.loads((PUBLISHED.parents[1] / "tests" / "records" / "versions" / "7-ok.json").read_text())
    memory, warm = {**kept["memory"], "told": "no counters: no GPU"}, dict(warm_record()["warm"])
    earlier = {"told": warm.pop("start"), **warm}
    read = upgraded({**kept, "memory": memory, "warm": earlier})
    assert read["warm"] == warm_record()["warm"]
    assert read["memory"] == {"model": memory["model"], "counters": None, "reason": "no counters: no GPU"}


def test_an_accuracy_without_an_earlier_superstep_is_kept(tmp_path):
    accuracy = {
        "superstep": 1,
        "tolerance": None,
        "error": 0.0,
        "error_before": math.nan,
        "bound": 1e-4,
        "against": "a loop",
    }
    write_record(tmp_path, record(accuracy={**accuracy, "solve": record()["solve"]}))
    read = read_record(tmp_path / RECORD_FILE)["accuracy"]
    assert math.isnan(read["error_before"])
    assert read["solve"] == record()["solve"]


@pytest.mark.parametrize(
    ("version", "message"),
    [
        (SCHEMA_VERSION + 1, "install a newer one"),
        (0, "not a version"),
        (None, "not a version"),
        (True, "not a version"),
    ],
)
def test_an_unknown_version_is_an_error(version, message):
    with pytest.raises(RecordError, match=message):
        upgraded({**record(), "schema": version})


def test_half_a_record_of_an_earlier_version_is_refused():
    with pytest.raises(RecordError, match="not a record of version 1.*environment"):
        upgraded({"schema": 1})


@pytest.mark.parametrize("mark", Mark)
def test_every_mark_is_explained(mark):
    assert len(mark.meaning.split()) > 5
    assert validate(record(marks=[mark]))["marks"] == [mark]


_LOADS = {"requests": 1.0, "sectors": 4.0, "bytes": 128.0}
_ATOMICS = {"requests": 0.0, "sectors": 0.0, "transactions": 0.0}
_KERNEL = {"load_efficiency": None, "loads": _LOADS, "atomics": _ATOMICS}
_RATES = Rates(levels=[(0, 1e6)], on_chip=0, adds=None, wide_adds=None, launch=None)
PARTS = {
    "solve": record()["solve"],
    "validation": record()["validation"],
    "accuracy": accurate_record("fast", (1.0, 0.9, 1.1), 3, [0.5] * 7)["accuracy"],
    "resolution": {"requested": {"width": 1}, "resolved": {"width": 2}, "reason": "too narrow"},
    "warm": warm_record()["warm"],
    "memory": {"model": {**_KERNEL, "source": "a count", "share": 1.0, "kernels": {"k": _KERNEL}}, "counters": None,
               "reason": ""},
    "floor": floor_of(Work(bytes=[500], adds=0, wide=False, launches=1), _RATES),
    "transfers": {"visited_bytes": 8, "moved_bytes": {"read": 16}, "amplification": 2.0, "requests": {},
                  "subgraphs": {}, "seconds": {"values": 0.5}, "data": {"useful": [8]}},
    "link": {"copy": 5e10, "in_place": {"32": 1e10}, "read": None, "run_bytes": 16},
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS)
def test_a_part_of_a_record_has_the_fields_of_the_schema_and_no_others(name):
    part = PARTS[name]
    assert validate(record(**{name: part}))[name] == part
    with pytest.raises(RecordError, match=f"field '{name}' lacks nothing and has the unknown \\['later'\\]"):
        record(**{name: {**part, "later": 1}})
    for field in part:
        with pytest.raises(RecordError, match=f"missing required field `{field}`"):
            record(**{name: {known: value for known, value in part.items() if known != field}})


def test_every_part_of_a_record_that_may_be_null_is_checked():
    made = json_schema()["$defs"]
    optional = {
        name: one["$ref"].rpartition("/")[2]
        for name, field in made["Record"]["properties"].items()
        for one in field.get("anyOf", ())
        if "$ref" in one
    }
    assert set(optional) == set(PARTS)
    assert [name for name, kind in optional.items() if made[kind].get("additionalProperties") is not False] == []


@pytest.mark.parametrize(("scale", "width", "stopped"), [
    (1000.0, 0.05, "budget"), (1000.0, 0.25, "precise"), (0.001, 0.05, "budget"), (0.001, 0.25, "precise"),
])  # fmt: skip
def test_the_width_that_stopped_a_record_of_version_1_is_relative(scale, width, stopped):
    """The interval is a fifth of the median, in seconds of any size."""
    kept = json.loads(KEPT[1].read_text())
    solve = {**kept["solve"], "low": 0.9 * scale, "median": scale, "high": 1.1 * scale}
    config = {**kept["config"], "measure": {**kept["config"]["measure"], "width": width}}
    assert upgraded({**kept, "solve": solve, "config": config})["solve"]["stopped"] == stopped
