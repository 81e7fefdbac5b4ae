"""A few rows of a long table that together cover everything that the whole table covers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TypeVar

Row = TypeVar("Row")


def covering(
    rows: Sequence[Row], shown: Callable[[Row], Collection[Hashable]], cost: Callable[[Row], float] = lambda _: 1.0
) -> list[Row]:
    """Choose rows greedily by the number of new items that they cover, divided by their cost; ties go to the first.

    Rows that later ones make redundant are removed. If ``shown`` returns all pairs of a row's values, this is
    pairwise testing (the greedy choice of Cohen et al. 1997).
    """
    left = [(row, set(shown(row)), cost(row)) for row in rows]
    chosen = []
    while left:
        row, new, _ = max(left, key=lambda item: len(item[1]) / item[2])
        if not new:
            break
        chosen.append(row)
        left = [(other, rest, price) for other, found, price in left if (rest := found - new)]
    return _without_the_redundant(chosen, shown, cost)


def _without_the_redundant(
    rows: list[Row], shown: Callable[[Row], Collection[Hashable]], cost: Callable[[Row], float]
) -> list[Row]:
    """Remove the rows that only show what others do, the most expensive first."""
    times = Counter(item for row in rows for item in set(shown(row)))
    kept = list(rows)
    for row in sorted(rows, key=cost, reverse=True):
        if all(times[item] > 1 for item in shown(row)):
            kept.remove(row)
            times.subtract(set(shown(row)))
    return kept
