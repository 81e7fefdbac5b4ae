"""Records in a folder: ``SWEEP/CELL/record.json``, written so that a file is whole or absent."""

from __future__ import annotations

import json
import math
import os
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.records.schema import Record, RecordError, validate

RECORD_FILE = "record.json"


def write_record(folder: Path, data: Mapping[str, Any]) -> Path:
    """Check ``data`` and keep it as ``folder/record.json``; RecordError before anything is written."""
    path = folder / RECORD_FILE
    write_json(path, validate(data))
    return path


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON object, a line a field, to a temporary name, synced, then renamed: readers see the old or the new.

    Numbers that are not finite become null, which every reader of JSON understands.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    fields = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in _finite(data).items())
    text = "{\n" + ",\n".join(fields) + "\n}\n"
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        Path(temporary).replace(path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def read_record(path: Path) -> Record:
    """The record in one file; RecordError names the file when it holds no record of this schema."""
    try:
        return validate(json.loads(path.read_text(encoding="utf-8")))
    except (json.JSONDecodeError, UnicodeDecodeError, AttributeError, RecordError) as error:
        raise RecordError(f"{path}: {error}; delete the file or move it away") from error


def read_records(folder: Path) -> Iterator[tuple[Path, Record]]:
    """Every record below ``folder`` with its file, by path."""
    for path in sorted(folder.rglob(RECORD_FILE)):
        yield path, read_record(path)


def _finite(value: Any) -> Any:
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {str(key): _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value
