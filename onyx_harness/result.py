"""The result of one run in this process: answers, statistics, times, and the record."""

from __future__ import annotations

import datetime as dt
from collections.abc import Hashable, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from numpy.typing import NDArray

from harness.campaign.cell import Cell, digest, load
from harness.campaign.engine_checks import checked_metrics
from harness.campaign.guarded_engine import GuardedEngine
from harness.campaign.inputs_cache import with_hash
from harness.campaign.problem import Problem, identity, limits_of
from harness.campaign.resolution import Resolution
from harness.contract import EngineSpec, RunStatistics, Yes, schedule_from_options
from harness.language import Inputs, K
from harness.plugins import closest
from harness.records import SCHEMA_VERSION
from harness.records.outcome import Outcome
from harness.report.units import seconds
from harness.supersteps import choices_of
from onyx_harness.arrays import LIBRARIES, as_library, host_copy, require
from onyx_harness.graphs import NamedGraph
from onyx_harness.inputs import on_host


@dataclass(frozen=True, eq=False, repr=False)
class Result:
    """The result of `onyx_harness.run`.

    graph: the given graph with its vertex names. answers: every output by name, float32 (or bool) of shape ``[V, ...]``
    for a vertex property, ``[E, ...]`` in CSR order for an edge property; the axes follow the declaration, such as
    ``[V, k]``. They are arrays of the library that ``run(array=...)`` names; those on a device are there as long as
    something refers to them. statistics: every superstep with its active vertices, edges visited and direction.
    seconds: wall-clock seconds by phase; ``solve`` is the engine's run, without warm-up or repetition. schedule: every
    option that had a meaning, as the engine resolved it. validation: the comparison with the float64 reference; None:
    not requested.
    """

    graph: NamedGraph
    answers: Mapping[str, Any]
    statistics: RunStatistics
    seconds: Mapping[str, float]
    schedule: Mapping[str, Any]
    validation: Mapping[str, Any] | None
    _spec: EngineSpec
    _cell: Cell
    _problem: Problem
    _resolution: Resolution | None
    _needed: Yes
    _started: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC))

    def answer(self, name: str | None = None, *, array: str | None = None, squeeze: bool = False) -> Any:
        """Return one output in the graph's vertex order, such as float32[V, k].

        name: may be omitted if there is only one. array: "numpy", "cupy" or "torch"; None: as given to `run`. The
        memory is shared, but "numpy" copies an answer on a device to the host. squeeze: omit the axes of k if k is 1,
        so that float32[V, 1] becomes float32[V].

        Raises KeyError, with the outputs, for another name; ValueError for an unknown library, and for "cupy" if the
        answer is in host memory; ImportError if the library is missing.
        """
        name = self._output(name)
        values = self.answers[name]
        if array is not None:
            if array not in LIBRARIES:
                raise ValueError(f"array is {array!r}; it must be one of {', '.join(LIBRARIES)}")
            require(array, f"array={array!r}")
            values = as_library(values, array)
        if squeeze and self._problem.features == 1:
            declared = self._problem.program.answers[name].shape
            first = len(values.shape) - len(declared)  # the axis of vertices or edges
            sizes = [size for size, dim in zip(values.shape[first:], declared, strict=True) if dim is not K]
            values = values.reshape((*values.shape[:first], *sizes))
        return values

    def by_vertex(self, name: str | None = None) -> dict[Hashable, Any]:
        """Return one output by vertex name: networkx nodes, the ids of a file or frame, or 0 to V - 1.

        An entry with one element is a Python number, others are NumPy arrays, such as float32[k]. Raises KeyError for
        an unknown output, ValueError for one that is not a value of the given graph's vertices, GraphError for vertices
        of the same name.
        """
        name = self._output(name)
        values, place = self._hosted[name], self._problem.program.answers[name].place
        if place != "vertex" or len(values) != self.graph.graph.num_vertices:
            raise ValueError(f"{name!r} has no value for each vertex of the graph ({place} property); use answer()")
        return self.graph.by_vertex(values)

    @cached_property
    def _hosted(self) -> dict[str, NDArray[Any]]:
        """The answers in host memory; those on a device are copied at the first use."""
        return {name: host_copy(values) for name, values in self.answers.items()}

    @property
    def supersteps(self) -> int:
        """Number of supersteps; 0 if the engine solves the whole problem and counts none."""
        return len(self.statistics.supersteps)

    @property
    def edges_visited(self) -> int:
        """Edges visited, summed over all supersteps."""
        return self.statistics.edges

    @property
    def settled(self) -> bool | None:
        """True if the run converged by the program's own criterion; None: it has a fixed number of supersteps."""
        can_settle = any(phase.control.settles for phase in self._problem.program.phases)
        return self.statistics.settled if can_settle else None

    @cached_property
    def metrics(self) -> dict[str, float]:
        """Measures of the answer's quality for the task, such as accuracy; empty if the algorithm has none."""
        algorithm = self._problem.algorithm
        if algorithm.rated_when_settled and not self.settled:
            return {}
        return checked_metrics(algorithm.metrics(self._problem.given, self._hosted))

    def explain(self) -> str:
        """Return the program, its analysis, the schedule and the generated code of this run."""
        from harness.language.explain import explain_program

        problem = self._problem
        schedule = schedule_from_options(self._spec, self._cell.schedule)
        changed = "" if self._resolution is None else f"resolved: {self._resolution}\n"
        parts = []
        for phase in problem.program.phases:
            with closing(GuardedEngine(load(self._spec.factory)(schedule))) as engine:
                engine.generate(phase, problem.graph, problem.features, self._cell.device)
                parts.append(f"{explain_program(phase)}\n\n{changed}{engine.explain()}")
        return "\n\n".join(parts)

    @cached_property
    def record(self) -> dict[str, Any]:
        """The run as plain data with the fields of a record (docs/record-schema.json).

        ``solve`` has one sample and no interval. ``sweep`` and ``sources`` are empty: the run belongs to no sweep, and
        only isolated runs are comparable.
        """
        from harness.campaign.environment import environment
        from harness.records.record_digest import signed

        cell, problem = self._cell, self._problem
        solve = self.seconds["solve"]
        plain = cell.plain()
        config = {name: value for name, value in plain.items() if name not in ("labels", "sources", "graph_sources")}
        return signed({
            "schema": SCHEMA_VERSION,
            "sweep": "",
            "cell": digest(cell.requested())[:24],
            "identity": identity(self._key(), cell),
            "round": 1,
            "outcome": Outcome.OK.value,
            "reason": "",
            "stage": "download",
            "started": self._started.isoformat(timespec="seconds"),
            "seconds": sum(self.seconds.values()),
            "config": config,
            "labels": cell.labels,
            "features": problem.features,
            "seeds": {"algorithm.seed": seed} if isinstance(seed := cell.parameters.get("seed"), int) else {},
            "sources": "",
            "graph": {
                "name": problem.graph.name,
                "vertices": problem.graph.num_vertices,
                "edges": problem.graph.num_edges,
                "content_hash": problem.given.content_hash,
            },
            "program": {
                "fingerprint": problem.program.fingerprint,
                "bound": max(phase.bound for phase in problem.program.phases),
                "max_supersteps": sum(limits_of(problem.program, problem.limit)),
            },
            "schedule": dict(self.schedule),
            "resolution": None if self._resolution is None else self._resolution.plain(),
            "bytes_needed": self._needed.bytes_needed,
            "host_bytes": self._needed.host_bytes,
            "phases": {name: seconds for name, seconds in self.seconds.items() if name != "solve"},
            "solve": {
                "samples": [solve], "median": solve, "low": solve, "high": solve, "minimum": solve, "confidence": 0.0,
                "stopped": "count", "rounds": None,
            },
            "marks": [],
            "settled": self.settled,
            "supersteps": [[step.active, step.edges, step.direction] for step in self.statistics.supersteps],
            "validation": None if self.validation is None else dict(self.validation),
            "accuracy": None,
            "warm": None,
            "memory": None,
            "floor": None,
            "metrics": self.metrics,
            "metrics_by_superstep": {},
            "lost_updates": None,
            "transfers": None if (moved := self.statistics.transfers) is None else moved.plain(),
            "link": None,
            "choices": choices_of(self.statistics.supersteps),
            "artefacts": [],
            "environment": {**environment(), "threads": cell.device.threads},
            "output": "",
        })  # fmt: skip

    def _output(self, name: str | None) -> str:
        if name is None and len(self.answers) == 1:
            return next(iter(self.answers))
        if name is None or name not in self.answers:
            met = "several outputs; name one" if name is None else f"no output {name!r}{closest(name, self.answers)}"
            raise KeyError(f"{self._cell.algorithm} has {met} (it has: {', '.join(self.answers)})")
        return name

    def _key(self) -> str:
        """Return a hash of everything that the answer depends on, apart from the code."""
        problem = self._problem
        every = problem.all_inputs or problem.inputs
        made = {name for phase in problem.program.phases[:-1] for name in phase.outputs}
        given = Inputs({name: one for name, one in every.properties.items() if name not in made}, every.parameters)
        most = sum(limits_of(problem.program, problem.limit))
        request = [problem.features, most, with_hash(on_host(given))[1]]
        return digest([problem.program.fingerprint, problem.given.content_hash, *request])[:32]

    def __repr__(self) -> str:
        graph, cell = self.graph.graph, self._cell
        ended = {True: "settled after ", False: "not settled after ", None: ""}[self.settled]
        work = f"{ended}{self.supersteps} supersteps, {self.edges_visited:,} edges visited"
        if self.settled and not self.supersteps:
            work = "settled; the engine counts no supersteps"
        types = {name: str(values.dtype).removeprefix("torch.") for name, values in self.answers.items()}
        answers = ", ".join(f"{name} {types[name]}{list(values.shape)}" for name, values in self.answers.items())
        notable = {name: value for name, value in self.seconds.items() if value >= 5e-5}
        times = ", ".join(f"{name} {seconds(value)}" for name, value in notable.items())
        checked = "" if self.validation is None else f"\n  checked against {self.validation['against']}"
        return (
            f"Result: {cell.labels['algorithm']} on {graph.name!r} ({graph.num_vertices:,} vertices, "
            f"{graph.num_edges:,} edges), k = {self._problem.features}, {cell.labels['engine']} on {cell.device.kind}\n"
            f"  answers: {answers}\n"
            f"  {work}\n"
            f"  times: {times}{checked}"
        )
