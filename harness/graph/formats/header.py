"""Recognize the format of a text table by the names in its header."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

_NAMES = {
    "user": {"user", "userid", "uid", "reviewer", "reviewerid"},
    "item": {"item", "itemid", "iid", "movie", "movieid", "product", "productid", "asin"},
    "rating": {"rating", "ratings", "score", "stars", "overall", "value"},
    "source": {"source", "src", "from", "fromnodeid", "u", "tail", "node1", "sourceid"},
    "destination": {"destination", "dst", "dest", "target", "to", "tonodeid", "v", "head", "node2", "targetid"},
    "weight": {"weight", "w", "cost", "distance", "length", "value", "rating"},
}
Kind = Literal["ratings", "edge_list"]


def split_header(line: str, delimiter: str | None) -> list[str]:
    """Return the fields of a line without surrounding whitespace and quotation marks; delimiter None: whitespace."""
    return [field.strip().strip("\"'").strip() for field in line.split(delimiter)]


def is_header(fields: Sequence[str]) -> bool:
    """Return whether the first two fields are names, i.e. begin with a letter or an underscore."""
    return len(fields) > 1 and all(re.match(r"[A-Za-z_]", field) for field in fields[:2])


def kind_of(fields: Sequence[str]) -> Kind | None:
    """Return the format that the column names indicate, or None.

    ratings: user, item, rating and optionally one more. edge_list: source, destination and optionally a weight.
    """
    names = [re.sub(r"[^a-z0-9]", "", field.lower()) for field in fields]
    if _begins(names, "user", "item", "rating") and len(names) in (3, 4):
        return "ratings"
    if _begins(names, "source", "destination") and len(names) == 2:
        return "edge_list"
    if _begins(names, "source", "destination", "weight") and len(names) == 3:
        return "edge_list"
    return None


def _begins(names: Sequence[str], *columns: str) -> bool:
    return len(names) >= len(columns) and all(
        name in _NAMES[column] for name, column in zip(names, columns, strict=False)
    )
