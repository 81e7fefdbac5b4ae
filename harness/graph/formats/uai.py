"""Pairwise Markov networks in the format of the UAI inference competitions, with their evidence files.

"File Formats", UAI 2014 Inference Competition: a preamble (MARKOV, cardinalities, scopes), then a table for each
factor, last variable fastest. The file FILE.uai.evid in the same folder gives observed values.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.graph.errors import GraphError
from harness.graph.formats.source import Source, TextStream, non_negative_integer
from harness.graph.graph import Graph

if TYPE_CHECKING:
    from harness.graph.formats import ReadOptions


@dataclass(frozen=True, eq=False)
class MarkovNetwork:
    """A pairwise Markov network on a Graph with both edges of every pair; k is the largest cardinality.

    cardinalities: int32[V]. unary: float64[V, k], zero beyond a variable's states, one for a variable without a factor.
    pairwise: float64[E, k, k] in CSR order; entry [x, y] of edge u -> v is the potential of u = x and v = y, zero
        beyond their states; the reverse edge has the transpose. Factors of the same scope are multiplied.
    evidence: (variable, state) pairs.
    """

    graph: Graph
    cardinalities: NDArray[np.int32]
    unary: NDArray[np.float64]
    pairwise: NDArray[np.float64]
    evidence: tuple[tuple[int, int], ...]

    @property
    def state_mask(self) -> NDArray[np.bool_]:
        """Mask of the states that each variable has, bool[V, k]."""
        mask: NDArray[np.bool_] = np.arange(self.unary.shape[1]) < self.cardinalities[:, None]
        return mask

    @classmethod
    def from_graph(cls, graph: Graph) -> MarkovNetwork:
        """Return the network in the vertex and edge data of `graph`, e.g. of a graph loaded from a .uai file.

        Without "cardinality" every variable has all states; without "evidence" none is observed. Raises GraphError if
        "unary" or "pairwise" is missing.
        """
        try:
            unary, pairwise = graph.vertex_data["unary"], graph.edge_data["pairwise"]
            everything, nothing = np.full(len(unary), unary.shape[1], np.int32), np.full(len(unary), -1, np.int32)
            observed = graph.vertex_data.get("evidence", nothing)
            evidence = tuple((int(v), int(observed[v])) for v in np.flatnonzero(observed >= 0))
            return cls(graph, graph.vertex_data.get("cardinality", everything), unary, pairwise, evidence)
        except KeyError as error:
            raise GraphError(
                f"graph {graph.name!r} has no {error} and is not a Markov network; load it from a .uai file"
            ) from error


def read(source: Source, options: ReadOptions) -> Graph:
    """Read the pairs of the network as an undirected graph.

    vertex_data: "cardinality" and "unary" as in MarkovNetwork, "evidence" int32[V] (-1: not observed).
    edge_data: "pairwise". Raises GraphError for a faulty file and for factors of three or more variables.
    """
    words = _Words(source)
    kind = words.take("the kind of network")
    if kind != "MARKOV":
        raise words.fault(
            f"the network is {kind[:20]!r}", "only MARKOV networks are supported; moralise a BAYES network first"
        )
    count = words.integer("the number of variables", 0, len(words.all))
    cardinalities = np.array([words.integer("a cardinality", 1, 2**16) for _ in range(count)], dtype=np.int32)
    scopes = _scopes(words, count)
    unary, pairs = _tables(words, cardinalities, scopes)
    words.expect_end()
    k = int(cardinalities.max(initial=1))
    size = len(words.data)
    source.refuse_table(2 * len(pairs) * k * k * 8, size, f"the potentials of {len(pairs)} pairs with up to {k} states")
    ends = np.array(list(pairs), dtype=np.int64).reshape(-1, 2)
    tables = np.zeros((2 * len(pairs), k, k))
    for i, ((u, v), table) in enumerate(pairs.items()):
        tables[i, : cardinalities[u], : cardinalities[v]] = table
        tables[len(pairs) + i, : cardinalities[v], : cardinalities[u]] = table.T
    return Graph.from_edges(
        np.concatenate([ends[:, 0], ends[:, 1]]),
        np.concatenate([ends[:, 1], ends[:, 0]]),
        num_vertices=count,
        name=options.name,
        directed=False,
        vertex_data={"cardinality": cardinalities, "unary": unary, "evidence": _evidence(source, cardinalities)},
        edge_data={"pairwise": tables},
        meta={"origin": source.path.name, "format": "uai", "factors": len(scopes)},
    )


class _Words:
    """The words of a text, taken one by one; errors give the line of the word taken last."""

    def __init__(self, source: Source) -> None:
        self.source = source
        with TextStream(source) as text:
            self.data = b"".join(block.data for block in text.blocks())
        self.all = self.data.split()
        self.taken = 0

    def take(self, what: str) -> str:
        if self.taken == len(self.all):
            raise GraphError.in_file(self.source.path, f"the file ends before {what}", "fetch the file again")
        self.taken += 1
        return self.all[self.taken - 1].decode("latin-1")

    def integer(self, what: str, low: int, high: int) -> int:
        word = self.take(what)
        number = non_negative_integer(word)
        if number is None or not low <= number <= high:
            raise self.fault(f"{what} is {word[:20]!r}", f"it must be an integer in {low}..{high}")
        return number

    def numbers(self, count: int, what: str) -> NDArray[np.float64]:
        """Take `count` finite, non-negative numbers. Raises GraphError."""
        words = self.all[self.taken : self.taken + count]
        if len(words) < count:
            self.taken = len(self.all)
            self.take(what)
        found = np.empty(count)
        for place, word in enumerate(words):
            self.taken += 1
            try:
                found[place] = float(word)
            except ValueError:
                found[place] = -1.0
            if not 0 <= found[place] < np.inf:
                raise self.fault(f"{what} is {word[:20].decode('latin-1')!r}", "it must be a finite number, 0 or more")
        return found

    def expect_end(self) -> None:
        if self.taken < len(self.all):
            self.taken += 1
            raise self.fault("there is more after the last table", "correct the number of factors")

    def fault(self, what: str, mend: str) -> GraphError:
        """Return the error with the line of the word taken last."""
        seen = 0
        for number, line in enumerate(self.data.split(b"\n"), start=1):
            seen += len(line.split())
            if seen >= self.taken:
                return GraphError.in_file(self.source.path, what, mend, line=number)
        return GraphError.in_file(self.source.path, what, mend)


def _scopes(words: _Words, count: int) -> list[tuple[int, ...]]:
    scopes: list[tuple[int, ...]] = []
    for _ in range(words.integer("the number of factors", 0, len(words.all))):
        size = words.integer("the size of a factor", 0, count)
        if size > 2:
            raise words.fault(
                f"factor {len(scopes)} joins {size} variables", "only unary and pairwise factors are supported"
            )
        scope = tuple(words.integer("a variable", 0, count - 1) for _ in range(size))
        if len(set(scope)) != size:
            raise words.fault(
                f"factor {len(scopes)} joins variable {scope[0]} with itself", "give it as a unary factor"
            )
        scopes.append(scope)
    return scopes


def _tables(
    words: _Words, cardinalities: NDArray[np.int32], scopes: list[tuple[int, ...]]
) -> tuple[NDArray[np.float64], dict[tuple[int, int], NDArray[np.float64]]]:
    """Return unary potentials [V, k] and a table per pair, lower variable first. Constant factors are dropped."""
    k = int(cardinalities.max(initial=1))
    described = f"the potentials of {cardinalities.size} variables with up to {k} states"
    words.source.refuse_table(cardinalities.size * k * 8, len(words.data), described)
    unary = np.where(np.arange(k) < cardinalities[:, None], 1.0, 0.0)
    pairs: dict[tuple[int, int], NDArray[np.float64]] = {}
    for number, scope in enumerate(scopes):
        shape = tuple(int(cardinalities[v]) for v in scope)
        size = int(np.prod(shape, dtype=np.int64))
        words.integer(f"the length of table {number} (its variables have {size} joint states)", size, size)
        table = words.numbers(size, f"an entry of table {number}").reshape(shape)
        if len(scope) == 1:
            unary[scope[0], : shape[0]] *= table
        elif len(scope) == 2:
            u, v = scope
            key, oriented = ((u, v), table) if u < v else ((v, u), table.T)
            pairs[key] = pairs[key] * oriented if key in pairs else oriented
    return unary, pairs


def _evidence(source: Source, cardinalities: NDArray[np.int32]) -> NDArray[np.int32]:
    """Return observed states, int32[V], -1 if not observed.

    The .evid file contains `N variable state ...`, optionally after a leading 1 (the number of samples).
    """
    observed = np.full(cardinalities.size, -1, dtype=np.int32)
    stem = source.path.with_suffix("") if source.compressed else source.path
    path = stem.with_name(stem.name + ".evid")
    if not path.exists():
        return observed
    words = _Words(Source(path, source.max_expansion))
    if len(words.all) % 2 == 0:
        words.integer("the number of samples", 1, 1)
    for _ in range(words.integer("the number of observations", 0, cardinalities.size)):
        variable = words.integer("an observed variable", 0, cardinalities.size - 1)
        observed[variable] = words.integer("an observed state", 0, int(cardinalities[variable]) - 1)
    words.expect_end()
    return observed
