"""Digests of records: a record that was changed by hand is read, with a mark."""

from __future__ import annotations

import json

import pytest

from harness.records import read_record, write_record
from harness.records.__main__ import main
from harness.records.published import PublishedSweep, read_published, write_published
from harness.records.record_digest import digest_of
from tests.records.samples import record

NEW = {name: value for name, value in record("fast", (1.0, 0.9, 1.1)).items() if name != "digest"}
SAID = "the record has been changed since the harness wrote it: its digest does not fit"


@pytest.fixture
def path(tmp_path):
    """Return the file of a record with numbers of all kinds."""
    numbers = {"metrics": {"accuracy": float("inf"), "rmse": float("nan"), "share": 1e-300}, "seconds": 2.0}
    return write_record(tmp_path / "results" / "cell", {**NEW, **numbers})


def edit(path, change):
    data = json.loads(path.read_text())
    change(data)
    path.write_text(json.dumps(data))


def test_a_record_is_as_it_was_written_in_any_layout_of_its_file(path):
    first = read_record(path)
    assert len(first["digest"]) == 32
    assert first["marks"] == []
    path.write_text(json.dumps(dict(reversed(json.loads(path.read_text()).items())), indent=3))
    assert read_record(path)["digest"] == first["digest"]
    assert read_record(path)["marks"] == []


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["solve"].update(median=0.5),
        lambda data: data["solve"]["samples"].append(0.5),
        lambda data: data["metrics"].update(accuracy=1.0),
        lambda data: data.update(outcome="wrong"),
        lambda data: data["marks"].append("busy"),
        lambda data: data.update(digest="0" * 32),
    ],
    ids=["a time", "a sample", "a metric", "the outcome", "a mark", "the digest"],
)
def test_a_changed_field_marks_the_record(path, change):
    edit(path, change)
    assert read_record(path)["marks"][-1] == "edited"


def test_the_mark_stays_when_the_record_is_written_again(path, tmp_path):
    edit(path, lambda data: data["solve"].update(median=0.5))
    again = write_record(tmp_path / "again", read_record(path))
    assert read_record(again)["marks"] == ["edited"]
    sweep = PublishedSweep("sweep", "command", 1, None, None, (read_record(path),))
    write_published(tmp_path / "published.parquet", sweep)
    assert read_published(tmp_path / "published.parquet").records[0]["marks"] == ["edited"]


def test_a_record_without_a_digest_is_read_and_gets_none(path, tmp_path, capsys):
    """Of a version that wrote no digests."""
    edit(path, lambda data: data.pop("digest"))
    old = read_record(path)
    assert (old["digest"], old["marks"]) == (None, [])
    assert read_record(write_record(tmp_path / "again", old))["digest"] is None
    assert main(["check", str(path.parent)]) == 0
    assert capsys.readouterr().out == "1 of 1 records are valid; 1 without a digest\n"


def test_the_check_names_edited_records(path, capsys):
    assert main(["check", str(path.parent)]) == 0
    assert capsys.readouterr().out == "1 of 1 records are valid\n"
    edit(path, lambda data: data["solve"].update(median=0.5))
    assert main(["check", str(path.parent)]) == 1
    assert capsys.readouterr().out == f"{path}: {SAID}\n1 of 1 records are valid; 1 edited\n"


def test_an_upgraded_record_has_the_digest_of_its_content(path, tmp_path):
    """Fields that a later version adds do not mark the records of this one."""
    edit(path, lambda data: data.pop("choices"))
    data = json.loads(path.read_text())
    path.write_text(json.dumps({**data, "digest": digest_of(data)}))
    upgraded = read_record(path)
    assert (upgraded["choices"], upgraded["marks"]) == ([], [])
    write_published(tmp_path / "one.parquet", PublishedSweep("sweep", "command", 1, None, None, (upgraded,)))
    assert read_published(tmp_path / "one.parquet").records[0]["marks"] == []


def test_a_damaged_record_is_no_edited_one(path):
    edit(path, lambda data: data.pop("marks"))
    with pytest.raises(ValueError, match="marks"):
        read_record(path)
