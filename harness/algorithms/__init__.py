"""The built-in algorithms, registered like anyone's own."""

from __future__ import annotations

from harness.contract import AlgorithmSpec
from harness.hookspecs import hookimpl


@hookimpl
def onyx_algorithms() -> list[AlgorithmSpec]:
    """The algorithms that come with the harness."""
    return [
        AlgorithmSpec(
            "label_propagation",
            "label propagation with clamped seeds (Zhu & Ghahramani 2002)",
            "harness.algorithms.label_propagation:LabelPropagation",
        ),
        AlgorithmSpec(
            "pagerank", "PageRank, k personalised vectors as features", "harness.algorithms.pagerank:PageRank"
        ),
        AlgorithmSpec("als", "collaborative filtering by alternating least squares", "harness.algorithms.als:ALS"),
    ]
