"""A job that libraries do too: what is asked for, who does it, by the fastest path, and how the answer is read.

Graphs are turned into a library's own form beforehand, as they are for an engine; what is timed is the solving.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.graph import Graph
from harness.language import Algorithm, Inputs

Array = NDArray[Any]
MOST_ARCS_OF_NETWORKX = 100_000  # pure Python: on larger graphs it takes minutes and gigabytes, and is never the best


@dataclass(frozen=True)
class Peer:
    """A library's way: ``solve`` is timed, ``answer`` turns what it gives into what the job compares."""

    name: str
    solve: Callable[[], Any]
    answer: Callable[[Any], Array] = np.asarray


@dataclass(frozen=True)
class Job:
    """What is asked for, on a graph ready for it, with the peers that do the same.

    ``error`` of an answer, given the true one, is at most ``bound``; ``output``: the property that holds ours.
    ``supersteps``: how many are to be done, unless settled before; None for the program's own limit.
    """

    title: str
    algorithm: Algorithm
    graph: Graph
    inputs: Inputs
    features: int
    output: str
    truth: Callable[[], Array]
    error: Callable[[Array, Array], float]
    bound: float
    peers: list[Peer] = field(default_factory=list)
    note: str = ""
    supersteps: int | None = None


def differing(answer: Array, truth: Array) -> float:
    """How many entries are not the true ones."""
    return float(np.count_nonzero(answer != truth))
