"""Steps that update both ends of edges: what the traced function returns, and edges that can run at the same time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
from numpy.typing import NDArray

from harness.language.errors import LanguageError, SourceLine
from harness.language.expressions import Expression, _operand, read
from harness.language.operators import where
from harness.language.program import CONFLICTS, EDGE_ORDERS, ENDS, Conflicts, EdgeOrder, EdgeStep, End, Property

Edges = NDArray[np.int64]
_FORM = '{"src": {"property": value, ...}, "dst": {...}}'


def edge_step(
    name: str, returned: object, guard: Expression | None, order: str, conflicts: str,
    properties: Mapping[str, Property], line: SourceLine,
) -> EdgeStep:  # fmt: skip
    """Return the stage of a traced function that returned the new values of both ends; ``guard``: see ``when=``.

    Raises LanguageError for a result, an order or a treatment of conflicts that is not one, and for a value whose shape
    or dtype is not that of the property.
    """
    if order not in EDGE_ORDERS:
        raise LanguageError(f"order={order!r} is not known; it is {' or '.join(EDGE_ORDERS)}", line)
    if conflicts not in CONFLICTS:
        raise LanguageError(f"conflicts={conflicts!r} is not known; it is {' or '.join(CONFLICTS)}", line)
    if not isinstance(returned, dict) or set(returned) != set(ENDS):
        raise LanguageError(f"{name} must return {_FORM}: it updates both ends of an edge", line)
    values = [_value(name, end, returned[end], properties, guard, line) for end in ENDS]
    kept_order: EdgeOrder = "any" if order == "any" else "given"
    kept_conflicts: Conflicts = "serial" if conflicts == "serial" else "lossy"
    return EdgeStep(name, tuple(one for part in values for one in part), kept_order, kept_conflicts, line)


def _value(
    name: str, end: End, returned: object, properties: Mapping[str, Property], guard: Expression | None,
    line: SourceLine,
) -> list[tuple[End, str, Expression]]:  # fmt: skip
    """Return the new values of one end."""
    if not isinstance(returned, dict) or not returned:
        raise LanguageError(f"{name} must return {_FORM}; for {end!r} it gives no property", line)
    found: list[tuple[End, str, Expression]] = []
    for own, given in returned.items():
        prop, value = properties.get(own), _operand(given)
        if prop is None or prop.place != "vertex":
            raise LanguageError(f"{name} updates {own!r}, which is no declared property of vertices", line)
        if (prop.shape, prop.dtype) != (value.shape, value.dtype):
            raise LanguageError(
                f"{own!r} is a {prop.dtype} of shape {prop.shape}; {name} gives a {value.dtype} of shape {value.shape}",
                value.where,
            )
        if guard is not None:
            value = where(guard, value, read(end, own, prop.shape, prop.dtype))
        found.append((end, own, value))
    return found


def levels(sources: NDArray[np.integer], destinations: NDArray[np.integer], order: Edges) -> Iterator[Edges]:
    """Yield the edges of ``order`` in groups without a common end, such that edges with a common end keep their order.

    ``sources``, ``destinations``: vertices of all edges, [E]. ``order``: positions of edges, each at most once. Running
    the groups one after another, and the edges of a group in any order, is the same as running the edges in ``order``.
    The number of groups is the length of the longest chain of edges, each of which has an end in common with the one
    before it. Takes O(E log E) time.
    """
    ends = np.stack([sources[order], destinations[order]], axis=1).reshape(-1)
    by_vertex = np.argsort(ends, kind="stable")  # the two ends of edge i of the order are at 2 i and 2 i + 1
    follows = ends[by_vertex[1:]] == ends[by_vertex[:-1]]
    later = np.full(len(ends), -1, np.int64)
    later[by_vertex[:-1][follows]] = by_vertex[1:][follows] // 2
    next_at_ends = later.reshape(-1, 2)
    waits = np.bincount(later[later >= 0], minlength=len(order))
    group = np.flatnonzero(waits == 0)
    while len(group):
        yield order[group]
        released = next_at_ends[group].reshape(-1)
        released = released[released >= 0]
        np.subtract.at(waits, released, 1)
        group = np.unique(released[waits[released] == 0])
