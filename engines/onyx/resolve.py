"""Onyx's schedule with every option filled in: pure functions of program, features, graph facts and device facts."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engines.onyx.direction_costs import Costs
from engines.onyx.estimates import following_share
from engines.onyx.expected_reads import share_of_pulls
from engines.onyx.policy import DEFAULT, Policy, small_degrees
from harness.api import EdgeReduce, EdgeUpdate, GraphReduce, K, change_driven, reads
from harness.api.directions import message_bound

FLOAT = 4  # bytes
UNTRACKED = "direction=adaptive pushes what changed while little does; give change_driven=true, or push or pull"

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
    if device.kind == "cuda" and schedule.edges == "streamed" and features >= policy.wide_features:
        schedule = replace(schedule, window_mb=schedule.window_mb or policy.wide_window_mb)
    schedule = directed(schedule.with_place(), program, features, graph, device, policy)
    if schedule.dense_share is None and schedule.direction == "adaptive":
        schedule = replace(schedule, **turning(schedule, program, features, graph, device, policy))
    if schedule.dense_share is None:
        share = round(following_share(graph, policy), 4) if device.kind == "cpu" else policy.dense_share_cuda
        schedule = replace(schedule, dense_share=share)
    if device.kind == "cpu":
        return schedule
    from harness.api.cuda import LaneGroupShape

    return replace(
        schedule,
        pipeline=True if schedule.pipeline is None else schedule.pipeline,
        balance=schedule.balance or default_balance(schedule, program, graph, policy),
        vector_width=schedule.vector_width
        or LaneGroupShape.for_program(program, features, schedule.feature_aware).width,
        block_size=schedule.block_size or policy.block_size,
        persistent=bool(schedule.persistent),
        bottom_up=not not_bottom_up(program, schedule) if schedule.bottom_up is None else schedule.bottom_up,
    )


def turning(
    schedule: OnyxSchedule,
    program: Program,
    features: int,
    graph: GraphFacts,
    device: DeviceFacts,
    policy: Policy = DEFAULT,
) -> dict[str, Any]:
    """Return the share from which *adaptive* pulls, and whether it is fitted or estimated, as options.

    It is estimated if that is given, and on a CPU whose figures are known unless *fitted* is given.
    """
    estimated = schedule.share_by == "estimated" or (schedule.share_by is None and device.kind == "cpu")
    if device.figures and estimated:
        share = round(Costs.of(program, features, graph, dict(device.figures)).turn, 2)
        return {"dense_share": share, "share_by": "estimated"}
    if device.kind == "cuda":
        skips = not not_bottom_up(program, schedule) if schedule.bottom_up is None else schedule.bottom_up
        share = share_of_pulls(program, graph, features, *policy.bottom_up_costs) if skips else None
        fitted = policy.adaptive_shares[bool(sums(program))]
        return {"dense_share": fitted if share is None else share, "share_by": "fitted"}
    pushes = features < policy.adaptive_row_cpu and along_paths(program)
    return {"dense_share": 1.0 if pushes else policy.adaptive_share_cpu, "share_by": "fitted"}


def directed(
    schedule: OnyxSchedule,
    program: Program,
    features: int,
    graph: GraphFacts,
    device: DeviceFacts,
    policy: Policy = DEFAULT,
) -> OnyxSchedule:
    """Return the schedule with its direction, and whether it follows changes, filled in; ``program``: lowered.

    On a GPU ``balance`` and ``persistent`` are chosen with them for most graphs (:func:`measured_choice`).

    On the CPU changes are pushed if they travel along paths, so that few vertices move in a superstep: extrema of
    messages that are not simply a source's value (BFS, SSSP). BFS and SSSP with 1 and 8 features on Luxembourg, a grid
    and a Delaunay graph took 1.1 to 2.0 times as long when pulled (one thread, 25 November 2026). With four features or
    more, and in other programs whose accumulators are exact, supersteps push or pull (:func:`switches`).
    """
    if device.kind == "cuda":
        schedule = measured_choice(schedule, program, features, graph, policy)
    if schedule.change_driven is None:
        followed = not program.names_vertices and follows(schedule, program, features, graph, device, policy)
        schedule = replace(schedule, change_driven=followed)
    if schedule.direction is not None:
        return schedule
    followed = device.kind == "cpu" and bool(schedule.change_driven)
    if followed and switches(schedule, program, features, graph, policy):
        return replace(schedule, direction="adaptive", share_by=schedule.share_by or "fitted")
    return replace(schedule, direction="push" if followed and along_paths(program) else "pull")


def switches(
    schedule: OnyxSchedule, program: Program, features: int, graph: GraphFacts, policy: Policy = DEFAULT
) -> bool:
    """Return whether supersteps on the CPU push or pull by default.

    They do in programs whose kept accumulators are exact, extrema or sums of small integers, if edges are in memory and
    no share is given; not along paths with few features, where pushing was faster.
    """
    if schedule.dense_share is not None or schedule.edges not in (None, "resident"):
        return False
    forms = change_driven(program)
    if isinstance(forms, str) or not adapts(program) or (features < policy.adaptive_row_cpu and along_paths(program)):
        return False
    from harness.api.cpu import KeptAccumulators

    kept = KeptAccumulators.of(program, graph, forms, 1)
    return kept.extrema or kept.whole is not None


def follows(
    schedule: OnyxSchedule,
    program: Program,
    features: int,
    graph: GraphFacts,
    device: DeviceFacts,
    policy: Policy = DEFAULT,
) -> bool:
    """Return whether changes are followed by default.

    They are, except on the CPU on graphs of few edges, if neither a direction nor a share of edges to follow is given.
    Along paths fewer edges suffice, since few vertices move in a superstep. For a GPU :func:`measured_choice` decides
    first.
    """
    given = schedule.direction is not None or schedule.dense_share is not None
    resident = schedule.edges in (None, "resident")
    work = graph.num_edges * max(1.0, features / 8)
    fewest = policy.fewest_followed[not along_paths(program)]
    return given or device.kind != "cpu" or not resident or work >= fewest


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
    edges that are streamed or cached in parts with whole rows.
    """
    if not schedule.feature_aware or sums_matrices(program) or schedule.in_parts:
        return "warp"
    return "edge" if schedule.direction != "pull" or not small_degrees(graph, policy) else "warp"


def measured_choice(
    schedule: OnyxSchedule, program: Program, features: int, graph: GraphFacts, policy: Policy
) -> OnyxSchedule:
    """Return the schedule that was fastest on measured graphs of this kind; unchanged if an option is given.

    In most cold runs all edges are visited: following changes takes more launches, and most vertices move. One launch
    runs all supersteps, because a superstep often takes about as long as its launches. What differs is who reads the
    edges of a vertex. Owners pull, and warps and blocks own vertices of many edges; tiles of edges are better if rows
    are long, degrees differ and there is much work, and if edges are updated and degrees differ. On larger graphs whose
    degrees differ, supersteps push what changed or pull over all edges (*adaptive*), unless values of the whole graph
    change, which every vertex reads. They push the edges of hubs in parts; sums of matrices or of long rows, which need
    many registers in a single kernel of all steps, have launches of their own. On graphs of small degrees BFS and SSSP,
    in which few vertices move at once, push.

    The measurements are in :class:`engines.onyx.policy.Policy`. What was not among them is left as it is: more edges or
    features, sums of k x k matrices, and runs whose edges are not resident. So are most sums of several features that
    settle within a tolerance on large graphs of small degrees: visiting all edges took 0.6 to 2.7 times as long. Rows
    of many features are pushed if something is reduced over the graph: its value moves all vertices, and a pull then
    recomputes them all.
    """
    given = (schedule.direction, schedule.change_driven, schedule.balance, schedule.persistent, schedule.dense_share)
    usual = schedule.feature_aware and schedule.fold and schedule.edges in (None, "resident")
    squares = any(isinstance(stage, EdgeReduce) and stage.message.shape == (K, K) for stage in program.stages)
    measured = graph.num_edges < policy.measured_edges and features <= policy.measured_features and not squares
    if any(option is not None for option in given) or not usual or not measured:
        return schedule
    floats, large = graph.num_edges * features, graph.num_edges >= policy.large_graph
    skewed = graph.max_in_degree >= policy.skewed_degree
    if skewed and graph.num_edges >= policy.adaptive_edges and adapts(program):
        launched = longest_sum(program, features) >= policy.launched_features[sums_matrices(program)]
        return replace(schedule, direction="adaptive", change_driven=True, balance="parts", persistent=not launched)
    if large and not skewed and along_paths(program):
        return replace(schedule, direction="push", change_driven=True, balance="warp", persistent=True)
    if large and not skewed and features >= policy.local_features and program.control.tolerance is not None:
        if features >= policy.pushed_features and sums_with_a_value_of_the_graph(program):
            return replace(schedule, direction="push", change_driven=True, balance="edge", persistent=False)
        return schedule
    short = features <= policy.short_row or floats < policy.owned_floats
    one_launch = skewed or (short and graph.num_vertices < policy.launched_vertices)
    updates = any(isinstance(stage, EdgeUpdate) for stage in program.stages)
    tiled = skewed and (updates or not short) and not sums_matrices(program)
    return replace(
        schedule, direction="pull", change_driven=False, balance="edge" if tiled else "warp", persistent=one_launch
    )


def sums_with_a_value_of_the_graph(program: Program) -> bool:
    """Return whether changes of sums can be pushed, and something is reduced over the graph, as in PageRank."""
    forms = change_driven(program)
    if program.names_vertices or not forms or isinstance(forms, str):
        return False
    reducers = {stage.reducer for stage in program.stages if isinstance(stage, EdgeReduce)}
    return reducers == {"sum"} and any(isinstance(stage, GraphReduce) for stage in program.stages)


def adapts(program: Program) -> bool:
    """Return whether supersteps may push or pull, and no value changes that every vertex of the graph reads."""
    if program.names_vertices or any(isinstance(stage, GraphReduce) for stage in program.stages):
        return False
    forms = change_driven(program)
    return bool(forms) and not isinstance(forms, str) and not not_adaptive(program)


def not_adaptive(program: Program) -> str:
    """Return why supersteps of a program cannot choose their direction; empty if they can."""
    for stage in program.stages:
        if isinstance(stage, EdgeUpdate) or any(space == "reverse" for space, _ in reads(stage)):
            return f"direction=adaptive: {stage.name} reads or updates edges that change; give push or pull"
    return ""


def not_bottom_up(program: Program, schedule: OnyxSchedule) -> str:
    """Return why pulls have to read all edges; empty if they may skip edges that improve no vertex.

    ``schedule``: with its direction.
    """
    if schedule.direction != "adaptive":
        return "bottom_up=true is built for the pulls of direction=adaptive; give that, or leave bottom_up unset"
    bound = message_bound(program)
    return f"bottom_up=true: {bound}; leave it unset" if isinstance(bound, str) else ""


def sums(program: Program) -> list[EdgeReduce]:
    """Return the edge reductions that add."""
    return [stage for stage in program.stages if isinstance(stage, EdgeReduce) and stage.reducer == "sum"]


def longest_sum(program: Program, features: int) -> int:
    """Return the numbers in the longest row that an edge reduction adds; 0 if none adds."""
    from harness.api.cuda import DeviceLayout

    layout = DeviceLayout(features)
    return max(((1, *layout.dims(stage.message.shape))[-1] for stage in sums(program)), default=0)


def sums_matrices(program: Program) -> bool:
    """Return whether an edge reduction sums matrices."""
    return any(isinstance(stage, EdgeReduce) and len(stage.message.shape) == 2 for stage in program.stages)
