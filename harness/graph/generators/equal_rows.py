"""Graphs whose rows of edges have one length: they show what a pattern of accesses costs."""

from __future__ import annotations

import numpy as np

from harness.graph.errors import GraphError
from harness.graph.graph import Graph


def equal_rows(num_vertices: int = 4096, length: int = 32, shift: int = 0, seed: int = 1) -> Graph:
    """Return a directed graph in which every vertex has `length` out-edges, to distinct random vertices.

    shift: additional edges of vertex 0. The rows of all others then begin `shift` edges behind a multiple of `length`.
    With 32 edges of 4 bytes, a row is a line of 128 bytes, or overlaps two of them (Min et al. 2020, figure 3).
    Raises GraphError for invalid parameters.
    """
    check_equal_rows(num_vertices, length, shift)
    rng = np.random.default_rng(seed)
    part = (num_vertices - 1) // (length + shift)  # a neighbour is drawn from each part of the other vertices
    distance = rng.integers(0, part, (num_vertices, length)) + 1 + part * np.arange(length)
    more = rng.integers(0, part, shift) + 1 + part * np.arange(length, length + shift)
    source = np.concatenate([np.repeat(np.arange(num_vertices), length), np.zeros(shift, np.int64)])
    target = (source + np.concatenate([distance.ravel(), more])) % num_vertices
    return Graph.from_edges(
        source.astype(np.int32),
        target.astype(np.int32),
        num_vertices=num_vertices,
        name=f"rows_{num_vertices}x{length}" + (f"+{shift}" if shift else ""),
        duplicates="keep",  # there are none
        meta={"generator": "equal_rows", "length": length, "shift": shift, "seed": seed},
    )


def check_equal_rows(num_vertices: int, length: int, shift: int) -> None:
    """Raise GraphError for invalid parameters of `equal_rows`."""
    if length < 1 or shift < 0 or not length + shift < num_vertices < 2**31:
        raise GraphError(
            f"equal_rows: num_vertices={num_vertices}, length={length}, shift={shift}; they must satisfy length >= 1, "
            "shift >= 0 and length + shift < num_vertices < 2**31"
        )
