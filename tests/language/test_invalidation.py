"""Values of a float32 engine that a changed graph no longer supports: all of them, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from harness.graph import Graph
from harness.language import Inputs, K, maximum, minimum
from harness.language.differences import Differences, Posed
from harness.language.invalidation import unreached, unsupported
from harness.language.monotone import one_way
from harness.language.warm import warm_start
from tests.language.programs import program_of, run

LENGTH = 300


def paths(sign):
    """Return shortest paths, or with a ``sign`` of -1 the greatest negative lengths of paths."""

    def build(p, self):
        better = minimum if sign > 0 else maximum
        p.edge("w")
        p.vertex("own", K)
        p.vertex("x", K, start="own")
        p.over_edges(into="best", reduce="min" if sign > 0 else "max")(lambda src, edge: src.x + sign * edge.w)
        p.over_vertices(lambda v: {"x": better(v.x, v.best)})
        p.until_settled(at_most=2 * LENGTH)
        p.output("x", bound=1e-4)

    return program_of(build)


PROGRAMS = {sign: paths(sign) for sign in (1, -1)}
SIGNS = pytest.mark.parametrize("sign", [1, -1], ids=["min", "max"])


def in_float32(graph, weights, own, sign):
    """Return the answer of an engine that adds in float32."""
    x, sources, heads = own.copy(), graph.csr.row_of_edge, graph.csr.neighbours
    for _ in range(graph.num_vertices):
        best = np.full_like(x, sign * np.inf)
        (np.minimum if sign > 0 else np.maximum).at(best, heads, x[sources] + np.float32(sign) * weights[:, None])
        moved = np.minimum(x, best) if sign > 0 else np.maximum(x, best)
        if (moved == x).all():
            break
        x = moved
    return x


def starts(vertices, sign, sources=(0,)):
    """Return values that are infinite except at one source per feature."""
    own = np.full((vertices, len(sources)), sign * np.inf, np.float32)
    own[list(sources), range(len(sources))] = 0.0
    return own


def changed(sign, old, new, own):
    """Return which values are lost, and the graphs with their inputs and the answer: ``old`` and ``new`` are edges."""
    posed = []
    for edges in (old, new):
        u, v, w = (np.array(column) for column in zip(*edges, strict=True))
        graph = Graph.from_edges(u, v, num_vertices=len(own), weights=w.astype(np.float32), name="drawn")
        posed.append((graph, Inputs({"own": own, "w": graph.weights})))
    settled = in_float32(*posed[0][:1], posed[0][0].weights, own, sign)
    program = PROGRAMS[sign]
    before = Posed.of(program, posed[0][0], own.shape[1], posed[0][1], {"x": settled})
    after = Posed.of(program, posed[1][0], own.shape[1], posed[1][1])
    lost, _ = unsupported(one_way(program), before, after, Differences.between(before, after))
    return lost, posed, settled


@SIGNS
@pytest.mark.parametrize("weight", [0.1, 0.3, 1 / 3, 1e-6 / 3, 1e7 / 3])
@pytest.mark.parametrize("place", [0, 1, LENGTH // 2, LENGTH - 1])
def test_rounded_values_beyond_a_removed_edge_of_a_chain_are_all_lost(sign, weight, place):
    """Sums of float32 are below or above those of float64 by the rounding of each edge."""
    chain = [(u, u + 1, weight * (1 + u % 7)) for u in range(LENGTH)]
    own = starts(LENGTH + 1, sign)
    for other in ([], [(place, place + 1, 3 * chain[place][2])]):  # removed, or heavier
        lost, _, _ = changed(sign, chain, [*chain[:place], *other, *chain[place + 1 :]], own)
        assert np.flatnonzero(lost[:, 0]).tolist() == list(range(place + 1, LENGTH + 1))


@SIGNS
@pytest.mark.parametrize(("apart", "kept"), [(1e-3, True), (1e-5, True), (0.0, False)])
def test_values_of_a_better_edge_are_kept_and_those_of_an_equal_one_are_not(sign, apart, kept):
    """Vertex 3 is reached through 1 and through 2; the edge through 2, which is removed, is longer by ``apart``."""
    old = [(0, 1, 1.0), (0, 2, 1.0), (1, 3, 1.0), (2, 3, 1.0 + apart), (3, 4, 1.0)]
    new = [edge for edge in old if edge[:2] != (2, 3)]
    lost, _, _ = changed(sign, old, new, starts(5, sign))
    assert np.flatnonzero(lost[:, 0]).tolist() == ([] if kept else [3, 4])


@SIGNS
@pytest.mark.parametrize("seed", range(6))
def test_a_warm_start_on_random_graphs_leads_to_the_cold_answer(sign, seed):
    """Two features, weights that float32 cannot hold exactly, edges removed, added, heavier and lighter."""
    drawn = np.random.default_rng(seed)
    vertices, count = 40, 90
    pairs = sorted({(int(u), int(v)) for u, v in drawn.integers(0, vertices, (count, 2)) if u != v})
    old = [(u, v, drawn.uniform(0.1, 1.0)) for u, v in pairs]
    new = [(u, v, w * drawn.choice([1.0, 1.0, 1.0, 0.5, 3.0])) for u, v, w in old if drawn.uniform() > 0.1]
    new += [(u, v, 0.25) for u, v in ((3, 30), (31, 4)) if (u, v) not in pairs]
    own = starts(vertices, sign, sources=(0, 5))
    _, posed, settled = changed(sign, old, new, own)
    program, (graph, inputs) = PROGRAMS[sign], posed[1]
    start = warm_start(program, 2, posed[0], posed[1], {"x": settled})
    assert not start.restarted
    warm = run(program, graph, 2, vertices, start.state, **inputs.properties).values("x")
    cold = run(program, graph, 2, vertices, **inputs.properties).values("x")
    np.testing.assert_allclose(warm, cold, rtol=2e-6)
    assert start.vertices_reset == int((start.state["x"] != settled).any(axis=1).sum())


def mixing(p, self):
    """Spread what starts at some vertices, linearly."""
    p.edge("w")
    p.vertex("own", K)
    p.vertex("x", K, start="own")
    p.over_edges(into="y", reduce="sum")(lambda src, edge: edge.w * src.x)
    p.over_vertices(lambda v: {"x": 0.5 * v.y + v.own})
    p.until_settled(self.tolerance, at_most=50)
    p.output("x", bound=1e-4)


def test_values_that_only_a_cycle_sustains_are_found_feature_by_feature():
    """Vertices 2 and 3 form a cycle that vertex 1 no longer feeds; the other feature starts within it."""
    program = program_of(mixing)
    cut = [(0, 1, 1.0), (2, 3, 1.0), (3, 2, 1.0)]
    old, new = (
        Graph.from_edges(*(np.array(part) for part in list(zip(*edges, strict=True))[:2]), num_vertices=5,
                         weights=np.ones(len(edges), np.float32), name="cycle")
        for edges in ([*cut, (1, 2, 1.0)], cut)
    )  # fmt: skip
    own = np.zeros((5, 2), np.float32)
    own[0, 0] = own[3, 1] = 1.0
    given = [Inputs({"own": own, "w": graph.weights}, {"tolerance": 1e-6}) for graph in (old, new)]
    values = run(program, old, 2, 50, **given[0].properties).values("x")
    before = Posed.of(program, old, 2, given[0], {"x": values})
    after = Posed.of(program, new, 2, given[1])
    lost, _ = unreached("x", [program.stages[0]], before, after)
    assert np.argwhere(lost).tolist() == [[2, 0], [3, 0]]
    lost, looked = unreached("x", [program.stages[0]], before, Posed.of(program, old, 2, given[0]))
    assert not lost.any()
    assert looked > 0
