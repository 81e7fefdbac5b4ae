"""A graph that changes between two runs: the problem after the change, and the cold run for comparison.

The changed graph is the one that the program runs on: derived data such as reverse edges and views are kept.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, cast

from harness.campaign.cell import Cell, Warm, digest
from harness.campaign.child_report import ChildReport
from harness.campaign.inputs_cache import read_only
from harness.campaign.measurement import Timing, answer_of, measure_engine, reset
from harness.campaign.problem import Problem, inputs_of
from harness.campaign.verdict import verdict
from harness.contract import Engine, Phases
from harness.graph.changes import Change, change_graph
from harness.language.monotone import OneWay, one_way
from harness.language.results_once import refuse_changed_graph
from harness.language.warm import inputs_after, kept_properties, warm_start
from harness.records.outcome import Outcome

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.campaign.guarded_engine import GuardedEngine
    from harness.graph import Graph
    from harness.language import Inputs

    Values = Mapping[str, NDArray[Any]]
    Posed = tuple[Graph, Inputs]


@dataclass(frozen=True)
class ColdRun:
    """Times of cold runs on the changed graph, and the answer of the last one."""

    timing: Timing
    values: Values


def changed_graph(problem: Problem, warm: Warm) -> Posed:
    """Return the changed graph and its inputs. Raises GraphError or InvalidInput if the change is impossible."""
    refuse_changed_graph(problem.program)
    graph = change_graph(problem.graph, warm.change, kind=cast("Change", warm.kind), seed=warm.seed)
    fresh = inputs_of(problem.algorithm, problem.program, graph, problem.features)
    return graph, inputs_after(problem.program, problem.inputs, fresh)


def changed_key(problem: Problem, warm: Warm) -> str:
    """Return the key of the changed problem."""
    return digest([problem.key, warm.change, warm.kind, warm.seed])[:32]


def run_before(engine: GuardedEngine, cell: Cell, problem: Problem, report: ChildReport) -> Values | None:
    """Return all state after a run on the current graph; None, with the outcome recorded, if it does not settle."""
    report.stage("run before the change")
    engine.prepare(problem.program, problem.graph, problem.features, cell.device, Phases())
    with engine.use.alone():
        reset(engine, problem.inputs)
        settled = engine.run(problem.max_supersteps).settled
    if not settled:
        report.end(Outcome.INVALID_INPUT, not_settled("the run before the change", problem))
        return None
    return answer_of(engine, kept_properties(problem.program))


def changed_problem(problem: Problem, warm: Warm, changed: Posed, values: Values) -> Problem:
    """Return the problem on the changed graph, to be started from the state of a run on the current one."""
    graph, inputs = changed[0], read_only(changed[1])
    fixed_points = problem.algorithm.fixed_points()
    start = warm_start(
        problem.program, problem.features, (problem.graph, problem.inputs), (graph, inputs), values,
        fixed_points=fixed_points,
    )  # fmt: skip
    several = fixed_points == "several" and not isinstance(one_way(problem.program), OneWay)
    key = changed_key(problem, warm)
    return replace(problem, graph=graph, inputs=inputs, key=key, start=start, by_residual=several)


def cold_run(engine: Engine, cell: Cell, problem: Problem, report: ChildReport) -> ColdRun:
    """Time cold runs on the changed graph."""
    report.stage("cold run")
    timing = measure_engine(engine, problem.inputs, problem.max_supersteps, cell.measure, Phases())
    return ColdRun(timing, answer_of(engine, problem.validated))


def compare_cold(cell: Cell, problem: Problem, cold: ColdRun, report: ChildReport, *, settled: bool) -> bool:
    """Validate the cold run, and record the ``warm`` field; ``settled``: whether the warm run has settled.

    Return False, with the outcome recorded, if one of the two has not settled or the cold answer is wrong.
    """
    report.stage("validate the cold run")
    for which, done in (("the cold run", cold.timing.statistics.settled), ("the warm run", settled)):
        if not done:
            report.end(Outcome.INVALID_INPUT, not_settled(which, problem))
            return False
    outcome, reason, fields = verdict(
        cell, problem, cold.values, settled=True, supersteps=len(cold.timing.statistics.supersteps)
    )
    if outcome is not Outcome.OK:
        report.end(outcome, f"the cold run: {reason}")
        return False
    warm, start = cell.warm, problem.start
    if warm is None or start is None:
        raise ValueError("a cold run is compared only if the cell requests a change and the problem has a warm start")
    plain = {
        "change": warm.change, "kind": warm.kind, "seed": warm.seed, "start": start.summary,
        "restarted": start.restarted, "vertices_reset": start.vertices_reset,
        "edges_examined": start.edges_examined, "cold": cold.timing.plain(),
        "cold_supersteps": cold.timing.supersteps(), "cold_validation": fields.get("validation"),
    }  # fmt: skip
    report.tell(warm=plain)
    return True


def not_settled(which: str, problem: Problem) -> str:
    """Return the message for a run that has not settled."""
    return (
        f"{which} has not settled in {problem.max_supersteps} supersteps; warm and cold answers are compared only "
        "if both have; raise the limit of supersteps, or choose a program that settles"
    )
