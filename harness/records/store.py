"""Records in a folder: ``SWEEP/CELL/record.json``, written so that a file is whole or absent."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from harness.records.schema import NUMBER_FIELDS, NewerRecord, Record, RecordError, validate
from harness.records.text import bounded
from harness.records.versions import upgraded
from harness.whole_files import write_whole

RECORD_FILE = "record.json"
_NOT_FINITE = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


def write_record(folder: Path, data: Mapping[str, Any]) -> Path:
    """Check ``data``, with its texts shortened, and write it to ``folder/record.json``.

    Raises RecordError before anything is written.
    """
    path = folder / RECORD_FILE
    write_json(path, validate(bounded(data)))
    return path


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON object, a line a field, to a temporary name, synced, then renamed: readers see the old or the new.

    Numbers that are not finite become strings: see :func:`strict_json`.
    """
    fields = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in strict_json(data).items())
    text = "{\n" + ",\n".join(fields) + "\n}\n"
    write_whole(path, text, lasting=True)
    sync_folder(path.parent)


def replace_folder(made: Path, place: Path, aside: Path) -> None:
    """Put the folder ``made`` in the ``place`` of another, which is moved ``aside`` first and then deleted.

    Killed half way, this leaves the old folder aside and nothing in its place: `restore_folder` mends that. Only one
    process at a time may do this for one place.
    """
    if place.exists():
        os.rename(place, aside)
    os.rename(made, place)
    sync_folder(place.parent)
    shutil.rmtree(aside, ignore_errors=True)


def restore_folder(place: Path, aside: Path) -> bool:
    """Undo what a `replace_folder` that was killed half way has done; whether there was anything to undo."""
    if place.exists() or not aside.exists():
        return False
    os.rename(aside, place)
    return True


def sync_folder(folder: Path) -> None:
    """Make what was renamed in a folder outlast a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_record(path: Path) -> Record:
    """Return the record in one file, in the present version of the schema whichever it was written in.

    Texts longer than :mod:`harness.records.text` allows are shortened: earlier versions wrote them whole.

    RecordError names the file when it holds no record or cannot be read; FileNotFoundError when there is none.
    """
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
        return validate(upgraded(bounded({**data, **{name: _numbers(data.get(name)) for name in NUMBER_FIELDS}})))
    except FileNotFoundError:
        raise
    except NewerRecord as error:
        raise NewerRecord(f"{path}: {error}") from error
    except (OSError, ValueError, AttributeError, TypeError, RecursionError) as error:
        raise RecordError(f"{path}: {error}; delete the file or move it away") from error


def read_records(folder: Path) -> Iterator[tuple[Path, Record]]:
    """Every record below ``folder`` with its file, by path; not those of cells that are running just now.

    A record that is replaced or deleted meanwhile may be left out.
    """
    for path in record_files(folder):
        try:
            yield path, read_record(path)
        except FileNotFoundError:
            continue


def record_files(folder: Path) -> list[Path]:
    """The files of all records below ``folder``, by path; folders whose names begin with a dot are no store's."""
    return files_below(folder, RECORD_FILE)


def files_below(folder: Path, name: str) -> list[Path]:
    """All files called ``name`` in ``folder`` and below, by path, but for folders whose names begin with a dot.

    Folders may come and go meanwhile.
    """
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if not one.startswith(".")]
        found += [Path(place) / name] if name in files else []
    return sorted(found)


def strict_json(value: Any) -> Any:
    """Plain data with the strings "Infinity", "-Infinity" and "NaN" for the numbers that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return next(name for name, number in _NOT_FINITE.items() if repr(number) == repr(value))
    if isinstance(value, Mapping):
        return {str(key): strict_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [strict_json(item) for item in value]
    return value


def _numbers(field: Any) -> Any:
    """A field with its numbers that are not finite, if it is a mapping."""
    if not isinstance(field, Mapping):
        return field
    return {key: _NOT_FINITE.get(value, value) if isinstance(value, str) else value for key, value in field.items()}
