"""Onyx's schedule with every option filled in: pure functions of program, features, graph facts and device facts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engines.onyx.estimates import following_share
from engines.onyx.policy import DEFAULT, Policy, small_degrees
from harness.api import EdgeReduce, EdgeUpdate, GraphReduce, K, change_driven

FLOAT = 4  # bytes

if TYPE_CHECKING:
    from engines.onyx.schedule import OnyxSchedule
    from harness.api import DeviceFacts, GraphFacts, Program


def resolve(
    schedule: OnyxSchedule,
    program: Program,
    features: int,
    graph: GraphFacts,
    device: DeviceFacts,
    policy: Policy = DEFAULT,
) -> OnyxSchedule:
    """Return the schedule with every option that is None filled in; given options are kept.

    ``program``: lowered. On the CPU the options of ``OnyxSchedule.GPU_ONLY`` do not apply and stay as they are.
    """
    schedule = directed(schedule.with_place(), program, features, graph, device, policy)
    if schedule.dense_share is None:
        on_cpu = device.kind == "cpu"
        share = round(following_share(graph, policy), 4) if on_cpu else policy.dense_share_cuda
        schedule = replace(schedule, dense_share=share)
    if device.kind == "cpu":
        return schedule
    from harness.api.cuda import TeamShape

    return replace(
        schedule,
        pipeline=True if schedule.pipeline is None else schedule.pipeline,
        balance=schedule.balance or default_balance(schedule, program, graph, policy),
        vector_width=schedule.vector_width or TeamShape.for_program(program, features, schedule.feature_aware).width,
        block_size=schedule.block_size or policy.block_size,
        persistent=bool(schedule.persistent),
    )


def directed(
    schedule: OnyxSchedule,
    program: Program,
    features: int,
    graph: GraphFacts,
    device: DeviceFacts,
    policy: Policy = DEFAULT,
) -> OnyxSchedule:
    """Return the schedule with its direction, and whether it follows changes, filled in; ``program``: lowered.

    For graphs of few edges on a GPU ``balance`` and ``persistent`` are chosen with them (:func:`for_few_edges`).

    On the CPU changes are pushed if they travel along paths, so that few vertices move in a superstep: extrema of
    messages that are not simply a source's value (BFS, SSSP). BFS and SSSP with 1 and 8 features on Luxembourg, a grid
    and a Delaunay graph took 1.1 to 2.0 times as long when pulled (one thread, 25 November 2026). Components took 0.5
    to 1.5 times as long.
    """
    if device.kind == "cuda":
        schedule = for_few_edges(schedule, program, features, graph, policy)
    if schedule.change_driven is None:
        schedule = replace(schedule, change_driven=follows(schedule, features, graph, device, policy))
    if schedule.direction is not None:
        return schedule
    pushes = device.kind == "cpu" and bool(schedule.change_driven) and along_paths(program)
    return replace(schedule, direction="push" if pushes else "pull")


def follows(
    schedule: OnyxSchedule, features: int, graph: GraphFacts, device: DeviceFacts, policy: Policy = DEFAULT
) -> bool:
    """Return whether changes are followed by default.

    They are, except on the CPU on graphs of few edges, if neither a direction nor a share of edges to follow is given.
    For a GPU :func:`for_few_edges` decides first.
    """
    given = schedule.direction is not None or schedule.dense_share is not None
    resident = schedule.edges in (None, "resident")
    work = graph.num_edges * max(1.0, features / 8)
    return given or device.kind != "cpu" or not resident or work >= policy.fewest_followed


def along_paths(program: Program) -> bool:
    """Return whether all reductions are extrema of messages that change the value of their source."""
    forms = change_driven(program)
    return (
        bool(forms)
        and not isinstance(forms, str)
        and program.control.tolerance is None
        and all(form.kind == "monotone" and form.message.op != "read" for form in forms)
    )


def far_rows(graph: GraphFacts, features: int, device: DeviceFacts, policy: Policy) -> bool:
    """Return whether the rows of many sources are not in a core's cache when a gather on the CPU reads them.

    They are not if all rows are larger than the cache, and the numbers of many sources are far from the number of their
    destination.
    """
    row = FLOAT * features
    fits = graph.num_vertices * row <= device.cache_bytes
    return not fits and 1 - graph.spans.within(device.cache_bytes / row) >= policy.far_share


def default_balance(schedule: OnyxSchedule, program: Program, graph: GraphFacts, policy: Policy) -> str:
    """Return ``edge`` for push, and for pull if degrees are large on average or at a hub; else ``warp``.

    It is also ``warp`` if a thread loops over features, for sums of matrices, which do not fit in registers, and for
    streamed edges, whose windows have whole rows.
    """
    if not schedule.feature_aware or sums_matrices(program) or schedule.edges == "streamed":
        return "warp"
    return "edge" if schedule.direction == "push" or not small_degrees(graph, policy) else "warp"


def for_few_edges(
    schedule: OnyxSchedule, program: Program, features: int, graph: GraphFacts, policy: Policy
) -> OnyxSchedule:
    """Return the schedule for a graph of few edges on a GPU; unchanged for other graphs, and if an option is given.

    A superstep over few edges takes about as long as its launches, and following changes needs more of them. So all
    edges are visited, and one launch runs all supersteps. If degrees are small everywhere, owners of vertices pull.
    Otherwise a vertex with many edges would delay its owner, and tiles of edges are used: a push of extrema along
    paths, in which few vertices move at once, and a pull of everything else but sums of matrices, which need owners.
    The measurements are in :class:`engines.onyx.policy.Policy`. What was not among them is left as it is: more than 64
    features, sums of k x k matrices, and extrema along paths with many edges times features and small degrees.
    """
    given = (schedule.direction, schedule.change_driven, schedule.balance, schedule.persistent, schedule.dense_share)
    usual = schedule.feature_aware and schedule.fold and schedule.edges in (None, "resident")
    squares = any(isinstance(stage, EdgeReduce) and stage.message.shape == (K, K) for stage in program.stages)
    few = graph.num_edges < policy.few_edges_cuda and features <= policy.most_features and not squares
    if any(option is not None for option in given) or not usual or not few:
        return schedule
    work, paths = graph.num_edges * features, along_paths(program)
    skewed = graph.max_in_degree >= policy.skewed_degree
    if paths and not skewed and work >= policy.owned_floats:
        return schedule
    all_edges = replace(schedule, direction="pull", change_driven=False, balance="warp", persistent=True)
    owned = features >= policy.long_row and work < policy.owned_floats and not paths
    if not skewed or owned or sums_matrices(program):
        return all_edges
    if paths:
        return replace(all_edges, direction="push", balance="edge", change_driven=work >= policy.followed_floats)
    return replace(all_edges, balance="edge", persistent=not few_launches(program))


def few_launches(program: Program) -> bool:
    """Return whether a superstep needs few launches: one pass over the edges, none over the graph, and rare tests.

    A tolerance is tested in every fourth superstep. A program that settles without one finds out in every superstep
    whether a value moved.
    """
    over_edges = [stage for stage in program.stages if isinstance(stage, EdgeReduce)]
    others = any(isinstance(stage, EdgeUpdate | GraphReduce) for stage in program.stages)
    rare = program.control.tolerance is not None or not program.control.settles
    return len(over_edges) == 1 and not others and rare


def sums_matrices(program: Program) -> bool:
    """Return whether an edge reduction sums matrices."""
    return any(isinstance(stage, EdgeReduce) and len(stage.message.shape) == 2 for stage in program.stages)
