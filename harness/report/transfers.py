"""Reads of edges outside of the memory of the device: bytes, amplification, requests."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.table import Table

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.comparison import group_of
from harness.report.console import plain_table
from harness.report.series import engine_label
from harness.report.units import count, percent

SIZES = ("32", "64", "96", "128")  # bytes of a request over the host link
HEADINGS = (
    "graph", "algorithm", "k", "engine", "visited", "moved", "amplification", "moved/s",
    *(f"{size} B" for size in SIZES),
    "subgraphs", "parts of the time",
)  # fmt: skip
NUMBERS = HEADINGS[4:-2]
NOTE = (
    "Visited: bytes of the edges that kernels read, each time. Moved: bytes that were moved for them, by the means. "
    "Amplification: moved over visited. Requests over the host link by their bytes are modelled from the rows of "
    "active vertices."
)
NONE = "-"


def transfer_rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """Return the ok runs that counted transfers, each as texts in the order of ``HEADINGS``.

    The last one is left out if no run has timed parts.
    """
    rows = [_row(record) for record in records if record["transfers"] and record["outcome"] == Outcome.OK]
    return rows if any(row[-1] != NONE for row in rows) else [row[:-1] for row in rows]


def headings(rows: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Return the headings of rows."""
    return HEADINGS[: len(rows[0])] if rows else HEADINGS


def _row(record: Record) -> tuple[str, ...]:
    found, solve = record["transfers"], record["solve"]
    assert found is not None
    graph, algorithm, k, _ = group_of(record)
    moved, ratio, total = found["moved_bytes"], found["amplification"], sum(found["moved_bytes"].values())
    requests = [count(found["requests"][size]) if size in found["requests"] else NONE for size in SIZES]
    return (
        graph, algorithm, k, engine_label(record), count(found["visited_bytes"]),
        ", ".join(f"{count(nbytes)} {means}" for means, nbytes in moved.items()) or NONE,
        NONE if ratio is None else f"{ratio:.3g}",
        count(round(total / solve["median"])) if moved and solve else NONE, *requests,
        ", ".join(f"{count(number)} {kind}" for kind, number in found["subgraphs"].items()) or NONE,
        _parts(found["seconds"], solve["median"] if solve else 0.0),
    )  # fmt: skip


def _parts(seconds: Mapping[str, float], total: float) -> str:
    """Return the shares of the median time of a run."""
    found = [f"{percent(value / total)} {name}" for name, value in sorted(seconds.items())] if total else []
    return ", ".join(found) or NONE


def transfer_table(rows: Sequence[tuple[str, ...]]) -> Table:
    """Return the rows as a table for a terminal."""
    return plain_table("Edges from outside of the device's memory, bytes", headings(rows), rows, {"k", *NUMBERS})
