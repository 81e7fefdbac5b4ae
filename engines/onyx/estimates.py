"""Estimates of the work of supersteps on the CPU that follow changes, from facts of the graph."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from engines.onyx.policy import Policy
    from harness.api import GraphFacts


def visited_share(graph: GraphFacts, share: float) -> float:
    """Return the share of the edges that a superstep visits if it follows sources with a share of the edges.

    Each destination is recomputed from all its in-edges. Destinations are assumed to be random: n edges reach a share
    ``1 - exp(-n / V)`` of the V vertices.
    """
    return -math.expm1(-share * graph.average_degree)


def following_share(graph: GraphFacts, policy: Policy) -> float:
    """Return the share of the edges up to which following the sources that moved is estimated to be faster.

    At this share :func:`visited_share` equals ``policy.visited_share_cpu``. It is 1 on a graph whose vertices have too
    few edges.
    """
    if not graph.num_edges:
        return 1.0
    return min(1.0, -math.log1p(-policy.visited_share_cpu) / graph.average_degree)
