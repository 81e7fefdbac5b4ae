"""The short run: which rows of long tests run by default. The other rows are marked ``full``.

``seconds.txt`` lists the test functions whose rows take more than ``MOST_S`` together, with the mean seconds of a row.
Of such a function, as many rows run by default as fit into ``MOST_S``: one if a row takes up to ``LONGEST_S``, none if
it takes longer.
``@pytest.mark.short_run(rows=8)`` gives the number for a function instead; ``always="TEXT"`` adds that the rows with
that text in their names are among them. The rows are chosen such that each value of a parameter occurs if possible. A
function that the list lacks runs whole, and so do functions that the command line names (``pytest FILE::test_name``).

The list is written by :mod:`tests.seconds`.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from tests.covering import covering

SECONDS = Path(__file__).with_name("seconds.txt")
MOST_S = 0.6  # for the rows of a function
LONGEST_S = 2.0  # for a row
_APART = ("full", "gpu", "benchmark")  # rows that do not run by default on any machine


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the rows that are left out of the short run."""
    if any("::" in argument for argument in config.args):
        return
    functions: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        if not any(item.get_closest_marker(name) for name in _APART):
            functions[function_of(item)].append(item)
    for name, left_out in left_out_of(functions, known_seconds()).items():
        for item in left_out:
            item.add_marker(pytest.mark.full(reason=f"{name} is long"))


def function_of(item: pytest.Item) -> str:
    """Return the name of the function of a row, with its file."""
    return item.nodeid.partition("[")[0]


def known_seconds() -> dict[str, float]:
    """Return the mean seconds of a row by function, from the list."""
    lines = map(str.split, SECONDS.read_text(encoding="utf-8").splitlines())
    return {name: float(seconds) for seconds, name in lines}


def left_out_of(
    functions: Mapping[str, Sequence[pytest.Item]], seconds: Mapping[str, float]
) -> dict[str, list[pytest.Item]]:
    """Return the rows to leave out of the short run, by function."""
    found = {}
    for name, rows in functions.items():
        marker = rows[0].get_closest_marker("short_run")
        always = marker.kwargs.get("always") if marker else None
        first = [row for row in rows if always and always in row.nodeid.partition("[")[2]]
        kept = {row.nodeid for row in chosen(rows, rows_to_run(rows, seconds.get(name, 0.0)), first)}
        found[name] = [row for row in rows if row.nodeid not in kept]
    return found


def rows_to_run(rows: Sequence[pytest.Item], seconds: float) -> int:
    """Return how many rows of a function run by default; ``seconds``: of a row."""
    given = rows[0].get_closest_marker("short_run")
    if given is not None:
        return int(given.kwargs["rows"])
    if seconds * len(rows) <= MOST_S:
        return len(rows)
    return max(int(MOST_S / seconds), int(seconds <= LONGEST_S))


def chosen(rows: Sequence[pytest.Item], count: int, first: Sequence[pytest.Item] = ()) -> list[pytest.Item]:
    """Return ``count`` rows, at least the ``first``, then those that show new values of parameters, then any.

    The last ones are chosen by the hash of their names.
    """
    if count >= len(rows):
        return list(rows)
    known = {value for row in first for value in _values(row)}
    new = covering(rows, lambda row: set(_values(row)) - known)
    first = [*first, *new[: max(0, count - len(first))]]
    names = {row.nodeid for row in first}
    others = sorted(
        (row for row in rows if row.nodeid not in names),
        key=lambda row: hashlib.sha256(row.nodeid.encode()).digest(),
    )
    return [*first, *others[: max(0, count - len(first))]]


def _values(row: pytest.Item) -> list[tuple[int, str]]:
    """Return the parts of a row's name, which are its parameters, with their places."""
    return list(enumerate(row.nodeid.partition("[")[2].rstrip("]").split("-")))
