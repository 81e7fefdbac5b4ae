"""Published sweeps and tables as Parquet files: what is written is read again."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from harness.records import RecordError
from harness.records.published import PublishedSweep, read_published, write_published
from harness.records.tables import write_table
from tests.records.samples import record

duckdb = pytest.importorskip("duckdb", reason="published sweeps need the extra 'query'")
RECORDS = (
    record("fast"), record("slow", (4.0, 3.6, 4.4), marks=["busy"]), record("broken", None, reason="it's \"so\""),
    record("far", validation={**record()["validation"], "error": float("inf")}),
)  # fmt: skip
SWEEP = PublishedSweep(
    "0123456789ab", "harness 'a b'=1", 7, "onyx", {"rows": ["k", {"by": 2}], "title": "it's"}, RECORDS
)


@pytest.mark.parametrize(
    "changed",
    [{}, {"baseline": None}, {"layout": None}, {"records": RECORDS[::-1]}, {"cells": 0}, {"layout": {}}],
    ids=str,
)
def test_a_sweep_is_read_as_it_was_written(tmp_path, changed):
    sweep = dataclasses.replace(SWEEP, **changed)
    path = tmp_path / "it's a sweep.parquet"
    for _ in range(2):  # the second time in place of the first
        write_published(path, sweep)
        assert read_published(path) == sweep
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_without_records_or_of_another_kind_is_no_sweep(tmp_path):
    path = tmp_path / "sweep.parquet"
    with pytest.raises(RecordError, match=r"sweep\.parquet is not a published sweep \("):
        read_published(path)
    columns = ", ".join(
        f"NULL::VARCHAR AS {name}" for name in ("sweep", "command", "cells", "baseline", "layout", "record")
    )
    with duckdb.connect() as database:
        database.execute(f"COPY (SELECT {columns} LIMIT 0) TO '{path}' (FORMAT parquet)")
    with pytest.raises(RecordError, match=r"sweep\.parquet has no records"):
        read_published(path)
    write_table(path, {"sweep": np.array(["a"])})
    with pytest.raises(RecordError, match="is not a published sweep"):
        read_published(path)
    write_published(path, dataclasses.replace(SWEEP, records=({**RECORDS[0], "outcome": "unheard"},)))
    with pytest.raises(RecordError, match=r"sweep\.parquet"):
        read_published(path)


def test_a_sweep_or_a_table_that_cannot_be_written_is_an_error_of_the_system(tmp_path):
    with pytest.raises(OSError, match="nowhere"):
        write_published(tmp_path / "nowhere" / "sweep.parquet", SWEEP)
    with pytest.raises(OSError, match="nowhere"):
        write_table(tmp_path / "nowhere" / "table.parquet", {"a": np.arange(2)})


def test_the_columns_of_a_table_are_the_arrays_in_their_order(tmp_path):
    columns = {"b": np.array([3, 1, 2]), "a": np.array([0.5, np.inf, -1.0]), "flag": np.array([True, False, True])}
    path = tmp_path / "it's.parquet"
    write_table(path, columns)
    with duckdb.connect() as database:
        found = database.execute("SELECT * FROM read_parquet(?)", [str(path)])
        assert [column[0] for column in found.description] == list(columns)
        assert found.fetchall() == [(3, 0.5, True), (1, np.inf, False), (2, -1.0, True)]
