"""Small programs that together use every operation of the language, and graphs for them."""

from __future__ import annotations

import functools

import numpy as np

from harness.graph import Graph
from harness.language import (
    Algorithm,
    Inputs,
    K,
    absolute,
    all_features,
    any_feature,
    dot,
    exp,
    eye,
    full,
    hadamard_inverse,
    inverse,
    largest,
    log,
    maximum,
    mean,
    minimum,
    norm,
    normalize,
    outer,
    smallest,
    solve_spd,
    sqrt,
    stack,
    total,
    trace,
    transpose,
    where,
)
from harness.language.evaluation import concrete

PROGRAMS = {}


def traced(build, title, *, tolerance_value=0.0, rate_value=0.5, flag_value=True):
    """Return the program with the body ``build(p, self)``; tolerance, rate and flag are run-time parameters."""

    class Small(Algorithm):
        name = title
        tolerance: float = tolerance_value
        rate: float = rate_value
        flag: bool = flag_value

        def build(self, p):
            build(p, self)

    return trace(Small())


def example(build):
    """Register a program under its function's name."""
    PROGRAMS[build.__name__] = build
    return build


@functools.cache
def program_named(name):
    """Return the traced program of an example."""
    return traced(PROGRAMS[name], name)


@functools.cache
def edges_and_loops():
    """Return 24 vertices with random edges, some parallel, self-loops, and two isolated vertices."""
    rng = np.random.default_rng(3)
    pairs = rng.integers(0, 22, (90, 2))
    pairs = np.concatenate([pairs, pairs[:10], np.stack([np.arange(4)] * 2, 1)])
    return Graph.from_edges(
        pairs[:, 0], pairs[:, 1], num_vertices=24, name="edges and loops", duplicates="keep",
        weights=rng.uniform(0.25, 1.0, len(pairs)).astype(np.float32),
    )  # fmt: skip


@functools.cache
def two_sides():
    """Return a bipartite graph of 9 and 14 vertices, with every edge in both directions."""
    rng = np.random.default_rng(4)
    left, right = rng.integers(0, 9, 40), 9 + rng.integers(0, 14, 40)
    return Graph.from_edges(
        left, right, num_vertices=23, name="two sides", duplicates="keep", symmetrize=True, bipartite=(9, 14),
        weights=rng.uniform(0.25, 1.0, 40).astype(np.float32),
    )  # fmt: skip


def graph_for(name):
    """Return the graph of an example: a bipartite one if sides alternate or edges must have a reverse."""
    return two_sides() if name in ("sides", "sides_settle", "beliefs") else edges_and_loops()


def inputs_for(program, graph, features, seed=0):
    """Return random inputs: floats in 0.25..1.25, bools."""
    rng = np.random.default_rng(seed)
    properties = {}
    for prop in program.properties.values():
        if prop.role == "input" and prop.name != "weight":
            count = graph.num_vertices if prop.place == "vertex" else graph.num_edges
            shape = (count, *concrete(prop.shape, features))
            draws = rng.uniform(0.25, 1.25, shape).astype(np.float32)
            properties[prop.name] = draws > 0.75 if prop.dtype == "bool" else draws
    return Inputs(properties, dict(program.parameters))


# traversals -----------------------------------------------------------------------------------------------------------
@example
def shortest_paths(p, self):
    """Compute min-plus with k sources."""
    p.edge("weight")
    p.vertex("first", K)
    p.vertex("distance", K, start="first")

    @p.over_edges(into="shortest", reduce="min")
    def relax(src, edge):
        return src.distance + edge.weight

    @p.over_vertices
    def keep(v):
        return {"distance": minimum(v.distance, v.shortest)}

    p.until_settled(self.tolerance, at_most=40)
    p.output("distance", bound=1e-5)


@example
def largest_label(p, self):
    """Give every vertex the largest label that reaches it; isolated vertices keep theirs."""
    p.vertex("label0")
    p.vertex("label", start="label0")

    @p.over_edges(into="best", reduce="max")
    def tell(src):
        return src.label

    @p.over_vertices
    def take(v):
        return {"label": maximum(v.label, v.best)}

    p.until_settled(self.tolerance, at_most=40)
    p.output("label", bound=1e-6)


@example
def power_iteration(p, self):
    """Reduce into the property that the message reads."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="x", reduce="sum")
    def spread(src, edge):
        return 0.3 * edge.weight * src.x / (1.0 + largest(src.x))

    p.repeat(4)
    p.output("x", bound=1e-4)


@example
def own_aggregate(p, self):
    """Read the destination's aggregate of the previous superstep in a message."""
    p.vertex("x0", K)
    p.vertex("aggr", K, start=0.5)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src, dst):
        return src.x * minimum(dst.aggr, 1.0) * 0.2 + 0.01

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.x + 0.1 * minimum(v.aggr, 2.0)}

    p.repeat(4)
    p.output("x", bound=1e-4)


@example
def aggregate_rewritten(p, self):
    """Overwrite a reduction in a vertex step, and read it in a third stage."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.vertex("drift", K, start=0.25)

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src, edge):
        return edge.weight * src.x

    @p.over_vertices
    def scale(v):
        return {"aggr": normalize(v.aggr) + 0.125 * v.drift, "drift": 0.5 * v.drift}

    @p.over_edges(into="second", reduce="sum")
    def again(src):
        return src.aggr

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * normalize(v.second) + 0.5 * v.aggr}

    p.repeat(5)
    p.output("x", bound=1e-4)


def to_and_fro(p, self):
    """Move values in one step and back in the next, until they come to rest."""
    p.vertex("x", start=1.0)
    p.vertex("y", start=0.0)

    @p.over_vertices
    def forth(v):
        return {"x": 0.5 * v.x + 1.0}

    p.over_edges(into="heard", reduce="sum")(lambda src: src.x)

    @p.over_vertices
    def back(v):
        return {"x": v.x - 1.0, "y": v.heard}

    p.until_settled(self.tolerance, at_most=60)
    p.output("y", bound=1e-2)


@example
def two_writers(p, self):
    """Write one property in two vertex steps with an edge stage between them."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.vertex("y", K, start=1.0)

    @p.over_vertices
    def first(v):
        return {"y": 0.5 * v.x + 0.25}

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src):
        return src.y

    @p.over_vertices
    def second(v):
        return {"y": 0.5 * v.y}

    @p.over_edges(into="other", reduce="sum")
    def spread_again(src):
        return src.y

    @p.over_vertices
    def last(v):
        return {"x": normalize(v.aggr) + 0.125 * v.other}

    p.repeat(5)
    p.output("x", bound=1e-4)
    p.output("y", bound=1e-4)


@example
def reads_destination(p, self):
    """Read a changing property of the destination in a message; steps read their own vertex."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.vertex("y", start=1.0)

    @p.over_edges(into="pull", reduce="sum")
    def difference(src, dst, edge):
        return edge.weight * (src.x - dst.x) * dst.y

    @p.over_vertices
    def move(v):
        return {"x": v.x + 0.05 * v.pull, "y": 0.75 * v.y}

    p.repeat(6)
    p.output("x", bound=1e-4)


@example
def destination_alone(p, self):
    """Read a source that never moves and a destination that does; a step reads only its own state."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.vertex("y", start=1.0)
    p.vertex("z", K, start="x0")

    @p.over_edges(into="seen", reduce="sum")
    def scaled(src, dst):
        return src.x * dst.y

    @p.over_vertices
    def move(v):
        return {"x": minimum(v.x, 9.0), "y": 0.75 * v.y, "z": 0.5 * v.z + 0.1 * v.seen}

    p.repeat(6)
    p.output("z", bound=1e-4)


@example
def several_reductions(p, self):
    """Reduce the same edges four times, once with a guarded message and once for scalars."""
    p.edge("weight")
    p.edge("kind", dtype=bool)
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="a", reduce="sum")
    def one(src, edge):
        return edge.weight * src.x

    @p.over_edges(into="b", reduce="max")
    def two(src, edge):
        return edge.weight + src.x

    @p.over_edges(into="c", reduce="min", when=lambda edge: edge.kind)
    def three(src):
        return total(src.x)

    @p.over_edges(into="d", reduce="sum")
    def four(src, edge):
        return where(edge.kind, 1.0, 0.0)

    @p.over_vertices
    def step(v):
        floor = where(v.b < 0.0, 0.0, v.b)
        return {"x": 0.5 * v.x + 0.1 * normalize(v.a + floor) + 0.01 * v.d + where(v.c < 1e6, 0.01, 0.02)}

    p.repeat(4)
    p.output("x", bound=1e-4)


@example
def chained_reductions(p, self):
    """Reduce the result of another reduction in the same superstep (two hops)."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="near", reduce="sum")
    def hop(src):
        return src.x / src.out_degree

    @p.over_edges(into="far", reduce="sum")
    def hop_again(src):
        return src.near / src.out_degree

    @p.over_vertices
    def step(v):
        return {"x": 0.25 * v.x + 0.5 * v.far}

    p.repeat(4)
    p.output("x", bound=1e-4)


@example
def whole_graph(p, self):
    """Reduce over the graph scalars, vectors and a matrix, with every reducer except the product."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_graph(into="top", reduce="max")
    def top(v):
        return v.x

    @p.over_graph(into="low", reduce="min")
    def low(v):
        return smallest(v.x)

    @p.over_graph(into="moments", reduce="sum")
    def moments(v):
        return stack(v.x, v.x * v.x)

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src, graph):
        return src.x / src.out_degree

    @p.over_vertices
    def step(v, graph):
        spread_of = sqrt(graph.moments[1] / graph.num_vertices) + graph.low
        return {"x": 0.5 * v.aggr / (1.0 + graph.top) + 0.1 * spread_of + 0.1 * v.x}

    p.repeat(4)
    p.output("x", bound=1e-4)


@example
def message_reads_graph(p, self):
    """Scale a message by a changing value of the whole graph."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_graph(into="top", reduce="max")
    def top(v):
        return largest(v.x)

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src, graph):
        return src.x / (src.out_degree * graph.top)

    @p.over_vertices
    def step(v):
        return {"x": 0.25 * v.x + 0.5 * v.aggr}

    p.repeat(5)
    p.output("x", bound=1e-4)


@example
def guarded_steps(p, self):
    """Guard vertices: once the guard is false, later steps skip the vertex."""
    p.vertex("x0", K)
    p.vertex("done0", dtype=bool)
    p.vertex("x", K, start="x0")
    p.vertex("done", start="done0", dtype=bool)
    p.vertex("steps", start=0.0)

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src):
        return where(src.done, 0.5, 1.0) * src.x / src.out_degree

    @p.over_vertices(when=lambda v: ~v.done)
    def move(v):
        return {"x": 0.5 * v.x + 0.25 * v.aggr, "done": total(v.x) < 0.75 * total(full(K, 1.0))}

    @p.over_vertices
    def count(v):
        return {"steps": v.steps + 1.0}

    p.repeat(4)
    p.output("x", bound=1e-4)
    p.output("steps", bound=0.0)


@example
def sides(p, self):
    """Update the sides of a bipartite graph in turn, with state that only its own vertex reads."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.vertex("momentum", K, start=0.0)

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src, edge):
        return edge.weight * src.x

    @p.over_vertices
    def step(v):
        return {"momentum": 0.5 * v.momentum + 0.1 * v.aggr, "x": 0.5 * v.x + normalize(v.momentum + v.aggr)}

    p.alternate_sides()
    p.repeat(5)
    p.output("x", bound=1e-4)


@example
def one_name(p, self):
    """Give the functions of several stages one name."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    p.over_edges(into="a", reduce="sum")(lambda src: src.x / src.out_degree)
    p.over_edges(into="b", reduce="sum")(lambda src: 2.0 * src.x)
    p.over_vertices(lambda v: {"c": 0.5 * v.a + 0.1})
    p.over_vertices(lambda v: {"x": v.c + 0.1 * v.b})
    p.repeat(3)
    p.output("x", bound=1e-4)


@example
def awkward_names(p, self):
    """Name properties and stages like variables of the generated code."""
    p.edge("offsets")
    p.vertex("vertex", K)
    p.vertex("first", K, start="vertex")
    p.vertex("bounds", start=1.0)
    p.vertex("parameters", start=2.0)
    p.vertex("np", start=1.0)

    @p.over_edges(into="last", reduce="sum")
    def launch(src, edge):
        return edge.offsets * src.first * src.bounds

    @p.over_edges(into="counts", reduce="sum")
    def store(src):
        return src.first

    @p.over_vertices
    def load(v):
        return {"u": 0.1 * v.last, "first_1": 0.1 * v.counts}

    @p.over_vertices
    def at(v):
        return {"first": v.u + v.first_1 + 0.01 * v.first * v.parameters + 0.01 * v.np}

    p.repeat(3)
    p.output("first", bound=1e-4)


@example
def without_own(p, self):
    """Remove one contribution from an aggregate."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("aggr", K, start=1.0)
    p.vertex("y", K, start="x0")

    @p.over_edges(into="aggr", reduce="sum")
    def gather(edge, src):
        return full(K, edge.weight)

    @p.over_edges(into="rest", reduce="sum")
    def spread(src, edge):
        return src.aggr.without(full(K, 0.5 * edge.weight))

    @p.over_vertices
    def step(v):
        return {"y": 0.1 * v.rest + 0.5 * v.y}

    p.repeat(3)
    p.output("y", bound=1e-4)


@example
def beliefs(p, self):
    """Run loopy belief propagation: an edge update removes the reverse message from a product."""
    p.vertex("phi", K)
    p.edge("psi", (K, K))
    p.edge("msg", K, start=1.0)
    p.vertex("aggr", K, start=1.0)
    p.vertex("belief", K, start="phi")

    @p.over_edges(updates="msg")
    def message(src, edge):
        return normalize((src.phi * src.aggr.without(edge.reverse.msg)) @ edge.psi)

    @p.over_edges(into="aggr", reduce="prod")
    def gather(edge):
        return edge.msg

    @p.over_vertices
    def belief(v):
        return {"belief": normalize(v.phi * v.aggr)}

    p.repeat(4)
    p.output("belief", bound=1e-4)


@example
def sums_and_products_without(p, self):
    """Remove a value from a sum and from a product; a property is named like the generated part of the product."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("whole_masked", K)
    p.vertex("sum", K, start=1.0)
    p.vertex("whole", K, start=1.0)
    p.vertex("y", K, start="x0")

    @p.over_edges(into="sum", reduce="sum")
    def weights(edge):
        return full(K, edge.weight)

    @p.over_edges(into="whole", reduce="prod")
    def factors(src):
        return where(src.x0 > 1.1, 0.0, src.x0)

    @p.over_edges(into="rest", reduce="sum")
    def left(src, dst, edge):
        factor = where(src.x0 > 1.1, 0.0, src.x0)
        return src.sum.without(full(K, 0.5 * edge.weight)) + dst.whole.without(factor) + 0.25 * src.whole_masked

    @p.over_vertices
    def step(v):
        return {"y": 0.1 * v.rest + 0.5 * v.y + 0.1 * v.whole}

    p.repeat(3)
    p.output("y", bound=1e-4)


@example
def a_product_of_itself(p, self):
    """Remove a factor in a message from the previous value of the same product."""
    p.edge("gate", K)
    p.vertex("whole", K, start=1.0)

    @p.over_edges(into="whole", reduce="prod")
    def factors(src, edge):
        return 0.5 * src.whole.without(where(edge.gate > 1.1, 0.0, edge.gate)) + edge.gate - 0.4

    p.repeat(4)
    p.output("whole", bound=1e-3)


@example
def products(p, self):
    """Multiply vectors and scalars with zeros and negative factors, with a sum beside them."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="all", reduce="prod")
    def signed(src, edge):
        return src.x - 0.6

    @p.over_edges(into="one", reduce="prod")
    def scalar(src, edge):
        return where(edge.weight < 0.3, 0.0, 1.25 - edge.weight)

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src):
        return src.x

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.x + 0.1 * abs(v.all) + 0.1 * normalize(v.aggr) + 0.05 * v.one}

    p.repeat(4)
    p.output("x", bound=2e-4)


@example
def matrix_products(p, self):
    """Multiply matrices, scaled like a product of vectors."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="all", reduce="prod")
    def multiply(src, dst):
        return outer(src.x, src.x) + 0.25 * eye(K) - 0.125

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.x + 0.5 * normalize(v.all @ v.x)}

    p.repeat(3)
    p.output("x", bound=2e-4)


# operations -----------------------------------------------------------------------------------------------------------
def step_program(*outputs_of):
    """Return a build function: state ``x`` moves slowly, and every function computes outputs from ``v`` and
    ``self``."""

    def build(p, self):
        p.edge("weight")
        p.vertex("x0", K)
        p.vertex("y0", K)
        p.vertex("m0", (K, K))
        p.vertex("t0", (3, K))
        p.vertex("w0", (3,))
        p.vertex("s0")
        p.vertex("flags0", K, dtype=bool)
        p.vertex("flag0", dtype=bool)
        for name, shape in (("x", K), ("m", (K, K)), ("t", (3, K)), ("w", (3,)), ("s", ())):
            p.vertex(name, shape, start=f"{name}0")
        p.vertex("flags", K, dtype=bool, start="flags0")
        p.vertex("flag", dtype=bool, start="flag0")

        @p.over_edges(into="aggr", reduce="sum")
        def spread(src, edge):
            return 0.2 * edge.weight * src.x

        @p.over_vertices
        def step(v):
            new = {"x": 0.5 * v.x + 0.25 * normalize(v.aggr) + 0.125}
            for _number, function in enumerate(outputs_of):
                for key, value in function(v, self).items():
                    new[f"{key}"] = value
            return new

        written = ["x"]
        for function in outputs_of:
            written += function.writes
        p.repeat(3)
        for name in dict.fromkeys(written):
            p.output(name, bound=2e-4, floor=0.01)

    return build


def writing(*names):
    def mark(function):
        function.writes = names
        return function

    return mark


@writing("x", "s")
def vector_arithmetic(v, self):
    a, b = v.x, v.y0
    value = (a + b) * (a - 0.5) / (b + 1.0) + (2.0 - a) - (-b) * 0.1 + 1.0 / (a + 1.0) + abs(a - b)
    value = value + minimum(a, b) + maximum(a, 0.6) + minimum(0.3, b) + a**2 + b**0.5 + 2.0**a + a**b + (v.s + 1.0) ** a
    value = value + exp(-a) + log(b + 1.0) + sqrt(a + 1.0) + absolute(a - 1.0) + hadamard_inverse(b)
    s = v.s * 0.5 + exp(-v.s) + log(v.s + 2.0) + sqrt(v.s + 1.0) + abs(v.s - 1.0) + v.s**2 + 1.5**v.s
    return {"x": value * 0.05, "s": 0.1 * s + self.rate * minimum(maximum(v.s, 0.2), 0.9)}


@writing("x", "s")
def vector_reductions(v, self):
    a, b = v.x, v.y0
    scalars = (
        total(a) + largest(a) - smallest(b) + mean(a) + norm(a) + norm(b, "l1") + norm(a, "max") + dot(a, b) + a @ b
    )
    return {"x": normalize(a - 0.5) + normalize(b, "l2") + normalize(a, "softmax") + 0.01 * a, "s": 0.02 * scalars}


@writing("x", "flags", "flag", "s")
def conditions(v, self):
    a, b = v.x, v.y0
    mask = ((a < b) & ~(a <= 0.4) | (b > 0.9)) & (v.flags | (a >= b)) | ((a == b) & (a != 0.5))
    one = any_feature(mask) & ~all_features(v.flags) | v.flag & self.flag
    value = where(mask, a, b) + where(one, a, 0.5) + where(v.flags, 1.0, 2.0) + where(v.flag, a, v.s)
    chosen = where(one, v.flags, mask)
    counted = total(v.flags) + where(one, 1.0, 0.0) + mean(mask)
    return {
        "x": 0.2 * value + 0.1 * (v.flags * a), "flags": where(v.flag, chosen, ~chosen), "flag": one & ~v.flag,
        "s": 0.25 * counted / (v.degree + 1.0),
    }  # fmt: skip


@writing("m", "x")
def square_matrices(v, self):
    a, m = v.x, v.m
    product = m @ m + m.T @ m + outer(a, v.y0) + eye(K) * 0.5 - transpose(m) / 2.0
    row, column = a @ m, m @ a
    return {
        "m": 0.5 * m + 0.1 * normalize(product) + 0.01 * full((K, K), v.s),
        "x": 0.1 * row / (1.0 + total(a)) + 0.1 * normalize(column),
    }


@writing("m", "s")
def matrix_functions(v, self):
    m = v.m
    value = where(m < 0.7, m, 0.5 * m) + exp(-m) + sqrt(abs(m)) + minimum(m, 0.3) + m**2 + normalize(m, "l2")
    scalars = total(m @ m) + largest(m) + smallest(m.T) + norm(m) + mean(m) + total(where(m < 0.5, 1.0, 0.0))
    crowd = where(any_feature(m < 0.3), 0.25, 0.5) + where(all_features(m < 2.0), 0.25, 0.5)
    return {"m": 0.1 * value + 0.05 * normalize(m, "softmax"), "s": 0.01 * scalars / (1.0 + total(m)) + crowd}


@writing("x", "m")
def solves(v, self):
    a, m = v.x, v.m
    spd = m @ m.T + 2.0 * eye(K)
    well = m * 0.1 + 2.0 * eye(K)
    return {"x": 0.3 * solve_spd(spd, a) + 0.1 * inverse(well) @ v.y0, "m": 0.2 * inverse(well) + 0.3 * m}


@writing("t", "w", "x")
def tall_matrices(v, self):
    t, w, a = v.t, v.w, v.x
    value = t + 0.1 * outer(w, a) + stack(a, v.y0, t[1]) - 0.1 * normalize(t)
    across = t @ t.T  # (3, 3)
    weights = (
        0.1 * (t @ a) / (1.0 + total(a)) + 0.1 * (across @ w) / (1.0 + total(across)) + 0.1 * stack(v.s, w[0], total(t))
    )
    return {
        "t": 0.3 * value, "w": 0.5 * normalize(weights) + 0.1 * w,
        "x": 0.2 * (w @ t) + 0.1 * t[2] + 0.05 * w[1] + 0.05 * (t.T @ w),
    }  # fmt: skip


@writing("x", "s")
def shared_deeply(v, self):
    a, s = v.x, v.s
    for _ in range(24):  # a tree of 2^24 leaves, a graph of 24 nodes
        a, s = 0.5 * a + 0.25 * a * a, 0.5 * s + 0.25 * s * s
    return {"x": 0.5 + 0.1 * a, "s": 0.5 + 0.1 * s}


OPERATIONS = [
    vector_arithmetic, vector_reductions, conditions, square_matrices, matrix_functions, solves, tall_matrices,
    shared_deeply,
]  # fmt: skip
for operation in OPERATIONS:
    PROGRAMS[operation.__name__] = step_program(operation)


@example
def edge_operations(p, self):
    """Combine vectors, matrices, bools and small vectors on edges with both ends."""
    p.edge("weight")
    p.edge("psi", (K, K))
    p.edge("phi", K)
    p.edge("side", dtype=bool)
    p.edge("mask", K, dtype=bool)
    p.edge("pair", (2,))
    p.vertex("x0", K)
    p.vertex("z", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="a", reduce="sum")
    def through(src, edge):
        return normalize(src.x @ edge.psi) * edge.phi + edge.pair[1] * where(edge.mask, src.x, edge.phi)

    @p.over_edges(into="b", reduce="sum")
    def cross(src, dst, edge):
        return where(edge.side, outer(src.x, dst.z), edge.psi * edge.pair[0])

    @p.over_edges(into="c", reduce="sum")
    def pair(src, edge):
        return stack(total(src.x), edge.weight)

    @p.over_edges(into="d", reduce="sum")
    def soft(src, edge):
        return normalize(edge.psi @ src.x, "softmax") + exp(-src.x) / edge.weight

    @p.over_vertices
    def step(v):
        means = 0.1 * normalize(v.a) + 0.1 * normalize(v.b @ v.z) + 0.01 * v.d
        return {"x": 0.4 * v.x + means + 0.01 * v.c[0] + 0.01 * v.c[1]}

    p.repeat(3)
    p.output("x", bound=2e-4)


@example
def tall_messages(p, self):
    """Reduce messages of shape (2, K), (K, 2) and (K, K) by max and min."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="a", reduce="sum")
    def both(src, edge):
        return stack(src.x, 0.5 * src.x)

    @p.over_edges(into="b", reduce="max")
    def high(src):
        return outer(src.x, src.x)

    @p.over_edges(into="c", reduce="min")
    def low(src):
        return stack(src.x, src.x * src.x).T

    @p.over_vertices
    def step(v):
        b, c = where(v.b < 0.0, 0.0, v.b), where(v.c < 1e6, v.c, 0.0)
        return {
            "x": 0.5 * v.x
            + 0.05 * normalize(v.a[0])
            + 0.05 * normalize(v.a)[1]
            + 0.05 * normalize(b @ v.x)
            + 0.05 * normalize(c.T[1])
        }

    p.repeat(3)
    p.output("x", bound=2e-4)


@example
def gathered_twice(p, self):
    """Reduce one property of the sources twice, with a step after each reduction that writes it."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="near", reduce="sum")
    def spread(src):
        return src.x

    @p.over_vertices
    def half(v):
        return {"x": 0.5 * v.x + 0.25 * normalize(v.near)}

    @p.over_edges(into="far", reduce="sum")
    def spread_again(src):
        return src.x

    @p.over_vertices
    def whole(v):
        return {"x": 0.75 * v.x + 0.125 * normalize(v.far)}

    p.repeat(5)
    p.output("x", bound=1e-4)


@example
def sides_settle(p, self):
    """Compute extrema on alternating sides: a side that has not changed must still send once."""
    shortest_paths(p, self)
    p.alternate_sides()


@example
def inverse_of_a_destination(p, self):
    """Invert a matrix of the destination, which does not depend on its edges."""
    p.vertex("b", K)
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="s", reduce="sum")
    def spread(src, dst):
        return src.x * (inverse(outer(dst.b, dst.b) + eye(K)) @ dst.b)

    @p.over_vertices
    def keep(v):
        return {"x": 0.1 * v.s + 0.5 * v.x}

    p.repeat(4)
    p.output("x", bound=1e-4)
