"""Pulses along a ring with two hubs: values that return to what they were, few and many moving vertices in turns.

Values are 0 and 1, so that every engine must have exactly those of NumPy, and counts are counted from these values.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from harness.contract import Engine
from harness.graph import Graph
from harness.language import Inputs, K, Program, absolute, where
from tests.engines.programs import traced

RING, LEAVES, HUBS, LONE = 14, 40, (3, 8), 5
SUPERSTEPS = 16
REBUILDS = 0.9  # of the edges, from which sums are rebuilt from all messages, because that is no more work


def pulses(p, self):
    """Set a vertex to one if exactly one of the edges into it comes from a one, else to zero."""
    p.vertex("first", K)
    p.vertex("x", K, start="first")
    p.over_edges(into="near", reduce="sum")(lambda src: src.x)
    p.over_vertices(lambda v: {"x": where(absolute(v.near - 1.0) < 0.5, 1.0, 0.0)})
    p.until_settled(at_most=100)
    p.output("x", bound=0.0)


def pulses_of_sides(p, self):
    """Update the sides of a bipartite graph in turns."""
    pulses(p, self)
    p.alternate_sides()


def toggles(p, self):
    """Let a vertex be the other of zero and one if exactly one of the edges into it comes from a one: of one number."""
    p.vertex("first")
    p.vertex("x", start="first")
    p.over_edges(into="near", reduce="sum")(lambda src: src.x)
    p.over_vertices(lambda v: {"x": where(absolute(v.near - 1.0) < 0.5, 1.0 - v.x, v.x)})
    p.until_settled(at_most=100)
    p.output("x", bound=0.0)


@functools.cache
def ring() -> Graph:
    """Return the ring: two of its vertices also send to leaves, which send to a sink. Five vertices are alone."""
    at = np.arange(RING)
    edges = [np.stack([at, (at + 1) % RING])]
    for number, hub in enumerate(HUBS):
        leaves = RING + number * (LEAVES + 1) + np.arange(LEAVES)
        edges += [np.stack([np.full(LEAVES, hub), leaves]), np.stack([leaves, np.full(LEAVES, leaves[-1] + 1)])]
    count = RING + len(HUBS) * (LEAVES + 1) + LONE
    return Graph.from_edges(*np.concatenate(edges, axis=1), num_vertices=count, name="ring", duplicates="keep")


@functools.cache
def two_sides() -> Graph:
    """Return a bipartite graph: a path through both sides, and a hub on either side with leaves on the other one."""
    at = np.arange(RING)
    left, right = [at, at[1:]], [at, at[:-1]]
    left += [np.full(LEAVES, HUBS[0]), RING + np.arange(LEAVES)]
    right += [RING + np.arange(LEAVES), np.full(LEAVES, HUBS[1])]
    size = RING + LEAVES + LONE
    return Graph.from_edges(
        np.concatenate(left), size + np.concatenate(right), num_vertices=2 * size, name="two sides", duplicates="keep",
        symmetrize=True, bipartite=(size, size),
    )  # fmt: skip


@dataclass(frozen=True)
class Expected:
    """A superstep: the values after it, the sources that moved before it, their out-edges, all in-edges of the vertices
    that these edges enter, and of those or of the ones that moved."""

    values: NDArray[np.float32]
    active: int
    sent: int
    read: int
    read_by_all: int


def expected(graph: Graph, first: NDArray[np.float32], *, toggled: bool = False) -> Iterator[Expected]:
    """Yield the supersteps of :func:`pulses`; ``toggled``: of :func:`toggles`. ``first``: [V, k].

    Of a bipartite graph they update the left and the right side in turns. What no superstep has sent counts as moved.
    """
    count, sides = graph.num_vertices, 1 if graph.bipartite is None else 2
    sources = np.repeat(np.arange(count), np.diff(graph.csr.offsets))
    targets = graph.csr.neighbours.astype(np.int64)
    right = np.arange(count) >= (count if graph.bipartite is None else graph.bipartite[0])
    x, moved = first, np.ones(count, bool)
    for superstep in range(SUPERSTEPS):
        updated = right == superstep % sides if sides == 2 else np.ones(count, bool)
        moved &= ~updated if sides == 2 else updated
        near = np.zeros(x.shape)
        np.add.at(near, targets, x[sources])
        new = np.where(updated[:, None], (near == 1) ^ ((x == 1) & toggled), x).astype(np.float32)
        reached = np.zeros(count, bool)
        reached[targets[moved[sources]]] = True
        sent, read = int(graph.out_degrees[moved].sum()), int(graph.in_degrees[reached].sum())
        yield Expected(new, int(moved.sum()), sent, read, int(graph.in_degrees[reached | moved].sum()))
        moved = (new != x).any(axis=1) if superstep + 1 >= sides else np.ones(count, bool)
        x = new


def visits(way: str, step: Expected, graph: Graph, share: float, *, again: bool) -> tuple[str, int]:
    """Return the direction of a superstep and the edges that it visits.

    If the vertices that moved have few edges, *pull* and *follow* gather where these edges end; *adaptive* and *simdx*
    push them. If they have many, all four gather everything. *all push* and *all pull* always visit all edges; *push*,
    those of the vertices that moved; *rebuilding push*, all edges if these are ``REBUILDS`` of them. ``share``: of the
    edges, which is many; for *follow* twice as many ``again``. Of a side, *follow* gathers everything once more after
    the other one did.
    """
    every = graph.num_edges // (1 if graph.bipartite is None else 2)
    match way:
        case "push":
            return "push", step.sent
        case "rebuilding push":
            return "push", every if step.sent >= int(REBUILDS * every) else step.sent
        case "pull" | "follow":
            limit = share * graph.num_edges * (2 if again and way == "follow" else 1)
            read = every if way == "follow" and graph.bipartite and not again else step.read
            return ("dense", every) if step.sent > limit else ("pull", step.sent + read)
        case "adaptive":
            return ("pull", every) if step.sent >= max(1, int(share * every)) else ("push", step.sent)
        case "simdx":
            return ("pull", every) if step.sent > share * every else ("push", step.sent)
    return way.removeprefix("all "), every


def starts(graph: Graph, features: int) -> list[Inputs]:
    """Return inputs of different runs: a pulse in each feature on the side that sends first, a few ones, as before."""
    count, size = graph.num_vertices, 0 if graph.bipartite is None else graph.bipartite[0]
    single = np.zeros((count, features), np.float32)
    for feature in range(features):
        single[size + (2 + 5 * (feature % 3)) % RING, feature] = 1.0
    few = (np.random.default_rng(features).random(single.shape) < 0.1 / features).astype(np.float32)
    return [Inputs({"first": first}, {}) for first in (single, few, single)]


def check(
    engine: Engine, graph: Graph, features: int, way: str, share: float = 1.0, *, pauses: bool = False,
    toggled: bool = False, folded: bool = False,
) -> None:  # fmt: skip
    """Check values and counts of every superstep, in three runs. ``engine``: prepared for :func:`program_for`.

    ``way``, ``share``: of :func:`visits`. ``pauses``: the engine may also gather everything where few vertices moved.
    ``toggled``: prepared for :func:`toggles`; ``folded``: its sums are kept once a vertex that moved has computed them.
    What the first superstep of a side visits depends on the engine.
    """
    sides, met = 1 if graph.bipartite is None else 2, set()
    for inputs in starts(graph, features):
        first = inputs.properties["first"]
        engine.reset(Inputs({"first": first[:, 0]}, {}) if toggled else inputs)
        again = False
        for superstep, wanted in enumerate(expected(graph, first, toggled=toggled)):
            (step,) = engine.run(1).supersteps
            found = engine.values("x").reshape(wanted.values.shape)
            np.testing.assert_array_equal(found, wanted.values, f"after superstep {superstep}")
            if folded and not again:
                wanted = replace(wanted, read=wanted.read_by_all)
            if superstep >= sides:
                counted = step.active, step.direction, step.edges
                given = wanted.active, *visits(way, wanted, graph, share, again=again)
                if pauses and step.direction in ("dense", "untracked"):
                    given = wanted.active, step.direction, graph.num_edges // sides
                assert counted == given, f"superstep {superstep}: {counted}, not {given}"
                met.add(step.direction)
            again = step.direction == "pull"
    assert {"pull", "dense"} <= met or len(met) == (2 if share < 1 else 1) or graph.bipartite
    engine.close()


def program_for(graph: Graph) -> Program:
    """Return the program on one of the graphs."""
    build = pulses if graph.bipartite is None else pulses_of_sides
    return traced(build, build.__name__)
