"""``order=auto``: estimates, the trained part, the choice, its record; the training command on made records."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from engines.lonestar import choice, cpu_engine, predict, training
from engines.lonestar.choice import FIGURES, candidates, chosen, estimated
from engines.lonestar.cpu_engine import LonestarCpuEngine
from engines.lonestar.cpu_probe import cpu_figures
from engines.lonestar.cuda_engine import LonestarCudaEngine
from engines.lonestar.engine import LonestarEngine
from engines.lonestar.predict import Model, analytic
from engines.lonestar.problem_facts import ProblemFacts
from engines.lonestar.schedule import BATCHED, LOCKED, LonestarSchedule
from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.contract import Device, EngineFailure, No, Phases, Yes
from harness.device.compilation import compiled
from harness.device.figures import figures_of, known_figures
from harness.facts import DeviceFacts
from harness.graph.generators import random_ratings
from harness.language import K, trace
from tests.engines.test_lonestar import replayed
from tests.language.programs import program_of
from tests.language.test_edge_steps import stepping

ALGORITHM = SGDMatrixFactorisation(epochs=3)
FIGURES_MADE = {
    "step": 1e-8, "feature": 5e-10, "lock": 5e-9, "barrier": 1e-6, "bandwidth": 1e10, "cache": 3e7, "near_cache": 1e6,
    "sort": 1e-8, "same_atomics": 1e8, "same_locks": 1e7, "parallel": 2.0,
}  # fmt: skip
AUTO = LonestarSchedule(order="auto")
NOTHING = [0.0] * predict.REGRESSORS


def device(**figures):
    return DeviceFacts("cpu", 2, "made", tuple({**FIGURES_MADE, **figures}.items()))


def rated(count=2500, **options):
    return ALGORITHM.prepare_graph(random_ratings(users=120, items=80, num_ratings=count, seed=4, **options))


def facts(graph, features=16, epochs=3):
    return ProblemFacts.of(graph.facts, features, epochs, nodes=16, blocks=(2, 2))


# facts ----------------------------------------------------------------------------------------------------------------
def test_facts_are_those_of_the_edges():
    graph = rated()
    found = facts(graph)
    out, into = np.diff(graph.csr.offsets)[:120], np.diff(graph.csc.offsets)[120:]
    assert (found.edges, found.rows, found.columns) == (2500, (out > 0).sum(), (into > 0).sum())
    assert (found.degree, found.column_degree) == (max(out.max(), into.max()), into.max())
    assert found.row_share == pytest.approx(((out / 2500) ** 2).sum())
    assert found.column_share == pytest.approx(((into / 2500) ** 2).sum())
    falling = np.sort(into)[::-1]
    assert found.subgraph_degrees == falling[::16].sum()
    assert found.diagonals == len(np.unique(graph.csr.neighbours.astype(int) - graph.csr.row_of_edge))
    empty = SGDMatrixFactorisation().prepare_graph(random_ratings(users=2, items=2, num_ratings=0))
    assert all(math.isfinite(value) for value in facts(empty).named().values())


# estimates ------------------------------------------------------------------------------------------------------------
def test_an_estimate_is_the_largest_of_its_bounds():
    problem = facts(rated())
    slow = analytic("agm_e", problem, {**FIGURES_MADE, "barrier": 1.0})
    assert (slow.bound, slow.superstep) == ("barriers", problem.degree)
    slow = analytic("el", problem, {**FIGURES_MADE, "parallel": 1e9, "lock": 1.0})
    assert (slow.bound, slow.superstep) == ("largest degree", pytest.approx(2 * problem.degree, rel=1e-3))
    slow = analytic("grid", problem, {**FIGURES_MADE, "bandwidth": 1.0, "cache": 0.0})
    assert (slow.bound, slow.superstep) == ("memory", pytest.approx(2500 * (12 + 16 * 16)))
    plain = analytic("grid", problem, FIGURES_MADE)
    assert (plain.bound, plain.superstep) == ("updates", pytest.approx(2500 * (1e-8 + 16 * 5e-10) / 2))
    assert plain.cost == plain.superstep + plain.preparation / 3


NUMBERS = ProblemFacts(
    edges=1000.0, rows=30.0, columns=20.0, degree=90.0, column_degree=80.0, row_share=0.1, column_share=0.1, tail=2.0,
    subgraph_degrees=120.0, diagonals=45.0, block_diagonals=21.0, features=16.0, epochs=4.0,
)  # fmt: skip
BARRIERS = {
    "el": 2, "nl": 2, "hybrid": 2, "owner": 2, "wavefront": 2, "agm_e": 90, "levels": 90, "agm_n": 120, "sgm": 120,
    "diag": 45, "blkdiag": 21, "grid": 1, "hogwild": 1,
}  # fmt: skip
LOCKS = {"el": 2, "nl": 1, "hybrid": 1, "owner": 1}


@pytest.mark.parametrize("order", choice.orders())
def test_what_bounds_an_order_is_its_barriers_its_locks_and_the_rows_that_caches_lack(order):
    free = dict.fromkeys(FIGURES_MADE, 0.0) | {"parallel": 4.0, "bandwidth": math.inf, "cache": math.inf}

    def bound(problem=NUMBERS, **figures):
        found = analytic(order, problem, {**free, **figures})
        return found.bound, found.superstep

    assert bound(barrier=0.5) == ("barriers", 0.5 * BARRIERS[order])
    assert bound(lock=1.0, parallel=1.0) == ("updates", 1000.0 * LOCKS.get(order, 0))
    assert bound(step=1.0, feature=0.5, parallel=4.0)[1] == 1000 * (1.0 + 0.5 * 16) / 4
    assert bound(step=1.0, parallel=1e9) == ("largest degree", 90.0)
    rows = 4 * 16 * 50  # bytes of all rows
    for cache, outside in ((0.0, 1.0), (rows / 4, 0.75), (rows, 0.0), (2 * rows, 0.0)):
        assert bound(bandwidth=10.0, cache=cache) == ("memory", 1000 * (12 + 4 * 64 * outside) / 10)
    estimate = analytic(order, NUMBERS, {**free, "sort": 2.0, "barrier": 1.0})
    weights, work = predict.PREPARATION[order], (1, 1000 * 2.0, 2000 * math.log2(91), 0.1 * 1000**2 * 2.0, 90.0)
    assert estimate.preparation == pytest.approx(np.dot(weights, work))
    assert estimate.cost == estimate.superstep + estimate.preparation / 4
    assert replace(estimate, factor=3.0).cost == 3 * estimate.superstep + estimate.preparation / 4
    assert bound(replace(NUMBERS, subgraph_degrees=7.0), barrier=1.0)[1] == {
        **BARRIERS, "agm_n": 90, "sgm": 7,
    }[order]  # fmt: skip


def test_a_trained_part_is_linear_in_logarithms_and_has_its_own_preparation():
    figures = {**FIGURES_MADE, "near_cache": 400.0, "sort": 2.0}
    assert predict.regressors(NUMBERS, {**figures, "near_cache": 4 * 16 * 50.0}, "cpu")[-1] == 0
    assert predict.regressors(NUMBERS, {**figures, "near_cache": 1e9}, "cpu")[-1] == 0
    found = predict.regressors(NUMBERS, figures, "cpu")
    assert found == pytest.approx([math.log(x) for x in (1000 / 50, 90 / 1000, 16, 4 * 16 * 50 / 400)])
    update = 1e-8 + 16 * 5e-10
    of_a_gpu = [math.log(seconds / update) for seconds in (5e-9, 1e-6, 1e-7, 1e-8)]
    assert predict.regressors(NUMBERS, figures, "cuda") == pytest.approx([*found, *of_a_gpu])
    line = {"mean": [1.0, 2.0, 0.0, 0.0], "scale": [2.0, 1.0, 1.0, 4.0], "weights": [0.5, 0.1, 0.2, 0.3],
            "constant": 0.25, "preparation": [0.5, 0.125, 0.0, 0.0, 0.01]}  # fmt: skip
    plain = analytic("nl", NUMBERS, figures)
    trained = Model(("made",), {"nl": line}).trained("nl", plain, NUMBERS, figures)
    log = 0.25 + 0.5 * (found[0] - 1) / 2 + 0.1 * (found[1] - 2) + 0.2 * found[2] + 0.3 * found[3] / 4
    assert trained.factor == pytest.approx(math.exp(log))
    assert (trained.superstep, trained.bound) == (plain.superstep, plain.bound)
    assert trained.preparation == pytest.approx(0.5 + 0.125 * 1000 * 2 + 0.01 * 90)
    assert Model(("made",), {"el": line}).trained("nl", plain, NUMBERS, figures) == plain


def test_the_facts_of_a_problem_have_the_blocks_and_the_supersteps_of_the_schedule():
    program, graph = trace(ALGORITHM), rated().facts
    wide = choice.problem_of(program, replace(AUTO, block_rows=12, block_columns=2, nodes=16), graph, 16)
    blocks = 120 // 12 + 80 // 2 - 1
    assert wide.block_diagonals == pytest.approx(blocks * (1 - math.exp(-2500 / blocks)))
    assert wide.diagonals == facts(rated()).diagonals
    unknown = choice.problem_of(program, AUTO, replace(graph, differences=(0, 0)), 16)
    assert unknown.diagonals == pytest.approx(199 * (1 - math.exp(-2500 / 199)))
    few = choice.problem_of(program, AUTO, replace(graph, num_edges=10**6, differences=(2500, 4)), 16)
    assert few.diagonals == pytest.approx(4, rel=1e-3)  # as on a grid of roads, of which each diagonal is met again
    assert few.block_diagonals == pytest.approx(8, rel=1e-3)
    half = choice.problem_of(program, AUTO, replace(graph, num_edges=10**6, differences=(100, 63)), 16)
    assert half.diagonals == pytest.approx(100, rel=0.02)  # 100 edges on 100 places meet 63.2 of them
    assert (wide.epochs, wide.features, wide.subgraph_degrees) == (3, 16, facts(rated()).subgraph_degrees)
    shown = choice.explained(program, AUTO, graph, 16, device())
    assert "analytic only, as no model was trained on it" in shown
    assert [line.split()[0] for line in shown.splitlines()[2:]] == list(estimated(program, AUTO, graph, 16, device()))


def test_every_order_has_an_estimate():
    assert set(choice.orders()) == {*BATCHED, *LOCKED, "hogwild"} == set(predict.PREPARATION)
    for order in choice.orders():
        assert analytic(order, facts(rated()), FIGURES_MADE).superstep > 0


def test_the_trained_part_is_used_on_its_devices_only():
    problem = facts(rated())
    line = {
        "mean": NOTHING,
        "scale": [1.0] * len(NOTHING),
        "weights": NOTHING,
        "constant": math.log(4.0),
        "preparation": [0.0] * 5,
    }
    model = Model(("made",), {"nl": line})
    found = predict.estimates(["nl", "grid"], problem, FIGURES_MADE, model, "made")
    assert found["nl"].factor == pytest.approx(4.0)
    assert found["grid"].factor == 1.0
    assert predict.estimates(["nl"], problem, FIGURES_MADE, model, "another")["nl"].factor == 1.0
    further = replace(model, transfers=True)
    assert predict.estimates(["nl"], problem, FIGURES_MADE, further, "another")["nl"].factor == pytest.approx(4.0)
    assert "no model was trained on it" in predict.table(found, "another", trained=False)
    assert "times a trained factor" in predict.table(found, "made", trained=True)


def test_orders_that_were_the_cheapest_on_hardly_any_graph_come_last():
    """An order that was not measured in the training is compared by its estimate."""
    problem, zeros = facts(rated()), [0.0] * len(NOTHING)
    line = {"mean": zeros, "scale": [1.0] * len(zeros), "weights": zeros, "constant": 0.0, "preparation": [0.0] * 5}
    lines = {order: {**line, "constant": cost} for order, cost in (("el", -40.0), ("nl", 40.0), ("owner", 50.0))}
    model = Model(("made",), lines, winners=("owner", "nl"))
    orders = ["el", "nl", "owner", "grid"]
    found = predict.estimates(orders, problem, FIGURES_MADE, model, "made")
    assert list(found) == ["grid", "nl", "owner", "el"]
    assert [one.won for one in found.values()] == [True, True, True, False]
    assert min(found, key=lambda order: found[order].cost) == "el"
    marked = [line for line in predict.table(found, "made", trained=True).splitlines() if "hardly any graph" in line]
    assert [line.split()[0] for line in marked] == ["el"]
    everyone = predict.estimates(orders, problem, FIGURES_MADE, replace(model, winners=()), "made")
    assert next(iter(everyone)) == "el"
    assert next(iter(predict.estimates(orders, problem, FIGURES_MADE, model, "another"))) != "grid"


# the choice -----------------------------------------------------------------------------------------------------------
def test_candidates_are_the_orders_that_can_run():
    program, graph = trace(ALGORITHM), rated().facts
    assert candidates(program, AUTO, graph) == [*(o for o in choice.orders() if o != "hogwild")]
    lossy = trace(SGDMatrixFactorisation(conflicts="lossy"))
    assert "hogwild" in candidates(lossy, AUTO, graph)
    assert candidates(program, AUTO, replace(graph, one_way=False)) == ["el", "agm_e", "levels"]
    assert candidates(program, replace(AUTO, shuffle=True), replace(graph, one_way=False)) == ["el", "levels"]
    given = program_of(lambda p, self: stepping(p, self, order="given"))
    assert candidates(given, AUTO, graph) == ["levels"]
    assert isinstance(chosen(given, replace(AUTO, hub=3), graph, 3, device()), No)


def test_figures_decide_and_are_kept_with_the_choice():
    program, graph = trace(ALGORITHM), rated().facts
    cheap = chosen(program, AUTO, graph, 16, device(lock=0.0, sort=1.0))
    assert cheap.order == "nl"  # the only one without preparation
    assert [order for order, _ in cheap.estimates] == list(
        estimated(program, AUTO, graph, 16, device(lock=0.0, sort=1.0))
    )
    costs = [cost for _, cost in cheap.estimates]
    assert costs == sorted(costs)
    assert dict(cheap.basis)["sort"] == 1.0
    assert dict(cheap.basis)["edges"] == 2500
    locks = chosen(program, AUTO, graph, 16, device(lock=1.0, sort=0.0))
    assert locks.order not in ("el", "nl", "hybrid", "owner")
    assert chosen(program, AUTO, graph, 16, device()) == chosen(program, AUTO, graph, 16, device())


def test_a_device_without_figures_and_estimates_that_are_set_are_refused():
    program, graph = trace(ALGORITHM), rated()
    answer = chosen(program, AUTO, graph.facts, 16, DeviceFacts("cuda"))
    assert isinstance(answer, No)
    assert "has not been measured" in answer.reason
    for name in ("estimates", "basis"):
        engine = LonestarCpuEngine(LonestarSchedule(**{name: (("el", 1.0),)}))
        answer = engine.supports(program, graph, 3, Device())
        assert isinstance(answer, No)
        assert "set by order=auto" in answer.reason


@pytest.fixture
def measured(monkeypatch):
    """Give engines made figures; return the number of measurements."""
    calls = []

    def measure(_):
        calls.append(1)
        return FIGURES_MADE

    monkeypatch.setattr(cpu_engine, "cpu_figures", measure)
    return calls


@pytest.fixture
def empty_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))


@pytest.mark.usefixtures("empty_cache")
def test_figures_are_measured_once_and_again_if_they_are_damaged(tmp_path):
    calls = []
    measure = lambda: calls.append(1) or {"step": 2.0}  # noqa: E731
    assert known_figures("x", Device()) is None
    assert figures_of("x", Device(), measure) == figures_of("x", Device(), measure) == (("step", 2.0),)
    assert known_figures("x", Device(threads=99)) is None
    assert len(calls) == 1
    (file,) = (tmp_path / "figures").glob("x-*.json")
    file.write_text("{")
    assert figures_of("x", Device(), measure) == (("step", 2.0),)
    assert len(calls) == 2


@pytest.mark.usefixtures("empty_cache")
def test_auto_runs_the_order_that_it_tells(measured):
    program, graph = trace(ALGORITHM), rated()
    engine = LonestarCpuEngine(AUTO)
    before = dict(vars(engine))
    assert isinstance(engine.supports(program, graph, 3, Device()), Yes)
    assert vars(engine) == before, "planning changes nothing"
    engine.prepare(program, graph, 3, Device(threads=2), Phases())
    assert len(measured) == len({2, Device().threads})
    options = engine.resolved_options()
    assert options["order"] == next(iter(dict(options["estimates"])))
    assert f"order='{options['order']}'" in engine.explain()
    assert "analytic only" in engine.explain()
    assert engine.deterministic == (options["order"] in BATCHED)
    found = replayed(engine, program, graph, ALGORITHM.inputs(graph, 3), 3)
    assert found.ok, found.detail
    chain = graph.with_reverse_edges()
    other = LonestarCpuEngine(AUTO)
    other.prepare(program, chain, 3, Device(threads=2), Phases())
    assert other.resolved_options()["order"] in ("el", "agm_e", "levels")


def test_auto_measures_alone():
    assert LonestarEngine(AUTO).tunes
    assert not LonestarEngine(LonestarSchedule()).tunes


def test_the_probe_measures_positive_figures():
    found = cpu_figures(2)
    assert set(found) == set(FIGURES_MADE)
    assert all(math.isfinite(value) and value >= 0 for value in found.values())
    assert min(found[name] for name in ("step", "lock", "barrier", "bandwidth", "sort", "same_atomics")) > 0


# on a GPU -------------------------------------------------------------------------------------------------------------
def test_auto_on_a_gpu_that_is_missing_needs_an_order(monkeypatch):
    monkeypatch.setattr("engines.lonestar.cuda_engine.cuda_unavailable", lambda _: "no device")
    engine, graph = LonestarCudaEngine(AUTO), rated()
    answer = engine.supports(trace(ALGORITHM), graph, 3, Device("cuda"))
    assert isinstance(answer, Yes)
    orders = [LonestarCudaEngine(LonestarSchedule(order=order)) for order in candidates(
        trace(ALGORITHM), AUTO, graph.facts)]  # fmt: skip
    needed = [one.supports(trace(ALGORITHM), graph, 3, Device("cuda")).bytes_needed for one in orders]
    assert answer.bytes_needed == max(needed)
    with pytest.raises(EngineFailure, match="has not been measured; give an order"):
        engine.generate(trace(ALGORITHM), graph, 3, Device("cuda"))


def test_auto_on_a_gpu_that_was_measured(monkeypatch):
    for name, value in {
        "cuda_unavailable": lambda _: "", "device_name": lambda _: "made",
        "known_figures": lambda name, _: tuple(FIGURES_MADE.items()) if name == FIGURES else None,
    }.items():  # fmt: skip
        monkeypatch.setattr(f"engines.lonestar.cuda_engine.{name}", value)
    engine, graph = LonestarCudaEngine(AUTO), rated()
    assert isinstance(engine.supports(trace(ALGORITHM), graph, 16, Device("cuda")), Yes)
    engine.generate(trace(ALGORITHM), graph, 16, Device("cuda"))
    assert engine.resolved_options()["order"] == engine.resolved_options()["estimates"][0][0]
    assert "estimates for made" in engine.explain()


@pytest.mark.parametrize("chip", ["sm_80", "sm_90"])
def test_the_kernels_of_the_probe_compile(chip):
    from engines.lonestar.cuda_probe import KERNELS, SOURCE

    assert set(KERNELS) <= set(compiled(SOURCE.read_text(encoding="utf-8"), {}, chip).resources())


@pytest.mark.gpu
def test_the_probe_of_a_gpu_measures_positive_figures():
    from engines.lonestar.cuda_probe import cuda_figures

    found = cuda_figures(0)
    assert set(found) == set(FIGURES_MADE)
    assert all(math.isfinite(value) and value >= 0 for value in found.values())
    assert min(found[name] for name in ("step", "lock", "barrier", "bandwidth", "same_atomics", "same_locks")) > 0


@pytest.mark.gpu
def test_auto_on_a_gpu_runs_the_order_that_it_tells():
    program, graph = trace(ALGORITHM), rated()
    engine = LonestarCudaEngine(AUTO)
    engine.prepare(program, graph, 16, Device("cuda"), Phases())
    found = replayed(engine, program, graph, ALGORITHM.inputs(graph, 16), 16)
    assert found.ok, found.detail
    engine.close()


# training -------------------------------------------------------------------------------------------------------------
def write_records(folder, graphs, *, factor, outcome="ok", figures=FIGURES_MADE, kind="cpu", environment=None):
    """Write records of made times: those of the analytic part, times ``factor(order, facts)``."""
    for number, (label, graph) in enumerate(graphs.items()):
        problem = facts(graph, epochs=5)
        basis = [*figures.items(), *problem.named().items()]
        common = {
            "outcome": outcome, "features": 16, "labels": {"graph": label}, "program": {"fingerprint": "p"},
            "graph": {"content_hash": label}, "environment": environment or {"cpu": "made", "threads": 2},
            "config": {"engine": "lonestar", "device": {"kind": kind}}, "supersteps": [[1, 1, "dense"]] * 5,
        }  # fmt: skip
        for order in ("auto", "el", "nl", "grid"):
            seconds = 5 * analytic("el" if order == "auto" else order, problem, figures).superstep
            solve = {"minimum": seconds * (1 if order == "auto" else factor(order, problem))}
            schedule = {"order": "nl", "basis": basis} if order == "auto" else {"order": order}
            place = folder / f"{number}-{order}"
            place.mkdir(parents=True)
            record = {**common, "schedule": schedule, "solve": solve, "phases": {"transform": 0.0}}
            (place / "record.json").write_text(json.dumps(record))


GRAPHS = {f"g{i}": rated(300 * (i + 1), exponent=0.1 * i) for i in range(6)}


def test_training_learns_a_factor_and_tells_the_regret_without_a_graph(tmp_path, capsys):
    write_records(tmp_path / "runs", GRAPHS, factor=lambda order, problem: {"el": 0.1, "nl": 9.0, "grid": 20.0}[order])
    model = tmp_path / "model.json"
    model.write_text('{"kinds": {}}')
    training.main(["train", str(tmp_path / "runs"), "--write", "--model", str(model), "--held-out", "g5"])
    printed = capsys.readouterr().out
    assert "each graph left out: 10 cases, geometric mean 1.000" in printed
    assert "graphs held out: 2 cases, geometric mean 1.000" in printed
    assert "always nl: 12 cases" in printed
    found = Model.read(model)["cpu"]
    assert found.devices == ("made, threads 2",)
    for order, factor in {"el": 0.1, "nl": 9.0, "grid": 20.0}.items():
        problem = facts(GRAPHS["g5"])
        made = predict.estimates([order], problem, FIGURES_MADE, found, "made, threads 2")[order]
        assert made.factor == pytest.approx(factor, rel=1e-3)
    training.main(["regret", str(tmp_path / "runs"), "--model", str(model)])
    assert "cpu: 12 cases, geometric mean 1.000" in capsys.readouterr().out


# Made GPUs: seconds of a free lock and of a barrier, and locks a second that all teams try.
GPUS = {"K": (4e-7, 9e-6, 2e6), "L": (2e-7, 4e-6, 8e6), "M": (9e-8, 3e-6, 3e7), "N": (3e-7, 5e-6, 4e6)}


def write_sweeps(folder, gpus, cost):
    """Write records of sweeps on GPUs: times of the analytic part, times ``cost(order, problem, figures)``."""
    for name in gpus:
        lock, barrier, same = GPUS[name]
        figures = {**FIGURES_MADE, "step": 1e-7, "parallel": 4000.0, "lock": lock, "barrier": barrier,
                   "same_locks": same, "same_atomics": 50 * same, "bandwidth": 1e12}  # fmt: skip
        write_records(
            folder / name, GRAPHS, factor=lambda order, problem, figures=figures: cost(order, problem, figures),
            figures=figures, kind="cuda", environment={"gpu": {"name": name}},
        )  # fmt: skip


def contended(order, problem, figures):
    """Locks of hubs cost as much as a contended lock takes, in times of an update; barriers cost what they are."""
    update = figures["step"] + figures["feature"] * problem.features
    return {"el": 0.2 / figures["same_locks"] / update, "nl": 0.6, "grid": 0.5 * figures["barrier"] / 1e-6}[order]


def test_a_model_of_gpus_is_validated_on_graphs_and_devices_that_it_has_not_seen(tmp_path, capsys):
    write_sweeps(tmp_path / "runs", GPUS, contended)
    model = tmp_path / "model.json"
    model.write_text('{"kinds": {"cpu": {"devices": ["here"], "orders": {}}}}')
    training.main(["train", str(tmp_path / "runs"), "--write", "--model", str(model)])
    printed = capsys.readouterr().out
    assert printed.startswith("cuda: K, L, M, N")
    found = Model.read(model)
    assert set(found) == {"cpu", "cuda"}
    assert found["cuda"].devices == tuple(GPUS)
    measured = training.cases([tmp_path / "runs"])

    def mean(found):
        return np.mean([math.log(training.regret(case, training.choose(case, model))) for case, model in found])

    unseen = [(case, left) for case, left in training.without(measured, lambda case: case.device)]
    assert all(case.device not in left.devices for case, left in unseen)
    assert mean(unseen) < 0.5 * mean([(case, Model()) for case in measured])
    assert mean(training.without(measured, lambda case: case.graph)) < 0.05
    assert found["cuda"].transfers
    assert "used on other devices: yes" in printed


def test_a_model_that_is_worse_on_a_device_that_it_has_not_seen_stays_on_its_own(tmp_path, capsys):
    def misleading(order, problem, figures):
        # The analytic part is right on K; on the others, the order that it takes is the slowest.
        taken = min(("el", "nl", "grid"), key=lambda one: analytic(one, problem, figures).superstep)
        return 1.0 if figures["lock"] == GPUS["K"][0] or order != taken else 1e4

    write_sweeps(tmp_path / "several", GPUS, misleading)
    write_sweeps(tmp_path / "one", ["K"], contended)
    for folder in ("several", "one"):
        measured = training.cases([tmp_path / folder])
        text, model = training.report(measured, held_out=[])
        assert not model.transfers
        assert not model.knows("another")
        if folder == "several":
            assert any(training.regret(case, training.choose(case, left)) > 1.5
                       for case, left in training.without(measured, lambda case: case.device))  # fmt: skip
        assert "used on other devices: no" in text
    capsys.readouterr()


def test_a_choice_that_costs_more_has_a_regret(tmp_path):
    write_records(tmp_path, GRAPHS, factor=lambda order, problem: {"el": 0.1, "nl": 9.0, "grid": 20.0}[order])
    case = training.cases([tmp_path])[0]
    assert case.best == "el"
    assert training.regret(case, "el") == 1.0
    assert training.regret(case, "grid") == pytest.approx(case.cost("grid") / case.cost("el"))
    assert training.regret(case, "grid") > 10


def test_records_without_auto_or_that_failed_are_no_cases(tmp_path):
    write_records(tmp_path, GRAPHS, factor=lambda order, problem: 1.0, outcome="wrong")
    with pytest.raises(ValueError, match="sgd_predictor"):
        training.cases([tmp_path])


def test_rates_of_figure_9_are_printed(tmp_path, capsys):
    write_records(tmp_path, GRAPHS, factor=lambda order, problem: 1.0)
    training.main(["atomics", str(tmp_path)])
    assert capsys.readouterr().out.splitlines()[1].split() == ["made,", "threads", "2", "100.0", "10.0"]
    with pytest.raises(ValueError, match="sgd_atomics"):
        training.main(["atomics", str(tmp_path / "nothing")])


def test_updates_a_second_and_their_share_of_the_rate_of_copies_are_printed(tmp_path, capsys):
    write_records(tmp_path, {"g": GRAPHS["g0"]}, factor=lambda order, problem: 2.0)
    for path in tmp_path.rglob("record.json"):
        record = json.loads(path.read_text())
        if record["schedule"]["order"] == "grid":
            record["supersteps"], record["solve"]["minimum"] = [[1, 300, "dense"]] * 5, 1e-4
            record["schedule"]["feature_aware"] = False
        path.write_text(json.dumps(record))
    training.main(["roof", str(tmp_path)])
    lines = capsys.readouterr().out.splitlines()
    share = 1500 / 1e-4 * (12 + 16 * 16) / 1e10
    assert f"g, k = 16, grid (a thread an edge): 15.0 M/s, {share:.2f} (made, threads 2)" in lines
    assert len(lines) == 5
    with pytest.raises(ValueError, match="sgd_atomics"):
        training.main(["roof", str(tmp_path / "nothing")])


def test_the_file_of_the_engine_has_a_line_for_each_order_of_each_kind():
    for kind, model in Model.read().items():
        assert model.devices
        numbers = len(predict.regressors(facts(rated()), FIGURES_MADE, kind))
        assert set(model.orders) <= set(choice.orders())
        for line in model.orders.values():
            assert {len(line[name]) for name in ("mean", "scale", "weights")} == {numbers}
            assert all(scale > 0 for scale in line["scale"])


@pytest.mark.parametrize("conflicts", [("lossy", "lossy"), ("lossy", "serial"), ("serial", "lossy")])
def test_one_step_that_accepts_no_lost_updates_excludes_orders_that_lose_them(conflicts):
    def build(p, self):
        p.vertex("x", K, start=1.0)
        for one in conflicts:
            p.over_edges(update="both", conflicts=one)(
                lambda src, dst: {"src": {"x": 0.9 * src.x}, "dst": {"x": 0.9 * dst.x}}
            )
        p.repeat(3)
        p.output("x", bound=1e-5)

    assert ("hogwild" in candidates(program_of(build), AUTO, rated().facts)) is (set(conflicts) == {"lossy"})
