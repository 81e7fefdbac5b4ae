"""Write the list of long tests, which :mod:`tests.short_run` reads.

``pytest -n 2 --junitxml=FILE -m 'full or not full'`` measures; ``python -m tests.seconds FILE`` writes ``seconds.txt``.
The short run, ``pytest -n 2 --junitxml=FILE``, has all rows of the functions that the list lacks: ``--short`` adds the
functions with several rows.
"""

from __future__ import annotations

import argparse
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from pathlib import Path

from tests import short_run

ROOT = Path(__file__).parents[1]


def measured(report: Path) -> dict[str, tuple[float, int]]:
    """Return the seconds of all rows of each function in a JUnit report, and their number."""
    found: dict[str, tuple[float, int]] = {}
    for case in ET.parse(report).iter("testcase"):
        if case.find("skipped") is not None or case.get("name") is None:
            continue
        parts = str(case.get("classname")).split(".")
        file = max((at for at in range(len(parts) + 1) if _module(parts[:at]).is_file()), default=0)
        if file == 0:
            continue
        path = _module(parts[:file]).relative_to(ROOT).as_posix()
        name = "::".join([path, *parts[file:], str(case.get("name")).partition("[")[0]])
        seconds, rows = found.get(name, (0.0, 0))
        found[name] = seconds + float(case.get("time", 0.0)), rows + 1
    return found


def _module(parts: Sequence[str]) -> Path:
    return ROOT.joinpath(*parts).with_suffix(".py") if parts else ROOT


def main(arguments: Sequence[str] | None = None) -> None:
    """Write the list from a report; functions that the report lacks keep their lines."""
    parser = argparse.ArgumentParser("tests.seconds", description=main.__doc__)
    parser.add_argument("report", type=Path, help="written by pytest --junitxml=FILE")
    short = "of a report of the short run: only add functions with several rows that the list lacks"
    parser.add_argument("--short", action="store_true", help=short)
    given = parser.parse_args(arguments)
    seconds = short_run.known_seconds() if short_run.SECONDS.exists() else {}
    kept = set(seconds) if given.short else set()
    for name, (total, rows) in measured(given.report).items():
        if name in kept or (given.short and rows == 1):
            continue
        seconds.pop(name, None)
        if total > short_run.MOST_S:
            seconds[name] = total / rows
    lines = [f"{seconds[name]:.2f} {name}\n" for name in sorted(seconds)]
    short_run.SECONDS.write_text("".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
