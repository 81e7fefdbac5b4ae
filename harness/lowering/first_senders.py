"""The vertices that send anything in the first superstep of a cold run.

In a search, or a computation of shortest paths, vertices that have not been reached have an infinite value, and send
nothing. A push that keeps extrema begins with the others; if it sent all messages, as for other programs, it would read
every edge once for nothing.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.graph import Graph
from harness.language import Inputs
from harness.language.initial_state import Start
from harness.language.monotone import reaching
from harness.language.program import Program

MOST = 0.5  # of the edges; if they have more, all messages are sent


class FirstSenders:
    """Those of a lowered program on a graph; the answer for the latest input is kept.

    ``keeps_extrema``: whether the plan pushes changes and keeps nothing but extrema.
    """

    def __init__(self, program: Program, graph: Graph, features: int, *, keeps_extrema: bool) -> None:
        self.program, self.graph, self.features = program, graph, features
        self.name, self.unreached = reaching(program) if keeps_extrema else ("", np.inf)
        self._given: object = self  # the input of the latest answer, which nothing else is
        self._found: NDArray[np.bool_] | None = None

    def of(self, inputs: Inputs) -> NDArray[np.bool_] | None:
        """Return the vertices that send, bool[V]; None if all may, or if those that may have most of the edges.

        An input on a device is not read.
        """
        if not self.name:
            return None
        prop = self.program.properties[self.name]
        given: object = inputs.properties.get(prop.start) if isinstance(prop.start, str) else None
        if given is not None and not isinstance(given, np.ndarray):
            return None
        if self._given is not given:
            values = np.asarray(Start(self.program, self.graph, self.features, inputs, {}).of(prop))
            reached = (values != self.unreached).reshape(self.graph.num_vertices, -1).any(axis=1)
            few = int(self.graph.out_degrees[reached].sum()) <= MOST * self.graph.num_edges
            self._given, self._found = given, reached if few else None
        return self._found
