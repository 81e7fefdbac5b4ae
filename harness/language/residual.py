"""Whether an answer is at rest: what one more superstep in float64 makes of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language.algorithm import Inputs
from harness.language.program import Program
from harness.language.reference import ReferenceRun
from harness.language.rounding import RoundedRun, stopping
from harness.language.validation import WITHIN, Comparison, allowed, within

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]
Values = Mapping[str, Array]
SLACK = 2.0  # the signs drawn are one pattern of many


def responses(exact: Values, rounded: Values) -> dict[str, Array]:
    """By how much float32 and what was not sent may change a result: ``SLACK`` times what a rounded run differs by."""
    return {name: SLACK * found for name, found in distances(exact, rounded).items()}


def distances(exact: Values, other: Values) -> dict[str, Array]:
    """The distance of some results from the exact ones, entry by entry; 0 where one is not finite."""
    found = {}
    for name, values in exact.items():
        with np.errstate(invalid="ignore"):
            change = np.abs(np.asarray(other[name], np.float64) - values)
        found[name] = np.nan_to_num(change, nan=0.0, posinf=0.0)
    return found


def residual(
    program: Program, graph: Graph, features: int, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]
) -> Comparison:
    """Hold a settled answer against one more superstep in float64 (of each side, where sides alternate).

    ``state``: all properties that live from superstep to superstep. They may move by the program's tolerance, and by
    what rounding and values not sent may do in a superstep.
    """

    def next_values(run: ReferenceRun) -> dict[str, Array]:
        run.reset(inputs, state)
        run.run(2 if program.control.alternate else 1)
        return {name: run.values(name) for name in state}

    exact = next_values(ReferenceRun(program, graph, features))
    rounded = next_values(RoundedRun(program, graph, features, lag=1.0))
    return at_rest(program, inputs, state, exact, responses(exact, rounded))


def at_rest(program: Program, inputs: Inputs, before: Values, after: Values, response: Values) -> Comparison:
    """Hold state against what it is one superstep later; ``response``: :func:`responses`."""
    tolerance, relative = stopping(program, inputs)
    exact = {result.name for result in program.results if result.bound == 0.0}
    found = []
    for name, new in after.items():
        old = np.asarray(before[name], np.float64)
        if name in exact or new.dtype == np.bool_:
            limit = np.full(new.shape, np.finfo(np.float64).tiny)
        else:
            step = np.where(np.isfinite(new), tolerance * (np.abs(new) if relative else 1.0), 0.0)
            limit = allowed(new, response[name] + step)
        found.append(within(name, program.properties[name].place, old, new, limit))
    worst = max(found, key=lambda one: (not one.ok, one.excess), default=Comparison(True, 0.0, 0.0, WITHIN))
    if worst.ok:
        return worst
    return Comparison(False, worst.error, worst.bound, f"not at rest after the last superstep: {worst.detail}")
