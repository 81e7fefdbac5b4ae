"""The training command on made records: cases, models, and what it prints, against calculations by hand."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace

import numpy as np
import pytest

from engines.lonestar import predict, training
from engines.lonestar.predict import Model, analytic
from engines.lonestar.problem_facts import ProblemFacts
from engines.lonestar.training import LONG_RUN, RIDGE, Case
from tests.engines.test_lonestar_choice import FIGURES_MADE, GRAPHS, facts, write_records

FACTS = ProblemFacts(
    edges=1000.0, rows=50.0, columns=40.0, degree=60.0, column_degree=60.0, row_share=0.03, column_share=0.05, tail=2.0,
    subgraph_degrees=300.0, diagonals=80.0, block_diagonals=30.0, features=16.0, epochs=5.0,
)  # fmt: skip


def case(supersteps, preparations=(), *, device="here", kind="cpu", graph="g", **changes):
    """Return a case; a preparation that is not given takes no time."""
    prepared = {**dict.fromkeys(supersteps, 0.0), **dict(preparations)}
    return Case("", graph, device, kind, replace(FACTS, **changes), FIGURES_MADE, supersteps, prepared)


def rewrite(folder, change):
    """Apply ``change(record)`` to the records of a folder; records for which it returns False are deleted."""
    for path in folder.rglob("record.json"):
        record = json.loads(path.read_text())
        if change(record) is False:
            path.unlink()
        else:
            path.write_text(json.dumps(record))


# cases ----------------------------------------------------------------------------------------------------------------
def test_a_case_has_the_fastest_superstep_and_preparation_of_all_sweeps(tmp_path):
    times = {"one": {"el": (9.0, 4.0), "nl": (2.0, 0.5)}, "two": {"el": (6.0, 7.0), "nl": (3.0, 0.25)}}
    for sweep, known in times.items():
        write_records(tmp_path / sweep, {"g": GRAPHS["g0"]}, factor=lambda order, problem: 1.0)

        def timed(record, known=known):
            order = record["schedule"]["order"]
            if "basis" in record["schedule"]:
                return True
            if order not in known:
                return False
            record["solve"]["minimum"], record["phases"] = known[order][0], {"transform": known[order][1], "load": 9.0}
            return True

        rewrite(tmp_path / sweep, timed)
    first, second = training.cases([tmp_path / "one", tmp_path / "two"])
    problem = facts(GRAPHS["g0"], epochs=5)
    for found, epochs in ((first, 5), (second, LONG_RUN)):
        assert found == Case(
            f"g, k = 16, {epochs} supersteps", "g", "made, threads 2", "cpu", replace(problem, epochs=float(epochs)),
            FIGURES_MADE, {"el": 6.0 / 5, "nl": 2.0 / 5}, {"el": 4.0, "nl": 0.25},
        )  # fmt: skip
        assert set(found.figures).isdisjoint(one.name for one in fields(ProblemFacts))
    assert first.cost("el") == pytest.approx(1.2 + 4.0 / 5)
    assert second.cost("el") == pytest.approx(1.2 + 4.0 / 100)


def test_one_order_alone_and_other_engines_are_no_cases(tmp_path):
    write_records(tmp_path, {"g": GRAPHS["g0"], "h": GRAPHS["g1"]}, factor=lambda order, problem: 1.0)

    def fewer(record):
        order, graph = record["schedule"]["order"], record["labels"]["graph"]
        if graph == "h" and order == "grid":
            record["config"]["engine"] = "onyx"
        return graph == "h" or "basis" in record["schedule"] or order == "el"

    rewrite(tmp_path, fewer)
    found = training.cases([tmp_path])
    assert [one.graph for one in found] == ["h", "h"]
    assert [set(one.supersteps) for one in found] == [{"el", "nl"}] * 2
    rewrite(tmp_path, lambda record: record["labels"]["graph"] == "g")
    with pytest.raises(ValueError, match="no records of order=auto and of other orders on the same problem"):
        training.cases([tmp_path])


# models ---------------------------------------------------------------------------------------------------------------
def test_a_model_is_the_ridge_of_the_cases_that_have_the_order():
    rng = np.random.default_rng(2)
    measured = []
    for number in range(6):
        orders = ("el", "nl") if number % 2 else ("el", "grid")
        shape = {"edges": 500.0 * (number + 1), "rows": 40.0 + number**2, "features": (4.0, 16.0, 64.0)[number % 3]}
        measured.append(case({order: rng.uniform(1e-6, 1e-3) for order in orders}, device=f"d{number % 2}", **shape))
    model = training.fitted(measured)
    assert model.devices == ("d0", "d1")
    assert (model.kind, model.transfers, sorted(model.orders)) == ("cpu", False, ["el", "grid", "nl"])
    for order, line in model.orders.items():
        own = [one for one in measured if order in one.supersteps]
        assert len(own) == (6 if order == "el" else 3)
        x = np.array([predict.regressors(one.problem, FIGURES_MADE, "cpu") for one in own])
        y = np.array(
            [math.log(one.supersteps[order] / analytic(order, one.problem, FIGURES_MADE).superstep) for one in own]
        )
        scale = np.where(x.std(axis=0) < 1e-9, 1.0, x.std(axis=0))
        scaled = (x - x.mean(axis=0)) / scale
        ridge = np.concatenate([scaled, math.sqrt(RIDGE) * np.eye(x.shape[1])])
        weights = np.linalg.lstsq(ridge, np.concatenate([y - y.mean(), np.zeros(x.shape[1])]), rcond=None)[0]
        np.testing.assert_allclose(line["mean"], x.mean(axis=0), atol=1e-6)
        np.testing.assert_allclose(line["scale"], scale, atol=1e-6)
        np.testing.assert_allclose(line["weights"], weights, atol=2e-6)
        assert line["constant"] == pytest.approx(y.mean(), abs=1e-6)


def test_winners_are_the_cheapest_on_two_graphs(tmp_path):
    """Of four orders one is the cheapest on two graphs, one twice on one graph, one on one, and one on none."""
    best = {"a": ("el", "nl", "nl"), "b": ("el", "owner"), "c": ("owner",)}
    measured = [
        case({order: 1.0 if order == cheapest else 2.0 for order in ("el", "nl", "owner", "grid")}, graph=graph)
        for graph, cases in best.items() for cheapest in cases
    ]  # fmt: skip
    model = training.fitted(measured)
    assert model.winners == ("el", "owner")
    assert training.fitted(measured[:3]).winners == ()
    found = predict.estimates(["el", "nl", "owner", "grid"], FACTS, FIGURES_MADE, model, "here")
    assert {order for order, one in found.items() if one.won} == {"el", "owner"}


def test_weights_of_a_preparation_are_those_that_made_it():
    made = (2e-3, 0.5, 0.0, 0.25, 1e-5)
    shapes = [
        {"edges": 1000.0 * (i + 1), "degree": 20.0 + 50 * (i % 3), "row_share": 0.01 * (1 + i % 4)} for i in range(9)
    ]
    problems = [replace(FACTS, **shape) for shape in shapes]
    seconds = [np.dot(made, predict.work(problem, FIGURES_MADE)) for problem in problems]
    measured = [case({"el": 1.0}, {"el": one}, **shape) for one, shape in zip(seconds, shapes, strict=True)]
    found = training.fitted(measured).orders["el"]["preparation"]
    for one in measured:
        assert predict.weighted(found, one.problem, FIGURES_MADE) == pytest.approx(one.preparations["el"], rel=0.01)


# choices --------------------------------------------------------------------------------------------------------------
def test_a_tuned_run_prepares_the_orders_that_it_tries_and_runs_two_supersteps_of_each():
    posed = case(
        {"el": 4.0, "nl": 3.0, "grid": 2.0, "levels": 1.0}, {"el": 10.0, "nl": 20.0, "grid": 40.0, "levels": 80.0}
    )
    found = predict.estimates(posed.supersteps, posed.problem, FIGURES_MADE, Model(), "here")
    costs = [one.cost for one in found.values()]
    tried = [order for order, cost in zip(found, costs, strict=True) if cost <= 3 * costs[0]][:3]
    assert 1 < len(tried) < 4
    best = min(tried, key=lambda order: posed.supersteps[order] + found[order].preparation / 5)
    seconds = sum(posed.preparations[order] + 2 * posed.supersteps[order] for order in tried)
    assert training.tuned(posed, Model()) == (best, pytest.approx(seconds))
    assert training.choose(posed, Model()) == next(iter(found))
    lines = training.summary_of_trials("t", [(posed, Model())])
    share = seconds / (5 * posed.cost(posed.best))
    assert lines.endswith(f"; the trial takes {share:.2f} times the best run (median)")


def test_a_regret_is_a_ratio_of_costs_with_a_share_of_the_preparation():
    posed = case({"el": 1.0, "nl": 2.0, "grid": 1.5}, {"el": 10.0, "nl": 1.0, "grid": 4.0})
    assert [posed.cost(order) for order in ("el", "nl", "grid")] == pytest.approx([3.0, 2.2, 2.3])
    assert posed.best == "nl"
    assert training.regret(posed, "el") == pytest.approx(3.0 / 2.2)
    longer = posed.for_epochs(100.0)
    assert (longer.problem.epochs, longer.best, longer.label) == (100.0, "el", "g, k = 16, 100 supersteps")
    assert training.regret(longer, "nl") == pytest.approx(2.01 / 1.1)


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([], "t: no cases"),
        ([1.0], "t: 1 cases, geometric mean 1.000, at most 1.10 in 100%, worst 1.00"),
        ([1.1, 1.2, 4.0, 1.0], "t: 4 cases, geometric mean 1.516, at most 1.10 in 50%, worst 4.00"),
    ],
)
def test_a_summary_of_regrets(values, line):
    assert training.summary("t", values) == line


def test_cases_have_a_model_of_all_others():
    measured = [case({"el": 1.0 + i, "nl": 2.0}, device=f"d{i % 2}", graph=f"g{i}", edges=500.0 + i) for i in range(4)]
    for number, (one, model) in enumerate(training.without(measured, lambda case: case.graph)):
        assert one is measured[number]
        rest = [other for other in measured if other is not one]
        assert model == replace(training.fitted(rest), transfers=True)
    assert [model.devices for _, model in training.without(measured, lambda one: one.device)] == [("d1",), ("d0",)] * 2
    assert [model for _, model in training.without(measured[:1], lambda one: one.device)] == [Model()]


# the command ----------------------------------------------------------------------------------------------------------
def test_graphs_that_are_all_held_out_leave_nothing_to_fit():
    measured = [case({"el": 1.0, "nl": 2.0}, graph=name) for name in ("one", "two")]
    with pytest.raises(ValueError, match="all graphs are held out"):
        training.report(measured, held_out=["one", "two"])
    text, model = training.report(measured, held_out=["two"])
    assert model == training.fitted(measured[:1])
    assert "held out: : " in text
    assert "graphs held out: 1 cases" in text
    assert "each graph left out: 1 cases" in text


@pytest.fixture
def both_kinds(tmp_path):
    """Write records of two graphs on a CPU, where *el* is the fastest, and of three on a GPU, where *nl* is."""
    few = {name: GRAPHS[name] for name in ("g1", "g2")}
    more = {name: GRAPHS[name] for name in ("g1", "g2", "g3")}
    fastest = {"cpu": "el", "cuda": "nl"}
    for kind, graphs in (("cpu", few), ("cuda", more)):
        write_records(
            tmp_path / "runs" / kind, graphs, kind=kind,
            factor=lambda order, problem, kind=kind: 0.01 if order == fastest[kind] else 30.0,
            environment={"gpu": {"name": "X"}, "cpu": "made", "threads": 2},
        )  # fmt: skip
    rewrite(tmp_path / "runs", lambda one: one["labels"]["graph"] != "g1" or one["schedule"]["order"] != "grid")
    (tmp_path / "model.json").write_text('{"note": "kept", "kinds": {"cpu": {"devices": ["old"], "orders": {}}}}')
    return tmp_path


def test_kinds_of_devices_have_models_of_their_own_cases(both_kinds, capsys):
    given = [str(both_kinds / "runs"), "--model", str(both_kinds / "model.json")]
    training.main(["train", *given])
    assert json.loads((both_kinds / "model.json").read_text())["kinds"]["cpu"]["devices"] == ["old"], "without --write"
    printed = capsys.readouterr().out
    training.main(["train", *given, "--write"])
    assert capsys.readouterr().out == printed
    first, second = printed.split("cuda: X\n")
    assert first.startswith("cpu: made, threads 2\n")
    for part, count, order in ((first, 4, "el"), (second, 6, "nl")):
        assert f"each graph left out: {count} cases, geometric mean 1.000" in part
        assert f"always {order}: {count} cases, geometric mean 1.000" in part
        assert f"always grid: {count - 2} cases" in part  # one graph has no record of it
        assert part.count(f": {order}, best {order}, regret 1.00") == count
    kept = json.loads((both_kinds / "model.json").read_text())
    assert kept["note"] == "kept"
    assert {kind: one["devices"] for kind, one in kept["kinds"].items()} == {"cpu": ["made, threads 2"], "cuda": ["X"]}
    read = Model.read(both_kinds / "model.json")
    assert {kind: one.winners for kind, one in read.items()} == {"cpu": ("el",), "cuda": ("nl",)}
    training.main(["regret", *given])
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith("  ")] == [
        "cpu: 4 cases, geometric mean 1.000, at most 1.10 in 100%, worst 1.00",
        "cuda: 6 cases, geometric mean 1.000, at most 1.10 in 100%, worst 1.00",
    ]
    assert "  g1, k = 16, 5 supersteps: el, best el, regret 1.00" in lines
    assert "  g3, k = 16, 100 supersteps: nl, best nl, regret 1.00" in lines
