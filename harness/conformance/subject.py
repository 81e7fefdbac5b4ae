"""The engine under test, and operations that the suite shares."""

from __future__ import annotations

import ast
import importlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import Device, Engine, EngineSpec, No, Phases, Yes, schedule_from_options
from harness.graph import Graph
from harness.language import Inputs, Program
from harness.language.reference import ReferenceRun
from harness.language.replay import replay

Values = dict[str, NDArray[Any]]


class Unsupported(Exception):
    """The engine refused a program; the message is its reason."""


def new_engine(spec: EngineSpec, options: Mapping[str, object]) -> Engine:
    """Return a fresh engine under a schedule."""
    engine: Engine = load(spec.factory)(schedule_from_options(spec, options))
    return engine


def load(factory: str) -> Any:
    """Import the object that ``package.module:name`` names."""
    module, _, name = factory.partition(":")
    return getattr(importlib.import_module(module), name)


@dataclass(frozen=True)
class Subject:
    """An engine under one schedule on one device."""

    spec: EngineSpec
    options: Mapping[str, object] = field(default_factory=dict)
    device: Device = field(default_factory=Device)

    def new(self) -> Engine:
        """Return a fresh engine."""
        return new_engine(self.spec, self.options)

    def stepwise(self, program: Program, graph: Graph, features: int) -> bool:
        """Return whether the engine stops at a limit of supersteps of the program."""
        engine = self.new()
        answer = engine.supports(program, graph, features, self.device)
        return engine.stepwise if isinstance(answer, No) or answer.stepwise is None else answer.stepwise

    def says(self, program: Program, graph: Graph, features: int) -> Yes | No:
        """Return whether the engine runs the program."""
        return self.new().supports(program, graph, features, self.device)

    def with_threads(self, threads: int) -> Subject:
        """Return the same engine with another number of threads."""
        return replace(self, device=replace(self.device, threads=threads))

    @contextmanager
    def prepared(self, program: Program, graph: Graph, features: int) -> Iterator[Engine]:
        """Yield an engine prepared for a program, and close it at the end. Raises Unsupported if it refuses the
        program."""
        engine = self.new()
        answer = engine.supports(program, graph, features, self.device)
        if isinstance(answer, No):
            raise Unsupported(answer.reason)
        try:
            engine.prepare(program, graph, features, self.device, Phases())
            yield engine
        finally:
            engine.close()

    def answer(self, program: Program, graph: Graph, features: int, inputs: Inputs, supersteps: int) -> Values:
        """Return the answer of a fresh engine after some supersteps. Raises Unsupported if it refuses the program."""
        with self.prepared(program, graph, features) as engine:
            engine.reset(inputs)
            engine.run(supersteps)
            return outputs(program, engine)

    def answer_and_replay(
        self, program: Program, graph: Graph, features: int, inputs: Inputs, supersteps: int
    ) -> tuple[Values, Values]:
        """Return the answer of a fresh engine to a program with steps in place, and the float64 answer in its order.

        Raises Unsupported if the engine refuses the program.
        """
        with self.prepared(program, graph, features) as engine:
            engine.reset(inputs)
            orders = [engine.ordered_superstep() for _ in range(supersteps)]
            return outputs(program, engine), replay(program, graph, features, inputs, orders)


def outputs(program: Program, run: Engine | ReferenceRun) -> Values:
    """Return all outputs of a program."""
    return {name: np.asarray(run.values(name)) for name in program.outputs}


def expected(
    program: Program,
    graph: Graph,
    features: int,
    inputs: Inputs,
    supersteps: int,
    state: Mapping[str, NDArray[np.generic]] | None = None,
) -> Values:
    """Return the answer of the float64 reference after some supersteps."""
    run = ReferenceRun(program, graph, features)
    run.reset(inputs, state)
    run.run(supersteps)
    return outputs(program, run)


def options_of(texts: Iterable[str]) -> dict[str, object]:
    """Parse ``["direction=push", "fold=false"]`` to options: numbers and bools are converted, other values are text."""
    return {key: _value(value) for key, _, value in (text.partition("=") for text in texts)}


def _value(text: str) -> object:
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        value: object = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text
    return value
