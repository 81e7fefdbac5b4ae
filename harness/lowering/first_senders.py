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
from harness.language.program import EdgeReduce, Program, reads

MOST = 0.5  # of the edges; if they have more, all messages are sent


class FirstSenders:
    """The first senders of a lowered program on a graph; the result for the latest input is kept.

    ``keeps_extrema``: whether the plan pushes changes and keeps nothing but extrema.
    """

    def __init__(self, program: Program, graph: Graph, features: int, *, keeps_extrema: bool) -> None:
        self.program, self.graph, self.features = program, graph, features
        self.name, self.unreached = reaching(program) if keeps_extrema else ("", np.inf)
        start = program.properties[self.name].start if self.name else None
        read = {name for stage in program.stages if isinstance(stage, EdgeReduce) for _, name in reads(stage.message)}
        others = {name for name in read if program.properties[name].role == "input"}
        self.start = start if isinstance(start, str) else ""
        self.others = sorted(others - {self.start})
        self._given: list[object] = [self]  # the inputs of the latest answer; no input is this object
        self._found: NDArray[np.bool_] | None = None

    def of(self, inputs: Inputs) -> NDArray[np.bool_] | None:
        """Return the vertices that send, bool[V]; None if all may, or if those that may have most of the edges.

        All may if another value that messages read is infinite. Inputs on a device are not read.
        """
        if not self.name:
            return None
        given: list[object] = [inputs.properties.get(name) for name in (self.start, *self.others)]
        if len(given) != len(self._given) or any(a is not b for a, b in zip(given, self._given, strict=True)):
            known = all(one is None or isinstance(one, np.ndarray) for one in given)
            self._given, self._found = given, self._reached(inputs) if known else None
        return self._found

    def _reached(self, inputs: Inputs) -> NDArray[np.bool_] | None:
        start = Start(self.program, self.graph, self.features, inputs, {})
        values = np.asarray(start.of(self.program.properties[self.name]))
        others = (inputs.properties.get(name) for name in self.others)  # None: weights of the graph, which are finite
        if not all(one is None or np.isfinite(one).all() for one in others):
            return None
        reached = np.asarray((values != self.unreached).any(axis=tuple(range(1, values.ndim))))
        few = int(self.graph.out_degrees[reached].sum()) <= MOST * self.graph.num_edges
        return reached if few else None
