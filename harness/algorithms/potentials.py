"""Potentials of pairwise Markov networks: checked, masked by states and evidence, scaled for float32."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language import InvalidInput

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]
DRAWN_STATES = 4  # of vertices with drawn potentials, as in Vaz 2021
_AT_ONCE = 1 << 15  # potentials: temporary arrays stay in the cache of a core
LEAST = 1e-37  # relative to the largest: keeps unlikely but possible states possible; float32 would round them to zero


def scaled(potentials: Array, name: Callable[[int], str]) -> NDArray[np.float32]:
    """Scale potentials ``[N, ...]`` to a largest of 1 per row; positive ones are kept at 1e-37 or more.

    Raises InvalidInput for a negative or infinite potential, and for a row of zeros. ``name`` formats the row's number
    for the message, as in "variable 3".
    """
    potentials = np.asarray(potentials)
    flat = potentials.reshape(len(potentials), math.prod(potentials.shape[1:]))
    result = np.empty(flat.shape, np.float32)
    rows = max(1, _AT_ONCE // max(1, flat.shape[1]))
    for first in range(0, len(flat), rows):
        part = slice(first, first + rows)
        result[part] = _scaled(np.asarray(flat[part], np.float64), first, name)
    return result.reshape(potentials.shape)


def _scaled(flat: NDArray[np.float64], first: int, name: Callable[[int], str]) -> NDArray[np.float64]:
    """Scale the rows from the number ``first`` on."""
    wrong = np.argwhere(~(np.isfinite(flat) & (flat >= 0)))
    if len(wrong):
        row, entry = wrong[0]
        raise InvalidInput(
            f"{name(first + int(row))} has the potential {flat[row, entry]:g}; potentials are finite and >= 0"
        )
    top = flat.max(axis=1, initial=0.0, keepdims=True)
    empty = np.flatnonzero(top == 0)
    if len(empty):
        raise InvalidInput(
            f"{name(first + int(empty[0]))} has potentials that are all zero: no state is possible; correct them"
        )
    kept: NDArray[np.float64] = flat / top
    np.maximum(kept, LEAST, out=kept)
    kept[flat == 0] = 0.0
    return kept


def drawn_potentials(count: int, features: int, seed: int) -> NDArray[np.float32]:
    """Draw potentials uniformly from 0.1 to 1, float32[count, k], and scale the largest of each row to 1."""
    drawn = np.random.default_rng(seed).uniform(0.1, 1.0, (count, features))
    return scaled(drawn, lambda v: f"drawn potentials: vertex {v}")


def number_of_states(graph: Graph) -> int:
    """Return the largest number of states of a variable: the columns of vertex data "unary". Raises InvalidInput if
    none."""
    shape = graph.vertex_data["unary"].shape
    if len(shape) != 2 or not shape[1]:
        raise InvalidInput(
            f"graph {graph.name!r} has unary potentials of shape {shape}; give every variable a row of its states"
        )
    return int(shape[1])


def unary_potentials(graph: Graph, features: int) -> NDArray[np.float32]:
    """Return the vertex potentials, float32[V, k], from vertex data "unary" ``[V, states]``.

    They are zero beyond a variable's states ("cardinality", if given) and at all states but the observed one
    ("evidence", if given; -1: none). Raises InvalidInput.
    """
    states, unary = number_of_states(graph), np.asarray(graph.vertex_data["unary"], np.float64)
    if features < states:
        raise InvalidInput(
            f"graph {graph.name!r} has variables of {states} states but features={features}; set features={states}"
        )
    mask = state_mask(graph)
    observed = graph.vertex_data.get("evidence", np.full(len(unary), -1))[:, None]
    outside = np.flatnonzero((observed[:, 0] < -1) | (observed[:, 0] >= mask.sum(axis=1)))
    if len(outside):
        v = outside[0]
        raise InvalidInput(
            f"variable {v} of graph {graph.name!r} is observed in state {observed[v, 0]}; it has the states 0 to "
            f"{mask[v].sum() - 1}"
        )
    seen = (observed < 0) | (np.arange(states) == observed)
    phi = np.zeros((len(unary), features))
    phi[:, :states] = np.where(mask & seen, unary, 0.0)
    return scaled(phi, lambda v: f"graph {graph.name!r}, the evidence taken into account: variable {v}")


def pairwise_potentials(
    kind: str, graph: Graph, features: int, smoothness: float, truncation: float
) -> NDArray[np.float32]:
    """Return the edge potentials of the graph (*edge*), or one :func:`truncated_linear` table (*shared*).

    Raises InvalidInput, also for *shared* on a graph with its own edge potentials.
    """
    if kind == "edge":
        return edge_potentials(graph, features)
    if "pairwise" in graph.edge_data:
        raise InvalidInput(f"graph {graph.name!r} has potentials on its edges; set potentials=edge")
    return truncated_linear(features, smoothness, truncation)


def edge_potentials(graph: Graph, features: int) -> NDArray[np.float32]:
    """Return float32[E, k, k] from edge data "pairwise": entry [x, y] of u -> v is for u = x and v = y.

    Raises InvalidInput.
    """
    if "pairwise" not in graph.edge_data:
        raise InvalidInput(f"graph {graph.name!r} has no potentials on its edges; set potentials=shared")
    tables = graph.edge_data["pairwise"]
    if tables.ndim != 3 or tables.shape[1] != tables.shape[2]:
        raise InvalidInput(
            f"graph {graph.name!r} has pairwise potentials of shape {tables.shape[1:]}; make them square"
        )
    mask = state_mask(graph)
    states = mask.shape[1]
    if tables.shape[1] != states:
        raise InvalidInput(
            f"graph {graph.name!r} has pairwise potentials of {tables.shape[1]} states and unary ones of {states}; pad "
            "the smaller ones"
        )
    source, destination = graph.csr.row_of_edge, graph.csr.neighbours
    if (source == destination).any():
        v = destination[source == destination][0]
        raise InvalidInput(f"graph {graph.name!r} has an edge from variable {v} to itself; make that a unary potential")
    _require_transposed(graph, tables)
    psi = np.zeros((len(tables), features, features))
    psi[:, :states, :states] = np.where(mask[source][:, :, None] & mask[destination][:, None, :], tables, 0.0)
    return scaled(psi, lambda e: f"graph {graph.name!r}: edge {source[e]} -> {destination[e]}")


def _require_transposed(graph: Graph, tables: Array) -> None:
    """Raise InvalidInput unless the reverse of every edge has the transposed table ``[E, states, states]``."""
    if not graph.has_reverse_edges:
        raise InvalidInput(
            f"graph {graph.name!r}: an edge has no reverse edge with its transposed potentials; give both"
        )
    other = np.flatnonzero((tables[graph.reverse_edges] != tables.transpose(0, 2, 1)).any(axis=(1, 2)))
    if len(other):
        u, v = graph.csr.row_of_edge[other[0]], graph.csr.neighbours[other[0]]
        raise InvalidInput(
            f"graph {graph.name!r}: the potentials of edge {v} -> {u} are not the transpose of those of {u} -> "
            f"{v}; correct one of them"
        )


def state_mask(graph: Graph) -> NDArray[np.bool_]:
    """Return which states each variable has, bool[V, states]."""
    states = number_of_states(graph)
    cardinality = graph.vertex_data.get("cardinality", np.full(graph.num_vertices, states))
    mask: NDArray[np.bool_] = np.arange(states) < cardinality[:, None]
    return mask


def truncated_linear(features: int, smoothness: float, truncation: float) -> NDArray[np.float32]:
    """Return exp(-smoothness * min(|x - y|, truncation)), float32[k, k]; Potts if truncation = 1. Raises
    InvalidInput."""
    if smoothness < 0 or truncation <= 0:
        raise InvalidInput(
            f"smoothness={smoothness}, truncation={truncation}: smoothness must be >= 0 and truncation positive"
        )
    label = np.arange(features)
    distance = np.minimum(np.abs(label[:, None] - label), truncation)
    return np.asarray(np.maximum(np.exp(-smoothness * distance), LEAST), np.float32)
