"""Tables of published sweeps in the pages of the documentation.

A page marks the place of a sweep's tables with two comments, ``<!-- sweep: NAME -->`` and ``<!-- end of sweep -->``.
Everything in between is rendered from ``figures/NAME.parquet`` beside the page; without that file there are no figures.
Between ``<!-- paper: NAME -->`` and ``<!-- end of paper -->`` is the table ``papers/NAME.toml`` of a paper, with the
times of a published sweep (:mod:`harness.report.paper_table`).
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.atomic_write import write_whole
from harness.records import Record, merge_rounds
from harness.records.outcome import Outcome
from harness.records.published import PublishedSweep, read_published, write_published
from harness.records.store import files_below
from harness.report.comparison import changed_graph_notes
from harness.report.failures import Failure, failures
from harness.report.layout import Layout
from harness.report.layout_tables import UNTIMED, notes_of, table_of
from harness.report.markdown import escaped, markdown_rows, markdown_table
from harness.report.paper_table import read_paper_table, render_paper_table
from harness.report.results import SWEEP_FILE, NothingFound, read_results
from harness.report.summary import mark_notes
from harness.report.table import comparison_table
from harness.report.transfers import NOTE as TRANSFERS_NOTE
from harness.report.transfers import transfer_rows, transfer_table
from harness.report.warm import NOTE, warm_rows, warm_table

FIGURES, PAPERS = "figures", "papers"
_BEGIN = re.compile(r"<!-- (?:sweep|paper): [^>]*-->")
_BETWEEN = rf"(?:(?!{_BEGIN.pattern}).)*?"  # no other place begins before the end
_PLACE, _PAPER = (
    re.compile(rf"(?P<begin><!-- {kind}: (?P<name>[\w.-]+) -->\n){_BETWEEN}(?P<end><!-- end of {kind} -->)", re.DOTALL)
    for kind in ("sweep", "paper")
)
_UNPUBLISHED = "*No records of this sweep are published.*"
_NAMED = 3  # algorithms and engines of a failure


def publish(folder: Path, docs: Path) -> list[Path]:
    """Write every sweep below ``folder`` to ``docs/figures/SWEEP.parquet``; return the files.

    Raises NothingFound if there is no sweep, RecordError if a record cannot be read, QueryError without DuckDB.
    """
    found = files_below(folder, SWEEP_FILE)
    if not found:
        raise NothingFound(f"{folder} has no sweep; name a folder written by onyx-harness (results, or one sweep)")
    (docs / FIGURES).mkdir(exist_ok=True)
    written = []
    for description in found:
        results = read_results(description.parent)
        sweep = json.loads(description.read_text(encoding="utf-8"))
        layout = results.layout.plain() if results.layout else None
        command = _command(sweep)
        path = docs / FIGURES / f"{sweep['sweep']}.parquet"
        write_published(
            path, PublishedSweep(sweep["sweep"], command, results.cells, results.baseline, layout, results.records)
        )
        written.append(path)
    return written


def render_pages(docs: Path) -> list[Path]:
    """Render the published sweeps into the pages of the folder ``docs``; return the pages that changed."""
    changed = []
    for page in sorted(docs.glob("*.md")):
        before = page.read_text(encoding="utf-8")
        after = rendered(before, docs / FIGURES)
        if after != before:
            write_whole(page, after)
            changed.append(page)
    return changed


def rendered(page: str, figures: Path) -> str:
    """Return the text of a page with the tables of the published sweeps, and of the papers, that it names.

    Raises ValueError if a comment that begins a place has no comment that ends it before the next place.
    """
    places = [place["begin"].strip() for pattern in (_PLACE, _PAPER) for place in pattern.finditer(page)]
    if missing := Counter(_BEGIN.findall(page)) - Counter(places):
        begin = next(iter(missing))
        raise ValueError(f"the place {begin} of the page does not end: write <!-- end of sweep (or paper) -->")

    def tables(place: re.Match[str]) -> str:
        path = figures / f"{place['name']}.parquet"
        tables_text = _tables(read_published(path)) if path.is_file() else _UNPUBLISHED
        return f"{place['begin']}\n{tables_text}\n\n{place['end']}"

    def paper(place: re.Match[str]) -> str:
        table = read_paper_table(figures.parent / PAPERS / f"{place['name']}.toml")
        return f"{place['begin']}\n{render_paper_table(table, figures)}\n\n{place['end']}"

    return _PAPER.sub(paper, _PLACE.sub(tables, page))


def named_papers(page: str) -> list[str]:
    """Return the names of the tables of papers that a page shows."""
    return [place["name"] for place in _PAPER.finditer(page)]


def named_sweeps(page: str) -> list[str]:
    """Return the names of the sweeps whose tables a page shows."""
    return [place["name"] for place in _PLACE.finditer(page)]


def _command(sweep: Mapping[str, Any]) -> str:
    """Return the commands of a sweep. An older description has none: the command is then made from its cells."""
    given = [f"onyx-harness {line}" for line in sweep.get("commands", ())]
    return "; ".join(given) or _command_of_cells([cell["overrides"] for cell in sweep["cells"]])


def _command_of_cells(cells: Sequence[Sequence[str]]) -> str:
    """Return a command: the overrides of all cells, and without a preset all values of the others."""
    shared = [line for line in cells[0] if all(line in cell for cell in cells)]
    presets = [line for line in shared if line.startswith("+experiment=")]
    swept: dict[str, dict[str, None]] = {}
    for key, _, value in (line.partition("=") for cell in cells for line in cell if line not in shared and not presets):
        swept.setdefault(key, {})[value] = None
    lists = [f"{key}={','.join(values)}" for key, values in swept.items()]
    return " ".join(["onyx-harness", *presets, *(line for line in shared if line not in presets), *lists])


def _tables(sweep: PublishedSweep) -> str:
    records = merge_rounds(sweep.records)
    layout = Layout.from_plain(sweep.layout) if sweep.layout else None
    parts = [f"**{escaped(layout.title)}**"] if layout else []
    warm = warm_rows(records)
    if layout:
        parts.append(markdown_table(table_of(layout, records)))
        notes = [*notes_of(layout, records), *([] if layout.kind in UNTIMED else mark_notes(records))]
    else:
        parts.append(markdown_table(warm_table(warm) if warm else comparison_table(records, sweep.baseline)))
        notes = [*([NOTE] if warm else []), *mark_notes(records)]
    transfers = transfer_rows(records)
    if transfers:
        parts.append(markdown_table(transfer_table(transfers)))
        notes.append(TRANSFERS_NOTE)
    notes += changed_graph_notes(records)
    items = [f"- {escaped(note)}" for note in notes] + [_failure(failure) for failure in failures(records)]
    return "\n\n".join([*parts, *(["\n".join(items)] if items else []), _provenance(sweep, records)])


def _failure(failure: Failure) -> str:
    """Return a line with the outcome, its reason, the first algorithms and engines, and the number of cells."""
    configs = [record["config"] for record in failure.records]
    kinds = list(dict.fromkeys(f"{config['algorithm']} by {config['engine']}" for config in configs))
    named = ", ".join(kinds[:_NAMED]) + (", ..." if len(kinds) > _NAMED else "")
    cells = f"{len(configs)} {'cell' if len(configs) == 1 else 'cells'}"
    return f"- {failure.outcome}: {escaped(failure.reason)} ({escaped(named)}; {cells})"


def _provenance(sweep: PublishedSweep, records: Sequence[Record]) -> str:
    """Return a table of the command, the machines, dates, commits and versions that the records name.

    ``records``: those of the sweep with merged rounds. Rounds that have not run count as cells.
    """
    outcomes = Counter(record["outcome"] for record in records)
    counts = ", ".join(f"{count} {outcome}" for outcome, count in outcomes.most_common())
    missing = sweep.cells - len(sweep.records)
    begun = sorted(record["started"] for record in sweep.records)
    environments = [record["environment"] for record in sweep.records if record["environment"]]
    versions = {
        f"{name} {version}"
        for one in environments
        for name, version in {"Python": one["python"], "onyx-harness": one["harness"], **one["packages"]}.items()
    }
    rows = [
        ("command", f"`{sweep.command}`"),
        ("device", _every(map(_device, sweep.records))),
        ("date", " to ".join(begun[end][:16].replace("T", " ") for end in (0, -1)) + " UTC"),
        ("commit", _every(str(one["commit"]) for one in environments)),
        ("versions", escaped(", ".join(sorted(versions, key=str.lower)))),
        ("graphs", _every(map(_graph, records))),
        ("cells", f"{len(records) + missing}, of which {counts}{_missing(missing)}"),
    ]
    return markdown_rows([("measurement", ""), ("---", "---"), *rows])


def _missing(cells: int) -> str:
    return f", {cells} not run" if cells else ""


def _every(texts: Iterable[str]) -> str:
    return escaped("; ".join(sorted({text for text in texts if text})))


def _graph(record: Record) -> str:
    """Return the name and the size of a record's graph; empty if it was not opened."""
    graph = record["graph"]
    return f"{graph['name']}: {graph['vertices']:,} vertices, {graph['edges']:,} edges" if graph else ""


def _device(record: Record) -> str:
    """Return the device of a record that was measured, with its driver; empty if it was not."""
    environment = record["environment"]
    if record["outcome"] != Outcome.OK or not environment:
        return ""
    gpu = environment.get("gpu")
    if gpu:
        return f"{gpu['name']}, driver {gpu['driver']}, CUDA {gpu['cuda']}"
    return f"{environment['cpu']}, {environment['threads']} of {environment['cores']} cores"
