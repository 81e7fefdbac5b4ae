"""Whether an answer is at rest: what one more superstep in float64 makes of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language.algorithm import Inputs
from harness.language.program import Program
from harness.language.reference import ReferenceRun
from harness.language.rounding import RoundedRun
from harness.language.validation import WITHIN, Comparison, allowed, within

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]
Values = Mapping[str, Array]
PATTERNS = (0, 1, 2)
SLACK = 2.0  # the patterns of signs are some of all


def responses(exact: Values, rounded: Sequence[Values]) -> dict[str, Array]:
    """By how much float32 and what was not sent may change a result: ``SLACK`` times the most of some rounded runs."""
    found = {}
    for name, values in exact.items():
        with np.errstate(invalid="ignore"):
            changes = [np.abs(np.asarray(one[name], np.float64) - values) for one in rounded]
        found[name] = SLACK * np.nan_to_num(np.max(changes, axis=0), nan=0.0, posinf=0.0)
    return found


def residual(
    program: Program, graph: Graph, features: int, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]
) -> Comparison:
    """Hold a settled answer against one more superstep in float64 (of each side, where sides alternate).

    ``state``: all properties that live from superstep to superstep. They may move by the program's tolerance, and by
    what rounding and values not sent may do in a superstep.
    """
    tolerance, relative = stopping(program, inputs)
    runs = [
        RoundedRun(program, graph, features, pattern=pattern, tolerance=tolerance, relative=relative)
        for pattern in PATTERNS
    ]

    def next_values(run: ReferenceRun) -> dict[str, Array]:
        run.reset(inputs, state)
        run.run(2 if program.control.alternate else 1)
        return {name: run.values(name) for name in state}

    exact = next_values(ReferenceRun(program, graph, features))
    rounded = [next_values(run) for run in runs]
    return at_rest(program, inputs, state, exact, responses(exact, rounded))


def stopping(program: Program, inputs: Inputs) -> tuple[float, bool]:
    """The tolerance that a run stops at, and whether it is relative."""
    control = program.control
    if control.tolerance is None:
        return 0.0, False
    return float({**program.parameters, **inputs.parameters}[control.tolerance]), control.relative


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
