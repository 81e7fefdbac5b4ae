"""Random small programs on random small graphs: every engine that supports them agrees with the reference."""

from __future__ import annotations

import importlib.util
import random

import numpy as np
import pytest

from harness.contract import Device, No, Phases
from harness.graph import Graph
from harness.language import (
    K,
    absolute,
    any_feature,
    dot,
    exp,
    full,
    largest,
    log,
    maximum,
    mean,
    minimum,
    normalize,
    outer,
    smallest,
    sqrt,
    stack,
    total,
    where,
)
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.problems import new_engine, outputs_of
from tests.engines.programs import inputs_for, traced

SCHEDULES = [
    ("onyx", {"dense_share": 0.4}),
    ("onyx", {"change_driven": False}),
    ("onyx", {"feature_aware": False, "dense_share": 1.0}),
    ("onyx", {"fold": False, "dense_share": 1.0}),
    ("onyx", {"direction": "push", "rebuild": 0}),
    ("onyx", {"direction": "push", "change_driven": False, "feature_aware": False}),
    ("gunrock", {"rebuild": 3}),
    ("tigr", {"degree_bound": 1}),
    ("simdx", {"warp_degree": 1, "block_degree": 2}),
    ("scipy", {}),
    *([("torch", {})] if importlib.util.find_spec("torch") else []),
]
ADAPTIVE = ("onyx", {"direction": "adaptive", "dense_share": 0.3, "rebuild": 2})
SUPERSTEPS = 5


class Draw:
    """Random expressions whose values stay in about 0..4 if those of their leaves do."""

    def __init__(self, seed):
        self.random = random.Random(seed)

    def scalar(self, leaves, depth):
        r = self.random
        if depth == 0 or r.random() < 0.15:
            scalars = [leaf for leaf in leaves if leaf.shape == ()]
            return r.choice([*scalars, full(K, 0.5) @ full(K, 1.0) / (1.0 + total(full(K, 1.0)))])
        match r.randrange(7):
            case 0:
                return mean(self.vector(leaves, depth - 1))
            case 1:
                return largest(self.vector(leaves, depth - 1))
            case 2:
                return smallest(self.vector(leaves, depth - 1))
            case 3:
                x = normalize(self.vector(leaves, depth - 1))
                return dot(x, self.vector(leaves, depth - 1))
            case 4:
                return total(normalize(self.matrix(leaves, depth - 1)) * 0.2)
            case 5:
                return where(self.condition(leaves, depth - 1), self.scalar(leaves, depth - 1), 0.75)
            case _:
                return self.elementwise(self.scalar, leaves, depth)

    def vector(self, leaves, depth):
        r = self.random
        if depth == 0 or r.random() < 0.15:
            return r.choice([leaf for leaf in leaves if leaf.shape == (K,)])
        match r.randrange(7):
            case 0:
                return normalize(self.vector(leaves, depth - 1), r.choice(["l1", "l2", "softmax"]))
            case 1:
                return normalize(self.vector(leaves, depth - 1)) @ self.matrix(leaves, depth - 1)
            case 2:
                return self.scalar(leaves, depth - 1) * self.vector(leaves, depth - 1) * 0.5
            case 3:
                x = self.vector(leaves, depth - 1)
                return where(x > 0.5, x, self.vector(leaves, depth - 1))
            case 4:
                return stack(self.vector(leaves, depth - 1), self.vector(leaves, depth - 1))[r.randrange(2)]
            case 5:
                return where(self.condition(leaves, depth - 1), self.vector(leaves, depth - 1), 0.5)
            case _:
                return self.elementwise(self.vector, leaves, depth)

    def matrix(self, leaves, depth):
        x, y = (normalize(self.vector(leaves, max(0, depth - 1))) for _ in range(2))
        product = outer(x, self.vector(leaves, max(0, depth - 1)))
        return self.random.choice([product, product.T, outer(x, y) + 0.25, normalize(product)])

    def condition(self, leaves, depth):
        a, b = self.vector(leaves, depth), self.scalar(leaves, 0)
        return self.random.choice([any_feature(a > 0.6), b < 0.4, ~any_feature(a <= b), (b > 0.2) & (b < 0.9)])

    def elementwise(self, kind, leaves, depth):
        a, b = kind(leaves, depth - 1), kind(leaves, depth - 1)
        return self.random.choice(
            [
                0.5 * (a + b), absolute(a - b) + 0.1, minimum(a, b), maximum(a, b), a / (0.5 + b), exp(-a),
                sqrt(a + 0.1), log(1.5 + a), 0.3 * a * b, a**2 / (1.0 + a), where(a < 0.7, a, 0.7),
            ]
        )  # fmt: skip

    def bounded(self, value):
        """Map to 0.1..1 with a small slope."""
        return 0.1 + 0.9 * value / (1.0 + value)


def message_of(draw, chained, reads_destination):
    """Return a random message function; ``chained`` names aggregates that it reads at its source."""

    def message(src, dst, edge):
        leaves = [src.x, src.c, src.s, edge.weight]
        leaves += [dst.x, dst.s] if reads_destination else []
        leaves += [
            draw.bounded(where(getattr(src, name) < -1e30, 0.0, absolute(getattr(src, name)))) for name in chained
        ]
        kind = draw.random.random()
        if kind < 0.4:
            return edge.weight * src.x
        vectors = [leaf for leaf in leaves if len(leaf.shape) < 2]
        drawn = draw.vector(vectors, 2) if kind < 0.8 else draw.matrix(vectors, 1)
        return draw.bounded(drawn) / dst.in_degree

    return message


def shrink_vector(v):
    return {"x": 0.75 * v.x + 0.05}


def shrink_scalar(v):
    return {"s": 0.5 * v.s + 0.1}


def random_program(seed):
    draw = Draw(seed)
    r = draw.random

    def build(p, self):
        p.edge("weight")
        p.vertex("x0", K)
        p.vertex("s0")
        p.vertex("c", K)
        p.vertex("x", K, start="x0")
        p.vertex("s", start="s0")
        whole = r.random() < 0.4
        if whole:
            p.over_graph(into="level", reduce=r.choice(["max", "min"]))(lambda v: largest(v.x))
        reductions = []
        for number in range(r.choice([1, 1, 2, 3])):
            into = f"a{number}"
            reads_destination = r.random() < 0.25
            chained = [name for name in reductions if r.random() < 0.4]

            function = message_of(draw, chained, reads_destination)
            function.__name__ = f"reduce_{number}"
            p.over_edges(into=into, reduce="sum" if reads_destination or r.random() < 0.8 else "max")(function)
            reductions.append(into)
            if r.random() < 0.3:
                p.over_vertices(r.choice([shrink_vector, shrink_scalar]))

        def step(v, graph):
            leaves = [v.x, v.s, v.c] + ([graph.level] if whole else [])
            for name in reductions:
                value = where(getattr(v, name) < -1e30, 0.0, getattr(v, name))
                value = draw.bounded(absolute(value))
                leaves.append(normalize(value) @ v.c if len(value.shape) == 2 else value)
            # every reduction is read
            used = sum((leaf for leaf in leaves[-len(reductions) :]), start=0.0 * v.x)
            return {
                "x": draw.bounded(0.5 * draw.vector(leaves, 3) + 0.25 * used),
                "s": draw.bounded(draw.scalar(leaves, 2)) if r.random() < 0.7 else minimum(v.s, 0.9),
            }

        p.over_vertices(step)
        p.repeat(SUPERSTEPS)
        p.output("x", bound=2e-4)
        p.output("s", bound=2e-4)

    return traced(build, f"random_{seed}")


def random_graph(seed):
    rng = np.random.default_rng(seed)
    vertices = int(rng.integers(1, 40))
    edges = rng.integers(0, vertices, (int(rng.integers(0, 4 * vertices)), 2))
    return Graph.from_edges(
        edges[:, 0], edges[:, 1], num_vertices=vertices, name="random", duplicates="keep",
        weights=rng.uniform(0.1, 1.0, len(edges)).astype(np.float32),
    )  # fmt: skip


def check(seed, features, schedules):
    program = random_program(seed)
    graphs = [random_graph(10 * seed + number) for number in range(4)]
    for name, options in schedules:
        for graph in graphs:
            engine, device = new_engine(name, options), Device(threads=2)
            if isinstance(engine.supports(program, graph, features, device), No):
                continue
            inputs = inputs_for(program, graph, features, seed)
            run = ReferenceRun(program, graph, features)
            run.reset(inputs)
            engine.prepare(program, graph, features, device, Phases())
            engine.reset(inputs)
            for superstep in range(SUPERSTEPS):
                run.run(1)
                engine.run(1)
                wanted = {output: run.values(output) for output in program.outputs}
                found = compare(program, outputs_of(engine, program), wanted)
                assert found.ok, f"{name} {options} on {graph.num_vertices} vertices after {superstep}: {found.detail}"
            engine.close()


# The first takes as long as the other two, and its schedules are those of :mod:`tests.engines.test_operations`, too.
@pytest.mark.short_run(rows=1)
@pytest.mark.parametrize("seed", [1, 2, *(pytest.param(seed, marks=pytest.mark.full) for seed in (0, 3, 4, 5))])
def test_random_programs(seed):
    """Some programs under some of the schedules, each with its own number of features."""
    check(seed, (1, 3, 4, 8)[seed % 4], SCHEDULES[seed % 3 :: 3])


@pytest.mark.full
@pytest.mark.parametrize("seed", range(100, 160))
def test_many_random_programs(seed):
    """Different programs find more defects than more schedules and numbers of features for the same ones."""
    check(seed, (1, 3, 4, 8)[seed % 4], [*SCHEDULES[seed % 3 :: 3], ADAPTIVE])
