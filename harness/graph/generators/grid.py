"""Road-like grids: low degree, large diameter, some edges removed, some shortcuts added."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.graph.errors import GraphError
from harness.graph.graph import Graph


def lattice_edges(rows: int, columns: int, diagonals: bool) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return each edge of the 4-neighbour lattice once (8 with `diagonals`); vertex = row * columns + column."""
    number = np.arange(rows * columns, dtype=np.int32).reshape(rows, columns)
    pairs = [(number[:, :-1], number[:, 1:]), (number[:-1], number[1:])]
    if diagonals:
        pairs += [(number[:-1, :-1], number[1:, 1:]), (number[:-1, 1:], number[1:, :-1])]
    ends = zip(*((u.ravel(), v.ravel()) for u, v in pairs), strict=True)
    u, v = (np.concatenate(end) for end in ends)
    return u, v


def grid(
    rows: int = 256,
    columns: int = 256,
    removed: float = 0.1,
    diagonals: bool = False,
    shortcuts: float = 0.0,
    length_spread: float = 0.5,
    seed: int = 1,
) -> Graph:
    """Return a rows x columns grid, undirected, with random lengths as weights.

    removed: the share of grid edges removed at random; the graph may become disconnected.
    diagonals: also join diagonal neighbours. shortcuts: number of extra edges between random vertices, as a share of V.
    length_spread: s; an edge's weight is the distance of its ends in grid units times a factor uniform in [1-s, 1+s].
    vertex_data["position"] is (column, row), float32[V, 2].
    Raises GraphError for invalid parameters.
    """
    check_grid(rows, columns, removed, shortcuts, length_spread)
    rng = np.random.default_rng(seed)
    u, v = lattice_edges(rows, columns, diagonals)
    kept = rng.random(u.size) >= removed
    extra = rng.integers(0, rows * columns, size=(2, round(shortcuts * rows * columns)), dtype=np.int32)
    extra = extra[:, extra[0] != extra[1]]
    u, v = np.concatenate([u[kept], extra[0]]), np.concatenate([v[kept], extra[1]])
    distance = np.hypot(u // columns - v // columns, u % columns - v % columns)
    weights = distance * rng.uniform(1 - length_spread, 1 + length_spread, size=u.size)
    row, column = np.divmod(np.arange(rows * columns), columns)
    return Graph.from_edges(
        u,
        v,
        num_vertices=rows * columns,
        weights=weights,
        name=f"grid_{rows}x{columns}",
        symmetrize=True,
        duplicates="min",  # a shortcut may repeat a grid edge
        vertex_data={"position": np.stack([column, row], axis=1).astype(np.float32)},
        meta={"generator": "grid", "rows": rows, "columns": columns, "seed": seed},
    )


def check_grid(rows: int, columns: int, removed: float, shortcuts: float, length_spread: float) -> None:
    """Raise GraphError for invalid parameters of `grid`."""
    if rows < 1 or columns < 1 or rows * columns >= 2**31:
        raise GraphError(f"grid: {rows} x {columns}; both must be positive and their product below 2**31")
    if not (0 <= removed <= 1 and shortcuts >= 0 and 0 <= length_spread < 1):
        raise GraphError(
            f"grid: removed={removed}, shortcuts={shortcuts}, length_spread={length_spread}; "
            "they must satisfy 0 <= removed <= 1, shortcuts >= 0 and 0 <= length_spread < 1"
        )
