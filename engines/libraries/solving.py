"""The common part of engines that pass the whole problem to a library's function and read the answer."""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.api import (
    EngineFailure,
    Graph,
    Inputs,
    Program,
    RunStatistics,
    ScheduleError,
    schedule_text,
)

Array: TypeAlias = NDArray[Any]
Reader: TypeAlias = Callable[[], Array]  # converts the library's own result
Solver: TypeAlias = Callable[[], Reader]
TRIAL_S, MOST_TRIALS = 0.1, 5  # of each way in tuning: repeated until it has run this long


class Solving:
    """The part of an engine that chooses one of a library's ways to solve a problem, and calls it.

    Put it before ``Engine`` in the bases of a class. The class poses the problem in :meth:`pose` and names its ways in
    :meth:`solvers`. A solver returns a reader; the conversion of the library's own result to an array is not part of
    the solve time, as for engines that download theirs. With ``way=auto`` the first ``reset`` after ``prepare`` times
    every way on the real inputs.
    """

    stepwise = False
    library: ClassVar[str]
    every_way: ClassVar[tuple[str, ...]]  # the values of the option, for any problem

    program: Program
    graph: Graph
    features: int
    start: Array  # of the result, [V] or [V, k]

    def __init__(self, schedule: Any) -> None:
        super().__init__(schedule)
        if schedule.way not in ("auto", *self.every_way):
            ways = ", ".join(("auto", *self.every_way))
            raise ScheduleError(f"way={schedule.way!r} is not known to {self.library}; give one of: {ways}")
        self._chosen: str | None = None
        self._seconds: dict[str, float] = {}  # of the ways among which one was chosen
        self._failures: dict[str, str] = {}
        self._reader: Reader | None = None

    @abstractmethod
    def pose(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]) -> None:
        """Set ``start`` and whatever the solvers read. Raises InvalidInput or Unsupported."""

    @abstractmethod
    def solvers(self) -> Mapping[str, Solver]:
        """Return the ways that solve the posed problem, by name."""

    @property
    @abstractmethod
    def result(self) -> str:
        """The name of the property that holds the answer."""

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Pose the problem; the first time choose the way."""
        self.pose(inputs, state or {})
        self._reader = None
        solvers = self.solvers()
        if self._chosen not in solvers:
            self._chosen = self._fastest(solvers) if self.schedule.way == "auto" else self.schedule.way
        if self._chosen not in solvers:
            raise EngineFailure(
                f"way={self._chosen} of {self.library} does not solve {self.program.name} on this graph"
            )
        self._solve = solvers[self._chosen]

    def _fastest(self, solvers: Mapping[str, Solver]) -> str:
        """Return the way with the shortest run among those that do not fail; ``explain`` shows the others' reasons."""
        self._seconds, self._failures = {}, {}
        if len(solvers) == 1:
            return next(iter(solvers))
        for name, solve in solvers.items():
            try:
                self._seconds[name] = _shortest(solve)
            except EngineFailure as failure:
                self._failures[name] = str(failure)
        if not self._seconds:
            raise EngineFailure("; ".join(f"{name}: {reason}" for name, reason in self._failures.items()))
        return min(self._seconds, key=lambda name: self._seconds[name])

    def run(self, max_supersteps: int) -> RunStatistics:
        """Solve the problem, unless it is solved; the limit has no meaning for the library."""
        if self._reader is None:
            self._reader = self._solve()
        return RunStatistics(settled=True)

    def values(self, name: str) -> NDArray[np.generic]:
        """Return the result as float32[V] or [V, k]; before a run, its start."""
        if name != self.result:
            raise EngineFailure(f"{self.library} gives {self.result!r} and no other property; {name!r} was requested")
        answer = self.start if self._reader is None else self._reader()
        return np.array(answer, np.float32).reshape(self.start.shape)

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the way, once it is chosen."""
        return {"way": self._chosen or self.schedule.way}

    def explain(self) -> str:
        """Return the way and, if it was chosen by timing, the time of each."""
        timed = ", ".join(f"{name} {1e3 * seconds:.3g} ms" for name, seconds in self._seconds.items())
        lines = [schedule_text(self), f"{self.library}, the whole problem; ways: {', '.join(self.every_way)}"]
        lines += [f"timed on the first inputs: {timed}"] if timed else []
        lines += [f"way {name} failed: {reason}" for name, reason in self._failures.items()]
        return "\n".join(lines)

    def close(self) -> None:
        """Release the answer and the choice."""
        self._reader, self._chosen, self._seconds, self._failures = None, None, {}, {}
        self.__dict__.pop("_solve", None)
        self.__dict__.pop("start", None)


def _shortest(solve: Solver) -> float:
    """Return the seconds of the shortest of a few runs."""
    found: list[float] = []
    while not found or (sum(found) < TRIAL_S and len(found) < MOST_TRIALS):
        began = time.perf_counter()
        solve()
        found.append(time.perf_counter() - began)
    return min(found)
