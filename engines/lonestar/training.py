"""Train the factors of ``order=auto`` from records of the preset ``sgd_predictor``, and report what they are worth.

    python -m engines.lonestar.training train RESULTS... [--held-out GRAPH ...] [--write]
    python -m engines.lonestar.training regret RESULTS... [--graph GRAPH ...]
    python -m engines.lonestar.training atomics RESULTS...
    python -m engines.lonestar.training roof RESULTS...

RESULTS: folders of sweeps. *train* fits one linear model for each order and kind of device, and prints the regret
when each graph, and each device, is left out; ``--write`` puts the models into the engine's file. If models of the
other devices choose better than the analytic part, and worse on none, the file says that the model is used on further
ones. Times are those of the fastest runs, of several sweeps where there are some: other work only slows runs down.
*regret* prints that of the model in the file. *atomics* prints the rates of figure 9 of Kaleem et al. (2016), which
the probe measures. *roof* prints the updates a second of every record, and their share of the rate at which the probe
copies the bytes of an update: both ends, the rating, and two rows of k float32 that are read and written. Rows in
caches need fewer, so that the share of a graph with few rows may exceed 1. The figures are those of records of
``order=auto`` on the same device.

Each problem counts twice: with the supersteps of its records, and with LONG_RUN, in which preparation weighs less. The
regret of a choice is the cost of the chosen order over that of the best one: measured seconds of a superstep, with
a share of the measured preparation. A fitted factor is the measured superstep over the analytic estimate.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import sys
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any

import numpy as np
from scipy.optimize import nnls

from engines.lonestar.predict import MODEL, Model, analytic, estimates, regressors, to_try, work
from engines.lonestar.problem_facts import ProblemFacts

RIDGE = 10.0  # penalty of squared weights of scaled regressors, in squared logarithms: about that of ten problems
PREPARED = ("transform",)  # the phases of ordering edges
LONG_RUN = 100  # supersteps
SHORTEST_S = 1e-5  # of a preparation: shorter ones count as this
# Graphs on which an order has to be the cheapest of a case; if it is on fewer, it is chosen after all others. With each
# of seventeen graphs left out on an H200, the mean regret is 1.17 instead of 1.28, with trials 1.07 instead of 1.10;
# on seven further graphs it is the same with and without (28 November 2026).
FEWEST_GRAPHS = 2


@dataclass(frozen=True)
class Case:
    """The measured orders of a problem: seconds of a superstep and of the preparation, by order."""

    label: str
    graph: str
    device: str
    kind: str
    problem: ProblemFacts
    figures: Mapping[str, float]
    supersteps: Mapping[str, float]
    preparations: Mapping[str, float]

    def cost(self, order: str) -> float:
        """Return the seconds by which orders are compared."""
        return self.supersteps[order] + self.preparations[order] / self.problem.epochs

    def for_epochs(self, epochs: float) -> Case:
        """Return the same measurements for runs of another number of supersteps."""
        problem = replace(self.problem, epochs=epochs)
        return replace(
            self, problem=problem, label=f"{self.graph}, k = {problem.features:.0f}, {epochs:.0f} supersteps"
        )

    @property
    def best(self) -> str:
        """The cheapest order."""
        return min(self.supersteps, key=self.cost)


def cases(folders: Iterable[Path]) -> list[Case]:
    """Return the cases of records: those of a problem and device that ``order=auto`` has run on.

    Raises ValueError if there are none.
    """
    groups: dict[tuple[Any, ...], dict[str, list[dict[str, Any]]]] = defaultdict(lambda: defaultdict(list))
    chosen: dict[tuple[Any, ...], dict[str, Any]] = {}
    for record in _records(folders):
        key = _key(record)
        if record["schedule"].get("basis"):
            chosen[key] = record
        else:
            groups[key][record["schedule"]["order"]].append(record)
    recorded = [_case(record, groups[key]) for key, record in chosen.items() if len(groups[key]) > 1]
    found = [case.for_epochs(epochs) for case in recorded for epochs in (case.problem.epochs, LONG_RUN)]
    if not found:
        raise ValueError(
            "there are no records of order=auto and of other orders on the same problem; run +experiment=sgd_predictor"
        )
    return found


def _records(folders: Iterable[Path]) -> Iterator[dict[str, Any]]:
    """Yield the records of the engine that have a time."""
    for folder in folders:
        for path in sorted(folder.rglob("record.json")):
            record = json.loads(path.read_text(encoding="utf-8"))
            if record["outcome"] == "ok" and record["config"]["engine"] == "lonestar":
                yield record


def _key(record: Mapping[str, Any]) -> tuple[Any, ...]:
    return (
        record["graph"]["content_hash"], record["program"]["fingerprint"], record["features"],
        record["config"]["device"]["kind"], device_of(record),
    )  # fmt: skip


def device_of(record: Mapping[str, Any]) -> str:
    """Return the name of a record's device, as models have it."""
    environment = record["environment"]
    if record["config"]["device"]["kind"] == "cuda":
        return str(environment["gpu"]["name"])
    return f"{environment['cpu']}, threads {environment['threads']}"


def _case(auto: Mapping[str, Any], others: Mapping[str, Sequence[Mapping[str, Any]]]) -> Case:
    names, basis = [field.name for field in fields(ProblemFacts)], dict(auto["schedule"]["basis"])
    supersteps = {
        order: min(one["solve"]["minimum"] / len(one["supersteps"]) for one in rounds)
        for order, rounds in others.items()
    }
    preparations = {
        order: min(sum(one["phases"].get(name, 0.0) for name in PREPARED) for one in rounds)
        for order, rounds in others.items()
    }
    return Case(
        "", auto["labels"]["graph"], device_of(auto), auto["config"]["device"]["kind"],
        ProblemFacts(**{name: basis[name] for name in names}),
        {name: value for name, value in basis.items() if name not in names}, supersteps, preparations,
    )  # fmt: skip


# fitting --------------------------------------------------------------------------------------------------------------
def fitted(measured: Sequence[Case]) -> Model:
    """Return the model of cases, all of one kind of device."""
    orders = sorted({order for case in measured for order in case.supersteps})
    devices = tuple(sorted({case.device for case in measured}))
    wins = Counter(order for order, _ in {(case.best, case.graph) for case in measured})
    winners = tuple(order for order in orders if wins[order] >= FEWEST_GRAPHS)
    return Model(devices, {order: _line(order, measured) for order in orders}, measured[0].kind, winners=winners)


def _line(order: str, measured: Sequence[Case]) -> dict[str, Any]:
    """Return the ridge of one order: least squares of log factors, with a penalty on the weights, not the constant."""
    own = [case for case in measured if order in case.supersteps]
    x = np.array([regressors(case.problem, case.figures, case.kind) for case in own])
    y = np.array(
        [math.log(case.supersteps[order] / analytic(order, case.problem, case.figures).superstep) for case in own]
    )
    mean, scale = x.mean(axis=0), x.std(axis=0)
    scale[scale < 1e-9] = 1.0
    scaled = (x - mean) / scale
    weights = np.linalg.solve(scaled.T @ scaled + RIDGE * np.eye(x.shape[1]), scaled.T @ (y - y.mean()))
    return {
        "mean": mean.round(6).tolist(), "scale": scale.round(6).tolist(), "weights": weights.round(6).tolist(),
        "constant": round(float(y.mean()), 6), "preparation": _preparation(order, own),
    }  # fmt: skip


def _preparation(order: str, own: Sequence[Case]) -> list[float]:
    """Return the weights of :func:`.predict.work`, none below 0, of least squares of relative errors."""
    seconds = np.array([max(case.preparations[order], SHORTEST_S) for case in own])
    parts = np.array([work(case.problem, case.figures) for case in own]) / seconds[:, None]
    scale = parts.max(axis=0)
    weights, _ = nnls(parts / scale, np.ones(len(own)))
    return [float(f"{weight:.3g}") for weight in weights / scale]


def choose(case: Case, model: Model) -> str:
    """Return the order that a model chooses among the measured ones."""
    return next(iter(estimates(case.supersteps, case.problem, case.figures, model, case.device)))


def tuned(case: Case, model: Model) -> tuple[str, float]:
    """Return the order that ``tune=true`` takes among the measured ones, and the seconds of the trial.

    These are the preparations of the orders that it tries, and two supersteps of each.
    """
    found = estimates(case.supersteps, case.problem, case.figures, model, case.device)
    orders = to_try((order, one.cost) for order, one in found.items())
    best = min(orders, key=lambda order: case.supersteps[order] + found[order].share)
    return best, sum(case.preparations[order] + 2 * case.supersteps[order] for order in orders)


def regret(case: Case, order: str) -> float:
    """Return the cost of an order over that of the best."""
    return case.cost(order) / case.cost(case.best)


# reports --------------------------------------------------------------------------------------------------------------
def summary(title: str, values: Sequence[float]) -> str:
    """Return a line about regrets."""
    if not values:
        return f"{title}: no cases"
    within = sum(value <= 1.1 for value in values) / len(values)
    mean = math.exp(statistics.fmean(map(math.log, values)))
    counted = f"{title}: {len(values)} cases"
    return f"{counted}, geometric mean {mean:.3f}, at most 1.10 in {within:.0%}, worst {max(values):.2f}"


def without(measured: Sequence[Case], attribute: Callable[[Case], str]) -> list[tuple[Case, Model]]:
    """Return each case with a model of the cases with another value of an attribute; an empty one without any."""
    models = {}
    for value in dict.fromkeys(map(attribute, measured)):
        rest = [other for other in measured if attribute(other) != value]
        models[value] = replace(fitted(rest), transfers=True) if rest else Model()
    return [(case, models[attribute(case)]) for case in measured]


def transfers(by_device: Sequence[tuple[Case, Model]]) -> bool:
    """Return whether a model is worth using on devices that it was not trained on.

    ``by_device``: cases with a model of the other devices. Of several devices, none may have a larger geometric mean of
    the regret than with the analytic part, and all together must have a smaller one.
    """
    gains: dict[str, list[float]] = defaultdict(list)
    for case, model in by_device:
        gains[case.device].append(math.log(regret(case, choose(case, Model())) / regret(case, choose(case, model))))
    means = [statistics.fmean(one) for one in gains.values()]
    return len(means) > 1 and min(means) >= 0 and max(means) > 0


def summary_of_trials(title: str, found: Sequence[tuple[Case, Model]]) -> str:
    """Return a line about the regrets of ``tune=true``, and the seconds of trials over those of the best runs."""
    trials = [(case, *tuned(case, model)) for case, model in found]
    shares = [seconds / (case.problem.epochs * case.cost(case.best)) for case, _, seconds in trials]
    line = summary(title, [regret(case, order) for case, order, _ in trials])
    return f"{line}; the trial takes {statistics.median(shares):.2f} times the best run (median)"


def report(measured: Sequence[Case], *, held_out: Sequence[str]) -> tuple[str, Model]:
    """Return the text about a model of one kind of device, and the model of the cases that are not held out."""
    training = [case for case in measured if not any(name in case.graph for name in held_out)]
    if not training:
        raise ValueError("all graphs are held out")
    held = [case for case in measured if case not in training]
    model = fitted(training)
    lines = [f"{training[0].kind}: {', '.join(model.devices)}"]
    by_graph, by_device = without(training, lambda case: case.graph), without(training, lambda case: case.device)
    for case, left in by_graph:
        order = choose(case, left)
        lines.append(f"  {case.label}: {order}, best {case.best}, regret {regret(case, order):.2f}")
    model = replace(model, transfers=transfers(by_device))
    for title, found in (("each graph left out", by_graph), ("each device left out", by_device)):
        lines.append(summary(title, [regret(case, choose(case, left)) for case, left in found]))
        lines.append(summary_of_trials(f"{title}, tuned", found))
    for case in held:
        order = choose(case, model)
        lines.append(f"  held out: {case.label}: {order}, best {case.best}, regret {regret(case, order):.2f}")
    lines.append(summary("graphs held out", [regret(case, choose(case, model)) for case in held]))
    lines.append(f"used on other devices: {'yes' if model.transfers else 'no'}")
    lines.append(summary("analytic part only", [regret(case, choose(case, Model())) for case in measured]))
    for order in sorted({order for case in measured for order in case.supersteps}):
        lines.append(summary(f"always {order}", [regret(c, order) for c in measured if order in c.supersteps]))
    return "\n".join(lines), model


def main(arguments: Sequence[str]) -> None:
    """Run the command."""
    parser = argparse.ArgumentParser(prog="python -m engines.lonestar.training", description=__doc__)
    parser.add_argument("command", choices=("train", "regret", "atomics", "roof"))
    parser.add_argument("results", nargs="+", type=Path)
    parser.add_argument("--held-out", nargs="*", default=[], help="graphs whose label has this text are not fitted")
    parser.add_argument("--write", action="store_true", help="write the models of the kinds of devices into the file")
    parser.add_argument("--model", type=Path, default=MODEL)
    given = parser.parse_args(arguments)
    if given.command in ("atomics", "roof"):
        sys.stdout.write((atomics if given.command == "atomics" else roof)(given.results) + "\n")
        return
    measured = cases(given.results)
    kept = json.loads(given.model.read_text(encoding="utf-8"))
    for kind in sorted({case.kind for case in measured}):
        own = [case for case in measured if case.kind == kind]
        if given.command == "regret":
            model = Model.read(given.model).get(kind, Model())
            for case in own:
                order = choose(case, model)
                sys.stdout.write(f"  {case.label}: {order}, best {case.best}, regret {regret(case, order):.2f}\n")
            sys.stdout.write(summary(kind, [regret(case, choose(case, model)) for case in own]) + "\n")
            continue
        text, model = report(own, held_out=given.held_out)
        sys.stdout.write(text + "\n")
        kept["kinds"][kind] = {
            "devices": list(model.devices), "orders": model.orders, "transfers": model.transfers,
            "winners": list(model.winners),
        }  # fmt: skip
    if given.write and given.command == "train":
        given.model.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")


def figures_by_device(records: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, float]]:
    """Return the figures of the probe by device. Raises ValueError if no record has them."""
    found = {device_of(one): dict(one["schedule"]["basis"]) for one in records if one["schedule"].get("basis")}
    if not found:
        raise ValueError("there are no records of order=auto; run +experiment=sgd_atomics")
    return found


def roof(folders: Iterable[Path]) -> str:
    """Return the updates a second of every record, and their share of the rate of copies. Raises ValueError."""
    records = list(_records(folders))
    figures, lines = figures_by_device(records), []
    for one in records:
        device, k, schedule = device_of(one), one["features"], one["schedule"]
        rate = sum(edges for _, edges, _ in one["supersteps"]) / one["solve"]["minimum"]
        known = figures.get(device)
        share = f"{rate * (12 + 16 * k) / known['bandwidth']:.2f}" if known else "-"
        aware = " (a thread an edge)" if schedule.get("feature_aware") is False else ""
        cell = f"{one['labels']['graph']}, k = {k}, {schedule['order']}{aware}"
        lines.append(f"{cell}: {rate / 1e6:.1f} M/s, {share} ({device})")
    return "\n".join(["updates a second, share of the rate of copies", *sorted(lines)])


def atomics(folders: Iterable[Path]) -> str:
    """Return the rates of atomic additions at one address and of one lock, by device.

    Raises ValueError if no record has them.
    """
    found = figures_by_device(_records(folders))
    lines = [f"{'device':<40} {'additions':>12} {'locks':>12}   (M/s, at one address)"]
    for device, figures in sorted(found.items()):
        lines.append(f"{device:<40} {figures['same_atomics'] / 1e6:>12.1f} {figures['same_locks'] / 1e6:>12.1f}")
    return "\n".join(lines)


if __name__ == "__main__":
    main(sys.argv[1:])
