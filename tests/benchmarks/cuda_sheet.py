"""The lines of a benchmark: printed as soon as they are known, and kept as a page of Markdown with what they were
measured on at its head; and the time that it may take."""

from __future__ import annotations

import platform
import shlex
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from harness.campaign.environment import environment


@dataclass(frozen=True)
class Column:
    """A column of a table: its name, its width in print, and ``<`` or ``>`` for the side it keeps to."""

    name: str
    width: int
    side: str = ">"

    def cell(self, text: str) -> str:
        """The text in its place."""
        return f"{text:{self.side}{self.width}}"


@dataclass(frozen=True)
class Ratio:
    """How many times as fast one is as the other, and how many it has to be at least (None: told only)."""

    graph: str
    features: int
    words: str
    times: float
    at_least: float | None = None

    @property
    def missed(self) -> bool:
        """Whether it falls short, as it is printed: to two places."""
        return self.at_least is not None and round(self.times, 2) < self.at_least

    def asked(self) -> str:
        """What was asked for and whether it is there."""
        if self.at_least is None:
            return ""
        return f"at least {self.at_least:g}: {'MISSED' if self.missed else 'met'}"


@dataclass
class Part:
    """A part of the benchmark: a title, a table, and ratios of its rows."""

    title: str
    columns: Sequence[Column]
    rows: list[list[str]] = field(default_factory=list)
    ratios: list[Ratio] = field(default_factory=list)


TITLE = "Onyx on CUDA, measured"
INTRODUCTION = "Written by the command below, not by hand; [how to read it](onyx-on-cuda.md#reading-the-tables)."


class Sheet:
    """Prints, and keeps what is printed. ``page``: a file of Markdown that always holds what is known so far, under a
    ``title`` and an ``introduction``."""

    def __init__(
        self, command: Sequence[str], page: Path | None = None, title: str = TITLE, introduction: str = INTRODUCTION
    ) -> None:
        self.command, self.page, self.start = command, page, time.monotonic()
        self.title, self.introduction = title, introduction
        self.began = datetime.now(UTC)
        self.head: dict[str, str] = {}
        self.graphs: list[str] = []
        self.parts: list[Part] = []
        self.left_out: dict[str, list[str]] = {}

    def describe(self, **facts: str) -> None:
        """What everything is measured on and with."""
        self.head |= facts
        print(", ".join(f"{name} {value}" for name, value in facts.items()), flush=True)

    def graph(self, description: str) -> None:
        """A graph that is measured on."""
        self.graphs.append(description)
        print(f"\n{description} [{self.spent:.0f} s]", flush=True)

    def part(self, title: str, columns: Sequence[Column]) -> None:
        """A part of the table begins."""
        self.parts.append(Part(title, columns))
        print(f"\n== {title} [{self.spent:.0f} s]\n{' '.join(c.cell(c.name) for c in columns)}", flush=True)
        self.write()

    def row(self, values: Sequence[str], remark: str = "") -> None:
        """A line; where there are fewer values than columns, the remark (an outcome) stands in their place."""
        part = self.parts[-1]
        part.rows.append([*values, *[""] * (len(part.columns) - len(values)), remark])
        shown = [column.cell(value) for column, value in zip(part.columns, values, strict=False)]
        print(" ".join([*shown, remark]).rstrip(), flush=True)

    def ratio(self, ratio: Ratio) -> None:
        """How two rows compare."""
        self.parts[-1].ratios.append(ratio)
        asked = f"  ({ratio.asked()})" if ratio.at_least is not None else ""
        print(f"{ratio.graph:<17} {ratio.features:>4}  -> {ratio.words}: {ratio.times:.2f}x{asked}", flush=True)

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    @property
    def asked(self) -> list[Ratio]:
        """The ratios that something is asked of."""
        return [ratio for part in self.parts for ratio in part.ratios if ratio.at_least is not None]

    def close(self, left_out: dict[str, list[str]], note: str = "") -> None:
        """Say what came of what was asked for, and what was left out."""
        self.left_out = left_out
        print(f"\n{self.spent:.0f} s{f'; {note}' if note else ''}")
        if self.asked:
            met = sum(not ratio.missed for ratio in self.asked)
            print(f"{met} of {len(self.asked)} ratios are what they have to be at least")
        for ratio in self.asked:
            if ratio.missed:
                print(f"  {ratio.graph} k={ratio.features} {ratio.words}: {ratio.times:.2f}x ({ratio.asked()})")
        for what, which in left_out.items():
            print(f"left out for want of time: {what}: {', '.join(which)}")
        if note:
            self.head["ended early"] = note
        self.write()

    def write(self) -> None:
        """Bring the page up to date."""
        if self.page is not None:
            self.page.write_text(self.markdown(), encoding="utf-8")

    def markdown(self) -> str:
        """All of it."""
        head = {
            **self.head, "begun": f"{self.began:%Y-%m-%d %H:%M} UTC", "taken": f"{self.spent:.0f} s",
            "command": f"`{shlex.join(self.command)}`",
        }  # fmt: skip
        lines = [f"# {self.title}", "", self.introduction, ""]
        lines += _table(["", ""], [[name, value] for name, value in head.items()])
        lines += ["", *(f"- `{graph}`" for graph in self.graphs), "", *self._markdown_of_asked()]
        for part in self.parts:
            lines += ["", f"## {part.title[:1].upper()}{part.title[1:]}", "", *_markdown_of(part)]
        if self.left_out:
            lines += ["", "## Left out for want of time", ""]
            lines += [f"- {what}: {', '.join(which)}" for what, which in self.left_out.items()]
        return "\n".join(lines) + "\n"

    def _markdown_of_asked(self) -> list[str]:
        if not self.asked:
            return []
        missed = [ratio for ratio in self.asked if ratio.missed]
        told = f"{len(self.asked) - len(missed)} of {len(self.asked)} ratios are what they have to be at least"
        listed = [f"- {r.graph}, k = {r.features}, {r.words}: {r.times:.2f}x ({r.asked()})" for r in missed]
        return [f"{told}{'; these are not:' if missed else '.'}", "", *listed]


def _markdown_of(part: Part) -> list[str]:
    """A part's table and its ratios; a part of which nothing was measured says so."""
    if not part.rows:
        return ["Nothing of it fitted the time."]
    remarks = any(row[-1] for row in part.rows)
    names = [column.name for column in part.columns] + [""] * remarks
    sides = [column.side for column in part.columns] + ["<"] * remarks
    lines = _table(names, [row if remarks else row[:-1] for row in part.rows], sides)
    if part.ratios:
        rows = [[r.graph, str(r.features), r.words, f"{r.times:.2f}", r.asked()] for r in part.ratios]
        lines += ["", *_table(["graph", "k", "ratio", "times", "asked for"], rows, "<><><")]
    return lines


def _table(names: Sequence[str], rows: Sequence[Sequence[str]], sides: Sequence[str] | None = None) -> list[str]:
    rules = ["---:" if side == ">" else "---" for side in sides or "<" * len(names)]
    return [_line(names), _line(rules), *map(_line, rows)]


def _line(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cell.strip().replace("|", "\\|") for cell in cells) + " |"


class Budget:
    """Seconds for the whole benchmark; what does not fit is left out, and told at the end.

    ``pace``: what estimates are multiplied by, below 1 for small graphs.
    """

    def __init__(self, seconds: float, pace: float = 1.0) -> None:
        self.seconds, self.pace, self.start = seconds, pace, time.monotonic()
        self.end = self.start + seconds
        self.left_out: dict[str, list[str]] = {}

    @property
    def spent(self) -> float:
        """Seconds since the start."""
        return time.monotonic() - self.start

    def allows(self, what: str, which: str, seconds: float) -> bool:
        """Whether about ``seconds`` are left; where not, ``which`` of ``what`` is noted as left out."""
        if time.monotonic() + seconds * self.pace <= self.end:
            return True
        self.leave_out(what, which)
        return False

    def leave_out(self, what: str, which: str) -> None:
        """Note what is not done."""
        self.left_out.setdefault(what, []).append(which)

    @contextmanager
    def at_most(self, share: float) -> Iterator[None]:
        """A part that may take a share of the whole at most."""
        whole = self.end
        self.end = min(whole, time.monotonic() + share * self.seconds)
        try:
            yield
        finally:
            self.end = whole


def device_facts() -> dict[str, str]:
    """The present CUDA device, and the versions of what computes on it."""
    import cupy

    properties = cupy.cuda.runtime.getDeviceProperties(0)
    free, total = cupy.cuda.runtime.memGetInfo()
    told = environment()
    facts = {
        "device": f"{properties['name'].decode()}, {free / 2**30:.1f} of {total / 2**30:.1f} GiB free",
        "driver for CUDA": _version(cupy.cuda.runtime.driverGetVersion()),
        "NVRTC": ".".join(map(str, cupy.cuda.nvrtc.getVersion())),
        "CuPy": cupy.__version__,
        "NumPy": np.__version__,
        "Python": platform.python_version(),
        "onyx-harness": str(told["harness"]),
    }
    if "torch" in told["packages"]:
        facts["PyTorch"] = str(told["packages"]["torch"])
    if told["commit"]:
        facts["commit"] = str(told["commit"])
    return facts


def _version(number: int) -> str:
    return f"{number // 1000}.{number % 1000 // 10}"
