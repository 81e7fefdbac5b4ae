"""Warm runs in tests: run on a graph, change it and resume from the answer; compare with a cold run."""

from __future__ import annotations

import functools
from dataclasses import dataclass

import numpy as np

from harness.algorithms.als import ALS
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.manifold_ranking import ManifoldRanking
from harness.algorithms.multimodal import Multimodal
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.graph.changes import change_graph
from harness.language import trace
from harness.language.reference import ReferenceRun
from harness.language.warm import inputs_after, kept_properties, warm_start

ALGORITHMS = {
    algorithm.name: algorithm
    for algorithm in (
        BFS(), SSSP(), Components(), KCore(core=3), PageRank(supersteps=1000), LabelPropagation(supersteps=1000),
        ManifoldRanking(alpha=0.8), Multimodal(), ALS(supersteps=2000), BeliefPropagation(supersteps=1000, damping=0.3),
    )
}  # fmt: skip


@functools.cache
def program(name):
    return trace(ALGORITHMS[name])


@dataclass
class Problem:
    """A program on a graph and on the changed graph: graph and inputs of each, and the number of features."""

    name: str
    features: int
    old: tuple
    new: tuple

    def start(self, values, settled=True):
        fixed_points = ALGORITHMS[self.name].fixed_points()
        return warm_start(
            program(self.name), self.features, self.old, self.new, values, fixed_points=fixed_points, settled=settled
        )


def problem(name, graph, features, kind, share, seed=0):
    """Return the problem on a graph as the algorithm prepares it, with a ``share`` of its edges changed."""
    algorithm = ALGORITHMS[name]
    prepared = algorithm.prepare_graph(graph)
    inputs = algorithm.inputs(prepared, features)
    changed = change_graph(prepared, share, kind=kind, seed=seed)
    return Problem(
        name, features, (prepared, inputs),
        (changed, inputs_after(program(name), inputs, algorithm.inputs(changed, features))),
    )  # fmt: skip


def run_reference(name, features, posed, state=None):
    """Return the statistics of a settled run in float64, and the run."""
    run = ReferenceRun(program(name), posed[0], features)
    run.reset(posed[1], state)
    return run.run(program(name).max_supersteps), run


def kept(name, run):
    return {prop: run.values(prop) for prop in kept_properties(program(name))}


def outputs(name, run):
    return {output: np.asarray(run.values(output), np.float64) for output in program(name).outputs}
