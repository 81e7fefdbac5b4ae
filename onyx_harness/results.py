"""The records of a comparison, as rows, a table, a figure and HTML."""

from __future__ import annotations

import io
from collections.abc import Iterator
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.campaign.answers import ARRAYS_FILE
from harness.records import Record, merge_rounds
from harness.records.outcome import Outcome
from harness.report.comparison import baseline_of, grouped, ratio
from harness.report.results import NothingFound, read_results
from harness.report.series import engine_label

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_WIDTH = 180  # of a table as text, in characters


class Results:
    """The records of `compare` or `sweep`, one for each cell with its rounds merged, in the order of the request.

    records: records with the fields of docs/record-schema.json. baseline: the engine that speed-ups are relative to, or
    None. folder: the folder of the sweep, with the page ``report.html``. cells: the number of cells requested.
    """

    def __init__(
        self, records: tuple[Record, ...], baseline: str | None, folder: Path, cells: int, *, keep: object = None
    ) -> None:
        """``keep``: an object that owns the folder, such as a temporary one."""
        self.records, self.baseline, self.folder, self.cells = records, baseline, folder, cells
        self._keep = keep

    @classmethod
    def read(cls, folder: str | Path, *, keep: object = None) -> Results:
        """Read the records below a folder: one sweep, or several. A sweep without records has no rows.

        Raises RecordError for an invalid record.
        """
        place = Path(folder)
        try:
            found = read_results(place)
        except NothingFound:
            return cls((), None, place, 0, keep=keep)
        merged = tuple(merge_rounds(found.records))
        missing = max(0, found.cells - len(found.records))
        return cls(merged, found.baseline, place, len(merged) + missing, keep=keep)

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each cell. Times are in seconds; None: there is no such value.

        graph, algorithm, features, engine, device, outcome, reason; solve_s (median) with low_s and high_s, samples;
        speed_up over the baseline with speed_up_low and speed_up_high (None: not comparable), faster (None: no
        difference, too few samples, or disturbed); supersteps, settled, edges_visited, error (largest relative), marks
        (caveats of the times), and ``metric_NAME`` for each metric.
        """
        names = dict.fromkeys(f"metric_{name}" for record in self.records for name in record["metrics"])
        rows = []
        for _, members in grouped(self.records):
            base = baseline_of(members, self.baseline)
            rows += [{**dict.fromkeys(names), **_row(record, base)} for record in members]
        order = [name for name in rows[0] if name not in names] if rows else []
        return [{name: row[name] for name in [*order, *names]} for row in rows]

    def frame(self) -> Any:
        """Return the rows as a pandas DataFrame. Raises ImportError if pandas is not installed; `rows` needs none."""
        try:
            import pandas as pd
        except ImportError as error:
            raise ImportError("frame() needs pandas: pip install pandas; rows() returns dictionaries") from error
        return pd.DataFrame(self.rows())

    def answers(self, record: Record) -> dict[str, NDArray[Any]]:
        """Return the outputs that ``save=`` kept for a record of these results, by name, in the program's shapes.

        ``vertex`` has the names of the vertices, integers or strings [V], if they have names. Raises FileNotFoundError
        if the cell kept no answer.
        """
        for folder in (self.folder / record["cell"], self.folder / record["sweep"] / record["cell"]):
            path = folder / ARRAYS_FILE
            if path.is_file():
                with np.load(path, allow_pickle=False) as arrays:
                    return dict(arrays)
        raise FileNotFoundError(
            f"{engine_label(record)} ({record['outcome']}) kept no answer below {self.folder}; right answers are kept "
            "with overrides=['save=arrays']"
        )

    def table(self, width: int | None = None) -> str:
        """Return the table of the terminal as text, with its notes and the reason of every failure.

        width: in characters; columns that do not fit are dropped and listed. None: every column.
        """
        from rich.console import Console

        from harness.report.summary import show_sweep

        text = io.StringIO()
        out = Console(file=text, highlight=False, width=width or _WIDTH)
        show_sweep(self.records, self.cells, self.baseline, self.folder, out=out, width=width)
        return "\n".join(line.rstrip() for line in text.getvalue().splitlines())

    def figure(self, kind: str | None = None) -> Figure:
        """Return a Matplotlib figure of the first comparison.

        kind: "speed-ups" over the baseline, "features" (time over k), "supersteps" (active vertices) or "phases"; None:
        the first of these that the records have. Save it as SVG with ``figure().savefig("figure.svg")``.

        Raises ImportError, naming the extra, if Matplotlib is not installed, and ValueError, with the kinds that there
        are, for another kind.
        """
        from harness.report.figures import figures_of, settings

        met = []
        with settings():
            for name, _, figure in figures_of(self.records, self.baseline):
                if kind in (None, name):
                    return figure
                met.append(name)
        there = ", ".join(dict.fromkeys(met)) or "none"
        raise ValueError(f"there is no figure{f' of kind {kind!r}' if kind else ''} of these records (kinds: {there})")

    def _repr_html_(self) -> str:
        """Return the table as HTML, for notebooks."""
        from harness.report.table import comparison_table

        if not self.records:
            return f"<p>{escape(repr(self))}</p>"
        table = comparison_table(self.records, self.baseline)
        heads = "".join(f"<th>{_html(column.header)}</th>" for column in table.columns)
        rows = zip(*(column.cells for column in table.columns), strict=True)
        body = "".join("<tr>" + "".join(f"<td>{_html(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        failed = [record for record in self.records if record["outcome"] != Outcome.OK]
        items = "".join(
            f"<li>{escape(engine_label(record))}: {escape(record['outcome'])}: {escape(record['reason'])}</li>"
            for record in failed
        )
        reasons = f"<ul>{items}</ul>" if items else ""
        return f"<table><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>{reasons}"

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __repr__(self) -> str:
        ok = sum(record["outcome"] == Outcome.OK for record in self.records)
        return f"<Results: {len(self.records)} of {self.cells} cells, {ok} ok, in {self.folder}>"


def _row(record: Record, base: Record | None) -> dict[str, Any]:
    solve = record["solve"] if record["outcome"] == Outcome.OK else None
    found = None if record is base else ratio(record, base)
    validation = record["validation"]
    return {
        "graph": record["labels"]["graph"],
        "algorithm": record["labels"]["algorithm"],
        "features": record["features"] or record["config"]["features"],
        "engine": engine_label(record),
        "device": record["config"]["device"]["kind"],
        "outcome": record["outcome"],
        "reason": record["reason"],
        "solve_s": solve and solve["median"],
        "low_s": solve and solve["low"],
        "high_s": solve and solve["high"],
        "samples": 0 if solve is None else len(solve["samples"]),
        "speed_up": found and found.value,
        "speed_up_low": found and found.low,
        "speed_up_high": found and found.high,
        "faster": found.value > 1 if found is not None and found.decided else None,
        "supersteps": len(record["supersteps"]) or None,
        "settled": record["settled"],
        "edges_visited": sum(step[1] for step in record["supersteps"]) or None,
        "error": validation and validation["error"],
        "marks": [str(mark) for mark in record["marks"]],
        **{f"metric_{name}": value for name, value in record["metrics"].items()},
    }


def _html(cell: Any) -> str:
    return escape(getattr(cell, "plain", str(cell))).replace("\n", "<br>")
