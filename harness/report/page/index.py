"""The index of a folder of results: one row for each sweep, with a link to its page."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness.atomic_write import write_whole
from harness.records.outcome import Outcome
from harness.records.store import RECORD_FILE, files_below
from harness.report.page import PAGE_FILE, environment_of_templates
from harness.report.page.inlined import policy_hash, style_sheet
from harness.report.results import SWEEP_FILE, NothingFound

INDEX_FILE = "index.html"
_FEW = 3  # names of a kind that the title of a sweep lists


@dataclass(frozen=True)
class Entry:
    """A sweep: its name, the address of its page or "", its title, when its last cell began, and its outcomes."""

    name: str
    page: str
    title: str
    last: str
    ok: int
    unsupported: int
    failed: int
    missing: int


def write_index(folder: Path) -> Path:
    """Write ``index.html`` for the sweeps in ``folder`` and return its path.

    Raises NothingFound if there is no sweep, and OSError if the file cannot be written.
    """
    found = [_entry(path.parent, folder) for path in files_below(folder, SWEEP_FILE)]
    if not found:
        raise NothingFound(f"{folder} has no sweep; name a folder written by onyx-harness")
    style = style_sheet()
    template = environment_of_templates().get_template(INDEX_FILE)
    sweeps = sorted(found, key=lambda one: (one.last, one.name), reverse=True)
    path = folder / INDEX_FILE
    write_whole(path, template.render(sweeps=sweeps, style=style, style_hash=policy_hash(style)))
    return path


def _entry(sweep: Path, folder: Path) -> Entry:
    description = _plain(sweep / SWEEP_FILE)
    cells = description.get("cells")
    planned = len(cells) if isinstance(cells, list) else 0
    records = [_plain(path) for path in files_below(sweep, RECORD_FILE)]
    outcomes = Counter(str(record.get("outcome")) for record in records)
    ok, unsupported = outcomes[Outcome.OK.value], outcomes[Outcome.UNSUPPORTED.value]
    page = sweep / PAGE_FILE
    return Entry(
        str(description.get("sweep", sweep.name)),
        quote(page.relative_to(folder).as_posix()) if page.is_file() else "",
        _title(description, records),
        max((str(record.get("started", "")) for record in records), default=""),
        ok, unsupported, len(records) - ok - unsupported, max(0, planned - len(records)),
    )  # fmt: skip


def _title(description: Mapping[str, Any], records: list[Mapping[str, Any]]) -> str:
    """Return the title of the preset's layout, or the algorithms, graphs and engines of the sweep."""
    layout = description.get("layout")
    if isinstance(layout, Mapping) and layout.get("title"):
        return str(layout["title"])
    return " · ".join(filter(None, (_listed(records, kind) for kind in ("algorithm", "graph", "engine"))))


def _listed(records: list[Mapping[str, Any]], kind: str) -> str:
    names = list(dict.fromkeys(str(record["labels"][kind]) for record in records if kind in record.get("labels", {})))
    return ", ".join(names) if len(names) <= _FEW else f"{len(names)} {kind}s"


def _plain(path: Path) -> Mapping[str, Any]:
    """Return a file of JSON without validating it: the index counts, and the page of a sweep validates."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}
