"""The boundary between the harness and an engine: every result of an engine is checked before it is used.

A malformed result raises MalformedAnswer, which names the field, the value found and the values allowed.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from harness import clock
from harness.campaign.device_use import Unlocked, Use
from harness.campaign.engine_checks import (
    MalformedAnswer,
    checked_count,
    checked_option,
    checked_order,
    checked_phases,
    checked_share,
    checked_statistics,
    checked_text,
    malformed,
)
from harness.contract import Device, Engine, No, Operations, Phases, RunStatistics, Yes
from harness.language.evaluation import concrete
from harness.language.initial_state import Start, on_device
from harness.language.program import edge_steps
from harness.records.schema import Counted
from harness.transactions import Behaviour

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language import Inputs, Program

_UNLOCKED = Unlocked()


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
        self._engine, self.use, self.tunes = engine, use, bool(engine.tunes)
        self._by_default = self.stepwise = _stepwise(engine)  # if the answer of supports says nothing
        self._problem: tuple[Program, Graph, int] | None = None

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return a Yes with counts of bytes and whether the plan is stepwise, or a No with a reason."""
        answer: object = self._engine.supports(program, graph, features, device)
        if isinstance(answer, Yes):
            needed = checked_count("supports(): Yes.bytes_needed", answer.bytes_needed)
            host = checked_count("supports(): Yes.host_bytes", answer.host_bytes)
            if not isinstance(answer.stepwise, bool | None):
                raise malformed("supports(): Yes.stepwise", answer.stepwise, "a bool or None")
            return Yes(needed, host, self._by_default if answer.stepwise is None else answer.stepwise)
        if isinstance(answer, No):
            return No(checked_text("supports(): No.reason", answer.reason))
        raise malformed("supports()", answer, "a Yes or a No")

    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Build what the engine can without the device, with separate phases, as :meth:`prepare`."""
        own = Phases()
        self._engine.build(program, graph, features, device, own)
        _add(phases, own)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Prepare the engine with separate phases; add them to ``phases`` once they are checked."""
        self._problem = program, graph, features
        own = Phases(self.use.alone)
        with self.use.shared():
            self._engine.prepare(program, graph, features, device, own)
        _add(phases, own)
        self.deterministic, self.stepwise = bool(self._engine.deterministic), _stepwise(self._engine)

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
            name: checked_share(f"ordered_superstep()[{name!r}]", found[name])
            if step.conflicts == "lossy" and isinstance(found[name], float)
            else checked_order(f"ordered_superstep()[{name!r}]", found[name], graph.num_edges)
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

    def device_values(self, name: str) -> Any:
        """Return the engine's array on the device, of the dtype and the shape that the program declares, or None."""
        with self.use.shared():
            found = self._engine.device_values(name)
        field = f"device_values({name!r})"
        if found is not None and not on_device(found):
            raise malformed(field, found, "None, or an array with __cuda_array_interface__")
        if found is not None and self._problem is not None:
            self._check_declared(field, name, str(found.dtype).removeprefix("torch."), tuple(found.shape), None)
        return found

    def _checked_array(self, field: str, name: str, value: object, rows: int | None) -> NDArray[Any]:
        """Return an array of the engine as a plain array; ``rows``: how many were requested, None: all."""
        if not isinstance(value, np.ndarray):
            raise malformed(field, value, "a NumPy array")
        found: NDArray[Any] = np.asarray(value)  # a masked array or a matrix would bring its own comparison rules
        if self._problem is not None:
            self._check_declared(field, name, str(found.dtype), found.shape, rows)
        return found

    def _check_declared(
        self, field: str, name: str, met_dtype: str, met_shape: tuple[int, ...], rows: int | None
    ) -> None:
        """Raise MalformedAnswer unless a dtype and a shape are those of a property; ``rows``: as above."""
        assert self._problem is not None
        program, graph, features = self._problem
        declared = program.properties[name]
        dtype = np.dtype(np.bool_ if declared.dtype == "bool" else np.float32)
        count = {"vertex": (graph.num_vertices,), "edge": (graph.num_edges,)}.get(declared.place, ())
        count = count if rows is None else (rows,)
        shape = (*count, *concrete(declared.shape, features))
        if met_dtype != str(dtype) or met_shape != shape:
            met = f"an array of dtype {met_dtype} and shape {met_shape}"
            raise MalformedAnswer(f"{field} is {met}; it must be of dtype {dtype} and shape {shape}")

    def explain(self) -> str:
        """Return the engine's explanation, printable."""
        return checked_text("explain()", self._engine.explain())

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
        return {name: checked_option(name, value, known) for name, value in answer.items()}

    def operations(self, statistics: RunStatistics) -> Operations:
        """Return Operations with counts of at least 0."""
        answer: object = self._engine.operations(statistics)
        if not isinstance(answer, Operations):
            raise malformed("operations()", answer, "an Operations")
        launches, adds = (
            checked_count(f"operations(): {name}", getattr(answer, name)) for name in ("launches", "adds")
        )
        return Operations(launches, adds, bool(answer.wide))

    def memory_model(self, program: Program, graph: Graph, features: int, inputs: Inputs) -> Behaviour | No:
        """Return a Behaviour of finite numbers or a No with a reason."""
        answer: object = self._engine.memory_model(program, graph, features, inputs)
        if isinstance(answer, No):
            return No(checked_text("memory_model(): No.reason", answer.reason))
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


def _stepwise(engine: Engine) -> bool:
    """Return whether an engine is stepwise, a bool."""
    if not isinstance(engine.stepwise, bool):
        raise malformed("stepwise", engine.stepwise, "a bool")
    return engine.stepwise


def _add(phases: Phases, own: Phases) -> None:
    """Add the phases of an engine, once they are checked."""
    for name, seconds in checked_phases(own).items():
        phases.seconds[name] = phases.seconds.get(name, 0.0) + seconds
