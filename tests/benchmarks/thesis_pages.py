"""The thesis's tables 7.2 and 7.4 laid out from what was measured, and what follows from them: where Onyx wins and
where it loses. Pure: nothing here knows of devices."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from tests.benchmarks.cuda_sheet import Column, Part

LEFT_OUT = "left out"  # the outcome of a cell that the time did not allow
KINDS = {"social networks": "", "roads": "road", "meshes": "delaunay"}  # by a word in the name of a graph


class Place(NamedTuple):
    """A cell of the tables."""

    features: int
    algorithm: str
    graph: str
    engine: str


@dataclass
class Entry:
    """What there is of a cell: milliseconds of whole runs (``samples``) of ``supersteps`` each, or an ``outcome`` such
    as *unsupported* in the place of a time, with its ``reason``."""

    samples: list[float] = field(default_factory=list)
    supersteps: int = 0
    outcome: str = ""
    reason: str = ""

    @property
    def ms(self) -> float | None:
        """The median; None where no time is shown."""
        return statistics.median(self.samples) if self.samples and not self.outcome else None

    def text(self) -> str:
        """For the tables: milliseconds of a run and, in brackets, of a superstep; a run that was timed once has a
        mark."""
        if self.ms is None:
            return self.outcome
        once = "¹" if len(self.samples) == 1 else ""
        return f"{brief(self.ms)}{once} ({brief(self.ms / max(1, self.supersteps))})"


def failed(told: str) -> Entry:
    """The entry of a cell without a time, from words such as "unsupported: its reason"."""
    outcome, _, reason = told.partition(": ")
    return Entry(outcome=outcome, reason=reason)


def brief(ms: float) -> str:
    """Three digits, or all before the point."""
    if ms >= 100:
        return f"{ms:,.0f}"
    return f"{ms:.{max(0, 2 - math.floor(math.log10(ms)))}f}" if ms > 0 else "0"


@dataclass
class Tables:
    """``engines``: the columns in their order, the first ``variants`` of them Onyx's."""

    engines: Sequence[str]
    algorithms: Sequence[str]
    limit: int
    variants: int = 4
    entries: dict[Place, Entry] = field(default_factory=dict)
    graphs: list[str] = field(default_factory=list)  # in the order of rows

    def left_out(self, graph: str = "") -> list[Place]:
        """The cells, of one graph or of all, that the time did not allow."""
        return [at for at, one in self.entries.items() if one.outcome == LEFT_OUT and graph in ("", at.graph)]

    def parts(self) -> list[Part]:
        """All tables and lists in which there is something."""
        found = [
            self.summary(), self.losses(), self.wins(), *self.all_times(), *self.relative(), self.without_times(),
            self.settled(),
        ]  # fmt: skip
        return [part for part in found if part.rows]

    def row(self, features: int, algorithm: str, graph: str) -> Mapping[str, Entry]:
        """What is known of a row, by engine."""
        places = {engine: Place(features, algorithm, graph, engine) for engine in self.engines}
        return {engine: self.entries[place] for engine, place in places.items() if place in self.entries}

    def rows(self, features: int | None = None, kind: str | None = None) -> Iterator[tuple[int, str, str]]:
        """The rows of which something is known."""
        ks = sorted({place.features for place in self.entries}) if features is None else [features]
        for k in ks:
            for algorithm in self.algorithms:
                for graph in self.graphs:
                    if kind in (None, kind_of(graph)) and self.row(k, algorithm, graph):
                        yield k, algorithm, graph

    def tables(self) -> Iterator[tuple[int, str]]:
        """Numbers of features and kinds of graphs, of which there is a table each."""
        for k in sorted({place.features for place in self.entries}):
            yield from ((k, kind) for kind in KINDS if any(kind_of(graph) == kind for graph in self.graphs))

    # tables -----------------------------------------------------------------------------------------------------------
    def all_times(self) -> Iterator[Part]:
        """As table 7.4, of every engine: milliseconds of a run, and of a superstep."""
        for k, kind in self.tables():
            title = f"as table 7.4, k = {k}, {kind}: milliseconds of a run (of a superstep)"
            part = Part(title, [*_ROW, *(Column(engine, 16) for engine in self.engines)])
            for _, algorithm, graph in self.rows(k, kind):
                row = self.row(k, algorithm, graph)
                texts = [row[engine].text() if engine in row else "-" for engine in self.engines]
                part.rows.append([algorithm, graph, *texts, ""])
            yield part

    def relative(self) -> Iterator[Part]:
        """As table 7.2: the first variant's milliseconds, the others as so many times as fast."""
        first, *others = self.engines[: self.variants]
        for k, kind in self.tables():
            title = f"as table 7.2, k = {k}, {kind}: {first} in milliseconds, the others in times as fast"
            part = Part(title, [*_ROW, *(Column(engine, 10) for engine in (first, *others))])
            for _, algorithm, graph in self.rows(k, kind):
                row = self.row(k, algorithm, graph)
                base = row[first].ms if first in row else None
                texts = [row[first].text().partition(" (")[0] if first in row else "-"]
                for engine in others:
                    entry = row.get(engine)
                    if entry is None or entry.ms is None:
                        texts.append(entry.outcome if entry else "-")
                    else:
                        texts.append(f"{base / entry.ms:.2f}x" if base else f"{brief(entry.ms)} ms")
                part.rows.append([algorithm, graph, *texts, ""])
            yield part

    # verdicts ---------------------------------------------------------------------------------------------------------
    def best(self, row: Mapping[str, Entry], engines: Sequence[str]) -> tuple[str, float] | None:
        """The fastest of some engines, and its milliseconds; None where none has a time."""
        times = {name: entry.ms for name in engines if (entry := row.get(name)) is not None}
        return min(((n, ms) for n, ms in times.items() if ms is not None), key=lambda pair: pair[1], default=None)

    def against(self) -> Iterator[tuple[list[str], tuple[str, float] | None, tuple[str, float] | None, float | None]]:
        """Of every row: its name, the best of Onyx, the best of the others, and how many times as fast Onyx is."""
        for k, algorithm, graph in self.rows():
            row = self.row(k, algorithm, graph)
            own, other = (self.best(row, names) for names in (self._own, self._others))
            yield [algorithm, graph, str(k)], own, other, other[1] / own[1] if own and other else None

    @property
    def _own(self) -> Sequence[str]:
        return self.engines[: self.variants]

    @property
    def _others(self) -> Sequence[str]:
        return self.engines[self.variants :]

    def summary(self) -> Part:
        """How the best of Onyx's variants does over the best of the others and over each, in geometric means."""
        columns = [
            Column("k", 3), Column("algorithm", 9, "<"), Column("Onyx fastest", 12), Column("over the best", 13),
            *(Column(f"over {engine}", 15) for engine in self._others),
        ]  # fmt: skip
        part = Part("Onyx's best variant over the others, geometric means of times as fast (over how many)", columns)
        for k in sorted({place.features for place in self.entries}):
            for algorithm in self.algorithms:
                rows = [self.row(*key) for key in self.rows(k) if key[1] == algorithm]
                ratios = self._ratios(rows, self._others)
                known = [self._ratios(rows, [engine]) for engine in self._others]
                won = f"{sum(ratio > 1 for ratio in ratios)} of {len(ratios)}"
                part.rows.append([str(k), algorithm, won, *map(_mean, [ratios, *known]), ""])
        return part

    def _ratios(self, rows: Sequence[Mapping[str, Entry]], others: Sequence[str]) -> list[float]:
        pairs = [(self.best(row, self._own), self.best(row, others)) for row in rows]
        return [other[1] / own[1] for own, other in pairs if own and other]

    def wins(self) -> Part:
        """Where Onyx's best variant is faster than everything else, most first."""
        found = [(row, own, other, times) for row, own, other, times in self.against() if own and (times or 2.0) > 1]
        part = Part(f"where Onyx wins: {len(found)} rows", _DUEL)
        for row, own, other, times in sorted(found, key=lambda one: -(one[3] or math.inf)):
            part.rows.append([*row, *_duellists(own, other), f"{times:.2f}x" if times else "alone", ""])
        return part

    def losses(self) -> Part:
        """Every row in which something is as fast as the best of Onyx's variants, or faster; the worst first."""
        found = [(row, own, other, times) for row, own, other, times in self.against() if other and (times or 0) <= 1]
        part = Part(f"where Onyx loses: {len(found)} rows", [*_DUEL, Column("all that are faster", 40, "<")])
        for row, own, other, times in sorted(found, key=lambda one: one[3] or 0):
            faster = self.faster(int(row[2]), row[0], row[1], own[1] if own else math.inf)
            part.rows.append([*row, *_duellists(own, other), f"{times:.2f}x" if times else "no time", faster, ""])
        return part

    def faster(self, features: int, algorithm: str, graph: str, ms: float) -> str:
        """The other engines that take no more than ``ms``, each with how many times as fast it is."""
        row = self.row(features, algorithm, graph)
        times = [(name, row[name].ms) for name in self._others if name in row]
        known = sorted((taken, name) for name, taken in times if taken is not None and taken <= ms)
        return ", ".join(f"{name} {ms / taken:.2f}x" if ms < math.inf else name for taken, name in known)

    def without_times(self) -> Part:
        """Every cell that has no time, and why; cells of one engine with the same reason together."""
        part = Part("cells without a time, and why", _REASONS)
        together: dict[tuple[str, str, str, str], list[str]] = {}
        for place, entry in self.entries.items():
            if entry.outcome:
                key = (place.engine, place.algorithm, entry.outcome, entry.reason)
                together.setdefault(key, []).append(f"{place.graph} k={place.features}")
        for (engine, algorithm, outcome, reason), where in together.items():
            part.rows.append([engine, algorithm, outcome, reason, ", ".join(where), ""])
        return part

    def settled(self) -> Part:
        """Runs that ended before the limit, since nothing moved any more."""
        columns = [*_ROW, Column("k", 3), Column("after", 60, "<")]
        part = Part(f"runs that settled before {self.limit} supersteps", columns)
        for k, algorithm, graph in self.rows():
            row = self.row(k, algorithm, graph)
            early = {name: one.supersteps for name, one in row.items() if one.ms is not None}
            if any(steps < self.limit for steps in early.values()):
                told = ", ".join(f"{name} {steps}" for name, steps in early.items())
                part.rows.append([algorithm, graph, str(k), told, ""])
        return part


_ROW = [Column("", 4, "<"), Column("graph", 22, "<")]
_DUEL = [
    Column("", 4, "<"), Column("graph", 22, "<"), Column("k", 3), Column("Onyx", 9, "<"), Column("ms", 8),
    Column("the best of the others", 9, "<"), Column("ms", 8), Column("Onyx is as fast", 9),
]  # fmt: skip
_REASONS = [
    Column("engine", 9, "<"), Column("", 4, "<"), Column("outcome", 14, "<"), Column("reason", 60, "<"),
    Column("where", 40, "<"),
]  # fmt: skip


def kind_of(graph: str) -> str:
    """The kind of a graph by its name."""
    return next((kind for kind, word in KINDS.items() if word and word in graph), next(iter(KINDS)))


def _duellists(own: tuple[str, float] | None, other: tuple[str, float] | None) -> list[str]:
    return [text for one in (own, other) for text in ((one[0], brief(one[1])) if one else ("-", "-"))]


def _mean(ratios: Sequence[float]) -> str:
    return f"{statistics.geometric_mean(ratios):.2f}x ({len(ratios)})" if ratios else "-"
