"""The contract between the harness and an engine: specifications, the engine class, answers, phases, statistics.

Importing this module is cheap: it loads neither NumPy nor any engine.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from harness import clock
from harness.options import option, options_in, problems, wanted_like
from harness.specifications import AlgorithmSpec, EngineSpec, GraphSpec
from harness.supersteps import Choice, Direction, Superstep

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.graph import Graph
    from harness.language import Inputs, Program
    from harness.transactions import Behaviour

__all__ = [
    "AlgorithmSpec", "Choice", "Device", "Direction", "Engine", "EngineFailure", "EngineSpec", "GraphSpec", "No",
    "Operations", "Phases", "RunStatistics", "ScheduleError", "Superstep", "Unsupported", "Yes", "option",
    "schedule_from_options",
]  # fmt: skip


class ScheduleError(ValueError):
    """A schedule option is unknown, has the wrong type, or is meaningless on the device."""


class Unsupported(Exception):
    """An engine refuses a problem; the message is the reason that the tables print.

    An engine answers ``supports`` with :class:`No` where the program, the graph or the device decide. It raises this in
    ``reset`` where the inputs decide.
    """


class EngineFailure(RuntimeError):
    """An engine could not continue; the message gives the cause and the remedy."""


@dataclass(frozen=True)
class Device:
    """The device of a cell: ``cpu`` with a number of threads (default: the usable cores), or ``cuda`` with an index."""

    kind: Literal["cpu", "cuda"] = "cpu"
    index: int = 0
    threads: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))
    memory: int | None = None  # bytes of a GPU for an engine that chooses by them what it does; None: all that it has


@dataclass(frozen=True)
class Yes:
    """The engine can run this; it will allocate about ``bytes_needed`` bytes in addition to the graph.

    On a GPU these are bytes of the device, and ``host_bytes`` those of the host: page-locked, or of panels of features.
    ``stepwise``: of the plan for this problem (:attr:`Engine.stepwise`); None: that of the engine before it is prepared
    for any problem.
    """

    bytes_needed: int
    host_bytes: int = 0
    stepwise: bool | None = None


@dataclass(frozen=True)
class No:
    """The engine cannot run this; ``reason`` is a sentence that the tables print."""

    reason: str


class Phases:
    """Wall-clock seconds by phase: ``with phases("compile"): ...``. Repeated phases of one name are summed.

    The time of a phase within another one counts as the inner phase only. In ``with phases.alone("tune"): ...``, no
    other cell of a sweep uses the device; ``lock`` waits for that, outside of the phase.
    """

    def __init__(self, lock: Callable[[], AbstractContextManager[None]] = nullcontext) -> None:
        self.seconds: dict[str, float] = {}
        self._lock = lock
        self._inner_s = 0.0  # of the phases within the current one

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        before, self._inner_s = self._inner_s, 0.0
        start = clock.perf_counter()
        try:
            yield
        finally:
            whole = clock.perf_counter() - start
            self.seconds[name] = self.seconds.get(name, 0.0) + whole - self._inner_s
            self._inner_s = before + whole

    @contextmanager
    def alone(self, name: str) -> Iterator[None]:
        """Time a phase in which an engine times something itself, such as ways to do the same work."""
        with self._lock(), self(name):
            yield


@dataclass(frozen=True)
class Transfers:
    """The reads of edges outside of the memory of the device, in one run.

    ``visited``: bytes of the edges that kernels read, counted each time. ``moved``: bytes that were moved for them, by
    the means: *zero_copy*, read in place over the host link; *read*, from a file; *copied*, whole parts of the graph;
    *extracted*, the rows of active vertices; *pages*, of managed memory; empty: not counted. ``requests``: over the
    host link, by their bytes. ``subgraphs``: how often parts of the graph were processed, by the kind of processing.
    ``seconds``: of parts of the run, by name. ``data``: bytes of edges in each superstep, by the kind of use.
    """

    visited: int
    moved: Mapping[str, int]
    requests: Mapping[int, int] = field(default_factory=dict)
    subgraphs: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict, compare=False)
    data: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @property
    def amplification(self) -> float | None:
        """Bytes moved over bytes visited; None if no edge was visited, or if bytes moved are not counted."""
        return sum(self.moved.values()) / self.visited if self.visited and self.moved else None

    @classmethod
    def total(cls, parts: Iterable[Transfers]) -> Transfers:
        """Return the transfers of several runs together; if one did not count what was moved, nothing is."""
        parts = list(parts)
        visited, moved, requests, subgraphs = 0, Counter[str](), Counter[int](), Counter[str]()
        seconds, data = dict[str, float](), dict[str, list[int]]()
        for part in parts:
            visited += part.visited
            moved.update(part.moved)
            requests.update(part.requests)
            subgraphs.update(part.subgraphs)
            seconds |= {name: seconds.get(name, 0.0) + value for name, value in part.seconds.items()}
            data |= {kind: [*data.get(kind, []), *steps] for kind, steps in part.data.items()}
        if any(part.visited and not part.moved for part in parts):
            moved.clear()
            subgraphs.clear()
        return cls(visited, dict(moved), dict(requests), dict(subgraphs), seconds, data)

    def plain(self) -> dict[str, Any]:
        """Return the ``transfers`` field of a record."""
        return {
            "visited_bytes": self.visited, "moved_bytes": dict(self.moved), "amplification": self.amplification,
            "requests": {str(size): count for size, count in self.requests.items()},
            "subgraphs": dict(self.subgraphs), "seconds": dict(self.seconds),
            "data": {kind: list(steps) for kind, steps in self.data.items()},
        }  # fmt: skip


@dataclass
class RunStatistics:
    """The result of :meth:`Engine.run`. ``settled``: no source was active for any reduction at the end.

    The harness accepts only a bool and a list of Superstep with integers. The list may not exceed the requested number
    of supersteps. It may be shorter only if the program can settle and this run has settled. It is empty for an engine
    that is not ``stepwise``. ``transfers``: of edges to the device; None: not counted.
    """

    settled: bool
    supersteps: list[Superstep] = field(default_factory=list)
    transfers: Transfers | None = None

    @property
    def edges(self) -> int:
        """Edges visited, summed over all supersteps."""
        return sum(step.edges for step in self.supersteps)

    def followed_by(self, other: RunStatistics) -> RunStatistics:
        """Return the statistics of this run and of one that continued it."""
        counted = [one for one in (self.transfers, other.transfers) if one is not None]
        transfers = Transfers.total(counted) if counted else None
        return RunStatistics(other.settled, [*self.supersteps, *other.supersteps], transfers)


@dataclass(frozen=True)
class Operations:
    """Operations of a run, at least; 0 where they are not counted.

    ``launches``: of kernels. ``adds``: atomic additions of one float32; ``wide``: an instruction may do four of them.
    """

    launches: int = 0
    adds: int = 0
    wide: bool = False


class Engine(ABC):
    """One way to run programs.

    The harness calls, in order: ``supports``, ``build``, ``prepare``, any number of ``reset`` / ``run`` / ``values``,
    ``close``. An engine uses a GPU from ``prepare`` on, and only within these calls: between them, other cells may use
    the GPU alone. An engine raises MemoryError when host or device memory is exhausted.

    ``deterministic``: equal inputs give bitwise equal values in every run and in every engine prepared in the same way
    with the same number of threads. The conformance suite tests this promise. The results of other engines need only
    agree within the program's error bound. The harness reads ``deterministic`` after ``prepare``.

    ``stepwise``: ``run`` executes supersteps and stops at a limit. An engine that hands the whole problem to a solver
    sets it to False. Its ``run`` ignores the limit, solves until the answer has settled, and returns ``settled`` True
    with no supersteps, which the tables show as not counted. If it does not get there it raises EngineFailure. The
    harness gives it neither a limit below the program's own nor a warm start. If the plan of a problem decides, the
    answer of ``supports`` says so, and the attribute is that of the problem after ``prepare``. Earlier problems have no
    effect on the answer.

    ``tunes``: ``prepare``, or the first ``reset`` after it, chooses options by timing, within ``phases.alone``. What it
    tries may need three times the memory that ``supports`` reports.
    """

    deterministic: bool = False
    stepwise: bool = True
    tunes: bool = False

    def __init__(self, schedule: Any) -> None:
        self.schedule = schedule

    @abstractmethod
    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether this schedule can run the program. An engine never falls back silently."""

    def build(  # noqa: B027  optional
        self, program: Program, graph: Graph, features: int, device: Device, phases: Phases
    ) -> None:
        """Transform, lower and compile what :meth:`prepare` needs, without using the device.

        The harness calls it before :meth:`prepare`, with the same arguments, while other cells use the device. Other
        callers may omit it. The default does nothing: ``prepare`` does everything.
        """

    @abstractmethod
    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Transform, lower, compile and upload, each inside ``with phases(...)``, as far as :meth:`build` has not.

        The harness refuses the names of phases that it times itself, such as "inputs" or "warm_up".
        """

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Generate what :meth:`explain` describes; nothing is run afterwards.

        The default calls ``prepare``. An engine that can generate code without its device overrides this.
        """
        self.prepare(program, graph, features, device, Phases())

    @abstractmethod
    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Set every property to its initial value; ``state`` holds values of a previous run for a warm start.

        Inputs are immutable: an engine may skip the upload of inputs, or of single arrays of inputs, that are the same
        objects as in the previous reset. Only an engine that defines :meth:`device_values` is given arrays of inputs in
        the memory of its CUDA device, CuPy's.
        """

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:  # noqa: B027  optional
        """Restrict the first superstep after a :meth:`reset` to a warm state; ``stale`` and ``senders`` are bool[V].

        A superstep would change only the ``stale`` vertices, up to the tolerance. Where a reduction keeps extrema, the
        ``senders`` must send their messages again. An engine that propagates changes may start from these vertices. The
        default does nothing: the first superstep processes every vertex.
        """

    @abstractmethod
    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps, continuing from the current state.

        All work, including work on a device, must be complete on return: the harness times the call and synchronizes
        the device.
        """

    def ordered_superstep(self) -> Mapping[str, NDArray[np.integer[Any]] | float]:
        """Run one superstep, and return the order in which steps that update both ends of edges took the edges.

        For each such step, by its name: all edges, by their positions in the CSR, int[E]. One edge after another in
        this order gives the same values. The harness replays it in float64. A step with ``conflicts="lossy"`` may have
        no such order; its value is then the share of updates of rows that were lost, a float, and the harness compares
        metrics. It does not time this call, so that an engine may observe here what it does not observe in :meth:`run`.
        An engine that supports such programs overrides this. Raises EngineFailure if there is no such order.
        """
        raise EngineFailure("this engine reports no order of its updates of both ends of edges; see ordered_superstep")

    @abstractmethod
    def values(self, name: str) -> NDArray[np.generic]:
        """Return a property: float32[V], [V, k] or [V, k, k]; for edges [E, ...], in CSR order."""

    def rows(self, name: str, index: NDArray[np.integer[Any]]) -> NDArray[np.generic]:
        """Return some rows of a property of vertices or edges: ``values(name)[index]``.

        An engine whose values are on a device overrides this, so that only these rows are transferred.
        """
        found: NDArray[np.generic] = self.values(name)[index]
        return found

    def device_values(self, name: str) -> Any:
        """Return a copy of ``values(name)`` in the memory of the CUDA device, which remains valid after :meth:`close`.

        It is an array of any library with ``__cuda_array_interface__``. None, the default: this engine returns values
        in host memory only.
        """
        return None

    def explain(self) -> str:
        """Describe the schedule and the code generated for it."""
        return repr(self.schedule)

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the value of every schedule option in the run, by name, after :meth:`prepare` or :meth:`generate`.

        Options that have no meaning for the program or the device are left out; values are plain JSON data. By default
        the options of the schedule that are not None.
        """
        return options_of(getattr(self, "schedule", None))

    def operations(self, statistics: RunStatistics) -> Operations:
        """Return the launches and atomic additions of the latest :meth:`run`, which returned ``statistics``.

        They give a lower bound of its time. By default none are known.
        """
        return Operations()

    def memory_model(self, program: Program, graph: Graph, features: int, inputs: Inputs) -> Behaviour | No:
        """Count global loads and atomic operations of the first superstep of a run, in which every vertex is active.

        The count is that of a GPU, and an estimate. It needs neither a GPU nor a prior ``prepare``.
        """
        return No("the engine has no kernels whose accesses can be counted")

    @abstractmethod
    def close(self) -> None:
        """Release all resources; called once, also after a failure."""


def options_of(schedule: Any) -> dict[str, Any]:
    """Return the options of a schedule that are not None, by name; empty for a schedule that is not a dataclass."""
    if not dataclasses.is_dataclass(schedule) or isinstance(schedule, type):
        return {}
    values = {field.name: getattr(schedule, field.name) for field in dataclasses.fields(schedule)}
    return {name: value for name, value in values.items() if value is not None}


def schedule_text(engine: Engine, detail: str = "") -> str:
    """Return the schedule with its resolved options, and which of them the engine chose, as ``explain`` shows them.

    ``detail`` follows the schedule in the same line.
    """
    options, given = engine.resolved_options(), options_of(engine.schedule)
    values = ", ".join(f"{name}={_shown(value)}" for name, value in options.items())
    chosen = [name for name, value in options.items() if name not in given or given[name] != value]
    line = f"schedule {type(engine.schedule).__name__}({values}){detail}"
    return f"{line}\nchosen by the engine: {', '.join(chosen)}" if chosen else line


def _shown(value: object) -> str:
    """Return a value as text; of a long list only the number of its entries."""
    text = repr(value)
    return text if len(text) <= 80 or not isinstance(value, (list, tuple)) else f"[{len(value)} entries]"


def schedule_from_options(spec: EngineSpec, options: Mapping[str, object]) -> Any:
    """Return the engine's schedule with ``options`` set.

    Raises ScheduleError for an option that the engine does not have, with the closest known one. Raises it also for a
    value of the wrong type or outside of the option's values or range.
    """
    known = {f.name: f for f in dataclasses.fields(spec.schedule)}
    for name, value in options.items():
        if name not in known:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            options_text = ", ".join(sorted(known)) or "none"
            raise ScheduleError(f"engine {spec.name!r} has no schedule option {name!r}{hint} (it has: {options_text})")
        default = known[name].default
        if default is not dataclasses.MISSING and default is not None and not _fits(value, default):
            wanted = f"takes {wanted_like(default)}, not {value!r}"
            raise ScheduleError(f"option {name!r} of engine {spec.name!r} {wanted}")
    for problem in problems(options_in(spec.schedule), options):
        raise ScheduleError(problem)
    return spec.schedule(**options)


def _fits(value: object, default: object) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, float):
        return isinstance(value, (int, float))
    return isinstance(value, type(default))
