"""Inputs with one value for the whole graph."""

from __future__ import annotations

import numpy as np
import pytest

from harness.graph import Graph
from harness.language import InvalidInput, K, LanguageError
from harness.language.program import describe
from tests.language.programs import program_of, run

ring = Graph.from_edges([0, 1, 2], [1, 2, 0], name="ring")


def turned(p, self):
    p.graph("turn", (K, K))
    p.graph("shift")
    p.vertex("first", K)
    p.vertex("x", K, start="first")
    p.over_edges(into="met", reduce="sum")(lambda src, graph: src.x @ graph.turn)
    p.over_vertices(lambda v, graph: {"x": v.met + graph.shift})
    p.repeat(2)
    p.output("x", bound=1e-6)


def test_edge_and_vertex_functions_read_it():
    turn = np.array([[1, 2], [3, 4]], np.float32)
    first = np.array([[1, 0], [0, 1], [1, 1]], np.float32)
    x = first
    for _ in range(2):
        x = np.roll(x, 1, axis=0) @ turn + 0.5
    done = run(program_of(turned), ring, 2, 2, turn=turn, shift=np.float32(0.5), first=first)
    np.testing.assert_allclose(done.values("x"), x)


@pytest.mark.parametrize(
    ("turn", "words"),
    [
        (np.ones((1, 2, 2)), r"input 'turn' has shape \(1, 2, 2\); the program needs \(2, 2\)"),
        (np.ones((2, 3)), r"needs \(2, 2\)"),
        (np.full((2, 2), np.nan), "contains NaN"),
        (None, r"input 'turn' \(graph property of shape \(K, K\)\) was not given"),
    ],
)
def test_unsuitable_inputs_are_refused(turn, words):
    given = {} if turn is None else {"turn": turn}
    with pytest.raises(InvalidInput, match=words):
        run(program_of(turned), ring, 2, shift=np.float32(0), first=np.zeros((3, 2)), **given)


def test_it_cannot_be_written_nor_declared_twice():
    def written(p, self):
        p.graph("shift")
        p.over_graph(into="shift", reduce="sum")(lambda v: v.out_degree)

    def twice(p, self):
        turned(p, self)
        p.graph("turn")

    with pytest.raises(LanguageError, match="'shift' is an input; declare it with a start"):
        program_of(written)
    with pytest.raises(LanguageError, match="'turn' is already a property of the graph"):
        program_of(twice)


def test_it_is_described():
    assert "graph turn: float(K, K) (input)" in describe(program_of(turned))
