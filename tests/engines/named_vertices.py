"""Programs that name vertices by values, their inputs, and their schedules, for tests on every device."""

from __future__ import annotations

import functools
import random

import numpy as np

from harness.algorithms.mst import MST
from harness.contract import No, Phases
from harness.graph import Graph
from harness.graph.generators import grid, rmat
from harness.language import Algorithm, Inputs, K, largest, maximum, mean, minimum, total, trace, where
from harness.language.reference import ReferenceRun
from harness.language.validation import compare


class FastComponents(Algorithm):
    """Connected components by hooking and pointer jumping (Zhang, Azad and Buluç 2020)."""

    name = "fast_components"

    def build(self, p):
        p.vertex("number")
        p.vertex("label", start="number")
        p.over_edges(into="least", reduce="min")(lambda src: src.label)
        p.over_vertices(into="offered", reduce="min", at=lambda v: v.label)(lambda v: v.least)
        p.over_vertices(lambda v: {"label": minimum(minimum(v.label, v.offered), v.least)})
        p.over_vertices(lambda v: {"label": v.at(v.label).label})
        p.until_settled(at_most=1000)
        p.output("label", bound=0.0)

    def prepare_graph(self, graph):
        return graph.with_reverse_edges()

    def inputs(self, graph, features):
        return Inputs({"number": np.arange(graph.num_vertices, dtype=np.float32)})


class Hops(Algorithm):
    """Numbers, vectors and bools that are read at vertices, or at vertices that these name, some of which name none."""

    name = "hops"

    def build(self, p):
        p.vertex("given_to")
        p.vertex("x0", K)
        p.vertex("on0", dtype=bool)
        p.vertex("to", start="given_to")
        p.vertex("x", K, start="x0")
        p.vertex("on", dtype=bool, start="on0")
        p.vertex("top", start=0.0)
        p.over_vertices(lambda v: {"far": 0.5 * v.at(v.to).x + 0.25 * v.at(v.at(v.to).to).x})
        p.over_edges(into="aggr", reduce="sum")(lambda src, edge: 0.125 * src.far)
        p.over_vertices(into="high", reduce="max", at=lambda v: v.at(v.to).to)(lambda v: total(v.aggr) - total(v.x))
        p.over_vertices(into="low", reduce="min", at=lambda v: v.to)(lambda v: where(v.on, total(v.x), v.high))
        p.over_graph(into="first", reduce="min")(lambda v: v.to)
        p.over_vertices(
            lambda v, graph: {
                "x": where(v.on, v.aggr + v.far, 0.5 * (v.x + v.at(0.0).x0)),
                "on": ~v.at(v.to).on | v.at(graph.first).on0,
                "to": v.at(v.to).to,
                "top": maximum(minimum(v.low, v.at(v.to).high), -100.0),
            }
        )
        p.repeat(4)
        p.output("x", bound=1e-5)
        p.output("top", bound=1e-5, floor=0.01)
        p.output("to", bound=0.0)

    def prepare_graph(self, graph):
        return graph.with_reverse_edges()

    def inputs(self, graph, features):
        random, count = np.random.default_rng(3), graph.num_vertices
        to = random.integers(0, count, count).astype(np.float32)
        to[random.random(count) < 0.2] = np.inf
        to[random.random(count) < 0.1] = -np.inf
        x = random.random((count, features), np.float32)
        return Inputs({"given_to": to, "x0": x, "on0": random.random(count) < 0.7})


ALGORITHMS = {"mst": MST(), "mst-1": MST(jumps=1), "components": FastComponents(), "hops": Hops()}
GRAPHS = {
    "rmat": lambda: rmat(scale=7, edge_factor=4, seed=4, max_weight=4),
    "grid": lambda: grid(rows=9, columns=11),
    "path": lambda: Graph.from_edges(
        np.arange(299), np.arange(1, 300), weights=np.arange(299, dtype=np.float32), name="path"
    ),
    "star": lambda: Graph.from_edges(np.zeros(400, int), np.arange(1, 401), name="star"),
    "no edges": lambda: Graph.from_edges([], [], num_vertices=5, name="no edges"),
    "one vertex": lambda: Graph.from_edges([], [], num_vertices=1, name="one vertex"),
    "loops": lambda: Graph.from_edges(
        [0, 0, 0, 1, 3], [0, 1, 1, 0, 3], weights=[1, 3, 2, 2, 0], num_vertices=4, name="loops", duplicates="keep"
    ),
}


@functools.cache
def program(name):
    """Return the traced program of an algorithm."""
    return trace(ALGORITHMS[name])


def most_supersteps(name):
    """Return the supersteps of a run, at most."""
    return min(program(name).max_supersteps, 200)


@functools.cache
def problem(name, graph_name, features):
    """Return the graph, the inputs, the outputs of the reference, and its number of supersteps."""
    algorithm = ALGORITHMS[name]
    graph = algorithm.prepare_graph(GRAPHS[graph_name]())
    inputs = algorithm.inputs(graph, features)
    run = ReferenceRun(program(name), graph, features)
    run.reset(inputs)
    supersteps = len(run.run(most_supersteps(name)).supersteps)
    return graph, inputs, {output: run.values(output) for output in program(name).outputs}, supersteps


# random programs ------------------------------------------------------------------------------------------------------
FINITE = 1e30
SUPERSTEPS = 4


class Draw:
    """Random stages over the numbers ``s``, the vectors ``x`` and the vertices ``to``; values stay in about 0..2.

    ``numbers``, ``vertices``: the temporaries that stages have written by now, and may read.
    """

    def __init__(self, seed):
        self.random = random.Random(seed)
        self.numbers, self.vertices, self.of_graph = ["s"], ["to", "number"], []

    def number(self, v, depth=2):
        """Return a scalar of a vertex, in part of others that it names."""
        if depth and self.random.random() < 0.6:
            return self.number(v.at(self.named(v)), 0)
        chosen = getattr(v, self.random.choice(self.numbers))
        finite = where((chosen < FINITE) & (chosen > -FINITE), chosen, 0.5)
        return self.random.choice([finite, 0.5 * (finite + mean(v.x)), maximum(finite, largest(v.x))])

    def named(self, v, depth=1):
        """Return a number that names a vertex, or none."""
        chosen = getattr(v, self.random.choice(self.vertices))
        if depth and self.random.random() < 0.4:
            return getattr(v.at(chosen), self.random.choice(self.vertices))
        return self.random.choice([chosen, minimum(chosen, v.number), maximum(v.to, chosen)])

    def stage(self, p, i):
        """Add a random stage."""
        reduce, name = self.random.choice(["min", "max"]), self.random.choice(self.numbers)

        def sent(src):
            chosen = getattr(src, name)
            return where((chosen < FINITE) & (chosen > -FINITE), chosen, 0.25)

        match self.random.choice(["edges", "step", "step", "step", "named", "number", "graph"]):
            case "edges":
                name = self.random.choice(self.numbers)
                finite = lambda x: where((x < FINITE) & (x > -FINITE), x, 0.25)  # noqa: E731
                if self.random.random() < 0.5:
                    p.over_edges(into=f"a{i}", reduce="sum")(
                        lambda src, dst: finite(getattr(src, name)) / dst.in_degree
                    )
                else:
                    p.over_edges(into=f"a{i}", reduce=reduce)(
                        lambda src, edge: finite(getattr(src, name)) * edge.weight
                    )
                self.numbers.append(f"a{i}")
            case "step":
                written = self.random.sample(["s", "x", "to"], self.random.randrange(1, 4))
                p.over_vertices(lambda v, graph: {name: self.new(name, v, graph) for name in written})
            case "named":
                p.over_vertices(into=f"a{i}", reduce=reduce, at=lambda v: self.named(v))(lambda v: self.number(v))
                self.numbers.append(f"a{i}")
            case "number":
                p.over_vertices(into=f"a{i}", reduce=reduce, at=lambda v: self.named(v))(lambda v: v.number)
                self.vertices.append(f"a{i}")
            case "graph":
                p.over_graph(into=f"a{i}", reduce="max")(lambda v: v.s)
                self.of_graph.append(f"a{i}")

    def new(self, name, v, graph):
        """Return a new value of a state."""
        if name == "to":
            return self.named(v)
        far = self.number(v)
        if self.of_graph:
            far = 0.5 * (far + getattr(graph, self.random.choice(self.of_graph)))
        value = 0.1 + 0.9 * far / (1.0 + far)
        return value if name == "s" else 0.5 * (v.at(self.named(v)).x + value * v.x)


class Drawn(Algorithm):
    """A random program."""

    name = "drawn"
    seed: int = 0

    def build(self, p):
        draw = Draw(self.seed)
        p.edge("weight")
        p.vertex("number")
        p.vertex("to0")
        p.vertex("s0")
        p.vertex("x0", K)
        p.vertex("to", start="to0")
        p.vertex("s", start="s0")
        p.vertex("x", K, start="x0")
        for i in range(draw.random.randrange(3, 9)):
            draw.stage(p, i)
        p.over_vertices(lambda v, graph: {name: draw.new(name, v, graph) for name in ("s", "x", "to")})
        p.repeat(SUPERSTEPS)
        p.output("s", bound=1e-4)
        p.output("x", bound=1e-4)
        p.output("to", bound=0.0)

    def inputs(self, graph, features):
        random_, count = np.random.default_rng(self.seed), graph.num_vertices
        to = random_.integers(0, count, count).astype(np.float32)
        to[random_.random(count) < 0.2] = np.inf
        numbers = np.arange(count, dtype=np.float32)
        s, x = random_.random(count, np.float32), random_.random((count, features), np.float32)
        return Inputs({"number": numbers, "to0": to, "s0": s, "x0": x})


def random_graph(seed):
    """Return a random directed graph, with self-loops and parallel edges, whose weights are 1/2 to 1."""
    random_ = np.random.default_rng(seed)
    count, edges = int(random_.integers(1, 40)), int(random_.integers(0, 120))
    ends, weights = random_.integers(0, count, (2, edges)), random_.integers(4, 9, edges) / np.float32(8)
    return Graph.from_edges(*ends, num_vertices=count, weights=weights, name=f"drawn {seed}", duplicates="keep")


def check_drawn(seed, make, device):
    """Check every superstep of a random program on the engine that ``make`` returns; return whether it runs it."""
    algorithm = Drawn(seed=seed)
    drawn, features = trace(algorithm), (1, 3, 8, 33)[seed % 4]
    graph = random_graph(seed)
    inputs, engine = algorithm.inputs(graph, features), make()
    if isinstance(engine.supports(drawn, graph, features, device), No):
        return False
    run = ReferenceRun(drawn, graph, features)
    engine.prepare(drawn, graph, features, device, Phases())
    run.reset(inputs)
    engine.reset(inputs)
    for superstep in range(SUPERSTEPS):
        run.run(1)
        engine.run(1)
        expected = {name: run.values(name) for name in drawn.outputs}
        found = compare(drawn, {name: engine.values(name) for name in expected}, expected)
        assert found.ok, f"seed {seed}, superstep {superstep}: {found.detail}"
    engine.close()
    return True
