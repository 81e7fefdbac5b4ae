"""The order of a run by estimated times: supersteps over all active vertices, or another. A pure function.

Paths may be found by near-far, and components by hooking. With S supersteps, E edges, V vertices and k features a run
on a GPU is estimated to take

    supersteps = launch + S * step + visits * (edge + (k - 1) * feature) + V * flood
    near_far   = launch + S * step + E * k * visits * edge
    hooking    = launches + min(V, most) * vertex + V * k * value

with the times of :class:`engines.onyx.policy.Policy`, which are not the same in the three lines. ``flood`` is 0 but in
components, in which every vertex moves several times. The supersteps of
:func:`engines.onyx.resolve.measured_choice` visit all edges, S * E, in one plan, and about E in plans that follow
changes. Edges of near-far take longer, since none is skipped and features do not share them. It visits them once if
messages read no inputs of edges, and else more often. Its steps take less time if they have few edges, E * k / S, for
one block then sends them. In a large graph most vertices find themselves in the largest tree, so that only the first
``most`` vertices take the time of one. On a GPU supersteps are preferred if the other order is estimated to save less
than a tenth, because they can be counted.

On a CPU with T threads it is estimated to take

    supersteps = S * step + visits * (edge + (k - 1) * feature) / T
    near_far   = start + k * (V * vertex + E * edge) / min(T, k)
    hooking    = start + (V * vertex + E * edge) / T

since a thread finds the values of one feature after the other. Near-far on a CPU has no time of a step, because one
thread needs no barrier, and starts no threads for one feature.

S cannot be known before the run. It is estimated from the degrees. In a random graph with these degrees, 1 + ln(V / z1)
/ ln(z2 / z1) is the typical distance, where vertices have z1 neighbours and z2 second neighbours on average (Newman,
Strogatz and Watts 2001, *Random graphs with arbitrary degree distributions and their applications*). In a
graph whose edges join vertices at random, the variance of the degrees is at least their mean, as in Poisson's
distribution. If it is less in both directions, by more than four standard errors of V samples, edges are taken to join
places that are near to each other, as in roads and meshes. S is then the root of V, as in a plane; the third root if
the mean degree is more than 6, which no planar graph has. No fitted threshold divides these graphs. The features of
such a graph, whose searches begin at different places, do not share the edges that they visit if changes are followed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engines.onyx.hooking import LEAST_EDGES, Flood, hooking_refusal
from engines.onyx.policy import DEFAULT, Policy
from engines.onyx.resolve import along_paths, follows, measured_choice
from engines.onyx.schedule import ADAPTIVE, NEAR_FAR, SUPERSTEPS
from harness.api.directions import PriorityOrder, near_far_refusal, priority_order

if TYPE_CHECKING:
    from engines.onyx.schedule import OnyxSchedule
    from harness.api import DeviceFacts, GraphFacts, Program
    from harness.api.cuda import Degrees

HOOKING = "hooking"  # in estimates; the option of a schedule is hooking=true
STANDARD_ERRORS = 4  # of a variance of Poisson's distribution: the root of (2 + 1 / mean) / V, relative to it
PLANAR_DEGREE = 6  # stored edges of a vertex, on average, are fewer in a planar graph (Euler)


@dataclass(frozen=True)
class OrderChoice:
    """The order of a run, the reason, and the estimated seconds of each order; none if only one can run."""

    order: str
    reason: str
    estimates: tuple[tuple[str, float], ...] = ()

    def options(self) -> dict[str, object]:
        """Return the entries of a record."""
        estimated = {"order_estimates": self.estimates} if self.estimates else {}
        order = {} if self.order == HOOKING else {"order": self.order}
        return {**order, "order_reason": self.reason, **estimated}

    def under(self, schedule: OnyxSchedule) -> OnyxSchedule:
        """Return the schedule with this order."""
        if self.order == HOOKING:
            return replace(schedule, order=None, hooking=True)
        return replace(schedule, order=self.order)

    @property
    def line(self) -> str:
        """The line of ``explain``."""
        return f"order: {self.order}, chosen by the engine: {self.reason}"


@dataclass(frozen=True)
class Expected:
    """The expected number of supersteps of a search, at least 1, and what it is based on.

    ``near``: edges are taken to join places that are near to each other.
    """

    steps: float
    reason: str
    near: bool


def chosen_order(
    schedule: OnyxSchedule,
    program: Program,
    graph: GraphFacts,
    features: int,
    device: DeviceFacts,
    policy: Policy = DEFAULT,
) -> OrderChoice | None:
    """Return the order that a schedule leaves to the engine; None if it does not.

    It does so with ``order=adaptive``, and for programs of paths and components if all other options have their
    defaults. A schedule does not say which options were given, so that one with its default value counts as not given.
    """
    left = schedule.order is None and not schedule.others_than("order")
    if schedule.order != ADAPTIVE and not left:
        return None
    other = other_order(program)
    if left and not other:
        return None
    reason = unfit(program, other, graph, features, device, policy)
    if reason:
        return OrderChoice(SUPERSTEPS, reason)
    expected = expected_supersteps(graph)
    if device.kind == "cuda":
        found = {
            SUPERSTEPS: by_supersteps(schedule, program, expected, graph, features, policy),
            other: without_supersteps(other, program, expected.steps, graph, features, policy),
        }
    else:
        found = {
            SUPERSTEPS: supersteps_on_cpu(schedule, program, expected, graph, features, device, policy),
            other: without_supersteps_on_cpu(other, graph, features, device, policy),
        }
    gain = policy.order_gain if device.kind == "cuda" else 1.0
    order = other if found[other] < gain * found[SUPERSTEPS] else SUPERSTEPS
    times = ", ".join(f"{name} {1e3 * seconds:.3g} ms" for name, seconds in found.items())
    why = f"{expected.reason}; about {expected.steps:,.0f} supersteps; estimated: {times}"
    return OrderChoice(order, why, tuple(found.items()))


def other_order(program: Program) -> str:
    """Return the order of a program other than supersteps, by its form; empty if there is none."""
    if isinstance(Flood.of(program), Flood):
        return HOOKING
    return NEAR_FAR if isinstance(priority_order(program), PriorityOrder) else ""


def unfit(
    program: Program, other: str, graph: GraphFacts, features: int, device: DeviceFacts, policy: Policy
) -> str:  # fmt: skip
    """Return why the order of a run is not chosen by estimates but is supersteps; empty if it is.

    ``other``: the other order of the program.
    """
    if other == HOOKING:
        refused = hooking_refusal(program, graph)
    elif device.kind == "cuda":
        from harness.api.cuda import not_near_far

        refused = not_near_far(program, graph.num_vertices, features)
    else:
        refused = near_far_refusal(program, graph.num_vertices, features)
    if refused:
        return refused
    if other == NEAR_FAR and not along_paths(program):
        return "messages are the values of their sources, of which near-far sends many more than once"
    most = policy.order_features[device.kind == "cuda"]
    return "" if features <= most else f"orders were compared with up to {most} features"


def expected_supersteps(graph: GraphFacts) -> Expected:
    """Return the expected number of supersteps of a search."""
    spread = max(dispersion(graph.in_degrees), dispersion(graph.out_degrees))
    mean, vertices = max(1e-9, graph.average_degree), max(1, graph.num_vertices)
    if spread < 1 - STANDARD_ERRORS * math.sqrt((2 + 1 / mean) / vertices):
        planar = mean <= PLANAR_DEGREE
        kind = "a plane" if planar else "space"
        why = f"degrees differ less than at random (variance / mean {spread:.2g}), as in {kind}"
        return Expected(vertices ** (1 / 2 if planar else 1 / 3), why, near=True)
    growth = second_neighbours(graph.out_degrees) / mean
    steps = 1 + math.log(max(1.0, vertices / mean)) / math.log(growth) if growth > 1 else float(vertices)
    why = f"degrees differ as at random or more (variance / mean {spread:.2g})"
    return Expected(min(steps, vertices), why, near=False)


def by_supersteps(
    schedule: OnyxSchedule, program: Program, expected: Expected, graph: GraphFacts, features: int, policy: Policy
) -> float:
    """Return the estimated seconds of a run by supersteps on a GPU."""
    plan = measured_choice(replace(schedule, order=SUPERSTEPS), program, features, graph, policy)
    floods, visits = other_order(program) == HOOKING, expected.steps * graph.num_edges
    of_vertices = graph.num_vertices * policy.flood_vertex_s if floods else 0.0
    if plan.change_driven is False:
        launch, step, edge, feature = policy.visiting_s
    else:
        launch, step, edge, feature = policy.following_s
        feature = policy.following_near_feature_s if expected.near else feature
        visits = graph.num_edges * (policy.flood_visits if floods else 1.0)
    return launch + expected.steps * step + visits * (edge + (features - 1) * feature) + of_vertices


def without_supersteps(
    order: str, program: Program, steps: float, graph: GraphFacts, features: int, policy: Policy
) -> float:  # fmt: skip
    """Return the estimated seconds of a run by near-far or by hooking on a GPU."""
    if order == HOOKING:
        (launches, vertex, value), vertices = policy.hooking_s, graph.num_vertices
        return launches + min(vertices, policy.hooking_vertices) * vertex + vertices * features * value
    launch, step, edge = policy.near_far_s
    short, few = policy.near_far_short
    edges, found = graph.num_edges * features, priority_order(program)
    visits = policy.near_far_visits if isinstance(found, PriorityOrder) and found.inputs else 1.0
    return launch + steps * (short if edges <= few * steps else step) + edges * visits * edge


def supersteps_on_cpu(
    schedule: OnyxSchedule,
    program: Program,
    expected: Expected,
    graph: GraphFacts,
    features: int,
    device: DeviceFacts,
    policy: Policy,
) -> float:
    """Return the estimated seconds of a run by supersteps on a CPU."""
    step, edge, feature, near_edge = policy.cpu_supersteps_s
    visited = graph.num_edges * (edge + (features - 1) * feature)
    if not follows(schedule, program, features, graph, device, policy):
        visited *= expected.steps
    elif other_order(program) == HOOKING:
        visited *= policy.flood_visits
    elif expected.near:
        visited = graph.num_edges * features * near_edge
    return expected.steps * step + visited / device.threads


def without_supersteps_on_cpu(
    order: str, graph: GraphFacts, features: int, device: DeviceFacts, policy: Policy
) -> float:  # fmt: skip
    """Return the estimated seconds of a run by near-far or by hooking on a CPU."""
    if order == HOOKING:
        start, of_threads, vertex, edge = policy.cpu_hooking_s
        threads = max(1, min(device.threads, graph.num_edges // LEAST_EDGES))
        start += of_threads if threads > 1 else 0.0
        return start + (graph.num_vertices * vertex + graph.num_edges * edge) / threads
    start, vertex, edge = policy.cpu_near_far_s
    if graph.num_vertices * policy.near_far_bytes <= device.cache_bytes:
        vertex, edge = policy.cpu_near_far_cached_s
    of_feature, threads = graph.num_vertices * vertex + graph.num_edges * edge, min(device.threads, features)
    return (start if threads > 1 else 0.0) + of_feature * features / threads


def moments(degrees: Degrees) -> tuple[float, float]:
    """Return the mean of the degrees, and the mean of their squares."""
    vertices = max(1, sum(count for _, count in degrees.counts))
    first = sum(degree * count for degree, count in degrees.counts)
    second = sum(degree * degree * count for degree, count in degrees.counts)
    return first / vertices, second / vertices


def dispersion(degrees: Degrees) -> float:
    """Return the variance of the degrees over their mean: 1 if edges join vertices at random; 0 without edges."""
    mean, square = moments(degrees)
    return (square - mean * mean) / mean if mean else 0.0


def second_neighbours(degrees: Degrees) -> float:
    """Return the second neighbours of a vertex of an undirected random graph with these degrees, on average."""
    mean, square = moments(degrees)
    return square - mean
