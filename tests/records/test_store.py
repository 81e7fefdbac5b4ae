from __future__ import annotations

import json
import math
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.records import RECORD_FILE, RecordError, read_record, read_records, validate, write_json, write_record
from harness.records.outcome import Outcome
from harness.records.store import replace_folder, restore_folder, sync_folder
from harness.records.strict_json import strict_json
from tests.records.samples import record


def test_a_record_comes_back_as_it_was_written(tmp_path):
    written = record()
    path = write_record(tmp_path / "sweep" / "cell", written)
    assert path.name == RECORD_FILE
    assert read_record(path) == written
    assert [one for _, one in read_records(tmp_path)] == [written]


def test_nothing_but_the_record_is_left_in_the_folder(tmp_path):
    write_record(tmp_path, record())
    write_record(tmp_path, record(seconds=2.0))
    assert [path.name for path in tmp_path.iterdir()] == [RECORD_FILE]


def test_folders_that_go_while_one_looks_are_left_out(tmp_path, monkeypatch):
    for cell in "abc":
        write_record(tmp_path / "sweep" / cell, record())
    there = os.scandir

    def scandir(folder):
        if os.path.basename(folder) == "b":
            raise FileNotFoundError(folder)
        return there(folder)

    monkeypatch.setattr(os, "scandir", scandir)
    assert [path.parent.name for path, _ in read_records(tmp_path)] == ["a", "c"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"schema": 99}, "'schema' is 99"),
        ({"outcome": "splendid"}, "'splendid' - at `.*outcome"),
        ({"seconds": "long"}, "Expected `float`, got `str` - at `.*seconds`"),
        ({"marks": ["loud"]}, "'loud' - at `.*marks"),
        ({"supersteps": [[1, True, "push"]]}, "Expected `int`, got `bool` - at `.*supersteps"),
        ({"round": 0}, "round"),
        ({"invented": 1}, "unknown .*invented"),
        ({"solve": {"median": 1.0}}, "missing required field .samples. - at .*solve"),
        ({"solve": None}, "needs an identity and a solve time"),
        ({"identity": None}, "needs an identity and a solve time"),
        ({"validation": {"ok": True}}, "missing required field .* - at .*validation"),
    ],
)
def test_invalid_records_are_neither_written_nor_read(tmp_path, change, message):
    broken = {**record(), **change}
    with pytest.raises(RecordError, match=message):
        write_record(tmp_path, broken)
    assert list(tmp_path.iterdir()) == []
    write_json(tmp_path / RECORD_FILE, broken)
    with pytest.raises(RecordError, match=f"{RECORD_FILE}.*{message}"):
        read_record(tmp_path / RECORD_FILE)


def test_a_record_without_a_field_is_refused():
    short = {name: value for name, value in record().items() if name != "phases"}
    with pytest.raises(RecordError, match="lacks .*phases"):
        validate(short)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", "\udcff"])
def test_a_file_without_a_json_object_is_named(tmp_path, text):
    path = tmp_path / RECORD_FILE
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(RecordError, match=RECORD_FILE):
        read_record(path)


def test_a_failed_write_leaves_the_old_file(tmp_path):
    path = write_record(tmp_path, record())
    with pytest.raises(TypeError):
        write_json(path, {"field": object()})
    assert read_record(path) == record()
    assert len(list(tmp_path.iterdir())) == 1


_PLAIN = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@pytest.mark.short_run(rows=1)
@given(data=st.dictionaries(st.text(), _PLAIN, max_size=4))
def test_any_plain_data_is_written_as_strict_json(tmp_path_factory, data):
    path = tmp_path_factory.mktemp("json") / "data.json"
    write_json(path, data)

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    assert json.loads(path.read_text(), parse_constant=refuse) == _with_named_infinities(data)


def _with_named_infinities(value):
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _with_named_infinities(item) for key, item in value.items()}
    return [_with_named_infinities(item) for item in value] if isinstance(value, list) else value


def test_a_tuple_is_written_as_a_list():
    assert strict_json({"a": (1, (math.inf, -math.inf)), "b": [(math.nan,)]}) == {
        "a": [1, ["Infinity", "-Infinity"]], "b": [["NaN"]],
    }  # fmt: skip


@pytest.fixture
def folders(tmp_path):
    """Return the paths of a new folder, its place and the one aside; ``new`` and ``old`` are files."""
    made, place, aside = (tmp_path / name for name in ("made", "place", "aside"))
    for folder, file in ((made, "new"), (place, "old")):
        folder.mkdir()
        (folder / file).touch()
    return made, place, aside


def test_a_folder_is_replaced_as_a_whole(folders):
    made, place, aside = folders
    replace_folder(made, place, aside)
    assert [path.name for path in place.iterdir()] == ["new"]
    assert not made.exists()
    assert not aside.exists()


def test_the_old_folder_is_restored_if_its_place_is_empty(folders):
    made, place, aside = folders
    assert not restore_folder(place, aside)
    os.rename(place, aside)
    assert restore_folder(place, aside)
    assert [path.name for path in place.iterdir()] == ["old"]
    os.rename(made, aside)
    assert not restore_folder(place, aside)
    assert [path.name for path in place.iterdir()] == ["old"]


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="open files are listed in /proc")
def test_a_flushed_folder_is_closed(tmp_path):
    sync_folder(tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    sync_folder(tmp_path)
    assert len(os.listdir("/proc/self/fd")) == before


def test_infinity_stays_infinity_in_a_record(tmp_path):
    validation = {**record()["validation"], "error": math.inf}
    path = write_record(tmp_path, record(metrics={"farthest": math.inf, "gain": -math.inf}, validation=validation))
    assert '"farthest": "Infinity"' in path.read_text()
    back = read_record(path)
    assert back["metrics"] == {"farthest": math.inf, "gain": -math.inf}
    assert back["validation"]["error"] == math.inf
    unknown = read_record(write_record(tmp_path, record(metrics={"mean": math.nan})))
    assert math.isnan(unknown["metrics"]["mean"])


def test_only_results_and_honest_refusals_are_acceptable():
    assert {outcome for outcome in Outcome if outcome.acceptable} == {Outcome.OK, Outcome.UNSUPPORTED}
