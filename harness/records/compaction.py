"""Compact a folder of records into one Parquet file and query it with DuckDB (the extra ``query``).

The file is derived from the records and may be deleted at any time. It has one row per record: plain columns for
frequently queried fields, and the whole record as JSON in the column ``record``.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.atomic_write import beside
from harness.records.outcome import Outcome
from harness.records.schema import Record
from harness.records.store import read_record, record_files
from harness.records.strict_json import strict_json

if TYPE_CHECKING:
    import duckdb

PARQUET_FILE = "records.parquet"

# Name and DuckDB type of every column; `_row` gives their values.
COLUMNS = {
    "file": "VARCHAR", "file_size": "BIGINT", "file_time": "BIGINT",  # path below the folder, bytes, nanoseconds
    "sweep": "VARCHAR", "cell": "VARCHAR", "identity": "VARCHAR", "round": "INTEGER", "started": "TIMESTAMP",
    "graph": "VARCHAR", "algorithm": "VARCHAR", "engine": "VARCHAR", "features": "INTEGER", "device": "VARCHAR",
    "outcome": "VARCHAR", "reason": "VARCHAR", "stage": "VARCHAR", "seconds": "DOUBLE",
    "vertices": "BIGINT", "edges": "BIGINT", "supersteps": "INTEGER", "edges_visited": "BIGINT", "settled": "BOOLEAN",
    "median": "DOUBLE", "low": "DOUBLE", "high": "DOUBLE", "minimum": "DOUBLE", "confidence": "DOUBLE",
    "floor": "DOUBLE",
    "accuracy_superstep": "INTEGER", "accuracy_median": "DOUBLE",
    "error": "DOUBLE", "samples": "DOUBLE[]", "marks": "VARCHAR[]", "schedule": "JSON", "phases": "JSON",
    "metrics": "JSON", "environment": "JSON", "record": "JSON",
}  # fmt: skip


class QueryError(ValueError):
    """A query failed; the message gives the reason."""


def compact(folder: Path) -> Path:
    """Update ``folder/records.parquet`` from the records below ``folder`` and return its path.

    Only new and changed records are read. Raises RecordError for an invalid record, OSError if the folder cannot be
    written, QueryError if DuckDB is not installed.
    """
    target = folder / PARQUET_FILE
    with duckdb_module().connect() as database:
        _gather(database, folder)
        _write(database, target)
    return target


def query(folder: Path, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Run a query over the table ``records`` of a folder; return column names and rows.

    Raises QueryError for SQL that DuckDB refuses, with DuckDB's message, which names the closest column. If the folder
    is writable, the Parquet file is updated, so that the next query reads fewer records.
    """
    engine = duckdb_module()
    with engine.connect() as database:
        _gather(database, folder)
        with contextlib.suppress(OSError):
            _write(database, folder / PARQUET_FILE)
        database.execute("CREATE TABLE records AS SELECT * FROM rows ORDER BY file")
        database.execute("DROP TABLE rows")
        database.execute("SET enable_external_access = false")  # a query reads records, no other files
        try:
            found = database.execute(sql)
            return [column[0] for column in found.description or ()], found.fetchall()
        except engine.Error as error:
            raise QueryError(str(error)) from error


def duckdb_module() -> Any:
    """Return the module ``duckdb``. Raises QueryError, with the remedy, if it is not installed."""
    try:
        import duckdb
    except ImportError as error:
        raise QueryError("queries need the Python module 'duckdb': pip install 'onyx-harness[query]'") from error
    return duckdb


def _gather(database: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Create the table ``rows`` of the records below a folder, reusing unchanged rows of its Parquet file."""
    target = folder / PARQUET_FILE
    database.execute(f"CREATE TABLE rows ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})")
    if _readable(database, target):
        database.execute("INSERT INTO rows BY NAME SELECT * FROM read_parquet(?)", [str(target)])
    present = {str(path.relative_to(folder)): path for path in record_files(folder)}
    kept = _drop_outdated(database, present)
    _insert(database, folder, [path for name, path in present.items() if name not in kept])


def _readable(database: duckdb.DuckDBPyConnection, target: Path) -> bool:
    """Return whether the Parquet file exists and has our columns; that of another harness version is rebuilt."""
    if not target.is_file():
        return False
    try:
        found = database.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(target)]).fetchall()
    except duckdb_module().Error:
        return False
    return [row[0] for row in found] == list(COLUMNS)


def _drop_outdated(database: duckdb.DuckDBPyConnection, present: dict[str, Path]) -> set[str]:
    """Delete the rows of missing and changed files; return the names of the remaining files."""
    known = database.execute("SELECT file, file_size, file_time FROM rows").fetchall()
    stamps = {name: (status.st_size, status.st_mtime_ns) for name, path in present.items() for status in [path.stat()]}
    outdated = [name for name, size, time in known if stamps.get(name) != (size, time)]
    if outdated:
        database.execute("DELETE FROM rows WHERE file IN (SELECT unnest(?))", [outdated])
    return {name for name, _, _ in known} - set(outdated)


def _insert(database: duckdb.DuckDBPyConnection, folder: Path, paths: Sequence[Path]) -> None:
    """Read records into the table through a file with one JSON object per line, which DuckDB reads fastest."""
    with tempfile.NamedTemporaryFile("w", suffix=".jsonl", encoding="utf-8") as lines:
        lines.writelines(json.dumps(strict_json(row)) + "\n" for row in _rows(folder, paths))
        lines.flush()
        if paths:
            database.execute(
                "INSERT INTO rows BY NAME SELECT * FROM read_json(?, format='newline_delimited', columns=?,"
                " maximum_object_size=1000000000)",
                [lines.name, COLUMNS],
            )


def _write(database: duckdb.DuckDBPyConnection, target: Path) -> None:
    temporary = beside(target)
    try:
        made = str(temporary).replace("'", "''")
        database.execute(f"COPY (SELECT * FROM rows ORDER BY file) TO '{made}' (FORMAT parquet, COMPRESSION zstd)")
        temporary.replace(target)
    except duckdb_module().IOException as error:
        raise OSError(f"{target} cannot be written ({error})") from error
    finally:
        temporary.unlink(missing_ok=True)


def _rows(folder: Path, paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        try:
            status, record = path.stat(), read_record(path)
        except FileNotFoundError:
            continue  # replaced or deleted since the folder was listed
        file = {"file": str(path.relative_to(folder)), "file_size": status.st_size, "file_time": status.st_mtime_ns}
        yield {**file, **_row(record)}


def _row(record: Record) -> dict[str, Any]:
    labels, graph, solve, validation = record["labels"], record["graph"], record["solve"], record["validation"]
    steps, floor = record["supersteps"], record["floor"]
    accuracy: Mapping[str, Any] = (record["accuracy"] or {}) if record["outcome"] == Outcome.OK else {}
    # the times of a wrong answer are omitted, so that no query uses them; the record has them
    timed: Mapping[str, Any] = solve if solve and record["outcome"] == Outcome.OK else {}
    return {
        **{name: record[name] for name in ("sweep", "cell", "identity", "round", "features", "outcome")},
        "started": record["started"].removesuffix(
            "+00:00"
        ),  # UTC; with a time zone, queries would need another library
        **{name: record[name] for name in ("reason", "stage", "seconds", "settled", "marks")},
        **{name: labels.get(name) for name in ("graph", "algorithm", "engine")},
        **{name: graph.get(name) for name in ("vertices", "edges")},
        **{name: timed.get(name) for name in ("median", "low", "high", "minimum", "confidence", "samples")},
        **{name: record[name] for name in ("schedule", "phases", "metrics", "environment")},
        "device": record["config"].get("device", {}).get("kind"),
        "supersteps": len(steps),
        "edges_visited": sum(step[1] for step in steps),
        "accuracy_superstep": accuracy.get("superstep"),
        "accuracy_median": (accuracy.get("solve") or {}).get("median"),
        "floor": floor["seconds"] if floor and timed else None,
        "error": validation["error"] if validation else None,
        "record": record,
    }
