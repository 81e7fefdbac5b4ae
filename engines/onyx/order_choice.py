"""The order of a run on a GPU by estimated times: supersteps over all active vertices, or near-far. A pure function.

Both orders of a search take a number of steps, and visit the edges. With S supersteps, E edges and k features they are
estimated to take

    supersteps = S * superstep + E * (edge + (k - 1) * feature)
    near_far   = S * step + E * k * relaxation

with the times of :class:`engines.onyx.policy.Policy`. A superstep of near-far is shorter: few values, one barrier. Its
edges take longer, since none is skipped and features do not share them. Corrections of values are left out. Supersteps
send more of them, so that this favours supersteps.

S cannot be known before the run. It is estimated from the degrees. In a random graph with these degrees, 1 + ln(V / z1)
/ ln(z2 / z1) is the typical distance, where vertices have z1 neighbours and z2 second neighbours on average (Newman,
Strogatz and Watts 2001, *Random graphs with arbitrary degree distributions and their applications*, equation 54). In a
graph whose edges join vertices at random, the variance of the degrees is at least their mean, as in Poisson's
distribution. If it is less in both directions, by more than four standard errors of V samples, edges are taken to join
places that are near to each other, as in roads and meshes. S is then the root of V, as in a plane; the third root if
the mean degree is more than 6, which no planar graph has. No fitted threshold divides these graphs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from engines.onyx.policy import DEFAULT, Policy
from engines.onyx.resolve import along_paths
from engines.onyx.schedule import ADAPTIVE, NEAR_FAR, SUPERSTEPS
from harness.api.directions import PriorityOrder, priority_order

if TYPE_CHECKING:
    from engines.onyx.schedule import OnyxSchedule
    from harness.api import GraphFacts, Program
    from harness.api.cuda import Degrees

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
        return {"order": self.order, "order_reason": self.reason, **estimated}

    @property
    def line(self) -> str:
        """The line of ``explain``."""
        return f"order: {self.order}, chosen by the engine: {self.reason}"


def chosen_order(
    schedule: OnyxSchedule, program: Program, graph: GraphFacts, features: int, kind: str, policy: Policy = DEFAULT
) -> OrderChoice | None:
    """Return the order that a schedule leaves to the engine; None if it does not.

    It does so with ``order=adaptive``, and for programs of paths on a GPU if no option is given that has no meaning
    without supersteps. ``kind``: of the device.
    """
    left = schedule.order is None and kind == "cuda" and not schedule.others_than("order")
    if schedule.order != ADAPTIVE and not (left and isinstance(priority_order(program), PriorityOrder)):
        return None
    reason = unfit(program, graph, features, policy)
    if reason:
        return OrderChoice(SUPERSTEPS, reason)
    steps, why = expected_supersteps(graph)
    found = estimates(steps, graph, features, policy)
    order = min(found, key=found.__getitem__)
    times = ", ".join(f"{name} {1e3 * seconds:.3g} ms" for name, seconds in found.items())
    return OrderChoice(order, f"{why}; about {steps:,.0f} supersteps; estimated: {times}", tuple(found.items()))


def unfit(program: Program, graph: GraphFacts, features: int, policy: Policy) -> str:
    """Return why the order of a run is not chosen by estimates but is supersteps; empty if it is."""
    from harness.api.cuda import not_near_far

    refused = not_near_far(program, graph.num_vertices, features)
    if refused:
        return refused
    if not along_paths(program):
        return "messages are the values of their sources, of which near-far sends many more than once"
    if features > policy.near_far_features:
        return f"orders were compared with up to {policy.near_far_features} features"
    if graph.num_edges < policy.near_far_edges:
        return f"orders were compared on graphs of {policy.near_far_edges:,} edges or more"
    return ""


def expected_supersteps(graph: GraphFacts) -> tuple[float, str]:
    """Return the expected number of supersteps of a search, at least 1, and what it is based on."""
    spread = max(dispersion(graph.in_degrees), dispersion(graph.out_degrees))
    mean, vertices = max(1e-9, graph.average_degree), max(1, graph.num_vertices)
    if spread < 1 - STANDARD_ERRORS * math.sqrt((2 + 1 / mean) / vertices):
        planar = mean <= PLANAR_DEGREE
        kind = "a plane" if planar else "space"
        why = f"degrees differ less than at random (variance / mean {spread:.2g}), as in {kind}"
        return vertices ** (1 / 2 if planar else 1 / 3), why
    growth = second_neighbours(graph.out_degrees) / mean
    steps = 1 + math.log(max(1.0, vertices / mean)) / math.log(growth) if growth > 1 else float(vertices)
    return min(steps, vertices), f"degrees differ as at random or more (variance / mean {spread:.2g})"


def estimates(steps: float, graph: GraphFacts, features: int, policy: Policy) -> dict[str, float]:
    """Return the estimated seconds of a run by each order."""
    superstep, edge, feature = policy.supersteps_s
    step, relaxation = policy.near_far_s
    return {
        SUPERSTEPS: steps * superstep + graph.num_edges * (edge + (features - 1) * feature),
        NEAR_FAR: steps * step + graph.num_edges * features * relaxation,
    }


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
