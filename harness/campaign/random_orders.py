"""The metrics of programs with steps in place in float64 runs of random orders, and the interval of one more run."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t as student

from harness.campaign.guarded_engine import checked_metrics
from harness.language.algorithm import Answer
from harness.language.program import edge_steps
from harness.language.reference import ReferenceRun

if TYPE_CHECKING:
    from harness.campaign.problem import Problem

RUNS = 8  # in random orders
CONFIDENCE = 0.9995  # of each end of the interval: a right answer is outside once in a thousand cells


def metrics_in_random_orders(problem: Problem) -> Answer:
    """Return the metrics of float64 runs in random orders, float64 [RUNS] by name.; empty without metrics."""
    rows = []
    for seed in range(RUNS):
        run = ReferenceRun(problem.program, problem.graph, problem.features)
        run.reset(problem.inputs)
        random = np.random.default_rng(seed)
        for _ in range(problem.max_supersteps):
            run.orders = {step.name: _order(step.order, problem, random) for step in edge_steps(problem.program)}
            run.superstep()
        values = {name: run.values(name) for name in problem.program.outputs}
        rows.append(checked_metrics(problem.algorithm.metrics(problem.given, values)))
    method = f"metrics of {RUNS} float64 runs in random orders"
    return Answer({name: np.array([row[name] for row in rows]) for name in rows[0]}, method)


def _order(order: str, problem: Problem, random: np.random.Generator) -> NDArray[Any]:
    edges = problem.graph.num_edges
    return np.arange(edges) if order == "given" else random.permutation(edges)


def interval(runs: Sequence[float] | NDArray[Any], slack: float) -> tuple[float, float, float]:
    """Return the mean of runs, and the ends of the interval in which one more run lies, widened by a share of the mean.

    The interval is mean +- t sd sqrt(1 + 1/n), with Student's t for n - 1 degrees of freedom.
    """
    count, mean = len(runs), float(np.mean(runs))
    reach = float(student.ppf(CONFIDENCE, count - 1)) * float(np.std(runs, ddof=1)) * math.sqrt(1 + 1 / count)
    margin = reach + slack * abs(mean)
    return mean, mean - margin, mean + margin
