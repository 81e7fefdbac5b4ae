"""Small programs that together cover the language, and random inputs for them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ClassVar, Literal

import numpy as np

from harness.graph import Graph
from harness.language import (
    Algorithm,
    Expression,
    Inputs,
    K,
    Program,
    ProgramBuilder,
    Reader,
    eye,
    full,
    maximum,
    minimum,
    normalize,
    outer,
    solve_spd,
    sqrt,
    stack,
    total,
    trace,
    where,
)
from harness.language.evaluation import concrete
from harness.language.readers import EdgeReader

Build = Callable[[ProgramBuilder, Any], None]
Kind = Literal["any", "paired", "bipartite"]
Values = dict[str, Expression]

SUPERSTEPS = 4
PROGRAMS: dict[str, tuple[Build, Kind]] = {}


def _program(kind: Kind = "any") -> Callable[[Build], Build]:
    """Register a program for graphs of a kind; its name is the function's."""

    def register(build: Build) -> Build:
        PROGRAMS[build.__name__] = (build, kind)
        return build

    return register


@functools.cache
def program_named(name: str) -> Program:
    """Trace one of PROGRAMS."""
    body, title = PROGRAMS[name][0], name

    class Small(Algorithm):
        """The algorithm of a program function: ``tolerance``, ``rate`` and ``flag`` are run-time parameters."""

        name: ClassVar[str] = title
        tolerance: float = 1e-6
        rate: float = 0.5
        flag: bool = True

        def build(self, p: ProgramBuilder) -> None:
            """Call the program function."""
            body(p, self)

    return trace(Small())


def inputs_for(program: Program, graph: Graph, features: int, seed: int = 0) -> Inputs:
    """Draw random inputs: floats from 0.25 to 1.25, and bools."""
    rng = np.random.default_rng(seed)
    properties = {}
    for prop in program.properties.values():
        if prop.role == "input" and prop.name != "weight":
            count = graph.num_vertices if prop.place == "vertex" else graph.num_edges
            draws = rng.uniform(0.25, 1.25, (count, *concrete(prop.shape, features))).astype(np.float32)
            properties[prop.name] = draws > 0.75 if prop.dtype == "bool" else draws
    return Inputs(properties, dict(program.parameters))


def _weighted_sums(p: ProgramBuilder) -> None:
    """Declare ``aggr``: the sum over in-edges of weight times ``x``, which starts as the input ``x0``."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src: Reader, edge: Reader) -> Expression:
        return edge.weight * src.x


@_program()
def averaging(p: ProgramBuilder, self: Any) -> None:
    """Scale weighted sums of vectors; a fixed number of supersteps."""
    _weighted_sums(p)

    @p.over_vertices
    def step(v: Reader) -> Values:
        return {"x": normalize(self.rate * v.x + normalize(v.aggr))}

    p.repeat(SUPERSTEPS)
    p.output("x", bound=1e-4)


@_program()
def settling(p: ProgramBuilder, self: Any) -> None:
    """Diffuse until nothing moves by more than a tolerance."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src: Reader) -> Expression:
        return src.x / src.out_degree

    @p.over_vertices
    def step(v: Reader) -> Values:
        return {"x": 0.5 * v.x0 + self.rate * v.aggr / maximum(v.degree, 1.0)}

    p.until_settled(self.tolerance, at_most=200)
    p.output("x", bound=1e-4)


@_program()
def nearest(p: ProgramBuilder, self: Any) -> None:
    """Compute shortest paths: the minimum of sums, until nothing moves at all."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="least", reduce="min")
    def relax(src: Reader, edge: Reader) -> Expression:
        return src.x + 0.01 * edge.weight

    @p.over_vertices
    def keep(v: Reader) -> Values:
        return {"x": minimum(v.x, v.least)}

    p.until_settled(at_most=400)
    p.output("x", bound=1e-5)


@_program()
def widest(p: ProgramBuilder, self: Any) -> None:
    """Compute the maximum of labels, one per vertex for any number of features."""
    p.vertex("label0")
    p.vertex("label", start="label0")

    @p.over_edges(into="most", reduce="max")
    def offer(src: Reader) -> Expression:
        return src.label

    @p.over_vertices
    def keep(v: Reader) -> Values:
        return {"label": maximum(v.label, v.most)}

    p.until_settled(at_most=400)
    p.output("label", bound=0.0)


@_program()
def products(p: ProgramBuilder, self: Any) -> None:
    """Compute products with zeros and negative factors."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="all", reduce="prod")
    def factor(src: Reader, edge: Reader) -> Expression:
        return where(edge.weight < 0.3, 0.0 * src.x, src.x - 0.6)

    @p.over_vertices
    def step(v: Reader) -> Values:
        return {"x": 0.5 * v.x + 0.25 * abs(v.all)}

    p.repeat(SUPERSTEPS)
    p.output("x", bound=2e-4)


@_program()
def whole_graph(p: ProgramBuilder, self: Any) -> None:
    """Combine several reductions over edges with one over the graph."""
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_graph(into="moments", reduce="sum")
    def moments(v: Reader) -> Expression:
        return stack(v.x, v.x * v.x)

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src: Reader) -> Expression:
        return src.x / src.out_degree

    @p.over_edges(into="count", reduce="sum")
    def counted(src: Reader) -> Expression:
        return src.x

    @p.over_vertices
    def step(v: Reader, graph: Reader) -> Values:
        deviation = sqrt(graph.moments[1] / graph.num_vertices)
        return {"x": 0.1 * v.x + 0.2 * v.aggr + 0.1 * deviation + 0.2 * normalize(v.count)}

    p.repeat(SUPERSTEPS)
    p.output("x", bound=1e-4)


@_program()
def guarded(p: ProgramBuilder, self: Any) -> None:
    """Use bools, a guard, and a run-time flag."""
    p.vertex("x0", K)
    p.vertex("done0", dtype=bool)
    p.vertex("x", K, start="x0")
    p.vertex("done", start="done0", dtype=bool)

    @p.over_edges(into="aggr", reduce="sum")
    def spread(src: Reader) -> Expression:
        return where(src.done & self.flag, 0.5, 1.0) * src.x / src.out_degree

    @p.over_vertices(when=lambda v: ~v.done)
    def move(v: Reader) -> Values:
        return {"x": 0.5 * v.x + 0.25 * v.aggr, "done": total(v.x) < 0.7 * total(full(K, 1.0))}

    p.repeat(SUPERSTEPS)
    p.output("x", bound=1e-4)


@_program()
def small_systems(p: ProgramBuilder, self: Any) -> None:
    """Sum k x k matrices, and solve a linear system per vertex."""
    p.edge("weight")
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="right", reduce="sum")
    def score(src: Reader, edge: Reader) -> Expression:
        return edge.weight * src.x

    @p.over_edges(into="gram", reduce="sum")
    def gram(src: Reader) -> Expression:
        return outer(src.x, src.x)

    @p.over_vertices
    def solve(v: Reader) -> Values:
        return {"x": solve_spd(v.gram + (v.degree + 1.0) * eye(K), v.right + v.x0)}

    p.repeat(SUPERSTEPS)
    p.output("x", bound=1e-3)


@_program("paired")
def messages(p: ProgramBuilder, self: Any) -> None:
    """Update an edge property from its reverse, and remove a factor from a product."""
    p.vertex("phi", K)
    p.edge("msg", K, start=1.0)
    p.vertex("aggr", K, start=1.0)
    p.vertex("belief", K, start="phi")

    @p.over_edges(updates="msg")
    def message(src: Reader, edge: EdgeReader) -> Expression:
        return normalize(src.phi * src.aggr.without(edge.reverse.msg) + 0.5)

    @p.over_edges(into="aggr", reduce="prod")
    def gather(edge: Reader) -> Expression:
        return edge.msg

    @p.over_vertices
    def judge(v: Reader) -> Values:
        return {"belief": normalize(v.phi * v.aggr)}

    p.repeat(SUPERSTEPS)
    p.output("belief", bound=1e-4)


@_program("bipartite")
def sides(p: ProgramBuilder, self: Any) -> None:
    """Alternate between the two sides of a bipartite graph."""
    _weighted_sums(p)

    @p.over_vertices
    def step(v: Reader) -> Values:
        return {"x": 0.5 * v.x + normalize(v.aggr)}

    p.alternate_sides()
    p.repeat(SUPERSTEPS)
    p.output("x", bound=1e-4)
