"""Choose the order of a schedule by estimates: ``order=auto``. A pure function of facts."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args, get_type_hints

from engines.lonestar.predict import Estimate, Model, estimates, shipped, table
from engines.lonestar.problem_facts import ProblemFacts
from engines.lonestar.schedule import LonestarSchedule
from harness.api import DeviceFacts, EdgeStep, GraphFacts, No, Program

FIGURES = "lonestar-2"  # the name of the figures in the cache; the number changes with the way of measuring


def orders() -> tuple[str, ...]:
    """Return every order that runs."""
    values: tuple[str, ...] = get_args(get_type_hints(LonestarSchedule)["order"])
    return tuple(order for order in values if order != "auto")


def unfit(program: Program, schedule: LonestarSchedule, graph: GraphFacts) -> str:
    """Return why the edges of a graph cannot run under a schedule; empty if they can."""
    if graph.self_loops and any(isinstance(stage, EdgeStep) for stage in program.stages):
        return f"{program.name} updates both ends of an edge, and the graph has self-loops"
    if schedule.of_sides and not graph.one_way:
        return f"order={schedule.order} needs a bipartite graph whose edges lead from its left to its right side"
    return ""


def candidates(program: Program, schedule: LonestarSchedule, graph: GraphFacts) -> list[str]:
    """Return the orders that can run a program on a graph under the other options of a schedule."""
    steps = [stage for stage in program.stages if isinstance(stage, EdgeStep)]
    given = any(step.order == "given" for step in steps)
    serial = any(step.conflicts == "serial" for step in steps)
    found = []
    for order in orders():
        variant = replace(schedule, order=order)
        if not variant.refusal(given=given, serial=serial) and not unfit(program, variant, graph):
            found.append(order)
    return found


def problem_of(program: Program, schedule: LonestarSchedule, graph: GraphFacts, features: int) -> ProblemFacts:
    """Return the numbers that estimates depend on."""
    blocks = schedule.block_rows, schedule.block_columns
    return ProblemFacts.of(graph, features, program.control.max_supersteps, nodes=schedule.nodes, blocks=blocks)


def estimated(
    program: Program, schedule: LonestarSchedule, graph: GraphFacts, features: int, device: DeviceFacts,
    model: Model | None = None,
) -> dict[str, Estimate]:  # fmt: skip
    """Return the estimate of every candidate, the one to take first. ``model``: None: that of the engine."""
    problem, figures = problem_of(program, schedule, graph, features), dict(device.figures)
    model = shipped(device.kind) if model is None else model
    return estimates(candidates(program, schedule, graph), problem, figures, model, device.name)


def chosen(
    program: Program, schedule: LonestarSchedule, graph: GraphFacts, features: int, device: DeviceFacts
) -> LonestarSchedule | No:
    """Return a schedule with the order to take, the estimates and what they come from; others as they are."""
    if schedule.estimates is not None or schedule.basis is not None:
        return No("schedule options estimates and basis are set by order=auto; leave them unset")
    if schedule.order != "auto":
        return schedule
    if not device.figures:
        return No(
            "order=auto chooses by figures that are measured on the device, and it has not been measured; give an order"
        )
    found = estimated(program, schedule, graph, features, device)
    if not found:
        return No(unfit(program, schedule, graph) or "no order runs the program under these options of the schedule")
    basis = {**dict(device.figures), **problem_of(program, schedule, graph, features).named()}
    return replace(
        schedule, order=next(iter(found)), estimates=tuple((order, one.cost) for order, one in found.items()),
        basis=tuple(basis.items()),
    )  # fmt: skip


def explained(
    program: Program, schedule: LonestarSchedule, graph: GraphFacts, features: int, device: DeviceFacts
) -> str:
    """Return the estimates of ``order=auto`` as text."""
    found = estimated(program, schedule, graph, features, device)
    return table(found, device.name, trained=shipped(device.kind).knows(device.name))
