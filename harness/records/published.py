"""Published sweeps: one Parquet file each, from which the tables of the documentation are rendered.

A file has one row per record, in the order of the sweep's cells, with the record as JSON, unchanged. The facts about
the sweep are repeated in each row. It needs DuckDB (the extra ``query``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.atomic_write import beside
from harness.records.compaction import duckdb_module
from harness.records.schema import Record, RecordError
from harness.records.store import record_of
from harness.records.strict_json import strict_json

COLUMNS = {"sweep": "VARCHAR", "command": "VARCHAR", "cells": "INTEGER", "baseline": "VARCHAR", "layout": "VARCHAR",
           "record": "VARCHAR"}  # fmt: skip


@dataclass(frozen=True)
class PublishedSweep:
    """A sweep: its id, the command that ran it, the number of its cells, and the records that they have.

    ``layout``: the plain data of a layout (:mod:`harness.report.layout`), or None.
    """

    sweep: str
    command: str
    cells: int
    baseline: str | None
    layout: Mapping[str, Any] | None
    records: tuple[Record, ...]


def write_published(path: Path, sweep: PublishedSweep) -> None:
    """Write a sweep to a Parquet file. Raises QueryError without DuckDB, OSError if the file cannot be written."""
    engine = duckdb_module()
    layout = None if sweep.layout is None else json.dumps(sweep.layout)
    facts = (sweep.sweep, sweep.command, sweep.cells, sweep.baseline, layout)
    rows = [(*facts, json.dumps(strict_json(record))) for record in sweep.records]
    temporary = beside(path)
    made = str(temporary).replace("'", "''")
    try:
        with engine.connect() as database:
            database.execute(f"CREATE TABLE rows ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})")
            database.executemany(f"INSERT INTO rows VALUES ({', '.join('?' * len(COLUMNS))})", rows)
            database.execute(f"COPY rows TO '{made}' (FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 19)")
        temporary.replace(path)
    except engine.IOException as error:
        raise OSError(f"{path} cannot be written ({error})") from error
    finally:
        temporary.unlink(missing_ok=True)


def read_published(path: Path) -> PublishedSweep:
    """Read a published sweep and upgrade its records to the current version of the schema.

    Raises RecordError, naming the file, if it holds no sweep or a record that is invalid; QueryError without DuckDB.
    """
    engine = duckdb_module()
    try:
        with engine.connect() as database:
            rows = database.execute(f"SELECT {', '.join(COLUMNS)} FROM read_parquet(?)", [str(path)]).fetchall()
    except engine.Error as error:
        raise RecordError(f"{path} is not a published sweep ({error})") from error
    if not rows:
        raise RecordError(f"{path} has no records")
    sweep, command, cells, baseline, layout, _ = rows[0]
    records = tuple(record_of(path, row[-1]) for row in rows)
    return PublishedSweep(sweep, command, cells, baseline, None if layout is None else json.loads(layout), records)
