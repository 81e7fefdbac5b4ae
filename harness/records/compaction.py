"""A folder of records as one Parquet file, and queries over it with DuckDB (the extra ``query``).

The file is made from the records and can be deleted at will. It has a row a record: plain columns for what is asked
for most, and the whole record as JSON in the column ``record``.
"""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.records.outcome import Outcome
from harness.records.schema import Record
from harness.records.store import read_record, record_files, strict_json
from harness.whole_files import beside

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
    "accuracy_superstep": "INTEGER", "accuracy_median": "DOUBLE",
    "error": "DOUBLE", "samples": "DOUBLE[]", "marks": "VARCHAR[]", "schedule": "JSON", "phases": "JSON",
    "metrics": "JSON", "environment": "JSON", "record": "JSON",
}  # fmt: skip


class QueryError(ValueError):
    """A query cannot be carried out; the message says why."""


def compact(folder: Path) -> Path:
    """Bring ``folder/records.parquet`` up to date with the records below ``folder``; its path.

    Only records that are new or changed since are read. RecordError when a file is no record, OSError when the folder
    cannot be written.
    """
    target = folder / PARQUET_FILE
    with _engine().connect() as database:
        _gather(database, folder)
        _write(database, target)
    return target


def query(folder: Path, sql: str) -> tuple[list[str], list[tuple[Any, ...]]]:
    """Names of the columns and rows of a query over the table ``records`` of a folder.

    Raises QueryError for SQL that DuckDB refuses, with its words, which name the closest column. The Parquet file is
    brought up to date, where the folder can be written, so that the next query has less to read.
    """
    engine = _engine()
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


def _engine() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise QueryError("queries need the Python module 'duckdb': pip install 'onyx-harness[query]'") from error
    return duckdb


def _gather(database: duckdb.DuckDBPyConnection, folder: Path) -> None:
    """Make the table ``rows`` of the records below a folder, with what its Parquet file knows of them already."""
    target = folder / PARQUET_FILE
    database.execute(f"CREATE TABLE rows ({', '.join(f'{name} {kind}' for name, kind in COLUMNS.items())})")
    if _readable(database, target):
        database.execute("INSERT INTO rows BY NAME SELECT * FROM read_parquet(?)", [str(target)])
    present = {str(path.relative_to(folder)): path for path in record_files(folder)}
    kept = _drop_outdated(database, present)
    _insert(database, folder, [path for name, path in present.items() if name not in kept])


def _readable(database: duckdb.DuckDBPyConnection, target: Path) -> bool:
    """Whether there is a Parquet file with our columns; one of another version of the harness is made anew."""
    if not target.is_file():
        return False
    try:
        found = database.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(target)]).fetchall()
    except _engine().Error:
        return False
    return [row[0] for row in found] == list(COLUMNS)


def _drop_outdated(database: duckdb.DuckDBPyConnection, present: dict[str, Path]) -> set[str]:
    """Delete the rows of files that are gone or changed; the names of those that stay."""
    known = database.execute("SELECT file, file_size, file_time FROM rows").fetchall()
    stamps = {name: (status.st_size, status.st_mtime_ns) for name, path in present.items() for status in [path.stat()]}
    outdated = [name for name, size, time in known if stamps.get(name) != (size, time)]
    if outdated:
        database.execute("DELETE FROM rows WHERE file IN (SELECT unnest(?))", [outdated])
    return {name for name, _, _ in known} - set(outdated)


def _insert(database: duckdb.DuckDBPyConnection, folder: Path, paths: Sequence[Path]) -> None:
    """Read records into the table, by way of a file of one JSON object a line, which DuckDB reads fastest."""
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
    except _engine().IOException as error:
        raise OSError(f"{target} cannot be written ({error})") from error
    finally:
        temporary.unlink(missing_ok=True)


def _rows(folder: Path, paths: Sequence[Path]) -> Iterator[dict[str, Any]]:
    for path in paths:
        try:
            status, record = path.stat(), read_record(path)
        except FileNotFoundError:
            continue  # replaced or deleted meanwhile
        file = {"file": str(path.relative_to(folder)), "file_size": status.st_size, "file_time": status.st_mtime_ns}
        yield {**file, **_row(record)}


def _row(record: Record) -> dict[str, Any]:
    labels, graph, solve, validation = record["labels"], record["graph"], record["solve"], record["validation"]
    steps = record["supersteps"]
    accuracy: Mapping[str, Any] = (record["accuracy"] or {}) if record["outcome"] == Outcome.OK else {}
    # a wrong answer has no time that a query could take for one; its record keeps it
    timed: Mapping[str, Any] = solve if solve and record["outcome"] == Outcome.OK else {}
    return {
        **{name: record[name] for name in ("sweep", "cell", "identity", "round", "features", "outcome")},
        "started": record["started"].removesuffix("+00:00"),  # UTC; a zone would make queries need another library
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
        "error": validation["error"] if validation else None,
        "record": record,
    }
