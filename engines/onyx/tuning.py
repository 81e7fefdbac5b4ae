"""Choose among a few plans by timing them on the real problem: ``tune=true``.

The defaults are estimates, which were fitted on some graphs; on others the fastest plan may be a different one. Every
plan runs the same supersteps of the problem from the same start. Plans are prepared one after another, so that only one
is in memory. The times are kept for the program, the facts of the graph, the number of features and the device; with
them, an engine takes the fastest plan at once.
"""

from __future__ import annotations

import hashlib
import itertools
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engines.onyx.engine import OnyxEngine
from engines.onyx.schedule import OnyxSchedule
from harness.api import Engine, EngineFailure, No, Phases, Yes
from harness.api.figures import figures_of, known_figures

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.api import Device, Graph, Inputs, Operations, Program, RunStatistics
    from harness.transactions import Behaviour

_FIGURES = "onyx-plans-1"  # the number changes with the plans and with the way of timing them
_BUDGET_S = 10.0
_TRIAL_S, _MOST_TRIALS = 0.1, 5  # a plan runs until it has taken this long; its shortest run counts
_SHARE = 0.1  # of the seconds for all plans, for the supersteps of one run

Problem = tuple["Program", "Graph", int, "Device"]


def plans(schedule: OnyxSchedule, kind: str) -> dict[str, OnyxSchedule]:
    """Return the schedules to try on a kind of device, by what tells them apart.

    Options that are given stay as they are.
    """
    open_ = {
        "direction": ("pull", "push") if schedule.direction is None else (schedule.direction,),
        "change_driven": (True, False) if schedule.change_driven is None else (schedule.change_driven,),
    }
    if kind == "cuda":
        open_ |= {
            "balance": ("edge", "warp") if schedule.balance is None else (schedule.balance,),
            "persistent": (False, True) if schedule.persistent is None else (schedule.persistent,),
        }
    varied = [name for name, values in open_.items() if len(values) > 1]
    found = {}
    for values in itertools.product(*open_.values()):
        options: dict[str, Any] = dict(zip(open_, values, strict=True))
        name = " ".join(f"{one}={str(options[one]).lower()}" for one in varied)
        found[name or "the only plan"] = replace(schedule, tune=None, tune_s=None, **options)
    return found


class TunedEngine(Engine):
    """Runs the fastest of a few plans of Onyx; the first run after ``prepare`` times them.

    Each plan has an engine of its own.
    """

    tunes = True

    def __init__(self, schedule: OnyxSchedule) -> None:
        super().__init__(schedule)
        self._budget_s = _BUDGET_S if schedule.tune_s is None else schedule.tune_s
        self._times: dict[str, float] = {}
        self._failures: dict[str, str] = {}
        self._engine: Engine | None = None
        self._problem: Problem | None = None
        self._start: tuple[Inputs, Mapping[str, NDArray[np.generic]] | None] | None = None
        self._narrowed: tuple[NDArray[np.bool_], NDArray[np.bool_]] | None = None

    # preparation ------------------------------------------------------------------------------------------------------
    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return the largest answer of the plans that run the program; the reason of the first if none does."""
        answers = [
            OnyxEngine(one).supports(program, graph, features, device)
            for one in plans(self.schedule, device.kind).values()
        ]
        found = [one for one in answers if isinstance(one, Yes)]
        if not found:
            return answers[0]
        return Yes(max(one.bytes_needed for one in found), max(one.host_bytes for one in found))

    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Build what the plan that is first needs without the device."""
        self._pose(program, graph, features, device)
        self.engine.build(program, graph, features, device, phases)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Prepare the plan that is known to be the fastest, or the first one that runs the program."""
        self._pose(program, graph, features, device)
        self.engine.prepare(program, graph, features, device, phases)

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Generate the plan that is known to be the fastest, or the first one that runs the program."""
        self._pose(program, graph, features, device)
        self.engine.generate(program, graph, features, device)

    def _pose(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Set the problem, and create the engine of its first plan; the same problem keeps its engine."""
        if self._problem == (program, graph, features, device):
            return
        self.close()
        self._problem = program, graph, features, device
        self._failures = {}
        self._running = {
            name: schedule
            for name, schedule in plans(self.schedule, device.kind).items()
            if isinstance(OnyxEngine(schedule).supports(program, graph, features, device), Yes)
        }
        if not self._running:
            raise EngineFailure("no plan of the schedule runs the program; see supports()")
        text = repr((program.fingerprint, graph.facts, features, self._running))
        self._key = f"{_FIGURES}-{hashlib.sha256(text.encode()).hexdigest()[:20]}"
        self._times = dict(known_figures(self._key, device) or ())
        first = min(self._times, key=self._times.__getitem__) if self._times else next(iter(self._running))
        self._engine = OnyxEngine(self._running[first])
        self._name = first

    @property
    def engine(self) -> Engine:
        """The engine of the present plan."""
        assert self._engine is not None, "prepare() comes first"
        return self._engine

    @property
    def problem(self) -> Problem:
        """The problem that :meth:`prepare` was last called for."""
        assert self._problem is not None, "prepare() comes first"
        return self._problem

    # the choice -------------------------------------------------------------------------------------------------------
    def _choose(self) -> None:
        """Time the plans, and prepare the fastest one."""
        *_, device = self.problem
        self._times = dict(figures_of(self._key, device, self._timed))
        fastest = min(self._times, key=self._times.__getitem__)
        if fastest != self._name:
            self._turn_to(fastest)

    def _timed(self) -> dict[str, float]:
        """Return the seconds of every plan that was tried; the present one is first."""
        began = time.perf_counter()
        steps = self._supersteps()
        found = {self._name: self._seconds(steps)}
        for name in self._running:
            if name in found or time.perf_counter() - began > self._budget_s:
                continue
            try:
                self._turn_to(name)
                found[name] = self._seconds(steps)
            except (EngineFailure, MemoryError) as failure:
                self._failures[name] = str(failure) or type(failure).__name__
        return found

    def _turn_to(self, name: str) -> None:
        """Close the present engine and prepare another plan."""
        self.engine.close()
        self._engine, self._name = OnyxEngine(self._running[name]), name
        self._engine.prepare(*self.problem, Phases())

    def _supersteps(self) -> int:
        """Return how many supersteps of the problem a timed run takes: until it settles, or as many as are cheap."""
        limit, began, done = self.problem[0].control.max_supersteps, time.perf_counter(), 0
        self._restart()
        steps = 2
        while done < limit and time.perf_counter() - began < _SHARE * self._budget_s:
            statistics = self.engine.run(min(steps, limit - done))
            done += len(statistics.supersteps)
            if statistics.settled:
                break
            steps *= 2
        return done

    def _seconds(self, supersteps: int) -> float:
        """Return the seconds of the shortest of a few runs, after one that is not timed."""
        self._restart()
        self.engine.run(supersteps)
        taken: list[float] = []
        while len(taken) < _MOST_TRIALS and sum(taken) < _TRIAL_S:
            self._restart()
            began = time.perf_counter()
            self.engine.run(supersteps)
            taken.append(time.perf_counter() - began)
        return min(taken)

    def _restart(self) -> None:
        """Reset the present engine to the start of the run."""
        assert self._start is not None, "reset() comes first"
        self.engine.reset(*self._start)
        if self._narrowed is not None:
            self.engine.narrow(*self._narrowed)

    # runs -------------------------------------------------------------------------------------------------------------
    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Reset the present engine."""
        self._start, self._narrowed = (inputs, state), None
        self.engine.reset(inputs, state)

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Pass the stale vertices and the senders to the present engine."""
        self._narrowed = stale, senders
        self.engine.narrow(stale, senders)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run the fastest plan; the first time, find it."""
        if not self._times:
            self._choose()
            self._restart()
        return self.engine.run(max_supersteps)

    def values(self, name: str) -> NDArray[np.generic]:
        """Return the values of a property."""
        return self.engine.values(name)

    def rows(self, name: str, index: NDArray[np.integer[Any]]) -> NDArray[np.generic]:
        """Return some rows of a property."""
        return self.engine.rows(name, index)

    def device_values(self, name: str) -> Any:
        """Return the values of a property on the device."""
        return self.engine.device_values(name)

    def operations(self, statistics: RunStatistics) -> Operations:
        """Return the operations of the latest run."""
        return self.engine.operations(statistics)

    # descriptions -----------------------------------------------------------------------------------------------------
    def resolved_options(self) -> Mapping[str, Any]:
        """Return the options of the present plan, and the seconds of the plans that were timed."""
        tried = {"tried": sorted(self._times.items(), key=lambda one: one[1])} if self._times else {}
        return {**self.engine.resolved_options(), "tune": True, "tune_s": self._budget_s, **tried}

    def explain(self) -> str:
        """Return the times of the plans, and the description of the present one."""
        head = "tune: the first run times plans, of which this is one:"
        if self._times:
            head = "tune: the same supersteps under each plan, the fastest of which runs:"
        lines = [f"plan {name}: {1e3 * seconds:.3g} ms" for name, seconds in self.resolved_options().get("tried", ())]
        lines += [f"plan {name} failed: {reason}" for name, reason in self._failures.items()]
        return "\n".join([head, *lines, self.engine.explain()])

    def memory_model(self, program: Program, graph: Graph, features: int, inputs: Inputs) -> Behaviour | No:
        """Return the memory model of the first plan that has one."""
        answer: Behaviour | No = No("no plan runs the program")
        for schedule in plans(self.schedule, "cuda").values():
            answer = OnyxEngine(schedule).memory_model(program, graph, features, inputs)
            if not isinstance(answer, No):
                break
        return answer

    def close(self) -> None:
        """Close the present engine."""
        if self._engine is not None:
            self._engine.close()
