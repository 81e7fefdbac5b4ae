"""Write tables of arrays as Parquet with DuckDB (the extra ``query``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.records.compaction import duckdb_module


def write_table(path: Path, columns: Mapping[str, Any]) -> None:
    """Write one-dimensional NumPy arrays of equal length as the columns of a Parquet file, in their order.

    Raises QueryError if DuckDB is not installed, OSError if the file cannot be written.
    """
    engine = duckdb_module()
    with engine.connect() as database:
        database.register("columns", dict(columns))
        target = str(path).replace("'", "''")
        try:
            database.execute(f"COPY columns TO '{target}' (FORMAT parquet)")
        except engine.IOException as error:
            raise OSError(str(error)) from error
