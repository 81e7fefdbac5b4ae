"""Choose among the orders of the first estimates by timing them on the real problem: ``order=auto tune=true``.

Estimates of a graph that is unlike those that they were fitted to are off by as much as the orders differ. A trial
prepares the best-estimated orders one after another, so that only one is in memory, and times first supersteps of each.
Orders are compared by the measured seconds of a superstep with a share of the estimated preparation: a measured one
would depend on the order of the trial, as the first order builds what all need. The times are kept for the program, the
number of supersteps that share the preparation, the facts of the graph, the number of features and the device; with
them, an engine takes the best order at once.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterable, Mapping
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any

from engines.lonestar.choice import candidates
from engines.lonestar.engine import LonestarEngine
from engines.lonestar.predict import estimates, shipped, to_try
from engines.lonestar.problem_facts import ProblemFacts
from harness.api import Engine, EngineFailure, No, Phases, Yes
from harness.api.cpu import usable_threads
from harness.api.figures import device_name, figures_of, known_figures
from harness.api.forwarding import Forwarding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from engines.lonestar.schedule import LonestarSchedule
    from harness.api import Device, Graph, Inputs, Program

FIGURES = "lonestar-trials-1"  # the number changes with the orders and with the way of timing them
BUDGET_S = 10.0
TRIAL_S, MOST_TRIALS = 0.05, 5  # an order runs until it has taken this long; its shortest superstep counts

Problem = tuple["Program", "Graph", int, "Device"]
Start = tuple["Inputs", "Mapping[str, NDArray[np.generic]] | None"]


def shares(orders: Iterable[str], basis: Mapping[str, float], device: Device) -> dict[str, float]:
    """Return the estimated preparation of each order, in seconds for each superstep of a run.

    ``basis``: that of the estimates of ``order=auto``.
    """
    names = [field.name for field in fields(ProblemFacts)]
    problem = ProblemFacts(**{name: basis[name] for name in names})
    figures = {name: value for name, value in basis.items() if name not in names}
    model, name = shipped(device.kind), device_name(replace(device, threads=usable_threads(device)))
    return {order: one.share for order, one in estimates(orders, problem, figures, model, name).items()}


class TrialEngine(Forwarding, Engine):
    """Run the best of a few orders. The first reset after :meth:`prepare` times them from its initial state.

    ``deterministic`` is False: an order with locks may be the best.
    """

    tunes = True
    deterministic = False

    def __init__(self, schedule: LonestarSchedule) -> None:
        super().__init__(schedule)
        self._budget_s = BUDGET_S if schedule.tune_s is None else schedule.tune_s
        self._problem: Problem | None = None
        self._name = ""
        self._orders: list[str] = []
        self._tried: dict[str, float] = {}
        self._trial_s = 0.0
        self._failures: dict[str, str] = {}
        self._chosen: Mapping[str, Any] = {}
        self._estimates = ""

    # preparation ------------------------------------------------------------------------------------------------------
    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return the largest answer of the orders that a trial may prepare; that of ``order=auto`` if none runs."""
        answers = [
            self._under(order).supports(program, graph, features, device)
            for order in candidates(program, self._of_auto, graph.facts)
        ]
        found = [one for one in answers if isinstance(one, Yes)]
        if not found:
            return self._under("auto").supports(program, graph, features, device)
        return Yes(max(one.bytes_needed for one in found), max(one.host_bytes for one in found))

    @property
    def _of_auto(self) -> LonestarSchedule:
        schedule: LonestarSchedule = self.schedule
        return replace(schedule, tune=None, tune_s=None)

    def _under(self, order: Any) -> LonestarEngine:
        return LonestarEngine(replace(self._of_auto, order=order))

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Prepare the order that an earlier trial found, or else the one of the first estimate."""
        self.close()
        self._problem, self._phases = (program, graph, features, device), phases
        self._tried, self._failures = {}, {}
        self._trial_s = 0.0
        self._turn_to("auto", phases)
        self._rank()
        known = known_figures(self._key, device)
        if known is not None:
            self._tried = dict(known)
            self._take(min(self._tried, key=self._tried.__getitem__), phases)

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Plan the order of the first estimate."""
        self.close()
        self._problem, self._tried, self._failures = (program, graph, features, device), {}, {}
        self._prepared, self._name = self._under("auto"), "auto"
        self._prepared.generate(program, graph, features, device)
        self._rank()

    def _rank(self) -> None:
        """Note the orders to try: those of the first estimates."""
        self._chosen = dict(self.prepared.resolved_options())
        self._estimates = self.prepared.explain().partition("\n\n")[0]
        self._orders = to_try(self._chosen["estimates"])
        self._name = self._orders[0]
        program, graph, features, device = self.problem
        self._shares = shares(self._orders, dict(self._chosen["basis"]), device)
        text = repr((program.fingerprint, program.max_supersteps, graph.facts, features, self._of_auto, self._orders))
        self._key = f"{FIGURES}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"

    @property
    def problem(self) -> Problem:
        """The problem that :meth:`prepare` was last called for."""
        assert self._problem is not None, "prepare() comes first"
        return self._problem

    # the trial --------------------------------------------------------------------------------------------------------
    def _try(self, start: Start) -> None:
        """Time the orders from a start and prepare the best one; keep the times if every order has one.

        Raises what the last order raises if all fail.
        """
        began = time.perf_counter()
        for order in list(self._orders):
            if self._tried and time.perf_counter() - began > self._budget_s:
                break
            try:
                self._take(order, Phases())
                self._tried[order] = self._seconds(start) + self._shares[order]
            except (EngineFailure, MemoryError) as failure:
                self._failures[order] = str(failure) or type(failure).__name__
                if len(self._failures) == len(self._orders):
                    raise
        if self._tried.keys() == set(self._orders):
            figures_of(self._key, self.problem[3], lambda: self._tried)
        self._take(min(self._tried, key=self._tried.__getitem__), Phases())

    def _take(self, order: str, phases: Phases) -> None:
        """Close the present engine and prepare another order, unless it is the present one."""
        if order != self._name:
            self.prepared.close()
            self._turn_to(order, phases)

    def _turn_to(self, order: str, phases: Phases) -> None:
        self._prepared, self._name = self._under(order), order
        self._prepared.prepare(*self.problem, phases)

    def _seconds(self, start: Start) -> float:
        """Return the seconds of the shortest of a few first supersteps, after one that is not timed."""
        taken: list[float] = []
        while len(taken) <= MOST_TRIALS and sum(taken[1:]) < TRIAL_S:
            self.prepared.reset(*start)
            began = time.perf_counter()
            self.prepared.run(1)
            taken.append(time.perf_counter() - began)
        return min(taken[1:])

    # runs -------------------------------------------------------------------------------------------------------------
    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Reset the best order; the first time, find it, while no other cell uses the device."""
        if not self._tried:
            with self._phases.alone("trial"):
                began = time.perf_counter()
                self._try((inputs, state))
                self._trial_s = time.perf_counter() - began
        self.prepared.reset(inputs, state)

    # descriptions -----------------------------------------------------------------------------------------------------
    def resolved_options(self) -> Mapping[str, Any]:
        """Return the options of the present order, the estimates, and the seconds of the orders that were timed."""
        extra = {name: self._chosen[name] for name in ("estimates", "basis")}
        extra |= {"tune": True, "tune_s": self._budget_s}
        if self._tried:
            extra |= {"tried": sorted(self._tried.items(), key=lambda one: one[1]), "trial_s": self._trial_s}
        return {**self.prepared.resolved_options(), **extra}

    def explain(self) -> str:
        """Return the estimates, the measured seconds, and the description of the present order."""
        lines = [f"tune: the first reset times supersteps of: {', '.join(self._orders)}"]
        if self._tried:
            took = f"{self._trial_s:.3g} s of trial" if self._trial_s else "known from an earlier trial"
            lines = [f"tune: measured supersteps with a share of the estimated preparation ({took}):"]
            lines += [f"{order:>10} {1e3 * seconds:.3f} ms" for order, seconds in self.resolved_options()["tried"]]
        lines += [f"order {order} failed: {reason}" for order, reason in self._failures.items()]
        text = self.prepared.explain().removeprefix(f"{self._estimates}\n\n")
        return "\n\n".join([self._estimates, "\n".join(lines), text])

    def memory_model(self, program: Program, graph: Graph, features: int, inputs: Inputs) -> No:
        """Return why accesses are not counted."""
        return No("the passes of this engine depend on which locks are free, and the model runs a fixed superstep")

    def close(self) -> None:
        """Close the present engine."""
        engine, self._prepared, self._problem = self._prepared, None, None
        if engine is not None:
            engine.close()
