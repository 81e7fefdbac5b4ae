"""Programs that update edge properties in every way the language has, with their graphs and what to compare."""

from __future__ import annotations

from harness.language import K, maximum, normalize, outer, total, where
from tests.engines.programs import edges_and_loops, two_sides


def both_ends(p, self):
    """An update that reads both ends, its own old value and its reverse's; a reduction of edges alone."""
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
    """An update of what nobody reads; nor is it asked for."""
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
    """A reduction over reverse edges and sources, then an update that reads what it made, of the destination."""
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
    """Two updates of one property around a reduction, one of them of a value of the graph; a scalar beside it."""
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
    """A flow of every edge that is its source's vector times its weight."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.edge("flow", K, start=1.0)

    @p.over_edges(updates="flow")
    def flow_on(src, edge):
        return edge.weight * src.x


def overwritten(p, self):
    """Two updates of one property, neither of which reads what the other made; a reduction after each."""
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
    """Matrices on edges, updated from their source."""
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
    """A maximum over changing edges."""
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
    """Products with signs and zeros over edges that come and go, and what is left without the reverse edge."""
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
    """Two updates of one property, of which the first alone reads its reverse's old value."""
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
    """A reduction that is read behind the update, and by the next superstep before it is reduced anew."""
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
    """An update behind a reduction of nothing but what it makes, which may share a pass with it."""
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
    """The same of reverse edges' old values; two reductions, one of which counts."""
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
