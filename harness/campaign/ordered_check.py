"""Validation of programs with steps in place, whose answer depends on the order in which edges were updated.

The engine runs once more and reports its order in every superstep. The same order in float64 must give its values:
that shows that every edge ran once, on the values of the edges before it. A run on other inputs is checked in the same
way.

The timed answers of a deterministic engine must equal those values too. The order of other engines differs from run to
run. Their timed answers are compared by the algorithm's metrics: each must lie in the prediction interval of float64
runs in random orders, widened by a share that the algorithm states. Too good a metric is as wrong as too bad a one: an
edge that runs twice fits better.

A lossy schedule has no order. The metrics of its run must lie in these intervals after supersteps 1, 2, 5, 10 and the
last, and so must those of its timed answers after the last.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.cache import CacheError
from harness.campaign.engine_checks import checked_metrics
from harness.campaign.guarded_engine import GuardedEngine
from harness.campaign.measurement import answer_of
from harness.campaign.random_orders import RUNS, compared_supersteps, interval
from harness.campaign.reference import in_random_orders
from harness.language import InvalidInput
from harness.language.program import edge_steps
from harness.language.replay import StepOrders, lost_updates, replay
from harness.language.validation import Comparison, compare

if TYPE_CHECKING:
    from harness.campaign.cell import Cell
    from harness.campaign.problem import Problem

Values = Mapping[str, NDArray[Any]]
METHOD = "float64 in the engine's own order of edges"
MOST_EDGES = 10_000_000  # of graphs whose metrics are computed after each superstep; each takes a second or so
BY_METRICS = f"metrics of {RUNS} float64 runs in random orders"


@dataclass(frozen=True)
class Ordered:
    """A run of known order.

    ``orders``: of every superstep; empty without validation. ``values``: the outputs after the last.
    ``metrics``: of the answer after every superstep, by name; empty if the algorithm has none or fails to compute them.
    ``deterministic``: the timed runs took the same orders. ``start``: the metrics before the first superstep, if any.
    """

    problem: Problem
    orders: tuple[StepOrders, ...]
    values: Values
    metrics: Mapping[str, list[float]]
    deterministic: bool
    start: Mapping[str, float] = field(default_factory=dict)

    @property
    def lost(self) -> float | None:
        """The largest share of updates that were lost in a superstep; None if every step has an order."""
        return max((share for order in self.orders if (share := lost_updates(order)) is not None), default=None)

    def check_float64(self) -> None:
        """Raise InvalidInput if float64 diverges too, in the engine's own order or, without one, in random orders."""
        if self.lost is None:
            _ = self.exact
            return
        for name, runs in in_random_orders(self.problem).values.items():
            if not np.isfinite(runs).all():
                raise InvalidInput(
                    f"{self.problem.program.name} diverges in float64, in random orders: {name} is not finite; lower "
                    "its rates"
                )

    def grown(self, values: Values) -> str:
        """Return which metric exceeds the algorithm's multiple of its start, and when; empty if none does.

        ``values``: a timed answer. Raises InvalidInput if it does in float64 too.
        """
        timed = {name: [value] for name, value in self._rated(values).items()} if self.metrics else {}
        found = self._beyond(self.metrics) or self._beyond(timed)
        if not found:
            return ""
        if self.lost is None:
            exact, runs = {name: [value] for name, value in self._rated(self.exact).items()}, "the engine's own order"
        else:
            every = in_random_orders(self.problem).values
            exact, runs = {name: one.max(axis=0).tolist() for name, one in every.items()}, "random orders"
        if also := self._beyond(exact):
            raise InvalidInput(f"{self.problem.program.name} diverges in float64, in {runs}: {also}; lower its rates")
        return found

    def _rated(self, values: Values) -> dict[str, float]:
        return checked_metrics(self.problem.algorithm.metrics(self.problem.given, {**self.problem.carried, **values}))

    def _beyond(self, metrics: Mapping[str, list[float]]) -> str:
        """Return the first value that exceeds the algorithm's multiple of the start; empty if none does."""
        most = self.problem.algorithm.diverged_over
        if most is None:
            return ""
        every = len(next(iter(self.metrics.values()), ()))
        for place in range(max(map(len, metrics.values()), default=0)):
            for name, row in metrics.items():
                start = self.start.get(name, math.inf)
                if place < len(row) and row[place] > most * start:
                    when = f"after superstep {place + 1}" if len(row) == every else "at the end"
                    return f"{name} is {row[place]:.3g} {when}, over {most:g} times the {start:.3g} of the start"
        return ""

    @cached_property
    def exact(self) -> Values:
        """The outputs in float64, in the same order. Raises InvalidInput if they are not finite."""
        posed = self.problem
        found = replay(posed.program, posed.graph, posed.features, posed.inputs, self.orders)
        for name, values in found.items():
            if not np.isfinite(values).all():
                raise InvalidInput(
                    f"{posed.program.name} diverges in float64, in the engine's own order: {name} has values that are "
                    "not finite; lower its rates"
                )
        return found

    @cached_property
    def own(self) -> Comparison:
        """The comparison of this run with float64."""
        return compare(self.problem.program, self.values, self.exact)

    def compared(self, values: Values) -> tuple[Comparison, str]:
        """Compare this run with float64, and a timed answer with either; return the worst, and the method.

        Raises InvalidInput if the timed answer cannot be compared.
        """
        if self.lost is not None:
            return self._by_metrics(values), BY_METRICS
        if not self.own.ok:
            return self.own, METHOD
        if self.deterministic:
            timed = compare(self.problem.program, values, self.exact)
            return max(self.own, timed, key=lambda one: (not one.ok, one.error)), METHOD
        inside = within_interval(self.problem, values)
        return (self.own if inside.ok else inside), f"{METHOD}; timed runs: {BY_METRICS}"

    def _by_metrics(self, values: Values) -> Comparison:
        """Compare the metrics of this run in some supersteps, and those of a timed answer, with their intervals."""
        timed = within_interval(self.problem, values)  # raises InvalidInput without metrics
        every = [timed]
        slack = self.problem.algorithm.interval_slack or 0.0
        for name, runs in in_random_orders(self.problem).values.items():
            for at, superstep in enumerate(compared_supersteps(self.problem.max_supersteps)):
                met = self.metrics[name][superstep - 1] if name in self.metrics else math.nan
                every.append(_inside(f"{name} after superstep {superstep}", met, runs[:, at], slack))
        return max(every, key=lambda one: (not one.ok, one.excess))

    @property
    def first_not_finite(self) -> int | None:
        """The first superstep, from 1, after which some metric is not finite; None: there is none."""
        rows = zip(*self.metrics.values(), strict=True)
        return next((n for n, row in enumerate(rows, 1) if not all(map(math.isfinite, row))), None)


def run_in_order(engine: GuardedEngine, cell: Cell, problem: Problem) -> Ordered | None:
    """Run all supersteps in orders that the engine reports; None for programs without steps in place."""
    if not edge_steps(problem.program):
        return None
    orders: list[StepOrders] = []
    rows: list[dict[str, float]] = []
    engine.reset(problem.inputs)
    values = answer_of(engine, problem.program.outputs)
    with engine.use.away():
        start = _metrics(problem, values)
    for number in range(problem.max_supersteps):
        if cell.validate:
            orders.append(engine.ordered_superstep())
        else:
            engine.run(1)
        values = answer_of(engine, problem.program.outputs)
        if len(rows) == number:
            with engine.use.away():
                rows += _metrics(problem, values)
    whole = rows if len(rows) == problem.max_supersteps else []
    by_name = {name: [row[name] for row in whole] for name in (whole[0] if whole else ())}
    kept = {name: np.array(array) for name, array in values.items()}
    return Ordered(problem, tuple(orders), kept, by_name, engine.deterministic, start[0] if start else {})


def _metrics(problem: Problem, values: Values) -> list[dict[str, float]]:
    """Return the metrics of an answer; nothing if they cannot be computed, which the rating of the answer reports."""
    try:
        return [checked_metrics(problem.algorithm.metrics(problem.given, {**problem.carried, **values}))]
    except (MemoryError, CacheError):
        raise
    except Exception:  # noqa: BLE001  the algorithm's code raises it again when the last answer is rated
        return []


def metrics_by_superstep(engine: GuardedEngine, problem: Problem) -> Mapping[str, list[float]]:
    """Return the metrics after each superstep of one more run, for algorithms without steps in place that define them.

    Empty for others, for engines that count no supersteps, warm runs, programs of several phases, and graphs of more
    than MOST_EDGES edges.
    """
    wanted = type(problem.algorithm).metrics_by_superstep and engine.stepwise and problem.start is None
    wanted = wanted and not problem.several_phases
    if not wanted or problem.graph.num_edges > MOST_EDGES:
        return {}
    rows: list[dict[str, float]] = []
    engine.reset(problem.inputs)
    for number in range(problem.max_supersteps):
        settled = engine.run(1).settled
        values = answer_of(engine, problem.program.outputs)
        with engine.use.away():
            rows += _metrics(problem, values)
        if settled or len(rows) <= number:
            break
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else ())}


# intervals ------------------------------------------------------------------------------------------------------------
def within_interval(problem: Problem, values: Values) -> Comparison:
    """Compare the metrics of an answer with the intervals of float64 runs in random orders. Raises InvalidInput."""
    slack = problem.algorithm.interval_slack
    expected = {} if slack is None else in_random_orders(problem).values
    if slack is None or not expected:
        raise InvalidInput(
            f"answers of engines whose order varies are compared by metrics, and {problem.algorithm.name} states no "
            "metrics with an interval_slack; give validate=false, or an engine whose order does not vary"
        )
    found = checked_metrics(problem.algorithm.metrics(problem.given, {**problem.carried, **values}))
    every = [_inside(name, found[name], runs[:, -1], slack) for name, runs in expected.items()]
    return max(every, key=lambda one: (not one.ok, one.excess))


def _inside(name: str, met: float, runs: NDArray[Any], slack: float) -> Comparison:
    mean, low, high = interval(runs, slack)
    ok = bool(low <= met <= high)
    detail = f"{name} is {met:.5g}; runs in random orders give {low:.5g} to {high:.5g} (slack {slack:g})"
    return Comparison(ok, abs(met - mean) / abs(mean) if mean else abs(met), (high - mean) / (abs(mean) or 1.0), detail)
