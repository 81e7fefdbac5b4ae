"""Decide which records are comparable, and compare them."""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from harness.records import Record, machine_of
from harness.records.interleaved_rounds import contents_of
from harness.records.outcome import Outcome
from harness.records.schema import Solve
from harness.records.statistics import CONFIDENCE, FEWEST_SAMPLES, median_interval
from harness.records.timing_caveat import DISTURBING
from harness.report.units import seconds_range

Group = tuple[str, str, str, str]
UNEQUAL_CONVERGENCE = "not comparable: did not converge"
_HASH_LENGTH = 8  # displayed characters of a content hash


@dataclass(frozen=True)
class Ratio:
    """The speed-up over the baseline; it is between ``low`` and ``high`` with at least ``confidence``.

    ``sufficient``: both times have enough samples for a verdict. ``disturbed``: other work disturbed one of the times,
    which is not of interleaved rounds (:func:`disturbed`). Without a verdict no interval is shown either.
    """

    value: float
    low: float
    high: float
    confidence: float
    sufficient: bool
    disturbed: bool = False

    @property
    def conclusive(self) -> bool:
        """True if the interval allows a verdict: a difference, or none."""
        return self.sufficient and not self.disturbed

    @property
    def decided(self) -> bool:
        """True if the interval allows a verdict and excludes 1."""
        return self.conclusive and not self.low <= 1.0 <= self.high

    @property
    def doubt(self) -> str:
        """Reason why the ratio is not decided."""
        if not self.sufficient:
            return "too few samples"
        return "disturbed" if self.disturbed else "no difference"


def sufficient(solve: Solve) -> bool:
    """Return whether a time has enough samples for an interval and a verdict."""
    return solve["confidence"] >= CONFIDENCE


def interval_text(solve: Solve) -> str:
    """Return the interval of a time in the unit of its median, or the reason why it is withheld."""
    if not sufficient(solve):
        return f"{len(solve['samples'])} of {FEWEST_SAMPLES} samples"
    return seconds_range(solve["low"], solve["high"], solve["median"])


def confidence_note(records: Sequence[Record]) -> str:
    """Return a sentence with the lowest confidence of the records' intervals; empty if there are no times."""
    solves = [record["solve"] for record in records if record["outcome"] == Outcome.OK]
    solves += [solve for record in records if (solve := accurate(record))]
    shown = [solve["confidence"] for solve in solves if solve and sufficient(solve)]
    paired = all(len(solve["rounds"] or ()) >= FEWEST_SAMPLES for solve in solves if solve and sufficient(solve))
    few = sum(solve is not None and not sufficient(solve) for solve in solves)
    sentences = []
    if shown:
        one, both = _percent(min(shown)), _percent(min(shown) ** (1 if paired else 2))
        sentences.append(
            f"Intervals hold the true median with at least {one} confidence, those of speed-ups with {both}."
        )
    if few:
        sentences.append(
            f"{few} of {len(solves)} times have fewer than {FEWEST_SAMPLES} samples: no interval and no verdict is "
            "shown for them (measure.cap_s ended their measurement, or measure.repetitions is lower)."
        )
    return " ".join(sentences)


def _percent(share: float) -> str:
    """Return a share in per cent with one decimal, rounded down."""
    return f"{math.floor(1000 * share) / 10:.1f} %"


def changed_graphs(records: Sequence[Record]) -> dict[str, list[str]]:
    """Return the graphs that have several contents among the records, with their content hashes."""
    found: dict[str, dict[str, None]] = {}
    for record in records:
        contents = contents_of(record)
        if contents is not None:
            found.setdefault(record["labels"]["graph"], {})[contents] = None
    return {graph: list(hashes) for graph, hashes in found.items() if len(hashes) > 1}


def changed_graph_notes(records: Sequence[Record]) -> list[str]:
    """Return a sentence for each graph whose content changed between the records."""
    return [
        f"graph {graph!r} had {len(hashes)} different contents ({', '.join(map(_short, hashes))}): it changed between "
        "cells; only cells of equal content are compared"
        for graph, hashes in changed_graphs(records).items()
    ]


def graph_name(record: Record, name: str, changed: Collection[str]) -> str:
    """Return ``name``, with the content hash of the record's graph if that is one of the ``changed`` graphs."""
    contents = contents_of(record)
    if contents is None or record["labels"]["graph"] not in changed:
        return name
    return f"{name} (contents {_short(contents)})"


def _short(contents: str) -> str:
    return contents[:_HASH_LENGTH]


def group_of(record: Record, changed: Collection[str] = ()) -> Group:
    """Return the key of a record's group: graph, algorithm, features, limit of supersteps.

    ``changed``: graphs with several contents; their names include the content hash.
    """
    labels, config = record["labels"], record["config"]
    k = record["features"] if record["features"] is not None else config["features"]
    graph = graph_name(record, labels["graph"], changed)
    return graph, labels["algorithm"], "auto" if k is None else str(k), str(config["max_supersteps"])


def grouped(records: Sequence[Record]) -> list[tuple[Group, list[Record]]]:
    """Return the groups of records; groups and records are in order of first occurrence.

    A record that failed before its number of features or its graph's content was known joins the first group that
    matches in everything else.
    """
    changed = changed_graphs(records)
    groups: dict[Group, list[Record]] = {}
    incomplete = {id(record): record["features"] is None or contents_of(record) is None for record in records}
    for record in sorted(records, key=lambda record: incomplete[id(record)]):
        wanted = group_of(record, changed)
        if incomplete[id(record)]:
            wanted = next((group for group in groups if _may_join(record, wanted, group, changed)), wanted)
        groups.setdefault(wanted, []).append(record)
    order = {id(record): place for place, record in enumerate(records)}
    for members in groups.values():
        members.sort(key=lambda record: order[id(record)])
    return sorted(groups.items(), key=lambda item: order[id(item[1][0])])


def _may_join(record: Record, wanted: Group, group: Group, changed: Mapping[str, Sequence[str]]) -> bool:
    """Return whether a record with an unknown k or unknown content may join a group."""
    graph = record["labels"]["graph"]
    names = {graph, *(f"{graph} (contents {_short(contents)})" for contents in changed.get(graph, ()))}
    same_graph = group[0] == wanted[0] or (contents_of(record) is None and group[0] in names)
    same_features = group[2] == wanted[2] or wanted[2] == "auto"
    return same_graph and same_features and (group[1], group[3]) == (wanted[1], wanted[3])


def baseline_of(records: Sequence[Record], engine: str | None) -> Record | None:
    """Return the ok record of the baseline engine in a group, preferably of its default schedule; else None."""
    candidates = [r for r in records if r["config"]["engine"] == engine and r["outcome"] == Outcome.OK]
    return min(candidates, key=lambda record: record["labels"]["engine"] != engine, default=None)


def ratio(record: Record, baseline: Record | None, *, forced: bool = False, to_accuracy: bool = True) -> Ratio | None:
    """Return the speed-up of a record over the baseline; None if there is none, see :func:`obstacle`.

    It compares the times to equal accuracy if both records have one and ``to_accuracy`` is true, else the complete
    runs. ``forced`` also compares times of different sweeps and machines.
    """
    if baseline is None or record is baseline or obstacle(record, baseline):
        return None
    if not (forced or _of_one_sweep(record, baseline)):
        return None
    mine, theirs = accurate(record), accurate(baseline)
    if not (to_accuracy and mine and theirs):
        mine, theirs = record["solve"], baseline["solve"]
    found = ratio_of(mine, theirs) if _both_ok(record, baseline) and mine and theirs else None
    return found and replace(found, disturbed=disturbed(record) or disturbed(baseline))


def disturbed(record: Record) -> bool:
    """Return whether other work disturbed the time of a cell, and no rounds show how the time varies with it.

    The interval of a time describes the runs of a second or so. Another cell, measured later, may meet other load. Only
    the interval of interleaved rounds includes that variation.
    """
    solve = record["solve"]
    rounds = len(solve["rounds"] or ()) if solve else 0
    return rounds < FEWEST_SAMPLES and any(mark in record["marks"] for mark in DISTURBING)


def disturbance_notes(records: Sequence[Record]) -> list[str]:
    """Return a sentence on the times that allow no verdict because of other work; none if there are no such times."""
    found = sum(record["outcome"] == Outcome.OK and disturbed(record) for record in records)
    if not found:
        return []
    return [
        f"disturbed ({found} times): other work may have changed from one cell to the next, so ratios of these times "
        f"have no verdict; use an idle machine, or rounds={FEWEST_SAMPLES}, which measures all cells in turn"
    ]


def accurate(record: Record) -> Solve | None:
    """Return the timed runs to equal accuracy of an ok record; None if there are none."""
    accuracy = record["accuracy"]
    return accuracy["solve"] if accuracy is not None and record["outcome"] == Outcome.OK else None


def accuracy_note(records: Sequence[Record]) -> str:
    """Return a sentence that explains times to equal accuracy; empty if no record has one."""
    if not any(accurate(record) for record in records):
        return ""
    return (
        "To accuracy: the run to the first superstep whose answer is within the program's bound of the converged "
        "answer. Speed-ups compare these times if both rows have one, else complete runs."
    )


def obstacle(record: Record, baseline: Record | None) -> str:
    """Return why two ok records have no speed-up; empty if they are comparable.

    A converged run did different work than one that stopped at its limit of supersteps; so did runs on different
    contents of a graph.
    """
    if baseline is None or not _both_ok(record, baseline):
        return ""
    if contents_of(record) != contents_of(baseline):
        return "not comparable: another content of the graph"
    return UNEQUAL_CONVERGENCE if {record["settled"], baseline["settled"]} == {True, False} else ""


def ratio_of(mine: Solve, theirs: Solve) -> Ratio | None:
    """Return how many times faster ``mine`` is than ``theirs``; None if ``mine`` is too short for the clock.

    If both have the same number of rounds, at least six, their i-th rounds were measured one after the other. The ratio
    is then the median of the ratios within the rounds, with its interval: load that changes between rounds cancels.
    Otherwise the samples are independent, so both intervals hold together with the product of their confidences. The
    interval of the ratio holds with at least this confidence.
    """
    if not mine["low"] or not mine["median"]:
        return None
    pairs = _rounds_of_both(mine, theirs)
    if pairs:
        found = median_interval([other / own for own, other in pairs])
        return Ratio(found.median, found.low, found.high, found.confidence, found.confidence >= CONFIDENCE)
    low, high = theirs["low"] / mine["high"], theirs["high"] / mine["low"]
    confidence = mine["confidence"] * theirs["confidence"]
    return Ratio(theirs["median"] / mine["median"], low, high, confidence, sufficient(mine) and sufficient(theirs))


def _rounds_of_both(mine: Solve, theirs: Solve) -> list[tuple[float, float]]:
    """Return the medians of both in every round; none if the rounds are too few, differ, or are too short."""
    own, other = (list(map(statistics.median, solve["rounds"] or ())) for solve in (mine, theirs))
    if len(own) != len(other) or len(own) < FEWEST_SAMPLES or not all(own):
        return []
    return list(zip(own, other, strict=True))


def _both_ok(record: Record, other: Record) -> bool:
    return record["outcome"] == Outcome.OK and other["outcome"] == Outcome.OK


def _of_one_sweep(record: Record, other: Record) -> bool:
    return record["sweep"] == other["sweep"] and machine_of(record) == machine_of(other)
