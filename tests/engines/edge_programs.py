"""Programs that update edge properties in all ways of the language, with their graphs and the values to compare."""

from __future__ import annotations

from harness.language import K, maximum, normalize, outer, total, where
from tests.engines.programs import edges_and_loops, two_sides


def both_ends(p, self):
    """Update edges from both ends, their own old value and their reverse's; reduce only edges."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("flow", K, start=0.25)

    @p.over_edges(updates="flow")
    def move(src, dst, edge):
        gap = 0.25 * (src.x - dst.x) + 0.25 * edge.flow - 0.125 * edge.reverse.flow
        return where(edge.weight < 0.5, 0.0, gap)

    @p.over_edges(into="got", reduce="sum")
    def gather(edge):
        return edge.flow

    @p.over_vertices
    def step(v):
        return {"x": where(total(v.x) > 2.5, v.x, v.x + 0.05 * v.got)}

    p.repeat(10)
    p.output("x", bound=1e-4)


def unread(p, self):
    """Update a property that is neither read nor an output."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("seen", K, start=0.0)

    @p.over_edges(into="got", reduce="sum")
    def gather(src):
        return 0.1 * src.x

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.x + 0.01 * v.got}

    @p.over_edges(updates="seen")
    def see(src):
        return src.x

    p.repeat(3)
    p.output("x", bound=1e-4)


def reads_back(p, self):
    """Reduce over reverse edges and sources, then update from the result at the destination."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("flow", K, start=1.0)

    @p.over_edges(into="got", reduce="sum")
    def gather(src, edge):
        return edge.weight * edge.reverse.flow * src.x + edge.flow

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * normalize(v.got) + 0.25 * v.x}

    @p.over_edges(updates="flow")
    def move(dst, edge):
        return where(dst.in_degree > 4, edge.flow, normalize(dst.x + 0.5 * edge.reverse.flow))

    p.repeat(10)
    p.output("x", bound=1e-4)


def two_updates(p, self):
    """Update one property twice around a reduction, once from a value of the graph; a scalar beside it."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("flow", K, start=1.0)
    p.edge("trust", start=0.5)

    @p.over_graph(into="mean", reduce="sum")
    def mean_of(v, graph):
        return v.x / graph.num_vertices

    @p.over_edges(updates="flow")
    def first(src, edge, graph):
        return where(edge.weight < 0.6, edge.flow, edge.trust * src.x + 0.125 * graph.mean)

    @p.over_edges(updates="trust")
    def believe(src, edge):
        return 0.5 * edge.trust + 0.125 * total(normalize(edge.flow) * src.x)

    @p.over_edges(into="got", reduce="sum")
    def gather(src, edge):
        return edge.trust * edge.flow * src.x

    @p.over_edges(updates="flow")
    def second(edge):
        return 0.5 * edge.flow

    @p.over_vertices
    def step(v):
        return {"x": 0.25 * v.x + 0.5 * normalize(v.got)}

    p.repeat(10)
    p.output("x", bound=1e-4)


def weighted_flow(p):
    """Set the flow of every edge to its source's vector times its weight."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("flow", K, start=1.0)

    @p.over_edges(updates="flow")
    def flow_on(src, edge):
        return edge.weight * src.x


def overwritten(p, self):
    """Update one property twice without reading the other update's result; reduce after each."""
    weighted_flow(p)

    @p.over_edges(into="got", reduce="sum")
    def gather(edge):
        return edge.flow

    @p.over_edges(updates="flow")
    def second(dst):
        return where(dst.in_degree > 4, 0.5 * dst.x, 0.25)

    @p.over_edges(into="back", reduce="sum")
    def gather_again(edge):
        return edge.flow

    @p.over_vertices
    def step(v):
        return {"x": where(total(v.x) > 2.0, v.x, 0.25 * v.x + 0.5 * normalize(v.got + 0.5 * v.back))}

    p.repeat(10)
    p.output("x", bound=1e-4)


def tables(p, self):
    """Update matrices on edges from their source."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("table", (K, K), start=0.5)

    @p.over_edges(updates="table")
    def learn(src, edge):
        return 0.5 * edge.table + 0.25 * outer(src.x, src.x)

    @p.over_edges(into="got", reduce="sum")
    def gather(src, edge):
        return src.x @ edge.table

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * normalize(v.got) + 0.25 * v.x}

    p.repeat(10)
    p.output("x", bound=1e-4)


def largest_flow(p, self):
    """Reduce changing edges by maximum."""
    weighted_flow(p)

    @p.over_edges(into="best", reduce="max")
    def gather(edge):
        return edge.flow

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.x + 0.25 * maximum(v.best, 0.0)}

    p.repeat(10)
    p.output("x", bound=1e-4)


def products_of_edges(p, self):
    """Multiply edge values with signs and zeros that come and go, and divide by the reverse edge's."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("sign", K, start=1.0)
    p.vertex("all", K, start=1.0)

    @p.over_edges(updates="sign")
    def flip(src, edge):
        rest = src.all.without(edge.reverse.sign)
        moved = 0.5 * edge.sign + 0.25 * normalize(rest) + where(edge.weight < 0.4, -0.4, 0.1) * src.x
        return where(abs(moved) < 0.05, 0.0, moved)

    @p.over_edges(into="all", reduce="prod")
    def multiply(edge):
        return edge.sign

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.x + 0.25 * abs(v.all)}

    p.repeat(10)
    p.output("x", bound=1e-4)


def mixed_updates(p, self):
    """Update one property twice, where only the first update reads its reverse's old value."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("flow", K, start=0.5)

    @p.over_edges(updates="flow")
    def exchange(src, edge):
        return 0.25 * edge.flow + 0.5 * edge.reverse.flow + 0.125 * edge.weight * src.x

    @p.over_edges(into="got", reduce="sum")
    def gather(edge):
        return edge.flow

    @p.over_edges(updates="flow")
    def send(src, edge):
        return 0.5 * edge.flow + 0.25 * src.x

    @p.over_vertices
    def step(v):
        return {"x": 0.25 * v.x + 0.5 * normalize(v.got)}

    p.repeat(40)
    p.output("x", bound=1e-4)


def reduced_for_later(p, self):
    """Read a reduction after the update, and in the next superstep before it is reduced again."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.vertex("got", K, start=0.5)
    p.edge("flow", K, start=1.0)

    @p.over_vertices
    def before(v):
        return {"x": 0.5 * v.x + 0.25 * normalize(v.got)}

    @p.over_edges(into="got", reduce="sum")
    def gather(edge):
        return edge.flow

    @p.over_edges(updates="flow")
    def move(src, edge):
        return 0.5 * edge.flow + 0.25 * src.x

    @p.over_vertices
    def after(v):
        return {"x": 0.75 * v.x + 0.125 * normalize(v.got)}

    p.repeat(10)
    p.output("x", bound=1e-4)


def handed_on(p, self):
    """Update after a reduction of only the updated property, so that both may share a pass."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("flow", K, start=1.0)

    @p.over_edges(into="got", reduce="sum")
    def gather(edge):
        return edge.weight * edge.flow

    @p.over_vertices
    def step(v):
        return {"x": where(total(v.x) > 2.0, v.x, 0.25 * v.x + 0.5 * normalize(v.got))}

    @p.over_edges(updates="flow")
    def hand_on(src, edge):
        return where(edge.weight < 0.5, edge.flow, 0.5 * src.x + 0.25 * edge.flow)

    p.repeat(10)
    p.output("x", bound=1e-4)


def handed_back(p, self):
    """Do the same with reverse edges' old values; two reductions, one of which counts."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("flow", K, start=0.5)

    @p.over_edges(into="got", reduce="sum")
    def gather(edge):
        return edge.flow

    @p.over_edges(into="large", reduce="sum")
    def count(edge):
        return where(edge.weight > 0.75, 1.0, 0.0)

    @p.over_vertices
    def step(v):
        return {"x": 0.25 * v.x + 0.5 * normalize(v.got) + 0.01 * v.large}

    @p.over_edges(updates="flow")
    def hand_back(src, edge):
        return 0.5 * edge.reverse.flow + 0.125 * edge.weight * src.x

    p.repeat(10)
    p.output("x", bound=1e-4)


def echoes(p, self):
    """Move edges into some vertices; an update and a reduction read only their reverse edges."""
    p.vertex("moves", dtype=bool)
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.vertex("y", K, start=0.0)
    p.edge("said", K, start=3.0)
    p.edge("heard", K, start=0.0)

    @p.over_edges(updates="said")
    def say(dst, edge):
        return where(dst.moves, dst.x, edge.said)

    @p.over_edges(updates="heard")
    def hear(edge):
        return edge.reverse.said

    @p.over_edges(into="echo", reduce="sum")
    def gather(edge):
        return edge.reverse.said

    @p.over_vertices
    def step(v):
        return {"x": where(v.moves, 0.5 * v.x + 1.0, v.x), "y": v.echo}

    p.repeat(10)
    p.output("x", bound=1e-4)
    p.output("y", bound=1e-4)


EDGE_PROGRAMS = {
    "both ends": (both_ends, two_sides, ("x", "flow")),
    "reads back": (reads_back, two_sides, ("x", "flow")),
    "two updates": (two_updates, edges_and_loops, ("x", "flow", "trust")),
    "mixed updates": (mixed_updates, two_sides, ("x", "flow")),
    "overwritten": (overwritten, edges_and_loops, ("x", "flow")),
    "tables": (tables, edges_and_loops, ("x", "table")),
    "largest flow": (largest_flow, edges_and_loops, ("x", "flow")),
    "products": (products_of_edges, two_sides, ("x", "sign")),
    "reduced for later": (reduced_for_later, edges_and_loops, ("x", "flow")),
    "handed on": (handed_on, edges_and_loops, ("x", "flow")),
    "handed back": (handed_back, two_sides, ("x", "flow")),
}
