"""Sweeps of several machines in one folder: kept apart, complete, and merged again without a change."""

from __future__ import annotations

import errno
import json
import os
import shutil

import pytest

from harness.records import read_records, write_json, write_record
from harness.records.__main__ import main
from harness.report.results import read_results
from harness.report.series import comparisons
from tests.records.samples import record

LATER = "2026-05-01T00:00:00+00:00"


def write_sweep(folder, host, seconds, *cells, sweep="pagerank-rmat-0123", **changes):
    """Write a sweep that a host ran: two engines, one cell each."""
    for cell in cells:
        environment = {**record("fast", None)["environment"], "host": host}
        made = record(cell.partition("-")[0], (seconds, 0.9 * seconds, 1.1 * seconds), sweep=sweep, cell=cell,
                      environment=environment, **changes)  # fmt: skip
        write_record(folder / sweep / cell, made)
        (folder / sweep / cell / "explain.txt").write_text(f"{host} {cell}")
    listed = [{"cell": cell, "overrides": [f"engine={cell}"]} for cell in (*cells, "not-run")]
    write_json(folder / sweep / "sweep.json", {"sweep": sweep, "baseline": "slow", "layout": None, "cells": listed})


@pytest.fixture
def machines(tmp_path):
    """Return the results of two machines: the same sweep, with one cell of the same name."""
    write_sweep(tmp_path / "one", "alpha", 1.0, "fast-k8-aa", "slow-k8-aa")
    write_sweep(tmp_path / "two", "beta", 3.0, "fast-k8-aa", "slow-k8-bb")
    return [tmp_path / "one", tmp_path / "two"]


def merged(into, *sources):
    assert main(["merge", str(into), *map(str, sources)]) == 0
    return {path.relative_to(into).as_posix(): path.read_bytes() for path in into.rglob("*") if path.is_file()}


def test_machines_are_kept_apart_and_nothing_is_lost(machines, tmp_path, capsys):
    merged(tmp_path / "all", *machines)
    alpha, beta = capsys.readouterr().out.split()
    assert "/pagerank-rmat-0123@alpha-" in alpha
    assert "/pagerank-rmat-0123@beta-" in beta
    found = {(path.parent.parent.name, one["cell"]): one for path, one in read_records(tmp_path / "all")}
    assert len(found) == 4
    for (folder, _), one in found.items():
        assert one["sweep"] == folder
        assert folder.partition("@")[2].startswith(one["environment"]["host"])
    groups = comparisons(read_results(tmp_path / "all").records, "slow")
    assert [sorted(one["environment"]["host"] for one in group.records) for group in groups] == [
        ["alpha", "alpha"],
        ["beta", "beta"],
    ]
    assert (tmp_path / "all" / groups[1].sweep / "slow-k8-bb" / "explain.txt").read_text() == "beta slow-k8-bb"


def test_merging_again_or_merging_the_merged_changes_nothing(machines, tmp_path):
    first = merged(tmp_path / "all", *machines)
    assert merged(tmp_path / "all", *machines) == first
    assert merged(tmp_path / "again", tmp_path / "all") == first


def test_the_later_record_of_a_cell_is_kept(machines, tmp_path):
    merged(tmp_path / "all", *machines)
    write_sweep(tmp_path / "new", "alpha", 7.0, "fast-k8-aa", "third-k8-aa", started=LATER)
    files = merged(tmp_path / "all", tmp_path / "new", machines[0])
    (name,) = {file.partition("/")[0] for file in files if "@alpha" in file}
    times = {one["cell"]: one["solve"]["median"] for _, one in read_records(tmp_path / "all" / name)}
    assert times == {"fast-k8-aa": 7.0, "slow-k8-aa": 1.0, "third-k8-aa": 7.0}
    listed = json.loads(files[f"{name}/sweep.json"])["cells"]
    assert [cell["cell"] for cell in listed] == ["fast-k8-aa", "slow-k8-aa", "third-k8-aa"]


@pytest.mark.parametrize(("day", "kept"), [(1, 2.0), (2, 2.0), (3, 5.0)])
def test_of_records_that_are_as_new_the_first_is_kept_with_its_files(tmp_path, day, kept):
    for name, number, seconds in (("one", 2, 2.0), ("two", day, 5.0)):
        write_sweep(tmp_path / name, "alpha", seconds, "fast-k8-aa", started=f"2026-05-0{number}T00:00:00+00:00")
        (tmp_path / name / "pagerank-rmat-0123" / "fast-k8-aa" / "explain.txt").write_text(f"took {seconds}")
    merged(tmp_path / "all", tmp_path / "one", tmp_path / "two")
    [(path, found)] = read_records(tmp_path / "all")
    assert found["solve"]["median"] == kept
    assert (path.parent / "explain.txt").read_text() == f"took {kept}"


def test_a_merge_that_a_full_disk_ends_leaves_whole_records(machines, tmp_path, monkeypatch, capsys):
    into = tmp_path / "all"
    written = write_record

    def full(folder, data):
        (folder / "record.json").write_text("{")
        raise OSError(errno.ENOSPC, "No space left on device", str(folder / "record.json"))

    monkeypatch.setattr("harness.records.merging.write_record", full)
    assert main(["merge", str(into), *map(str, machines)]) == 1
    assert "No space left on device: '" in capsys.readouterr().err
    assert not [path for path in into.rglob("*") if path.is_file()]
    monkeypatch.setattr("harness.records.merging.write_record", written)
    whole = merged(into, *machines)
    assert len(list(read_records(into))) == 4
    [place] = into.glob("*@alpha-*/fast-k8-aa")
    killed = place.with_name(f".{place.name}.old")  # between the renames
    place.rename(killed)
    place.with_name(f".{place.name}.new").mkdir()
    assert len(list(read_records(into))) == 3
    assert merged(into, *machines) == whole
    assert not killed.exists()


class Killed(BaseException):
    """The process ends: nothing after it changes a file."""


def kill_at(monkeypatch, number, halfway):
    """End the process at the ``number``-th change of a folder, or halfway through it; return the changes made."""
    made = []
    renamed, removed, copied, wrote = os.rename, shutil.rmtree, shutil.copytree, write_record

    def half_removed(folder, **_):
        next(iter(sorted(path for path in folder.rglob("*") if path.is_file()))).unlink()

    def half_copied(source, target):
        target.mkdir()
        shutil.copy(source / "explain.txt", target)

    def counted(name, change, half=None):
        def call(*given, **options):
            if name == "remove" and not given[0].exists():
                return None
            if len(made) > number or (len(made) == number and not halfway):
                made.append("")
                raise Killed
            made.append(name)
            if len(made) <= number:
                return change(*given, **options)
            (half or change)(*given, **options)
            made.append("")
            raise Killed

        return call

    monkeypatch.setattr(os, "rename", counted("rename", renamed))
    monkeypatch.setattr(shutil, "rmtree", counted("remove", removed, half_removed))
    monkeypatch.setattr(shutil, "copytree", counted("copy", copied, half_copied))
    monkeypatch.setattr("harness.records.merging.write_record", counted("record", wrote))
    return made


CHANGES = ["copy", "record", "rename", "rename", "remove"]  # of a folder that is replaced
KILLS = [(number, halfway) for number in range(len(CHANGES)) for halfway in (False, True)]


@pytest.mark.parametrize(("number", "halfway"), KILLS)
def test_after_a_merge_that_was_killed_anywhere_a_merge_of_the_same_or_of_later_records_is_whole(
    tmp_path, number, halfway
):
    """The second merge is killed; the third one has the same records, or later ones."""
    for name, seconds, day in (("first", 1.0, 1), ("second", 2.0, 2), ("third", 3.0, 3)):
        write_sweep(tmp_path / name, "alpha", seconds, "fast-k8-aa", started=f"2026-05-0{day}T00:00:00+00:00")
    for last in ("second", "third"):
        into = tmp_path / f"all {last}"
        merged(into, tmp_path / "first")
        with pytest.MonkeyPatch.context() as patched, pytest.raises(Killed):
            made = kill_at(patched, number, halfway)
            main(["merge", str(into), str(tmp_path / "second")])
        assert [name for name in made if name] == CHANGES[: number + halfway]
        medians = [one["solve"]["median"] for _, one in read_records(into)]
        assert medians in ([], [1.0], [2.0]), "a record is whole, or set aside"
        assert merged(into, tmp_path / last) == merged(tmp_path / f"new {last}", tmp_path / last)


@pytest.mark.parametrize(
    ("host", "shown"), [("a.b c/d_e-f", "abcd_e-f"), ("x" * 30, "x" * 20), ("", "unknown"), ("@!", "unknown")]
)
def test_a_part_is_called_by_the_letters_of_its_host(tmp_path, host, shown):
    write_sweep(tmp_path / "one", host, 1.0, "fast-k8-aa")
    merged(tmp_path / "all", tmp_path / "one")
    [folder] = (tmp_path / "all").iterdir()
    sweep, _, machine = folder.name.partition("@")
    assert sweep == "pagerank-rmat-0123"
    assert machine[:-7] == shown
    described = json.loads((folder / "sweep.json").read_text())
    assert {name: described[name] for name in ("sweep", "baseline", "layout")} == {
        "sweep": folder.name, "baseline": "slow", "layout": None,
    }  # fmt: skip
    assert described["cells"] == [{"cell": "fast-k8-aa", "overrides": ["engine=fast-k8-aa"]}]


def test_a_folder_without_sweeps_is_refused(tmp_path, capsys):
    (tmp_path / "empty").mkdir()
    assert main(["merge", str(tmp_path / "all"), str(tmp_path / "empty")]) == 1
    assert "empty has no sweep; name a folder" in capsys.readouterr().err
