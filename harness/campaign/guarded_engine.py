"""The boundary between the harness and an engine: every result of an engine is checked before it is used.

A malformed result raises MalformedAnswer, which names the field, the value found and the values allowed.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, get_args

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness import clock
from harness.campaign.device_use import Unlocked, Use
from harness.contract import Device, Direction, Engine, No, Operations, Phases, RunStatistics, Superstep, Yes
from harness.language.evaluation import concrete
from harness.language.initial_state import Start
from harness.language.program import edge_steps
from harness.plain_text import printable
from harness.records.schema import Counted
from harness.transactions import Behaviour

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language import Inputs, Program

DIRECTIONS = get_args(Direction)
# Records store counts as 64-bit integers.
MOST = 2**63 - 1
# The phases that the harness times itself.
RESERVED_PHASES = frozenset(
    (
        "open",
        "trace",
        "inputs",
        "support",
        "sample",
        "wait",
        "context",
        "warm_up",
        "reset",
        "read",
        "check",
        "download",
        "other_inputs",
        "replay",
        "resolve",
        "memory",
        "validate",
        "fingerprint",
        "accuracy",
    )
)
_SHOWN = 60  # characters of a value quoted in a message


_UNLOCKED = Unlocked()


class MalformedAnswer(TypeError):
    """An engine returned a value that the contract does not allow; the message names the field."""


def malformed(field: str, met: object, allowed: str) -> MalformedAnswer:
    """Return the error for a ``field`` with the value ``met`` that is not ``allowed``."""
    try:
        shown = printable(repr(met))
    except BaseException as failure:  # noqa: BLE001  __repr__ is the plugin's code
        shown = f"(its __repr__ raised {printable(type(failure).__name__)})"
    if len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + "..."
    return MalformedAnswer(f"{field} is {shown} of type {printable(type(met).__name__)}; it must be {allowed}")


def guarded(engine: Engine) -> GuardedEngine:
    """Return the engine behind a :class:`GuardedEngine`."""
    return engine if isinstance(engine, GuardedEngine) else GuardedEngine(engine)


class GuardedEngine(Engine):
    """Forwards every call to an engine and checks the result. Raises MalformedAnswer.

    ``use``: of the device, which is locked during the calls that use it.
    """

    def __init__(self, engine: object, use: Use = _UNLOCKED) -> None:
        if not isinstance(engine, Engine):
            raise malformed("the factory's result", engine, "an instance of a subclass of harness.api.Engine")
        super().__init__(getattr(engine, "schedule", None))
        if not isinstance(engine.stepwise, bool):
            raise malformed("stepwise", engine.stepwise, "a bool")
        self._engine, self.use, self.stepwise, self.tunes = engine, use, engine.stepwise, bool(engine.tunes)
        self._problem: tuple[Program, Graph, int] | None = None

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return a Yes with a count of bytes or a No with a reason."""
        answer: object = self._engine.supports(program, graph, features, device)
        if isinstance(answer, Yes):
            needed = _count("supports(): Yes.bytes_needed", answer.bytes_needed)
            return Yes(needed, _count("supports(): Yes.host_bytes", answer.host_bytes))
        if isinstance(answer, No):
            return No(_text("supports(): No.reason", answer.reason))
        raise malformed("supports()", answer, "a Yes or a No")

    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Build what the engine can without the device, with separate phases, as :meth:`prepare`."""
        own = Phases()
        self._engine.build(program, graph, features, device, own)
        _add(phases, own)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Prepare the engine with separate phases; add them to ``phases`` once they are checked."""
        self._problem = program, graph, features
        own = Phases()
        with self.use.alone() if self.tunes else self.use.shared():
            self._engine.prepare(program, graph, features, device, own)
        _add(phases, own)
        self.deterministic = bool(self._engine.deterministic)

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Reset the engine; inputs that are new are checked before the device is used. Raises InvalidInput."""
        if self._problem is not None:
            program, graph, features = self._problem
            start = Start(program, graph, features, inputs, {})
            for prop in program.properties.values():
                if prop.role == "input" and prop.name in inputs.properties:
                    start.of(prop)
        with self.use.shared():
            self._engine.reset(inputs, state)

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Narrow the start of a warm run."""
        with self.use.shared():
            self._engine.narrow(stale, senders)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run, and return checked statistics."""
        return self.timed_run(max_supersteps)[1]

    def timed_run(self, max_supersteps: int) -> tuple[float, RunStatistics]:
        """Run; return the seconds of the engine's own ``run``, and its checked statistics."""
        with self.use.shared():
            began = clock.perf_counter()
            statistics = self._engine.run(max_supersteps)
            seconds = clock.perf_counter() - began
        return seconds, self._checked_statistics(statistics, max_supersteps)

    def ordered_superstep(self) -> dict[str, NDArray[Any] | float]:
        """Run one superstep; return an order for every step that updates both ends of edges: each edge once.

        For a lossy step it may be the share of lost updates instead.
        """
        with self.use.shared():
            found: object = self._engine.ordered_superstep()
        if not isinstance(found, Mapping):
            raise malformed("ordered_superstep()", found, "a mapping of names of steps to orders of edges")
        if self._problem is None:
            return dict(found)
        program, graph, _ = self._problem
        steps = {step.name: step for step in edge_steps(program)}
        if sorted(found) != sorted(steps):
            raise malformed("ordered_superstep(): the names", sorted(found), f"{sorted(steps)}")
        return {
            name: _share(f"ordered_superstep()[{name!r}]", found[name])
            if step.conflicts == "lossy" and isinstance(found[name], float)
            else _order(f"ordered_superstep()[{name!r}]", found[name], graph.num_edges)
            for name, step in steps.items()
        }

    def values(self, name: str) -> NDArray[Any]:
        """Return the engine's array as a plain array of the dtype and the shape that the program declares."""
        with self.use.shared():
            found = self._engine.values(name)
        return self._checked_array(f"values({name!r})", name, found, None)

    def rows(self, name: str, index: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return some rows of the engine's array, checked as by :meth:`values`."""
        with self.use.shared():
            found = self._engine.rows(name, index)
        return self._checked_array(f"rows({name!r})", name, found, len(index))

    def _checked_array(self, field: str, name: str, value: object, rows: int | None) -> NDArray[Any]:
        """Return an array of the engine as a plain array; ``rows``: how many were requested, None: all."""
        if not isinstance(value, np.ndarray):
            raise malformed(field, value, "a NumPy array")
        found: NDArray[Any] = np.asarray(value)  # a masked array or a matrix would bring its own comparison rules
        if self._problem is None:
            return found
        program, graph, features = self._problem
        declared = program.properties[name]
        dtype = np.dtype(np.bool_ if declared.dtype == "bool" else np.float32)
        count = {"vertex": (graph.num_vertices,), "edge": (graph.num_edges,)}.get(declared.place, ())
        count = count if rows is None else (rows,)
        shape = (*count, *concrete(declared.shape, features))
        if found.dtype != dtype or found.shape != shape:
            met = f"an array of dtype {found.dtype} and shape {found.shape}"
            raise MalformedAnswer(f"{field} is {met}; it must be of dtype {dtype} and shape {shape}")
        return found

    def explain(self) -> str:
        """Return the engine's explanation, printable."""
        return _text("explain()", self._engine.explain())

    def generate(self, program: Program, graph: Graph, features: int, device: Device) -> None:
        """Generate what :meth:`explain` describes."""
        self._engine.generate(program, graph, features, device)

    def resolved_options(self) -> dict[str, Any]:
        """Return the resolved options: plain JSON data by the names of the schedule's options."""
        answer: object = self._engine.resolved_options()
        if not isinstance(answer, Mapping):
            raise malformed("resolved_options()", answer, "a mapping of option names to values")
        schedule = self.schedule
        known = [item.name for item in dataclasses.fields(schedule)] if dataclasses.is_dataclass(schedule) else []
        return {name: _option(name, value, known) for name, value in answer.items()}

    def operations(self, statistics: RunStatistics) -> Operations:
        """Return Operations with counts of at least 0."""
        answer: object = self._engine.operations(statistics)
        if not isinstance(answer, Operations):
            raise malformed("operations()", answer, "an Operations")
        launches, adds = (_count(f"operations(): {name}", getattr(answer, name)) for name in ("launches", "adds"))
        return Operations(launches, adds, bool(answer.wide))

    def memory_model(self, program: Program, graph: Graph, features: int, inputs: Inputs) -> Behaviour | No:
        """Return a Behaviour of finite numbers or a No with a reason."""
        answer: object = self._engine.memory_model(program, graph, features, inputs)
        if isinstance(answer, No):
            return No(_text("memory_model(): No.reason", answer.reason))
        if not isinstance(answer, Behaviour):
            raise malformed("memory_model()", answer, "a Behaviour or a No")
        plain = answer.plain()
        try:
            msgspec.convert(plain, Counted)
            json.dumps(plain, allow_nan=False)
        except ValueError as error:  # msgspec's errors are of this type too
            raise MalformedAnswer(f"memory_model(): {error}") from error
        return answer

    def close(self) -> None:
        """Close the engine."""
        with nullcontext() if self._problem is None else self.use.shared():
            self._engine.close()

    def _checked_statistics(self, statistics: object, max_supersteps: int) -> RunStatistics:
        fixed = self._problem is not None and not self._problem[0].control.settles
        return checked_statistics(statistics, max_supersteps, fixed=fixed, stepwise=self.stepwise)


def _add(phases: Phases, own: Phases) -> None:
    """Add the phases of an engine, once they are checked."""
    for name, seconds in checked_phases(own).items():
        phases.seconds[name] = phases.seconds.get(name, 0.0) + seconds


def checked_statistics(
    statistics: object, max_supersteps: int, *, fixed: bool = False, stepwise: bool = True
) -> RunStatistics:
    """Return the result of ``run(max_supersteps)`` as plain Python numbers.

    ``fixed``: the program runs a fixed number of supersteps. A run that has not settled must have taken all allowed
    supersteps. ``stepwise``: of the engine; the run of any other has settled and counts no supersteps. Raises
    MalformedAnswer.
    """
    if not isinstance(statistics, RunStatistics):
        raise malformed("run()", statistics, "a RunStatistics")
    settled, steps = statistics.settled, statistics.supersteps
    if not isinstance(settled, (bool, np.bool_)):
        raise malformed("run(): RunStatistics.settled", settled, "a bool")
    if not isinstance(steps, (list, tuple)):
        raise malformed("run(): RunStatistics.supersteps", steps, "a list of Superstep")
    if not stepwise:
        if not settled or len(steps):
            met = f"run(): settled is {bool(settled)} with {len(steps)} supersteps"
            raise MalformedAnswer(f"{met}; an engine that is not stepwise returns True without supersteps, or raises")
        return RunStatistics(True)
    if len(steps) > max_supersteps:
        allowed = f"at most the {max_supersteps} that run() was called with"
        raise MalformedAnswer(f"run(): RunStatistics.supersteps has {len(steps)} supersteps; it must have {allowed}")
    checked = [_superstep(number, step) for number, step in enumerate(steps)]
    if len(steps) < max_supersteps and (fixed or not settled):
        why = "the program runs a fixed number of supersteps" if fixed else "the run has not settled"
        met = f"run({max_supersteps}): RunStatistics.supersteps has {len(steps)} supersteps and {why}"
        raise MalformedAnswer(f"{met}; it must have {max_supersteps}")
    return RunStatistics(bool(settled), checked)


def checked_phases(phases: Phases) -> dict[str, float]:
    """Return the seconds of the phases that an engine has timed. Raises MalformedAnswer."""
    seconds: object = phases.seconds
    if not isinstance(seconds, dict):
        raise malformed("prepare(): Phases.seconds", seconds, "a dict")
    checked = {}
    for name, value in seconds.items():
        if not isinstance(name, str) or not name.isprintable() or name in RESERVED_PHASES:
            allowed = f"printable text other than the harness's own phases ({', '.join(sorted(RESERVED_PHASES))})"
            raise malformed("prepare(): the name of a phase", name, allowed)
        field = f"prepare(): Phases.seconds[{name!r}]"
        checked[name] = _finite(field, value, "a finite number of seconds, 0 or more")
        if checked[name] < 0:
            raise malformed(field, value, "a finite number of seconds, 0 or more")
    return checked


def checked_metrics(metrics: object) -> dict[str, float]:
    """Return the result of ``Algorithm.metrics`` as plain numbers. Raises MalformedAnswer."""
    if not isinstance(metrics, Mapping):
        raise malformed("metrics()", metrics, "a mapping of names to numbers")
    checked = {}
    for name, value in metrics.items():
        if not isinstance(name, str) or not name.isprintable():
            raise malformed("metrics(): a name", name, "printable text")
        if not _is_number(value):
            raise malformed(f"metrics()[{name!r}]", value, "a number")
        checked[name] = float(value)
    return checked


def _superstep(number: int, step: object) -> Superstep:
    field = f"run(): RunStatistics.supersteps[{number}]"
    if not isinstance(step, Superstep):
        raise malformed(field, step, "a Superstep")
    if not isinstance(step.direction, str) or step.direction not in DIRECTIONS:
        raise malformed(f"{field}.direction", step.direction, f"one of {', '.join(DIRECTIONS)}")
    return Superstep(_count(f"{field}.active", step.active), _count(f"{field}.edges", step.edges), step.direction)


def _order(field: str, order: object, edges: int) -> NDArray[Any]:
    """Return an order that has every edge once; in the engine's own array, so that equal orders stay one object."""
    if not isinstance(order, np.ndarray) or order.dtype.kind not in "iu" or order.shape != (edges,):
        raise malformed(field, order, f"an array of {edges} integers")
    plain = np.asarray(order)
    inside = plain[(plain >= 0) & (plain < edges)].astype(np.int64)
    times = np.bincount(inside, minlength=edges)
    if len(inside) < edges or (times != 1).any():
        missing, again = np.count_nonzero(times == 0), np.count_nonzero(times > 1)
        raise MalformedAnswer(f"{field} leaves out {missing} edges and has {again} more than once")
    return plain


def _share(field: str, value: object) -> float:
    share = _finite(field, value, "a share from 0 to 1")
    if not 0 <= share <= 1:
        raise malformed(field, value, "a share from 0 to 1")
    return share


def _count(field: str, value: object) -> int:
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or not 0 <= value <= MOST:
        raise malformed(field, value, "an integer from 0 to 2**63 - 1")
    return int(value)


def _finite(field: str, value: object, allowed: str) -> float:
    if not _is_number(value) or not math.isfinite(value):  # type: ignore[arg-type]
        raise malformed(field, value, allowed)
    return float(value)  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    """Return whether a value is a real number that fits a float."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def _option(name: object, value: object, known: Sequence[str]) -> Any:
    """Return the value of a resolved option as JSON holds it."""
    if name not in known:
        raise malformed("resolved_options(): a name", name, f"an option of the schedule: {', '.join(known) or 'none'}")
    try:
        plain = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        plain = None
    if plain is None:
        raise malformed(f"resolved_options()[{name!r}]", value, "data that JSON holds, not None")
    return plain


def _text(field: str, value: object) -> str:
    if not isinstance(value, str) or not value:
        raise malformed(field, value, "text, not empty")
    return printable(str.__str__(value))
