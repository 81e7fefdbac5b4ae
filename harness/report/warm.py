"""Warm runs compared with cold ones: continuing from the answer before a change versus starting from scratch."""

from __future__ import annotations

from collections.abc import Sequence

from rich.table import Table

from harness.records import Record
from harness.records.outcome import Outcome
from harness.report.comparison import group_of, ratio_of
from harness.report.console import plain_table
from harness.report.series import engine_label
from harness.report.units import count, seconds

HEADINGS = (
    "graph", "algorithm", "k", "engine", "start", "warm", "cold", "cold over warm", "supersteps", "edges visited",
    "examined first",
)  # fmt: skip
NUMBERS = HEADINGS[5:]
NOTE = (
    "Supersteps and edges visited: of the warm run and of a cold run, both on the changed graph. Examined first: "
    "edges examined outside the timed runs to find the vertices to reset."
)


def warm_rows(records: Sequence[Record]) -> list[tuple[str, ...]]:
    """Return the ok warm runs among the records, each as texts in the order of ``HEADINGS``."""
    return [_row(record) for record in records if record["warm"] is not None and record["outcome"] == Outcome.OK]


def _row(record: Record) -> tuple[str, ...]:
    warm, mine = record["warm"], record["solve"]
    if warm is None or mine is None:
        raise ValueError(f"record {record['identity']} has no timed warm run")
    graph, algorithm, k, _ = group_of(record)
    found = ratio_of(mine, warm["cold"])
    over = "-" if found is None else f"{found.value:.3g}x" if found.decided else found.doubt
    steps, cold = record["supersteps"], warm["cold_supersteps"]
    edges = (count(sum(step[1] for step in run)) for run in (steps, cold))
    return (
        graph, algorithm, k, engine_label(record), warm["start"], seconds(mine["median"]),
        seconds(warm["cold"]["median"]), over, f"{len(steps)} / {len(cold)}", " / ".join(edges),
        count(warm["edges_examined"]),
    )  # fmt: skip


def warm_table(rows: Sequence[tuple[str, ...]]) -> Table:
    """Return the rows as a table for a terminal."""
    return plain_table("Warm / cold, after the change", HEADINGS, rows, {"k", *NUMBERS})
