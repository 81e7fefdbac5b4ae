"""The metrics of programs with steps in place in float64 runs of random orders, and the interval of one more run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from harness.campaign.engine_checks import checked_metrics
from harness.graph.adjacency import Adjacency, id_dtype
from harness.graph.graph import Graph
from harness.language.algorithm import Answer, Inputs
from harness.language.program import BUILTIN_GRAPH, EdgeOrder, GraphReduce, edge_steps, reads
from harness.language.reference import ReferenceRun

if TYPE_CHECKING:
    from harness.campaign.problem import Problem

RUNS = 8  # in random orders
CONFIDENCE = 0.9995  # of each end of the interval: a right answer is outside once in a thousand cells


def compared_supersteps(supersteps: int) -> tuple[int, ...]:
    """Return the supersteps, from 1, whose metrics are compared, the last of all included."""
    return tuple(sorted({one for one in (1, 2, 5, 10) if one <= supersteps} | {supersteps}))


def metrics_in_random_orders(problem: Problem) -> Answer:
    """Return the metrics of float64 runs in random orders, by name; empty without metrics.

    An array is float64 [RUNS, n], for the n :func:`compared_supersteps`.

    All runs are one run on as many copies of the graph: edges of several runs are then evaluated together, which is
    several times as fast. Programs that read the size of the graph, or reduce over it, are run one after another.
    """
    whole = any(isinstance(stage, GraphReduce) for stage in problem.program.stages)
    whole |= any(name in BUILTIN_GRAPH for stage in problem.program.stages for _, name in reads(stage))
    seeds = list(range(RUNS))
    runs = [_answers(problem, [seed]) for seed in seeds] if whole else [_answers(problem, seeds)]
    rated = [
        [checked_metrics(problem.algorithm.metrics(problem.given, {**problem.carried, **values})) for values in sweeps]
        for answers in runs
        for sweeps in answers
    ]
    found = {name: np.array([[one[name] for one in sweeps] for sweeps in rated]) for name in rated[0][0]}
    return Answer(found, f"metrics of {RUNS} float64 runs in random orders")


def _answers(problem: Problem, seeds: Sequence[int]) -> list[list[dict[str, NDArray[Any]]]]:
    """Return the outputs of a run for each seed after each compared superstep, on copies of the graph."""
    program, graph, inputs = problem.program, problem.graph, problem.inputs
    tiled = {
        name: array if program.properties[name].place == "graph" else np.concatenate([array] * len(seeds))
        for name, array in inputs.properties.items()
    }
    run = ReferenceRun(program, copies_of(graph, len(seeds)), problem.features)
    run.reset(Inputs(tiled, inputs.parameters))
    random = [np.random.default_rng(seed) for seed in seeds]
    compared = compared_supersteps(problem.max_supersteps)
    found: list[list[dict[str, NDArray[Any]]]] = [[] for _ in seeds]
    for number in range(1, problem.max_supersteps + 1):
        run.orders = {step.name: _orders(step.order, graph.num_edges, random) for step in edge_steps(program)}
        run.superstep()
        values = {name: np.split(run.values(name), len(seeds)) for name in program.outputs}
        for copy, sweeps in enumerate(found if number in compared else ()):
            sweeps.append({name: parts[copy].copy() for name, parts in values.items()})
    return found


def _orders(order: EdgeOrder, edges: int, random: Sequence[np.random.Generator]) -> NDArray[Any]:
    """Return an order of the edges of each copy, one copy after another."""
    each = [np.arange(edges) if order == "given" else one.permutation(edges) for one in random]
    return np.concatenate([copy * edges + found for copy, found in enumerate(each)])


def copies_of(graph: Graph, count: int) -> Graph:
    """Return a graph of disjoint copies: vertex v of copy c is c V + v, edge e is c E + e. Weights are copied."""
    vertices, edges = graph.num_vertices, graph.num_edges
    ids = id_dtype(count * vertices)
    offsets = np.concatenate([[0], *(graph.csr.offsets[1:] + copy * edges for copy in range(count))])
    neighbours = [graph.csr.neighbours.astype(np.int64) + copy * vertices for copy in range(count)]
    return Graph(
        Adjacency(offsets.astype(np.int64), np.concatenate(neighbours).astype(ids)),
        name=f"{count} copies of {graph.name}",
        weights=None if graph.weights is None else np.concatenate([graph.weights] * count),
    )


def interval(runs: Sequence[float] | NDArray[Any], slack: float) -> tuple[float, float, float]:
    """Return the mean of runs, and the ends of the interval in which one more run lies, widened by a share of the mean.

    The interval is mean +- t sd sqrt(1 + 1/n), with Student's t for n - 1 degrees of freedom.
    """
    count, mean = len(runs), float(np.mean(runs))
    reach = float(student.ppf(CONFIDENCE, count - 1)) * float(np.std(runs, ddof=1)) * math.sqrt(1 + 1 / count)
    margin = reach + slack * abs(mean)
    return mean, mean - margin, mean + margin
