"""Algorithm x engine x schedule x k on a device: every combination is run and checked, or refused with a reason.

This module depends on no engine: schedules are derived from the options of the engine's dataclass.
"""

from __future__ import annotations

import functools
import itertools
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal

import numpy as np

from harness.conformance.subject import Subject, Unsupported, expected, load
from harness.contract import Device, EngineSpec, No, Yes
from harness.graph import Graph
from harness.graph.generators import grid, random_ratings, rmat
from harness.language import Algorithm, Inputs, InvalidInput, Program, trace
from harness.language.program import edge_steps
from harness.language.validation import Comparison, compare
from harness.plugins import Registry, load_plugins

FEATURES = (1, 3, 4, 7, 8, 32, 33, 100)
# Parameters that select other programs, or that leave small graphs some work.
VARIANTS: dict[str, tuple[dict[str, Any], ...]] = {
    "als": ({}, {"sides": "all"}),
    "belief_propagation": ({}, {"rule": "max"}, {"potentials": "edge"}),
    "kcore": ({"core": 6},),
    "manifold_ranking": ({"alpha": 0.9},),
}


def schedules(spec: EngineSpec) -> list[dict[str, Any]]:
    """Return every combination of an engine's options that select code paths.

    These are bools, and options of a ``Literal`` type except for partial values. The first combination is the default;
    an option of a ``Literal`` type that is None by default takes its first value. Numbers, and other options that are
    None by default, keep their values.
    """
    hints = typing.get_type_hints(spec.schedule)
    choices: dict[str, list[Any]] = {}
    for field in fields(spec.schedule):
        hint = hints[field.name]
        if hint is bool:
            choices[field.name] = [field.default, not field.default]
        for part in (hint,) if typing.get_origin(hint) is Literal else typing.get_args(hint):  # with None: a union
            if typing.get_origin(part) is Literal:
                listed = dict.fromkeys((field.default, *typing.get_args(part)))
                left_out = (None, *field.metadata.get("partial", ()))
                choices[field.name] = [value for value in listed if value not in left_out]
        assert not isinstance(hint, types.UnionType) or field.default is None, f"{spec.name}: {field.name}"
    return [dict(zip(choices, values, strict=True)) for values in itertools.product(*choices.values())]


def algorithms(registry: Registry) -> dict[str, Algorithm]:
    """Return every algorithm with the parameters of ``VARIANTS``, by a label such as ``als (sides=all)``."""
    found = {}
    for spec in registry.algorithms.values():
        for parameters in VARIANTS.get(spec.name, ({},)):
            listed = ", ".join(f"{name}={value}" for name, value in parameters.items())
            found[f"{spec.name} ({listed})" if listed else spec.name] = load(spec.factory)(**parameters)
    return found


@functools.cache
def built_in() -> dict[str, Algorithm]:
    """Return the built-in algorithms, which the suite can request from every engine, whatever plugins are installed."""
    found = load_plugins().algorithms
    ours = {name: spec for name, spec in found.items() if spec.factory.startswith("harness.")}
    return algorithms(Registry(algorithms=ours))


@dataclass(frozen=True, eq=False)
class Question:
    """A program on a small random graph, with its inputs for k features."""

    program: Program
    graph: Graph
    inputs: Inputs
    features: int


def question(algorithm: Algorithm, features: int) -> Question:
    """Pose the algorithm on the first small graph that it accepts. Raises InvalidInput if it accepts none."""
    refused = []
    for make in (_random, _ratings, _network, _picture):
        try:
            graph = algorithm.prepare_graph(make(features))
            return Question(trace(algorithm), graph, algorithm.inputs(graph, features), features)
        except InvalidInput as error:
            refused.append(str(error))
    raise InvalidInput(f"{algorithm.name} accepts none of the small graphs: {'; '.join(refused)}")


def ask(spec: EngineSpec, options: Mapping[str, Any], problem: Question, device: Device) -> Yes | No:
    """Return whether the engine runs the program under a schedule on a device."""
    return Subject(spec, options, device).says(problem.program, problem.graph, problem.features)


def check(spec: EngineSpec, options: Mapping[str, Any], problem: Question, device: Device) -> Comparison | No:
    """Run the program and compare its answer with the float64 reference; No if the engine refuses it."""
    case = problem.program, problem.graph, problem.features, problem.inputs, problem.program.max_supersteps
    subject = Subject(spec, options, device)
    try:
        if edge_steps(problem.program):
            return compare(problem.program, *subject.answer_and_replay(*case))
        found = subject.answer(*case)
    except Unsupported as reason:
        return No(str(reason))
    return compare(problem.program, found, expected(*case))


# small graphs ---------------------------------------------------------------------------------------------------------
def _random(features: int) -> Graph:
    return rmat(scale=7, edge_factor=6, seed=4, max_weight=4, self_loops=True, parallel_edges=True)


def _ratings(features: int) -> Graph:
    return random_ratings(users=30, items=20, num_ratings=250)


def _network(features: int) -> Graph:
    """Return a Markov network on a lattice, every variable with k states."""
    lattice = grid(rows=6, columns=5, removed=0.0)
    rng = np.random.default_rng(features)
    tables = rng.uniform(0.3, 1.0, (lattice.num_edges, features, features))
    upwards = lattice.csr.row_of_edge < lattice.csr.neighbours
    tables[~upwards] = tables[lattice.reverse_edges[~upwards]].transpose(0, 2, 1)
    return Graph.from_edges(
        lattice.csr.row_of_edge, lattice.csr.neighbours, num_vertices=lattice.num_vertices, name="network",
        directed=False, edge_data={"pairwise": tables},
        vertex_data={"unary": rng.uniform(0.2, 1.0, (lattice.num_vertices, features))},
    )  # fmt: skip


def _picture(features: int) -> Graph:
    """Return a photograph of noise."""
    lattice = grid(rows=6, columns=5, removed=0.0)
    colour = np.random.default_rng(5).random((lattice.num_vertices, 3)).astype(np.float32)
    return Graph.from_edges(
        lattice.csr.row_of_edge, lattice.csr.neighbours, num_vertices=lattice.num_vertices, name="picture",
        directed=False, vertex_data={"colour": colour}, meta={"height": 6, "width": 5},
    )  # fmt: skip
