"""The contract between the harness and an engine: specifications, the engine class, answers, phases, statistics.

Everything here is light: importing it loads neither NumPy-heavy machinery nor any engine.
"""

from __future__ import annotations

import dataclasses
import difflib
import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

from harness import clock
from harness.specifications import AlgorithmSpec, EngineSpec, GraphSpec

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.graph import Graph
    from harness.language import Inputs, Program
    from harness.transactions import Behaviour

__all__ = [
    "AlgorithmSpec", "Device", "Direction", "Engine", "EngineFailure", "EngineSpec", "GraphSpec", "No", "Phases",
    "RunStatistics", "ScheduleError", "Superstep", "Yes", "option", "schedule_from_options",
]  # fmt: skip

T = TypeVar("T")
Direction = Literal["push", "pull", "dense"]


class ScheduleError(ValueError):
    """A schedule option is unknown, of the wrong type, or has no meaning on the device."""


class EngineFailure(RuntimeError):
    """An engine could not go on; the message says what it met and what to do."""


@dataclass(frozen=True)
class Device:
    """Where a cell runs: ``cpu`` with a number of threads, or ``cuda`` with a device index."""

    kind: Literal["cpu", "cuda"] = "cpu"
    index: int = 0
    threads: int = field(default_factory=lambda: len(os.sched_getaffinity(0)))


@dataclass(frozen=True)
class Yes:
    """The engine can run this; it will hold about ``bytes_needed`` bytes beside the graph."""

    bytes_needed: int


@dataclass(frozen=True)
class No:
    """The engine cannot run this; ``reason`` is a sentence for the table."""

    reason: str


class Phases:
    """Wall-clock seconds of named phases: ``with phases("compile"): ...``; a phase entered twice adds up."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, name: str) -> Iterator[None]:
        start = clock.perf_counter()
        try:
            yield
        finally:
            self.seconds[name] = self.seconds.get(name, 0.0) + clock.perf_counter() - start


@dataclass(frozen=True)
class Superstep:
    """One superstep: sources active before it, arcs whose message was evaluated or tested, and the direction taken."""

    active: int
    edges: int
    direction: Direction


@dataclass
class RunStatistics:
    """What a call of :meth:`Engine.run` did. ``settled``: no source was active for any reduction at the end.

    The harness refuses anything but a bool and a list of Superstep with integers, no more supersteps than were allowed,
    and fewer only where the program settles and the run has.
    """

    settled: bool
    supersteps: list[Superstep] = field(default_factory=list)

    @property
    def edges(self) -> int:
        """Arcs visited over all supersteps."""
        return sum(step.edges for step in self.supersteps)


class Engine(ABC):
    """One way of running programs. The harness calls, in order: ``supports``, ``prepare``, then any number of
    ``reset`` / ``run`` / ``values``, then ``close``. Memory that runs out, of host or device, is a MemoryError.

    ``deterministic``: whether equal inputs lead to the same values to the last bit, in every run and every engine that
    is prepared alike, on as many threads. It is a promise, and the conformance suite holds the engine to it; whether
    two runs of any other engine agree is left to the program's bound. It is asked for after ``prepare``.
    """

    deterministic: bool = False

    def __init__(self, schedule: Any) -> None:
        self.schedule = schedule

    @abstractmethod
    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Whether this schedule can run the program; never a silent fall-back."""

    @abstractmethod
    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Transform, lower, compile and upload, each inside ``with phases(...)``.

        Names of phases that the harness times itself, such as "inputs" or "warm_up", are refused.
        """

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Make what :meth:`explain` tells about; nothing is run afterwards. By default all of ``prepare``; an engine
        that generates code without its device at hand does no more than that."""
        self.prepare(program, graph, features, device, Phases())

    @abstractmethod
    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Set every property to its start; ``state`` gives values of a previous run for a warm start.

        Inputs do not change: those of the reset before, the same object, may be there already.
        """

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:  # noqa: B027  optional
        """After a :meth:`reset` to a warm state: a superstep would leave all vertices but the ``stale`` ones (bool[V])
        as they are, but for the tolerance; where extrema are kept, the ``senders`` have to send their messages again.

        An engine that propagates changes may begin with these. By default it goes over everything, as after any reset.
        """

    @abstractmethod
    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps, continuing from the present state.

        All is done when this returns, on a device too: the call is timed, and the harness waits for the device.
        """

    @abstractmethod
    def values(self, name: str) -> NDArray[np.generic]:
        """A property: float32, shape ``[V]`` or ``[V, k]`` or ``[V, k, k]`` (``[E, ...]`` in CSR order for edges)."""

    def explain(self) -> str:
        """The schedule and what was generated for it."""
        return repr(self.schedule)

    def memory_model(self, program: Program, graph: Graph, features: int) -> Behaviour | No:
        """Global loads and atomic operations of a superstep in which every vertex is active, counted on a sample of the
        graph by how the schedule maps lanes to addresses on a GPU. It takes no device and prepares nothing."""
        return No("the engine declares no mapping of lanes to addresses")

    @abstractmethod
    def close(self) -> None:
        """Release everything; called once, also after a failure."""


def option(default: T, text: str, planned: tuple[T, ...] = ()) -> T:
    """A schedule option: the field of a schedule dataclass with its default and its help text.

    ``planned``: values of a ``Literal`` type that the engine knows and refuses by name, as there is no code for them
    yet. What goes through all schedules leaves them out.
    """
    made: Any = field(default=default, metadata={"help": text, "planned": planned})
    return cast("T", made)


def schedule_from_options(spec: EngineSpec, options: Mapping[str, object]) -> Any:
    """The engine's schedule with ``options`` set.

    Raises ScheduleError naming an option the engine does not have (with the closest one it has) or a value of the
    wrong type.
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
            wanted = f"takes a {type(default).__name__}, like {default!r}"
            raise ScheduleError(f"option {name!r} of engine {spec.name!r} {wanted}, not {value!r}")
    return spec.schedule(**options)


def _fits(value: object, default: object) -> bool:
    if isinstance(default, bool) or isinstance(value, bool):
        return isinstance(value, bool) and isinstance(default, bool)
    if isinstance(default, float):
        return isinstance(value, (int, float))
    return isinstance(value, type(default))
