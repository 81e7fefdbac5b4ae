from __future__ import annotations

import csv
import io
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from harness.records import RecordError, compaction, write_record
from harness.records import __main__ as records_command
from harness.records.compaction import PARQUET_FILE, QueryError, compact, query
from harness.records.floor import Rates, Work, floor_of
from tests.records.samples import accurate_record, record

pytest.importorskip("duckdb", reason="queries need the extra 'query'")


@pytest.fixture
def store(tmp_path):
    """Write a folder of three records: two engines, one of them also crashed on another graph."""
    write_record(tmp_path / "s1" / "a", record("fast"))
    write_record(tmp_path / "s1" / "b", record("slow", (4.0, 3.6, 4.4), marks=["busy", "noisy"]))
    write_record(tmp_path / "s2" / "c", record("fast", None, graph={}, identity=None, supersteps=[], features=None))
    return tmp_path


def test_every_record_is_a_row(store):
    names, rows = query(store, "SELECT engine, outcome, median, vertices, marks FROM records ORDER BY file")
    assert names == ["engine", "outcome", "median", "vertices", "marks"]
    assert rows == [
        ("fast", "ok", 1.0, 1000, []),
        ("slow", "ok", 4.0, 1000, ["busy", "noisy"]),
        ("fast", "crashed", None, None, []),
    ]


def test_the_whole_record_can_be_had_back(store):
    _, rows = query(store, "SELECT record FROM records WHERE engine = 'slow'")
    assert json.loads(rows[0][0]) == record("slow", (4.0, 3.6, 4.4), marks=["busy", "noisy"])


def test_json_columns_and_lists_can_be_queried(store):
    sql = "SELECT max(list_max(samples)), any_value(metrics->>'accuracy'), sum(edges_visited) FROM records"
    assert query(store, sql)[1] == [(4.4, "0.975", 40_200)]


def test_infinity_can_be_requested(store):
    validation = {**record()["validation"], "error": float("inf")}
    write_record(store / "s1" / "d", record("far", validation=validation, metrics={"farthest": float("inf")}))
    _, rows = query(store, "SELECT error, metrics->>'farthest' FROM records WHERE isinf(error)")
    assert rows == [(float("inf"), "Infinity")]


def test_changed_records_are_read_again_and_deleted_ones_vanish(store, monkeypatch):
    compact(store)
    before = (store / PARQUET_FILE).stat().st_ino
    write_record(store / "s1" / "a", record("fast", (2.0, 1.9, 2.1)))
    (store / "s2" / "c" / "record.json").unlink()
    read = []
    monkeypatch.setattr(
        "harness.records.compaction.read_record",
        lambda path: read.append(path.parent.name) or record("fast", (2.0, 1.9, 2.1)),
    )
    assert query(store, "SELECT engine, median FROM records ORDER BY median")[1] == [("fast", 2.0), ("slow", 4.0)]
    assert read == ["a"]
    assert (store / PARQUET_FILE).stat().st_ino != before


def test_nothing_but_the_parquet_file_is_added(store):
    compact(store)
    assert {path.name for path in store.iterdir()} == {"s1", "s2", PARQUET_FILE}


def test_an_empty_folder_has_no_rows(tmp_path):
    assert query(tmp_path, "SELECT count(*) FROM records")[1] == [(0,)]


def test_a_parquet_file_of_another_kind_is_rebuilt(store):
    (store / PARQUET_FILE).write_bytes(b"PAR1 is what it begins with, and no more")
    assert query(store, "SELECT count(*) FROM records")[1] == [(3,)]


def test_a_file_without_a_record_is_named(store):
    (store / "s1" / "a" / "record.json").write_text("{}")
    with pytest.raises(RecordError, match="s1/a/record.json"):
        compact(store)


@pytest.mark.parametrize(
    ("sql", "message"),
    [("SELECT enginee FROM records", '"engine"'), ("SELECT * FROM read_text('/etc/hostname')", "disabled")],
)
def test_a_query_reads_records_and_nothing_else(store, sql, message):
    with pytest.raises(QueryError, match=message):
        query(store, sql)


def test_the_command_prints_csv(store):
    sql = "SELECT engine, high FROM records WHERE outcome = 'ok' ORDER BY high"
    finished = subprocess.run(
        [sys.executable, "-m", "harness.records", "query", str(store), sql], capture_output=True, text=True, check=True
    )
    assert list(csv.reader(io.StringIO(finished.stdout))) == [["engine", "high"], ["fast", "1.1"], ["slow", "4.4"]]


def test_the_command_checks_a_folder(store):
    (store / "s1" / "a" / "record.json").write_text("{}")
    finished = subprocess.run(
        [sys.executable, "-m", "harness.records", "check", str(store)], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 1
    assert "s1/a/record.json" in finished.stdout
    assert "2 of 3 records are valid" in finished.stdout


def test_whatever_a_file_holds_it_is_counted_with_the_others(store, capsys):
    (store / "s1" / "deep").mkdir()
    (store / "s1" / "deep" / "record.json").write_text("[" * 100_000)
    (store / "s1" / "long").mkdir()
    (store / "s1" / "long" / "record.json").write_text(f'{{"schema": {"9" * 5000}}}')
    assert records_command.main(["check", str(store)]) == 1
    printed = capsys.readouterr().out
    assert "3 of 5 records are valid" in printed
    for name in ("deep", "long"):
        assert f"s1/{name}/record.json: " in printed


@pytest.mark.parametrize("command", [[], ["chek"], ["check"], ["query", "results"], ["merge", "results"]])
def test_a_mistake_in_the_command_is_explained(capsys, command):
    with pytest.raises(SystemExit) as met:
        records_command.main(command)
    assert met.value.code == 2
    assert "usage: python -m harness.records" in capsys.readouterr().err


def test_the_rows_of_a_query_are_printed_below_its_columns(store, capsys):
    assert records_command.main(["query", str(store), "SELECT engine, features FROM records ORDER BY file"]) == 0
    assert list(csv.reader(io.StringIO(capsys.readouterr().out))) == [
        ["engine", "features"], ["fast", "8"], ["slow", "8"], ["fast", ""],
    ]  # fmt: skip
    assert records_command.main(["query", str(store), "SELECT nothing FROM records"]) == 2
    assert "nothing" in capsys.readouterr().err


@pytest.mark.parametrize("command", [["check"], ["compact"], ["benchmark"], ["query"]])
def test_a_folder_that_is_not_there_is_named(tmp_path, capsys, command):
    arguments = ["SELECT 1"] if command == ["query"] else []
    assert records_command.main([*command, str(tmp_path / "resluts"), *arguments]) == 1
    assert "resluts is not a folder" in capsys.readouterr().err


def test_a_read_only_folder_is_reported_and_can_be_queried(store, capsys, monkeypatch):
    monkeypatch.setattr(compaction, "beside", lambda path: path / "nowhere")
    assert records_command.main(["compact", str(store)]) == 1
    assert "records.parquet cannot be written (" in capsys.readouterr().err
    assert query(store, "SELECT count(*) FROM records")[1] == [(3,)]
    assert not (store / PARQUET_FILE).exists()


def test_the_commands_of_the_page_work(store, monkeypatch, capsys):
    store.rename(store.parent / "results")
    monkeypatch.chdir(store.parent)
    page = Path(__file__).parents[2] / "docs" / "results.md"
    commands = re.findall(r"^ *python -m harness\.records (.*results.*)$", page.read_text(), re.MULTILINE)
    for command in commands:
        assert records_command.main(shlex.split(command, comments=True)) == 0
    assert "3 of 3 records are valid" in (printed := capsys.readouterr().out)
    assert "graph,engine,features,median" in printed
    assert "results/records.parquet" in printed


def test_a_wrong_answer_has_no_time(tmp_path):
    write_record(tmp_path / "s" / "a", record("fast", (0.1, 0.1, 0.1), outcome="wrong", reason="off by 0.5"))
    rows = query(tmp_path, "SELECT engine, outcome, median, minimum, samples FROM records")[1]
    assert rows == [("fast", "wrong", None, None, None)]
    assert query(tmp_path, "SELECT record->'$.solve.median' FROM records")[1] == [("0.1",)]


def test_the_columns_are_those_of_the_record(tmp_path):
    rates = Rates(levels=[(0, 1e4)], on_chip=0, adds=None, wide_adds=None, launch=None)
    floor = floor_of(Work(bytes=[500], adds=0, wide=False, launches=1), rates)
    given = {"floor": floor, "settled": False, "started": "2026-05-04T03:02:01+00:00"}
    right = accurate_record("fast", (1.0, 0.9, 1.1), 3, [0.5, 0.6, 0.5, 0.7, 0.6, 0.8, 0.6], **given)
    write_record(tmp_path / "a", right)
    write_record(tmp_path / "b", {**right, "outcome": "wrong"})
    plain = "outcome, supersteps, edges_visited, vertices, edges, device, engine, round, error, epoch(started)::BIGINT"
    facts = (2, 20_100, 1000, 20_000, "cpu", "fast", 1, 1.25e-7, 1_777_863_721)
    assert query(tmp_path, f"SELECT {plain} FROM records")[1] == [("ok", *facts), ("wrong", *facts)]
    timed = "median, low, high, minimum, confidence, floor, accuracy_superstep, accuracy_median"
    solve = right["solve"]
    known = tuple(solve[name] for name in ("median", "low", "high", "minimum", "confidence"))
    assert query(tmp_path, f"SELECT {timed} FROM records")[1] == [(*known, 0.05, 3, 0.6), (None,) * 8]


def test_texts_and_labels_are_columns(tmp_path):
    labels = {"engine": "fast (width=2)", "algorithm": "flood (scale=3)", "graph": "ring (vertices=9)"}
    given = record("fast", labels=labels, reason="slow", stage="rate", schedule={"width": 2})
    path = write_record(tmp_path / "s" / "a", given)
    size, time = path.stat().st_size, path.stat().st_mtime_ns
    texts = "file, file_size, file_time, sweep, cell, identity, graph, algorithm, engine, reason, stage, outcome"
    assert query(tmp_path, f"SELECT {texts} FROM records")[1] == [(
        "s/a/record.json", size, time, given["sweep"], given["cell"], given["identity"], "ring (vertices=9)",
        "flood (scale=3)", "fast (width=2)", "slow", "rate", "ok",
    )]  # fmt: skip
    plain = "seconds, settled, features, schedule, phases, environment"
    [(*facts, schedule, phases, environment)] = query(tmp_path, f"SELECT {plain} FROM records")[1]
    assert facts == [1.5, True, 8]
    assert list(map(json.loads, (schedule, phases, environment))) == [
        {"width": 2}, {"open": 0.1}, given["environment"],
    ]  # fmt: skip


def test_a_record_of_another_time_and_the_same_size_is_read_again(store):
    compact(store)
    path = store / "s1" / "a" / "record.json"
    path.write_text(path.read_text().replace('"engine": "fast"', '"engine": "last"'))
    assert query(store, "SELECT engine FROM records ORDER BY file")[1][0] == ("last",)


def test_a_record_that_is_deleted_meanwhile_is_left_out(store, monkeypatch):
    read = compaction.read_record

    def reading(path):
        path.unlink()
        return read(path)

    monkeypatch.setattr(compaction, "read_record", reading)
    assert query(store, "SELECT count(*) FROM records")[1] == [(0,)]
