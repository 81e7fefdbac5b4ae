"""A few rows of a long table that show between them all that the whole table shows."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TypeVar

Row = TypeVar("Row")


def covering(rows: Sequence[Row], shown: Callable[[Row], Collection[Hashable]]) -> list[Row]:
    """Rows, chosen one by one for how much they show that none before did; of equal ones the first.

    With ``shown`` all pairs of a row's values, that is pairwise testing (the greedy choice of Cohen et al. 1997).
    """
    left = [(row, set(shown(row))) for row in rows]
    chosen = []
    while left:
        row, new = max(left, key=lambda item: len(item[1]))
        if not new:
            break
        chosen.append(row)
        left = [(other, rest) for other, found in left if (rest := found - new)]
    return chosen
