"""The residual of an answer: its change in one more superstep in float64."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language.algorithm import Inputs
from harness.language.program import Program
from harness.language.reference import ReferenceRun
from harness.language.rounding import RoundedRun, patterns, stopping
from harness.language.validation import WITHIN, Comparison, allowed, within

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]
Values = Mapping[str, Array]
DEVIATIONS = 3.0  # standard errors that a sum estimated from a sample may exceed its limit by
SLACK = 2.0  # factor on responses: the random signs are one pattern of many


def responses(exact: Values, rounded: Iterable[Values]) -> dict[str, Array]:
    """Return the change of each result that float32 rounding and unsent values may cause.

    It is ``SLACK`` times the largest distance of runs with injected errors from the exact run.
    """
    return {name: SLACK * found for name, found in largest_distances(exact, rounded).items()}


def largest_distances(exact: Values, others: Iterable[Values]) -> dict[str, Array]:
    """Return the largest of :func:`distances` of several runs, entry by entry."""
    found = {name: np.zeros(np.shape(values)) for name, values in exact.items()}
    for other in others:
        for name, distance in distances(exact, other).items():
            np.maximum(found[name], distance, out=found[name])
    return found


def distances(exact: Values, other: Values) -> dict[str, Array]:
    """Return the distance of results from the exact ones, entry by entry; 0 where one is not finite."""
    found = {}
    for name, values in exact.items():
        with np.errstate(invalid="ignore"):
            change = np.abs(np.asarray(other[name], np.float64) - values)
        found[name] = np.nan_to_num(change, nan=0.0, posinf=0.0)
    return found


def residual(
    program: Program, graph: Graph, features: int, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]
) -> Comparison:
    """Compare a settled answer with its next superstep in float64 (one superstep of each side if sides alternate).

    ``state``: all state properties, by name. They may move by the program's tolerance plus the effect of rounding and
    of unsent values in one superstep.
    """

    def next_values(run: ReferenceRun) -> dict[str, Array]:
        run.reset(inputs, state)
        run.run(2 if program.control.alternate else 1)
        return {name: run.values(name) for name in state}

    exact = next_values(ReferenceRun(program, graph, features))
    signed = patterns(program, features)
    rounded = (next_values(RoundedRun(program, graph, features, lag=1.0, pattern=one)) for one in signed)
    return at_rest(program, inputs, state, exact, responses(exact, rounded))


@dataclass(frozen=True)
class Share:
    """The relation of a sample of rows to the whole.

    ``weight``, ``[N]``: factor of each row such that weighted sums over the rows estimate sums over the whole.
    ``strata``, ``[N]``: the class of each row; the rows of a class are a random sample of it, without replacement.
    ``magnitudes``: by property, the sum of magnitudes of each feature over the whole.
    """

    weight: Array
    strata: Array
    magnitudes: Values

    def standard_error(self, values: Array) -> Array:
        """Return the standard error of the weighted sum over rows, for each feature (Cochran 1977, eq. 5.13).

        ``values``: ``[N, ...]``. A class with one row of several has the deviation of that row from 0.
        """
        variance = np.zeros(values.shape[1:])
        for stratum in np.unique(self.strata):
            rows = values[self.strata == stratum]
            chosen, weight = len(rows), float(self.weight[self.strata == stratum][0])
            spread = rows.var(axis=0, ddof=1) if chosen > 1 else np.square(rows[0])
            variance += chosen * weight * (weight - 1) * spread
        return np.sqrt(variance)


def at_rest(
    program: Program, inputs: Inputs, before: Values, after: Values, response: Values, share: Share | None = None
) -> Comparison:
    """Compare state with its values one superstep later; ``response``: see :func:`responses`.

    If the program's tolerance bounds each entry, an entry may move by that much. If it bounds the sum of a feature's
    movements relative to the sum of its magnitudes, the sum may. ``share``: for such sums, if the rows are a sample.
    """
    exact = {result.name for result in program.results if result.bound == 0.0}
    found = []
    for name, new in after.items():
        old, place = np.asarray(before[name], np.float64), program.properties[name].place
        if name in exact or new.dtype == np.bool_:
            found.append(within(name, place, old, new, np.full(new.shape, np.finfo(np.float64).tiny)))
        elif program.control.norm == "sum":
            found.append(_sum_at_rest(name, place, (old, new, response[name]), stopping(program, inputs)[0], share))
        else:
            tolerance, relative = stopping(program, inputs)
            step = np.where(np.isfinite(new), tolerance * (np.abs(new) if relative else 1.0), 0.0)
            found.append(within(name, place, old, new, allowed(new, response[name] + step)))
    worst = max(found, key=lambda one: (not one.ok, one.excess), default=Comparison(True, 0.0, 0.0, WITHIN))
    if worst.ok:
        return worst
    return Comparison(False, worst.error, worst.bound, f"not at rest after the last superstep: {worst.detail}")


def _sum_at_rest(
    name: str, place: str, moved: tuple[Array, Array, Array], tolerance: float, share: Share | None
) -> Comparison:
    """Compare the sum of movements of every feature with the tolerance; ``moved``: old values, new values, response."""
    old, new, response = moved
    weight = np.ones(len(new)) if share is None else share.weight
    weight = weight.reshape(-1, *(1 for _ in new.shape[1:]))
    size = np.abs(new).sum(axis=0) if share is None else share.magnitudes[name]
    step = tolerance * size
    if share is not None:
        step = step + DEVIATIONS * share.standard_error(np.abs(new - old))
    limit = weight * allowed(new, response)
    return within(name, place, weight * old, weight * new, limit + step, limit.sum(axis=0) + step)
