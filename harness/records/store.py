"""Store records in a folder as ``SWEEP/CELL/record.json``; files are written atomically."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from harness.atomic_write import write_whole
from harness.records.record_digest import edited, marked, signed
from harness.records.schema import NUMBER_FIELDS, NewerRecord, Record, RecordError, validate
from harness.records.strict_json import NOT_FINITE, strict_json
from harness.records.text import bounded
from harness.records.versions import upgraded

RECORD_FILE = "record.json"


def write_record(folder: Path, data: Mapping[str, Any]) -> Path:
    """Shorten the texts of ``data``, add its digest, validate it and write it to ``folder/record.json``; return the
    path.

    A record that was read without a digest, of an earlier version, gets none. Raises RecordError before anything is
    written.
    """
    path = folder / RECORD_FILE
    write_json(path, signed(validate({"digest": "", **bounded(data)})))
    return path


def write_json(path: Path, data: Mapping[str, Any]) -> None:
    """Write a JSON object atomically and durably, one line per field.

    Numbers that are not finite become strings: see :func:`strict_json`.
    """
    fields = (f"{json.dumps(key)}: {json.dumps(value, allow_nan=False)}" for key, value in strict_json(data).items())
    text = "{\n" + ",\n".join(fields) + "\n}\n"
    write_whole(path, text, lasting=True)
    sync_folder(path.parent)


def replace_folder(made: Path, place: Path, aside: Path) -> None:
    """Replace the folder ``place`` by ``made``; the old folder is first renamed to ``aside``, then deleted.

    If the process is killed in between, the old folder is at ``aside`` and ``place`` is missing; `restore_folder`
    repairs this. Only one process at a time may replace a folder.
    """
    if place.exists():
        os.rename(place, aside)
    os.rename(made, place)
    sync_folder(place.parent)
    shutil.rmtree(aside, ignore_errors=True)


def restore_folder(place: Path, aside: Path) -> bool:
    """Undo an interrupted `replace_folder`; return whether there was anything to undo."""
    if place.exists() or not aside.exists():
        return False
    os.rename(aside, place)
    return True


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk (fsync), so that renames in it survive a power failure."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def read_record(path: Path) -> Record:
    """Read the record in one file and upgrade it to the current version of the schema.

    Texts longer than :mod:`harness.records.text` allows are shortened; earlier versions did not limit them.

    Raises RecordError, naming the file, if it is not a record or cannot be read; FileNotFoundError if it is missing.
    """
    try:
        return record_of(path, path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise
    except (OSError, UnicodeDecodeError) as error:
        raise RecordError(f"{path}: {error}; delete the file or move it away") from error


def record_of(path: Path, text: str) -> Record:
    """Return the record in a JSON text, upgraded, with the mark ``edited`` if its digest does not fit.

    The digest of the result is that of its content. Raises RecordError, naming the file ``path``, if it is invalid.
    """
    try:
        data = json.loads(text)
        numbers = {name: _numbers(data[name]) for name in NUMBER_FIELDS if name in data}
        made = upgraded(bounded({**data, **numbers}))
        if edited(data):
            return cast("Record", signed(validate(marked(made))))
        # The digest of a record that nothing has changed fits already.
        return cast("Record", validate(made) if made == data else signed(validate(made)))
    except NewerRecord as error:
        raise NewerRecord(f"{path}: {error}") from error
    except (ValueError, AttributeError, TypeError, RecursionError) as error:
        raise RecordError(f"{path}: {error}; delete the file or move it away") from error


def read_records(folder: Path) -> Iterator[tuple[Path, Record]]:
    """Yield every record below ``folder`` with its path, sorted by path, without those of running cells.

    A record that is replaced or deleted in the meantime may be missing. Raises RecordError for an invalid record.
    """
    for path in record_files(folder):
        try:
            yield path, read_record(path)
        except FileNotFoundError:
            continue


def record_files(folder: Path) -> list[Path]:
    """Return the paths of all records below ``folder``, sorted; folders whose names begin with a dot are skipped."""
    return files_below(folder, RECORD_FILE)


def files_below(folder: Path, name: str) -> list[Path]:
    """Return the sorted paths of all files called ``name`` below ``folder``, except in folders named ``.*``.

    Folders may be created and deleted at the same time.
    """
    found = []
    for place, folders, files in os.walk(folder):
        folders[:] = [one for one in folders if not one.startswith(".")]
        found += [Path(place) / name] if name in files else []
    return sorted(found)


def _numbers(field: Any) -> Any:
    """Convert the strings of :func:`strict_json` back to numbers if the field is a mapping."""
    if not isinstance(field, Mapping):
        return field
    return {key: NOT_FINITE.get(value, value) if isinstance(value, str) else value for key, value in field.items()}
