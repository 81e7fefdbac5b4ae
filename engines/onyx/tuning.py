"""Choose among a few plans by timing them on the real problem: ``tune=true``.

The default plans are estimates that were fitted on some graphs. On other graphs another plan may be faster. The default
plan is timed first, so that no plan slower than it is taken, however few seconds there are. Every plan runs the same
supersteps of the problem from the same start. If the order is left to the engine and the program has one without
supersteps, near-far or hooking, that is tried as well: every plan then runs until it has settled, and no supersteps are
counted. A plan that takes twice as long as the fastest one is then given up. Plans are prepared one after another, so
that only one is in memory. The times are kept in the cache, by program, facts of the graph, number of features and
device. If they are in the cache, an engine takes the fastest plan at once.
"""

from __future__ import annotations

import hashlib
import itertools
import math
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engines.onyx.engine import OnyxEngine
from engines.onyx.order_choice import OrderChoice, other_order
from engines.onyx.schedule import SUPERSTEPS, OnyxSchedule
from harness.api import Engine, EngineFailure, No, Phases, RunStatistics, Unsupported, Yes, cuda_unavailable
from harness.api.figures import figures_of, known_figures
from harness.api.forwarding import Forwarding

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.api import Device, Graph, Inputs, Operations, Program

_FIGURES = "onyx-plans-7"  # the number changes with the plans and with the way of timing them
_BUDGET_S = 10.0
_TRIAL_S, _MOST_TRIALS = 0.1, 5  # a plan runs until it has taken this long; its shortest run counts
_DIRECTIONS = ("pull", "push", "adaptive")
# balances that are not tried: parts are refused in pulls, and were faster than tiles in adaptive pushes
_LEFT_OUT = {"pull": "parts", "push": "", "adaptive": "edge"}
_OF_ADAPTIVE = ("share_by", "bottom_up")  # options that only supersteps that choose their direction have
_SHARE = 0.1  # of the seconds for all plans, for the supersteps of one run
_GIVEN_UP = 2.0  # times the seconds of the fastest plan, after which a run until it has settled is given up

Problem = tuple["Program", "Graph", int, "Device"]
Start = tuple["Inputs", "Mapping[str, NDArray[np.generic]] | None"]


def plans(schedule: OnyxSchedule, kind: str) -> dict[str, OnyxSchedule]:
    """Return the schedules to try on a kind of device, by the options in which they differ; the default one first.

    Options that are given stay as they are, but those of *adaptive* are left out of plans of another direction. Plans
    that no program has are left out: supersteps choose their direction only in plans that follow changes.
    """
    open_: dict[str, tuple[Any, ...]] = {
        "direction": _DIRECTIONS if schedule.direction is None else (schedule.direction,),
        "change_driven": (True, False) if schedule.change_driven is None else (schedule.change_driven,),
    }
    if kind == "cuda":
        open_ |= {
            "balance": ("edge", "warp", "parts") if schedule.balance is None else (schedule.balance,),
            "persistent": (False, True) if schedule.persistent is None else (schedule.persistent,),
        }
    varied = [name for name, values in open_.items() if len(values) > 1]
    plain = replace(schedule, tune=None, tune_s=None, order=SUPERSTEPS)
    found = {"default": plain} if varied else {}
    for values in itertools.product(*open_.values()):
        options: dict[str, Any] = dict(zip(open_, values, strict=True))
        adaptive = options["direction"] == "adaptive"
        if adaptive and not options["change_driven"] and schedule.direction is None:
            continue
        if schedule.balance is None and options.get("balance") == _LEFT_OUT[options["direction"]]:
            continue
        if not adaptive and schedule.direction is None:
            options |= dict.fromkeys(_OF_ADAPTIVE)
        name = " ".join(f"{one}={str(options[one]).lower()}" for one in varied)
        found[name or "the only plan"] = replace(schedule, tune=None, tune_s=None, **options)
    return found


def other_plans(schedule: OnyxSchedule, program: Program) -> dict[str, OnyxSchedule]:
    """Return the schedule of the program's order without supersteps, by its name; none if the order or any option of
    supersteps is given."""
    other = "" if schedule.others_than("tune", "tune_s") else other_order(program)
    return {other: OrderChoice(other, "").under(OnyxSchedule())} if other else {}


class TunedEngine(Forwarding, Engine):
    """Run the fastest of a few plans of Onyx. The first reset after ``prepare`` times them from its initial state.

    Each plan has its own engine. It is ``stepwise`` if all plans are.
    """

    tunes = True

    def __init__(self, schedule: OnyxSchedule) -> None:
        super().__init__(schedule)
        self._budget_s = _BUDGET_S if schedule.tune_s is None else schedule.tune_s
        self._times: dict[str, float] = {}
        self._failures: dict[str, str] = {}
        self._problem: Problem | None = None
        self._statistics: RunStatistics | None = None  # of the latest run, by the plan

    # preparation ------------------------------------------------------------------------------------------------------
    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return the most memory of the plans that run the program; the reason of the first plan if none does."""
        tried = {**plans(self.schedule, device.kind), **other_plans(self.schedule, program)}
        answers = {name: OnyxEngine(one).supports(program, graph, features, device) for name, one in tried.items()}
        found = {name: one for name, one in answers.items() if isinstance(one, Yes)}
        if not found:
            return next(iter(answers.values()))
        stepwise = found.keys().isdisjoint(other_plans(self.schedule, program))
        needed = max(one.bytes_needed for one in found.values())
        return Yes(needed, max(one.host_bytes for one in found.values()), stepwise=stepwise)

    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Build what the first plan needs without the device."""
        self._pose(program, graph, features, device)
        self.prepared.build(program, graph, features, device, phases)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Prepare the plan that is known to be the fastest, or the first one that can be prepared."""
        self._pose(program, graph, features, device)
        self._phases = phases
        while True:
            try:
                self.prepared.prepare(program, graph, features, device, phases)
                return
            except (EngineFailure, MemoryError) as failure:
                left = self._failed(failure)
                if not left:
                    raise
            self._replace(left[0])

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Generate the plan that is known to be the fastest, or the first one that runs the program."""
        self._pose(program, graph, features, device)
        self.prepared.generate(program, graph, features, device)

    def _pose(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Set the problem and create the engine of its first plan; keep the engine if the problem is the same."""
        if self._problem == (program, graph, features, device):
            return
        self.close()
        self._failures = {}
        self._problem = program, graph, features, device
        self._running = self._plans()
        if not self._running:
            raise EngineFailure("no plan of the schedule runs the program; see supports()")
        text = repr((program.fingerprint, graph.facts, features, self._running))
        self._key = f"{_FIGURES}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"
        missing = device.kind == "cuda" and cuda_unavailable(device.index)
        self._times = dict((None if missing else known_figures(self._key, device)) or ())
        self._name = self._fastest() if self._times else next(iter(self._running))
        self._prepared = OnyxEngine(self._running[self._name])

    def _plans(self) -> dict[str, OnyxSchedule]:
        """Return the plans that run the problem, the default one first."""
        program, _, _, device = self.problem
        by_supersteps, others = plans(self.schedule, device.kind), other_plans(self.schedule, program)
        found = {
            name: one
            for name, one in {**by_supersteps, **others}.items()
            if isinstance(OnyxEngine(one).supports(*self.problem), Yes)
        }
        self.stepwise = found.keys().isdisjoint(others)
        if not self.stepwise:
            choice = OnyxEngine(OnyxSchedule()).order_of(*self.problem)
            first = [name for name in others if choice is not None and name == choice.order]
            found = {name: found[name] for name in (*first, *(one for one in found if one not in first))}
        return found

    @property
    def problem(self) -> Problem:
        """The problem that :meth:`prepare` was last called for."""
        assert self._problem is not None, "prepare() comes first"
        return self._problem

    # the choice -------------------------------------------------------------------------------------------------------
    def _choose(self, start: Start) -> None:
        """Time the plans from a start, and prepare the fastest one; keep the times if every plan has one."""
        *_, device = self.problem
        self._times = self._timed(start)
        if self._times.keys() == self._running.keys():
            figures_of(self._key, device, lambda: self._times)
        if self._fastest() != self._name:
            self._turn_to(self._fastest())

    def _fastest(self) -> str:
        return min(self._times, key=self._times.__getitem__)

    def _timed(self, start: Start) -> dict[str, float]:
        """Return the seconds of every plan that was tried, the present plan first.

        Raises the error of the last plan if all fail.
        """
        began, found, steps = time.perf_counter(), dict[str, float](), 0
        for name in (self._name, *(one for one in self._running if one != self._name)):
            if name in self._failures or (found and time.perf_counter() - began > self._budget_s):
                continue
            try:
                if name != self._name:
                    self._turn_to(name)
                if self.stepwise:
                    steps = steps or self._supersteps(start)
                    found[name] = self._seconds(steps, start)
                else:
                    found[name] = self._seconds_until_settled(start, min(found.values(), default=math.inf))
            except (EngineFailure, MemoryError, Unsupported) as failure:
                if not self._failed(failure) and not found:
                    raise
        return found

    def _failed(self, failure: Exception) -> list[str]:
        """Record that the present plan has failed; return the plans that have not."""
        self._failures[self._name] = str(failure) or type(failure).__name__
        return [name for name in self._running if name not in self._failures]

    def _turn_to(self, name: str) -> None:
        """Close the present engine and prepare another plan."""
        self._replace(name)
        self.prepared.prepare(*self.problem, Phases())

    def _replace(self, name: str) -> None:
        """Close the present engine and create that of another plan."""
        self.prepared.close()
        self._prepared, self._name = OnyxEngine(self._running[name]), name

    def _supersteps(self, start: Start) -> int:
        """Return the supersteps of a timed run: until it settles, or as many as fit a share of the time limit."""
        limit, began, done = self.problem[0].control.max_supersteps, time.perf_counter(), 0
        self.prepared.reset(*start)
        steps = 2
        while done < limit and (not done or time.perf_counter() - began < _SHARE * self._budget_s):
            statistics = self.prepared.run(min(steps, limit - done))
            done += len(statistics.supersteps)
            if statistics.settled:
                break
            steps *= 2
        return max(1, done)

    def _seconds_until_settled(self, start: Start, fastest: float) -> float:
        """Return the seconds of a run until it has settled, or after which it was given up; ``fastest``: those of the
        fastest plan. Raises EngineFailure if it has not settled after all supersteps."""
        limit, began, done, steps = self.problem[0].control.max_supersteps, time.perf_counter(), 0, 2
        self.prepared.reset(*start)
        while self.prepared.stepwise:
            statistics = self.prepared.run(min(steps, limit - done))
            done, steps = done + len(statistics.supersteps), 2 * steps
            if statistics.settled:
                break
            if done >= limit:
                raise EngineFailure(f"the run has not settled after {limit:,} supersteps")
            if time.perf_counter() - began > _GIVEN_UP * fastest:
                return time.perf_counter() - began
        return self._seconds(limit, start)

    def _seconds(self, supersteps: int, start: Start) -> float:
        """Return the seconds of the fastest of a few runs, after one that is not timed."""
        self.prepared.reset(*start)
        self.prepared.run(supersteps)
        taken: list[float] = []
        while len(taken) < _MOST_TRIALS and sum(taken) < _TRIAL_S:
            self.prepared.reset(*start)
            began = time.perf_counter()
            self.prepared.run(supersteps)
            taken.append(time.perf_counter() - began)
        return min(taken)

    # runs -------------------------------------------------------------------------------------------------------------
    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Reset the fastest plan. The first reset finds it, while no other cell uses the device."""
        if not self._times:
            with self._phases.alone("tune"):
                self._choose((inputs, state))
        self.prepared.reset(inputs, state)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run the fastest plan. If not all plans count supersteps, none is counted, and every plan runs until it has
        settled; EngineFailure is raised if it has not after all supersteps of the program."""
        unlimited = not self.stepwise and self.prepared.stepwise
        limit = self.problem[0].control.max_supersteps if unlimited else max_supersteps
        self._statistics = statistics = self.prepared.run(limit)
        if not unlimited:
            return statistics
        if not statistics.settled:
            raise EngineFailure(f"the run has not settled after {limit:,} supersteps")
        return RunStatistics(True, transfers=statistics.transfers)

    def operations(self, statistics: RunStatistics) -> Operations:
        """Return the operations of the latest run of the plan."""
        counted = None if self.stepwise else self._statistics
        return self.prepared.operations(counted or statistics)

    # descriptions -----------------------------------------------------------------------------------------------------
    def resolved_options(self) -> Mapping[str, Any]:
        """Return the options of the present plan, and the seconds of the plans that were timed."""
        tried = {"tried": sorted(self._times.items(), key=lambda one: one[1])} if self._times else {}
        return {**self.prepared.resolved_options(), "tune": True, "tune_s": self._budget_s, **tried}

    def explain(self) -> str:
        """Return the times of the plans, and the description of the present one."""
        head = "tune: the first reset times plans, of which this is one:"
        if self._times:
            what = "the same supersteps" if self.stepwise else "runs until they have settled"
            head = f"tune: {what} under each plan, the fastest of which runs:"
        lines = [f"plan {name}: {1e3 * seconds:.3g} ms" for name, seconds in self.resolved_options().get("tried", ())]
        lines += [f"plan {name} failed: {reason}" for name, reason in self._failures.items()]
        return "\n".join([head, *lines, self.prepared.explain()])

    def memory_model(self, program: Program, graph: Graph, features: int, inputs: Inputs) -> No:
        """Return why accesses are not counted."""
        return No("tune=true chooses the plan by timing; give direction and change_driven to count those of one plan")

    def close(self) -> None:
        """Close the present engine."""
        engine, self._prepared, self._problem = self._prepared, None, None
        if engine is not None:
            engine.close()
