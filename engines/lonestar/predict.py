"""Estimate the seconds of each schedule from figures of the device and facts of the problem (``order=auto``).

The analytic part is that of Kaleem et al. (2016, sec. V), with the bound of the memory: a superstep takes at least the
time of all updates on all threads, that of the bytes that they move, that of the updates at the vertex of the largest
degree one after another, and that of all barriers. The trained part multiplies it by what was measured of a schedule
over its estimate, by a linear model of logarithms. It is used on devices that it was trained on; on others only if
models of the other devices chose better than the analytic part, and worse on none (:func:`.training.transfers`).
"""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from engines.lonestar.problem_facts import ProblemFacts

MODEL = Path(__file__).with_name("model.json")
# Seconds of the preparation are a weighted sum of what :func:`work` returns. These weights are those of thirteen graphs
# on one thread of an AMD EPYC, rounded, for devices that the model file lacks.
PREPARATION: Mapping[str, tuple[float, ...]] = {
    "el": (3e-4, 0.2, 0, 0, 0), "nl": (3e-4, 0, 0, 0, 0), "hybrid": (6e-4, 0.2, 0, 0, 0),
    "owner": (4e-4, 0.25, 0, 0, 0), "wavefront": (3e-4, 0.4, 0, 0, 0), "agm_e": (1e-4, 0, 0.3, 0.014, 0),
    "agm_n": (0, 0.07, 0.33, 0.015, 0), "sgm": (1e-4, 0, 0.4, 0.005, 0), "diag": (2e-4, 0.4, 0.01, 0, 0),
    "blkdiag": (3e-4, 0.3, 0.01, 0, 0), "levels": (5e-5, 5, 0.08, 0, 5e-6), "grid": (4e-4, 0.6, 0, 0, 0),
    "hogwild": (3e-4, 0.2, 0, 0, 0),
}  # fmt: skip


TRIED, WITHIN = 3, 3.0  # orders of a trial, and times of the first estimate


@dataclass(frozen=True)
class Estimate:
    """Seconds of a superstep, of the preparation, and of both for each superstep: :attr:`cost`.

    ``bound``: what the analytic superstep is bound by. ``factor``: by which the trained part multiplies it; 1: none.
    ``won``: false if the order was the cheapest on hardly any of the graphs that the factor was trained on.
    """

    superstep: float
    preparation: float
    epochs: float
    bound: str
    factor: float = 1.0
    won: bool = True

    @property
    def share(self) -> float:
        """Seconds of the preparation for each superstep of a run."""
        return self.preparation / self.epochs

    @property
    def cost(self) -> float:
        """Seconds by which schedules are compared."""
        return self.superstep * self.factor + self.share


def analytic(order: str, problem: ProblemFacts, figures: Mapping[str, float]) -> Estimate:
    """Return the estimate of a schedule without a trained part."""
    row = 4 * problem.features
    step = figures["step"] + figures["feature"] * problem.features
    one = step + figures["lock"] * {"el": 2, "nl": 1, "hybrid": 1, "owner": 1}.get(order, 0)
    outside = max(0.0, 1 - figures["cache"] / (row * (problem.rows + problem.columns)))
    moved = 12 + 4 * row * outside
    bounds = {
        "updates": problem.edges * one / figures["parallel"],
        "memory": problem.edges * moved / figures["bandwidth"],
        "largest degree": problem.degree * one,
        "barriers": barriers(order, problem) * figures["barrier"],
    }
    slowest = max(bounds, key=lambda name: bounds[name])
    preparation = weighted(PREPARATION[order], problem, figures)
    return Estimate(bounds[slowest], preparation, problem.epochs, slowest)


def work(problem: ProblemFacts, figures: Mapping[str, float]) -> tuple[float, ...]:
    """Return what the seconds of preparing an order are a weighted sum of.

    1; the time of sorting a number, for each edge, for each edge and doubling of the largest degree (as runs that a
    sort merges grow with it), and for each squared degree of rows (first-fit matchings); the largest degree, as the
    number of levels grows with it.
    """
    sort = figures["sort"]
    return (
        1.0, problem.edges * sort, problem.edges * sort * math.log2(1 + problem.degree), problem.row_squares * sort,
        problem.degree,
    )  # fmt: skip


def weighted(weights: Sequence[float], problem: ProblemFacts, figures: Mapping[str, float]) -> float:
    """Return the seconds of a preparation from the weights of :func:`work`."""
    return sum(weight * one for weight, one in zip(weights, work(problem, figures), strict=True))


def barriers(order: str, problem: ProblemFacts) -> float:
    """Return the number of barriers of a superstep."""
    match order:
        case "agm_e" | "levels":
            return problem.degree
        case "agm_n":
            return max(problem.degree, problem.subgraph_degrees)
        case "sgm":
            return problem.subgraph_degrees
        case "diag":
            return problem.diagonals
        case "blkdiag":
            return problem.block_diagonals
        case "grid" | "hogwild":
            return 1
    return 2  # passes with locks


# the trained part -----------------------------------------------------------------------------------------------------
# The logarithm of the factor is linear in the average degree, the share of the largest degree, k, and how many times
# the bytes of all rows exceed the nearest cache: rows that fit it are not read from farther away. With each of thirteen
# graphs left out in turn, more numbers of a graph gave no smaller regret.
#
# On GPUs it is linear in four rates of the device too: a free lock, a barrier, a lock that all groups try, and an
# atomic addition at one address, each in times of an update. They tell GPUs apart, and short rows from long ones.
REGRESSORS = 4


def regressors(problem: ProblemFacts, figures: Mapping[str, float], kind: str) -> list[float]:
    """Return what the trained part is linear in, without the constant. ``kind``: of device."""
    vertices = problem.rows + problem.columns
    found = [
        math.log(problem.edges / vertices), math.log(problem.degree / problem.edges), math.log(problem.features),
        max(0.0, math.log(4 * problem.features * vertices / max(1.0, figures["near_cache"]))),
    ]  # fmt: skip
    if kind == "cuda":
        update = figures["step"] + figures["feature"] * problem.features
        spent = figures["lock"], figures["barrier"], 1 / figures["same_locks"], 1 / figures["same_atomics"]
        found += [math.log(seconds / update) for seconds in spent]
    return found


@dataclass(frozen=True)
class Model:
    """``devices``: names of those that it was trained on. ``orders``: of each, mean and scale of the regressors, the
    weights of the scaled ones, the constant, and the weights of the preparation. ``kind``: of devices. ``transfers``:
    it is used on other devices of the kind too. ``winners``: the orders that were the cheapest on several graphs;
    empty: all.
    """

    devices: tuple[str, ...] = ()
    orders: Mapping[str, Mapping[str, Any]] | None = None
    kind: str = "cpu"
    transfers: bool = False
    winners: tuple[str, ...] = ()

    @classmethod
    def read(cls, path: Path = MODEL) -> Mapping[str, Model]:
        """Return the models of a file by kind of device."""
        kept = json.loads(path.read_text(encoding="utf-8"))
        return {
            kind: cls(
                tuple(one["devices"]), one["orders"], kind, bool(one.get("transfers", False)),
                tuple(one.get("winners", ())),
            )
            for kind, one in kept["kinds"].items()
        }  # fmt: skip

    def knows(self, device: str) -> bool:
        """Return whether the model is used on a device: it was trained on it, or transfers to others."""
        return device in self.devices or self.transfers

    def trained(self, order: str, estimate: Estimate, problem: ProblemFacts, figures: Mapping[str, float]) -> Estimate:
        """Return an estimate with the trained factor; unchanged for an order that was not measured."""
        fitted = (self.orders or {}).get(order)
        if fitted is None:
            return estimate
        found = regressors(problem, figures, self.kind)
        scaled = [(x - mean) / scale for x, mean, scale in zip(found, fitted["mean"], fitted["scale"], strict=True)]
        log = fitted["constant"] + sum(x * weight for x, weight in zip(scaled, fitted["weights"], strict=True))
        preparation = weighted(fitted["preparation"], problem, figures)
        won = not self.winners or order in self.winners
        return Estimate(estimate.superstep, preparation, estimate.epochs, estimate.bound, math.exp(log), won)


@functools.cache
def shipped(kind: str) -> Model:
    """Return the model in the engine's own file for a kind of device; an empty one if it has none."""
    return Model.read().get(kind, Model())


def estimates(
    orders: Iterable[str], problem: ProblemFacts, figures: Mapping[str, float], model: Model, device: str
) -> dict[str, Estimate]:
    """Return the estimate of each order, the cheapest first, but those that have not :attr:`~Estimate.won` last.

    A low estimate of such an order is likely to be wrong.
    """
    found = {order: analytic(order, problem, figures) for order in orders}
    if model.knows(device):
        found = {order: model.trained(order, one, problem, figures) for order, one in found.items()}
    return dict(sorted(found.items(), key=lambda item: (not item[1].won, item[1].cost)))


def to_try(costs: Iterable[tuple[str, float]]) -> list[str]:
    """Return the orders that a trial times: the first few, none far costlier than the first.

    ``costs``: seconds by order, in the order of :func:`estimates`.
    """
    ranked = list(costs)[:TRIED]
    return [order for order, cost in ranked if cost <= WITHIN * ranked[0][1]]


def table(found: Mapping[str, Estimate], device: str, *, trained: bool) -> str:
    """Return estimates as lines of text."""
    head = f"estimates for {device}: " + (
        "analytic, times a trained factor" if trained else "analytic only, as no model was trained on it"
    )
    lines = [head, f"{'order':>10} {'ms a superstep':>15} {'ms to prepare':>14} {'bound by':>15} {'factor':>7}"]
    for order, one in found.items():
        lines.append(
            f"{order:>10} {1e3 * one.superstep * one.factor:>15.3f} {1e3 * one.preparation:>14.1f} {one.bound:>15} "
            f"{one.factor:>7.2f}{'' if one.won else '  the cheapest on hardly any graph of the training'}"
        )
    return "\n".join(lines)
