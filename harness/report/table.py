"""The comparison table of a sweep."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from harness.records import Record
from harness.records.floor import share_of_floor
from harness.records.outcome import Outcome
from harness.records.schema import Accuracy
from harness.report.comparison import Group, accurate, baseline_of, grouped, interval_text, obstacle, ratio
from harness.report.console import literal
from harness.report.progress import outcome_text
from harness.report.series import engine_label
from harness.report.units import count, percent, quality, seconds

# The columns of names with their minimum widths.
_NAMES = {"graph": 7, "algorithm": 7, "k": 1, "engine": 7}
# Names keep these widths until the first _LESSER columns of _SPARED have been dropped.
_WHOLE_NAMES, _LESSER = {"graph": 14, "algorithm": 17, "k": 1, "engine": 12}, 5
_OUTCOME = 7
_NUMBERS = (
    "solve (median)", "interval", "to accuracy", "supersteps", "a superstep", "floor", "edges visited", "error",
    "quality",
)  # fmt: skip
_SPARED = ("edges visited", "floor", "a superstep", "error", "quality", "supersteps", "interval", "to accuracy")
_ANY_WIDTH = 10_000
_BREAK = "\n"
UNSETTLED, UNCOUNTED = "not settled", "not counted"
FLOOR_NOTE = (
    "floor: a lower bound of the time of a run, from its bytes, atomic additions and launches at the rates of the "
    "device, as a share of the median time; 100 % cannot be exceeded"
)
UNSETTLED_NOTE = "not settled: stopped at the limit of supersteps; metrics that need a settled answer are omitted"


def comparison_table(records: Sequence[Record], baseline: str | None, width: int | None = None) -> Table:
    """Return the table with one row per record, grouped by graph, algorithm and k; only ok cells show a time.

    ``width``: width of the terminal in characters. Columns that do not fit next to names, outcomes, times and speed-ups
    are dropped; the caption lists them.
    """
    known = {"to accuracy": accurate, "floor": share_of_floor}
    absent = [name for name, value in known.items() if not any(value(record) is not None for record in records)]
    whole = {**_WHOLE_NAMES, **{name: _least(records, name, _WHOLE_NAMES[name]) for name in ("algorithm", "engine")}}
    tries = [(whole, left_out) for left_out in range(_LESSER + 1)]
    tries += [(_NAMES, left_out) for left_out in range(len(_SPARED) + 1)]
    for names, left_out in tries:
        table = _table(records, baseline, names, _SPARED[:left_out], absent)
        if width is None or Console(width=_ANY_WIDTH).measure(table).minimum <= width:
            break
    return table


def _least(records: Sequence[Record], name: str, least: int) -> int:
    """Return the width at which no name in a column is wrapped, but at most ``least``."""
    return min(least, max((len(record["labels"].get(name, "")) for record in records), default=least))


def _table(
    records: Sequence[Record], baseline: str | None, names: Mapping[str, int], spared: Collection[str],
    absent: Collection[str],
) -> Table:  # fmt: skip
    table = Table(title_justify="left", pad_edge=False, caption_justify="left")
    for name, least in names.items():
        table.add_column(
            name, justify="right" if name == "k" else "left", overflow="fold", min_width=least, no_wrap=name == "k"
        )
    table.add_column("outcome", min_width=_OUTCOME)
    kept = [name for name in _NUMBERS if name not in spared and name not in absent]
    for name in kept:
        table.add_column(name.replace(" ", "\n") if spared else name, justify="right", no_wrap=True)
    over = f"speed-up{_BREAK if spared else ' '}over {baseline}" if baseline else "speed-up"
    table.add_column(over, justify="right", no_wrap=True)
    for group, members in grouped(records):
        table.add_section()
        base = baseline_of(members, baseline)
        for place, record in enumerate(members):
            begin = _group_cells(group, members, first=place == 0)
            table.add_row(*begin, *_cells(record, base, kept))
    if spared:
        table.caption = (
            f"not shown at this width: {', '.join(name for name in _NUMBERS if name in spared and name not in absent)}"
        )
    return table


def _group_cells(group: Group, members: Sequence[Record], *, first: bool) -> list[Text]:
    if not first:
        return [Text()] * 3
    graph, algorithm, k, limit = group
    size = next((record["graph"] for record in members if record["graph"]), None)
    if size is not None:
        graph = f"{graph}\n{count(size['vertices'])} vertices\n{count(size['edges'])} edges"
    if limit != "None":
        algorithm = f"{algorithm}\nat most {limit} supersteps"
    return [literal(graph), literal(algorithm), literal(k)]


def _cells(record: Record, base: Record | None, kept: Sequence[str]) -> list[Text]:
    solve, validation, steps = record["solve"], record["validation"], record["supersteps"]
    timed = solve if record["outcome"] == Outcome.OK else None
    mark, share = _mark(record), share_of_floor(record)
    numbers = {
        "solve (median)": Text("-" if timed is None else seconds(timed["median"])),
        "interval": Text("-" if timed is None else interval_text(timed) + mark),
        "to accuracy": Text(accuracy_text(record)),
        "supersteps": _supersteps(record),
        "a superstep": Text("-" if timed is None or not steps else seconds(timed["median"] / len(steps))),
        "floor": Text("-" if share is None else percent(share)),
        "edges visited": Text(count(sum(step[1] for step in steps)) if steps else "-"),
        "error": Text("-" if validation is None else f"{validation['error']:.1e}"),
        "quality": _quality(record),
    }
    named = [literal(engine_label(record)), outcome_text(record["outcome"])]
    return [*named, *(numbers[name] for name in kept), _speed_up(record, base)]


def unsettled(record: Record) -> bool:
    """Return whether the run stopped at its limit of supersteps before it settled."""
    return record["settled"] is False and record["outcome"] == Outcome.OK


def accuracy_text(record: Record) -> str:
    """Return the time to equal accuracy with its superstep, or why there is none."""
    timed, accuracy = accurate(record), record["accuracy"]
    if accuracy is None or record["outcome"] != Outcome.OK:
        return "-"
    if timed is None:
        return "not reached" if accuracy["error"] > accuracy["bound"] else "not timed"
    return f"{seconds(timed['median'])} ({stop_of(accuracy)})"


def stop_of(accuracy: Accuracy) -> str:
    """Return the superstep at which a run to equal accuracy stopped, or its tolerance."""
    if accuracy["tolerance"] is not None:
        return f"tolerance {accuracy['tolerance']:.1e}"
    return str(accuracy["superstep"])


def uncounted(record: Record) -> bool:
    """Return whether the engine solved the whole problem without counting supersteps."""
    return record["outcome"] == Outcome.OK and not record["supersteps"]


def _supersteps(record: Record) -> Text:
    steps = record["supersteps"]
    if uncounted(record):
        return Text(UNCOUNTED)
    return Text(f"{len(steps)}{f', {UNSETTLED}' if unsettled(record) else ''}" if steps else "-")


def marked(record: Record) -> bool:
    """Return whether the time of this cell has a mark."""
    return bool(record["marks"])


def _mark(record: Record) -> str:
    return " *" if marked(record) else ""


def _quality(record: Record) -> Text:
    metrics = [f"{name} {quality(value)}" for name, value in record["metrics"].items()]
    return literal("\n".join(metrics) or "-")


def _speed_up(record: Record, base: Record | None) -> Text:
    if record is base:
        return Text("1 (baseline)")
    found = ratio(record, base)
    if found is None:
        return Text(obstacle(record, base).replace(": ", ":\n") or "-")
    if not found.decided:
        return Text(found.doubt)
    return Text(f"{found.value:.3g}x [{found.low:.3g}, {found.high:.3g}]", "green" if found.value > 1 else "red")
