"""The problem that every engine of a comparison gets: graph, program, inputs, and the hashes that identify them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from harness.campaign.cell import Cell, digest, load
from harness.campaign.child_report import ChildReport
from harness.campaign.inputs_cache import inputs_for, read_only, with_hash
from harness.campaign.sources import source_hash
from harness.contract import Phases
from harness.graph.named import open_graph
from harness.language import MOST_FEATURES, Algorithm, Inputs, InvalidInput, Program, trace
from harness.language.errors import authored
from harness.language.evaluation import concrete
from harness.language.initial_state import check_inputs, note_checked
from harness.language.phase_inputs import check_given, inputs_after, inputs_of_phase
from harness.language.program import Property
from harness.language.results_once import with_results
from harness.language.warm import WarmStart, kept_properties
from harness.plugins import Registry

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.graph import Graph

Kind: TypeAlias = Literal["reference", "settled", "converged", "warm", "varied", "sweeps"]  # of a reference
Compute: TypeAlias = Callable[["Problem", Kind], None]


@dataclass(frozen=True)
class Problem:
    """A program, or one phase of it, with its graph and inputs.

    ``given``: the graph that the cell names. ``graph``: the graph that the algorithm derives from it and runs on.
    ``key``: the hash of everything that the answer depends on. ``record_fields``: the fields of a record that describe
    the problem. ``start``: the start of a warm run. ``by_residual``: the answer of a warm run is one of several fixed
    points, and is compared with its own next superstep. ``compute`` puts a reference into the cache; None: this process
    computes it. ``later``: the phases after this one. ``all_inputs``: those of all phases, as far as they exist; None:
    ``inputs``. ``limit``: the requested limit of supersteps of each phase. ``unsettled``: a phase before this one could
    settle, and has not.
    """

    algorithm: Algorithm
    program: Program
    given: Graph
    graph: Graph
    inputs: Inputs
    features: int
    max_supersteps: int
    key: str
    record_fields: dict[str, Any]
    start: WarmStart | None = None
    by_residual: bool = False
    compute: Compute | None = None
    later: tuple[Program, ...] = ()
    all_inputs: Inputs | None = None
    limit: int | None = None
    unsettled: bool = False

    @property
    def several_phases(self) -> bool:
        """True if this is one of several phases."""
        return bool(self.later) or self.program.earlier is not None

    @property
    def carried(self) -> dict[str, NDArray[Any]]:
        """The outputs of the phases before this one, which are inputs of it."""
        names = [name for phase in self.program.phases[:-1] for name in phase.outputs]
        return {name: (self.all_inputs or self.inputs).properties[name] for name in names}

    def after(self, values: Mapping[str, NDArray[Any]], *, settled: bool) -> Problem:
        """Return the problem of the next phase.

        ``values``, ``settled``: the outputs of this one, and whether it has settled. Raises InvalidInput.
        """
        phase, *later = self.later
        before = self.all_inputs or self.inputs
        found = inputs_after(phase, self.graph, self.features, before, values)
        new = {name: one for name, one in found.properties.items() if name not in before.properties}
        made, new_hash = with_hash(read_only(Inputs(new)))
        every = Inputs(MappingProxyType({**before.properties, **made.properties}), before.parameters)
        inputs = inputs_of_phase(phase, every)
        check_inputs(phase, self.graph, self.features, inputs)
        return replace(
            self, program=phase, inputs=inputs, key=digest([self.key, phase.fingerprint, new_hash])[:32],
            max_supersteps=limits_of(phase, self.limit)[-1], later=tuple(later), all_inputs=every,
            unsettled=self.unsettled or (self.program.control.settles and not settled),
        )  # fmt: skip

    @property
    def validated(self) -> tuple[str, ...]:
        """The properties that validation needs."""
        kept = kept_properties(self.program) if self.by_residual else ()
        return tuple(dict.fromkeys((*self.program.outputs, *kept)))

    @property
    def answer_bytes(self) -> int:
        """The bytes of the properties that validation needs, in float32."""
        return self._bytes([self.program.properties[name] for name in self.validated])

    @property
    def state_bytes(self) -> int:
        """The bytes of all inputs and changing properties, in float32."""
        return self._bytes(self.program.properties.values())

    def _bytes(self, properties: Iterable[Property]) -> int:
        counts = {"vertex": self.graph.num_vertices, "edge": self.graph.num_edges, "graph": 1}
        return sum(4 * counts[prop.place] * math.prod(concrete(prop.shape, self.features)) for prop in properties)


def set_problem(
    cell: Cell, registry: Registry, report: ChildReport, phases: Phases, *, make_again: bool = False
) -> Problem:
    """Open the graph, trace the algorithm and make its inputs, each in a phase of its own.

    ``make_again``: make the inputs, even if they are in the cache.

    Raises GraphError, InvalidInput or LanguageError if they are unavailable or do not fit each other.
    """
    report.stage("open graph")
    with phases("open"):
        given = open_graph(registry.graph(cell.graph), cell.graph_parameters)
    report.stage("trace")
    algorithm: Algorithm = load(registry.algorithm(cell.algorithm).factory)(**cell.parameters)
    with phases("trace"):
        program = trace(algorithm)
    report.stage("inputs")
    with phases("inputs"):
        with authored(f"{algorithm.name}.prepare_graph", InvalidInput):
            graph = algorithm.prepare_graph(given)
        features = _features(cell, algorithm, graph)
        # A prepared graph is a function of the given one and the algorithm, so the hash of the given one suffices. The
        # code is that of the algorithm and the language, the same for every engine.
        maker = [cell.algorithm, cell.parameters, source_hash([registry.algorithm(cell.algorithm).factory])]
        key_parts = [maker, given.content_hash, features]

        def make() -> Inputs:
            return inputs_of(algorithm, program, graph, features)

        every, inputs_hash = with_hash(read_only(make())) if make_again else inputs_for(key_parts, make)
        note_checked(program.phases[0], every)  # before they were stored, or now
    max_supersteps = sum(limits_of(program, cell.max_supersteps))
    parts = [program.fingerprint, given.content_hash, maker, features, inputs_hash, max_supersteps]
    key = digest(parts)[:32]
    record_fields = {
        "features": features,
        "identity": identity(key, cell),
        "graph": {
            "name": graph.name,
            "vertices": graph.num_vertices,
            "edges": graph.num_edges,
            "content_hash": given.content_hash,
        },
        "program": {
            "fingerprint": program.fingerprint,
            "bound": max(phase.bound for phase in program.phases),
            "max_supersteps": max_supersteps,
        },
    }
    return first_phase(
        Problem(algorithm, program, given, graph, every, features, 0, key, record_fields, limit=cell.max_supersteps)
    )


def first_phase(problem: Problem) -> Problem:
    """Return the problem of the first phase of a problem that has the program and the inputs of all phases."""
    first, *later = problem.program.phases
    most = limits_of(problem.program, problem.limit)[0]
    if not later:
        return replace(problem, max_supersteps=most)
    inputs = inputs_of_phase(first, problem.inputs)
    return replace(
        problem, program=first, inputs=inputs, max_supersteps=most, later=tuple(later), all_inputs=problem.inputs
    )


def limits_of(program: Program, given: int | None) -> list[int]:
    """Return how many supersteps each phase of a program may run.

    ``given``: the requested limit; None: the program's own. It replaces the limit of a program of one phase. It lowers
    those of several phases, and raises none.
    """
    if program.earlier is None:
        return [given or program.max_supersteps]
    return [min(given or phase.max_supersteps, phase.max_supersteps) for phase in program.phases]


def identity(key: str, cell: Cell) -> str:
    """Return the hash of what is run: a problem, by its key, and how it is run."""
    return digest([key, cell.engine, cell.schedule, asdict(cell.device), cell.sources])[:32]


def inputs_of(algorithm: Algorithm, program: Program, graph: Graph, features: int) -> Inputs:
    """Return the inputs of a run, checked. Raises InvalidInput."""
    with authored(f"{algorithm.name}.inputs", InvalidInput):
        inputs = algorithm.inputs(graph, features)
    if program.phases[0].setup:
        inputs = with_results(program.phases[0], graph, features, inputs)
    check_given(program, graph, features, inputs)
    return inputs


def _features(cell: Cell, algorithm: Algorithm, graph: Graph) -> int:
    if cell.features is not None:
        return cell.features
    if type(algorithm).default_features is Algorithm.default_features:
        return 1
    with authored(f"{algorithm.name}.default_features", InvalidInput):
        features = algorithm.default_features(graph)
    if features is None:
        raise InvalidInput(
            f"algorithm {cell.algorithm!r} has no natural number of features on graph {graph.name!r}; set features=K"
        )
    if not 1 <= features <= MOST_FEATURES:
        raise InvalidInput(f"graph {graph.name!r} suggests features={features}; a program has 1 to {MOST_FEATURES}")
    return features
