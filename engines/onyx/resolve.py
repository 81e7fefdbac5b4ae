"""Onyx's schedule with every option filled in: pure functions of program, features, graph facts and device facts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harness.api import EdgeReduce, TeamShape

if TYPE_CHECKING:
    from engines.onyx.schedule import OnyxSchedule
    from harness.api import DeviceFacts, GraphFacts, Program

DENSE_SHARES = {"cpu": 0.1, "cuda": 0.01}  # visiting all edges costs a GPU far less per edge than following single ones
BLOCK_SIZE = 256  # threads
DENSE_DEGREE = 8  # average degree from which segments are the default
HUB_DEGREE = 1024  # in-degree from which one owner would delay all others, so that segments are the default


def resolve(
    schedule: OnyxSchedule, program: Program, features: int, graph: GraphFacts, device: DeviceFacts
) -> OnyxSchedule:
    """Return the schedule with every option that is None filled in; given options are kept.

    ``program``: lowered. On the CPU the options of ``OnyxSchedule.GPU_ONLY`` have no meaning and stay as they are.
    """
    share = DENSE_SHARES[device.kind] if schedule.dense_share is None else schedule.dense_share
    schedule = replace(schedule, dense_share=share)
    if device.kind == "cpu":
        return schedule
    return replace(
        schedule,
        pipeline=True if schedule.pipeline is None else schedule.pipeline,
        balance=schedule.balance or default_balance(schedule, program, graph),
        vector_width=schedule.vector_width or TeamShape.for_program(program, features, schedule.feature_aware).width,
        block_size=schedule.block_size or BLOCK_SIZE,
    )


def default_balance(schedule: OnyxSchedule, program: Program, graph: GraphFacts) -> str:
    """Return ``edge`` for push, and for pull where degrees are large on average or at a hub; else ``warp``.

    It is ``warp`` too where a thread loops over features, and for sums of matrices, which do not fit registers.
    """
    if not schedule.feature_aware or sums_matrices(program):
        return "warp"
    return "edge" if schedule.direction == "push" or not small_degrees(graph) else "warp"


def small_degrees(graph: GraphFacts) -> bool:
    """Return whether all vertices have few in-edges, on average and at most."""
    return graph.average_degree < DENSE_DEGREE and graph.max_in_degree < HUB_DEGREE


def sums_matrices(program: Program) -> bool:
    """Return whether an edge reduction adds up matrices."""
    return any(isinstance(stage, EdgeReduce) and len(stage.message.shape) == 2 for stage in program.stages)
