"""A few rows of a long table that together cover everything that the whole table covers."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from typing import TypeVar

Row = TypeVar("Row")


def covering(rows: Sequence[Row], shown: Callable[[Row], Collection[Hashable]]) -> list[Row]:
    """Choose rows greedily by the number of new items that they cover; ties go to the first.

    If ``shown`` returns all pairs of a row's values, this is pairwise testing (the greedy choice of Cohen et al.
    1997).
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
