"""Estimates of a push and of a pull: the share of the edges at which they take equally long, and the probes."""

from __future__ import annotations

import math
from contextlib import contextmanager
from dataclasses import replace

import pytest

from engines.onyx import cpu_probe, cuda_engine
from engines.onyx.cpu_engine import OnyxCpuEngine
from engines.onyx.cuda_engine import OnyxCudaEngine
from engines.onyx.cuda_probe import DEGREE, KERNELS, SOURCE, cuda_figures, sizes
from engines.onyx.direction_choice import UNMEASURED, DirectionChoice
from engines.onyx.direction_costs import FIGURES, FLOAT, LONG, NAMES, SHORT, WORKS, Costs
from engines.onyx.expected_reads import share_of_pulls
from engines.onyx.policy import DEFAULT
from engines.onyx.resolve import resolve
from engines.onyx.schedule import OnyxSchedule
from harness.contract import Device, EngineFailure, No, Phases, Yes
from harness.device.compilation import compiled
from harness.facts import DeviceFacts, GraphFacts
from harness.lowering.setting import LoweredProgram
from harness.supersteps import Choice
from tests.engines.problems import problem, program
from tests.engines.test_change_driven import GRAPHS

GRAPH = GraphFacts(1 << 20, 1 << 24, 1 << 12)
ESTIMATED = OnyxSchedule(direction="adaptive", share_by="estimated")


def lowered(name):
    return LoweredProgram.of(program(name)).program


def made(pushed=1.0, *, far=1.0, stream=1e15, launch=0.0):
    """Return figures of a device on which a pushed edge takes ``pushed`` times as long as a pulled one, of 10 ps."""
    found = {"cache": 1e12 if far == 1.0 else 1.0, "stream": stream, "launch": launch}
    for work in WORKS:
        scale = 1e-11 * (pushed if work in ("add", "offer") else 1.0)
        found |= {
            f"{work}_near_{SHORT}": scale,
            f"{work}_near_{LONG}": 4 * scale,
            f"{work}_far_{LONG}": 4 * far * scale,
        }
    assert set(found) == set(NAMES)
    return found


@pytest.mark.parametrize("features", [1, 16, 40])
@pytest.mark.parametrize(("name", "pushed"), [("bfs", 10 / 3), ("sssp", 10 / 3), ("label_propagation", 10.0)])
def test_the_fitted_shares_are_those_of_edges_that_take_3_and_10_times_as_long_to_push(name, pushed, features):
    """With nothing but edges to process, the direction changes at the ratio of both."""
    sums = name == "label_propagation"
    assert Costs.of(lowered(name), features, GRAPH, made(pushed)).turn == pytest.approx(
        DEFAULT.adaptive_shares[sums], rel=0.02
    )


def test_a_push_that_takes_less_than_a_pull_in_any_case_never_turns():
    assert Costs.of(lowered("bfs"), 1, GRAPH, made(0.9)).turn == 1.0


@pytest.mark.parametrize("name", ["bfs", "pagerank", "label_propagation", "kcore"])
def test_the_estimates_meet_where_the_direction_changes(name):
    costs = Costs.of(lowered(name), 8 if name != "kcore" else 1, GRAPH, made(4.0, far=3.0, stream=1e12, launch=2e-6))
    assert costs.push(costs.turn) == pytest.approx(costs.pull, rel=1e-6)
    assert costs.push(0.5 * costs.turn) < costs.pull < costs.push(min(1.0, 1.5 * costs.turn))


def test_a_pull_reads_every_property_of_the_source_for_each_edge():
    """PageRank's message reads the rank and the out-degree, that of BFS only the level."""
    graph, figures = replace(GRAPH), made(1.0)
    of = {name: Costs.of(lowered(name), 1, graph, figures) for name in ("pagerank", "bfs")}
    assert of["pagerank"].gathered == pytest.approx(2 * of["bfs"].gathered)
    assert of["pagerank"].scattered == pytest.approx(of["bfs"].scattered)


def test_rows_that_no_cache_holds_take_longer_for_each_line():
    near, far = (Costs.of(lowered("bfs"), 16, GRAPH, made(1.0, far=share)) for share in (1.0, 3.0))
    longer = Costs.of(lowered("bfs"), 64, GRAPH, made(1.0, far=3.0))
    near_long = Costs.of(lowered("bfs"), 64, GRAPH, made(1.0))
    assert far.gathered - near.gathered == pytest.approx(8e-11, rel=1e-3)
    assert longer.gathered - near_long.gathered == pytest.approx(4 * 8e-11, rel=1e-3)


# the choice -----------------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("kind", "share_by", "wanted"),
    [
        ("cpu", None, (0.25, "estimated")), ("cpu", "estimated", (0.25, "estimated")),
        ("cpu", "fitted", (1.0, "fitted")), ("cuda", None, (0.3, "fitted")),
        ("cuda", "estimated", (0.25, "estimated")), ("cuda", "fitted", (0.3, "fitted")),
    ],
)  # fmt: skip
def test_the_share_is_estimated_on_request_and_on_a_cpu_by_default(kind, share_by, wanted):
    device = DeviceFacts(kind, figures=tuple(made(4.0).items()))
    reads_all = False if kind == "cuda" else None  # else the fitted share is that of pulls that skip edges
    schedule = OnyxSchedule(direction="adaptive", share_by=share_by, bottom_up=reads_all)
    found = resolve(schedule, lowered("sssp"), 1, GRAPH, device)
    assert (found.dense_share, found.share_by) == wanted
    given = resolve(replace(schedule, dense_share=0.7), lowered("sssp"), 1, GRAPH, device)
    assert given.dense_share == 0.7


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"direction": "push", "share_by": "fitted"}, "leave it unset with direction=push"),
        ({"direction": "adaptive", "share_by": "fitted", "dense_share": 0.5}, "leave one of them unset"),
    ],
)
@pytest.mark.parametrize(("engine", "kind"), [(OnyxCpuEngine, "cpu"), (OnyxCudaEngine, "cuda")])
def test_share_by_without_a_meaning_is_refused_by_name(engine, kind, options, reason):
    answer = engine(OnyxSchedule(**options)).supports(
        program("bfs"), problem("bfs", "grid", 1)[0], 1, Device(kind, threads=1)
    )
    assert isinstance(answer, No)
    assert reason in answer.reason


# the CPU --------------------------------------------------------------------------------------------------------------
@pytest.fixture
def measured(monkeypatch, fresh_cache):
    """Make the probe of a CPU return figures; return how often it was called."""
    calls = []
    monkeypatch.setattr(cpu_probe, "cpu_figures", lambda cache: calls.append(cache) or made(4.0))
    return calls


@pytest.mark.parametrize(
    ("direction", "sent", "turn", "sides", "rebuild", "reason"),
    [
        ("push", 900, 0, 1, 1, "few"), ("pull", 1001, 0, 1, 0, "start"), ("pull", 1000, 0, 1, 0, "many"),
        ("pull", 1001, 1, 1, 0, "many"), ("pull", 300, 4, 1, 4, "many"), ("pull", 299, 4, 1, 4, "rebuild"),
        ("pull", 299, 5, 1, 4, "confirm"), ("pull", 299, 4, 1, 0, "confirm"), ("pull", 150, 3, 2, 0, "many"),
        ("pull", 149, 3, 2, 0, "confirm"), ("pull", 0, 0, 1, 2, "rebuild"),
    ],
)  # fmt: skip
def test_a_superstep_of_a_gpu_notes_why_it_pushed_or_pulled(direction, sent, turn, sides, rebuild, reason):
    choice = DirectionChoice(0.3, "fitted", 1000, None)
    found = choice.noted(direction, sent, int(0.3 * 1000 / sides), turn * sides + sides - 1, sides, rebuild)
    assert (found.edges, found.reason) == (min(sent, 1000), reason)
    assert found.made(found.edges, found.reason) == Choice(min(sent, 1000), reason, 0.3, "fitted")


def test_a_choice_has_the_estimates_of_its_superstep():
    costs = Costs.of(lowered("bfs"), 1, GRAPH, made(4.0, launch=0.5))
    choice = DirectionChoice(0.25, "estimated", GRAPH.num_edges, costs)
    half = choice.made(GRAPH.num_edges // 2, "many")
    assert half == Choice(GRAPH.num_edges // 2, "many", 0.25, "estimated", costs.push(0.5), costs.pull)
    assert choice.made(2 * GRAPH.num_edges, "start").push_s == costs.push(1.0)
    assert DirectionChoice(0.25, "given", 0, costs).made(0, "few").push_s == costs.push(0.0)
    first, second = choice.lines
    assert first.endswith("sources with at least 0.25 of the edges have moved (estimated); otherwise pushes")
    times = ", ".join(f"{1e3 * costs.push(share):.3g}" for share in (0.1, 0.5, 1.0))
    assert f"to take {times} ms, a pull {1e3 * costs.pull:.3g} ms; the direction changes at {costs.turn:.2g}" in second
    assert DirectionChoice(0.3, "fitted", 1000, None).lines[1:] == []


@pytest.mark.parametrize(
    ("options", "by"),
    [({}, "fitted"), ({"dense_share": 0.7}, "given"), ({"share_by": "estimated"}, "estimated")],
)
def test_the_choice_tells_how_its_share_was_found(options, by):
    given = OnyxSchedule(direction="adaptive", **options)
    device = DeviceFacts("cuda", figures=tuple(made(4.0).items()))
    resolved = resolve(given, lowered("bfs"), 1, GRAPH, device)
    found = DirectionChoice.of(given, resolved, lowered("bfs"), 1, GRAPH, device)
    assert (found.by, found.share, found.edges) == (by, resolved.dense_share, GRAPH.num_edges)
    assert found.costs == Costs.of(lowered("bfs"), 1, GRAPH, made(4.0))
    pull = OnyxSchedule(direction="pull")
    assert DirectionChoice.of(pull, pull, lowered("bfs"), 1, GRAPH, device) is None


def test_a_cpu_is_measured_once_and_only_for_an_estimate(measured):
    graph, device = problem("bfs", "grid", 1)[0], Device(threads=2)
    for options in ({}, {"direction": "adaptive", "dense_share": 0.5}, {"direction": "adaptive", "share_by": "fitted"}):
        OnyxCpuEngine(OnyxSchedule(**options)).generate(program("bfs"), graph, 1, device)
    assert not measured
    engines = [OnyxCpuEngine(OnyxSchedule(direction="adaptive")) for _ in range(2)]
    for engine in engines:
        engine.generate(program("bfs"), graph, 1, device)
    assert len(measured) == 1
    assert [engine.resolved_options()["share_by"] for engine in engines] == ["estimated"] * 2
    explained = engines[0].explain()
    assert "(estimated); otherwise pushes" in explained
    assert "the direction changes at" in explained


@pytest.mark.parametrize("options", [{"direction": "adaptive"}, {"share_by": "estimated"}])
def test_a_cpu_is_measured_while_no_other_cell_runs(measured, options):
    held = []

    class Locked(Phases):
        @contextmanager
        def alone(self, name):
            held.append(name)
            yield
            assert len(measured) == len(held)

    graph, device = problem("components", "grid", 1)[0], Device(threads=1)
    engine = OnyxCpuEngine(OnyxSchedule(**options))
    before = engine.supports(program("components"), graph, 1, device)
    assert not measured, "supports() is called while other cells run"
    engine.prepare(program("components"), graph, 1, device, Locked())
    assert (held, len(measured)) == (["probe"], 1)
    assert engine.resolved_options()["share_by"] == "estimated"
    assert before.bytes_needed >= engine.supports(program("components"), graph, 1, device).bytes_needed
    OnyxCpuEngine(OnyxSchedule(**options)).prepare(program("components"), graph, 1, device, Locked())
    assert held == ["probe"]


def test_a_run_only_notes_its_choices(measured, monkeypatch):
    graph, inputs = problem("components", "grid", 1)
    engine = OnyxCpuEngine(OnyxSchedule(direction="adaptive"))
    engine.prepare(program("components"), graph, 1, Device(threads=1), Phases())
    engine.reset(inputs)
    estimated = []
    push = Costs.push
    monkeypatch.setattr(Costs, "push", lambda costs, share: estimated.append(share) or push(costs, share))
    steps = engine.run(100).supersteps
    assert not estimated, "estimates would be part of the time of the run"
    assert all(step.choice.push_s > 0 for step in steps)
    assert len(estimated) == len(steps)


@pytest.mark.full
def test_the_probe_of_a_cpu_measures_positive_figures():
    found = cpu_probe.cpu_figures(1 << 20)
    assert set(found) == set(NAMES)
    assert all(math.isfinite(value) and value > 0 for value in found.values())


# a GPU ----------------------------------------------------------------------------------------------------------------
def test_a_gpu_that_is_missing_has_no_estimate(monkeypatch):
    monkeypatch.setattr(cuda_engine, "cuda_unavailable", lambda _: "no device")
    engine, graph = OnyxCudaEngine(ESTIMATED), problem("bfs", "grid", 1)[0]
    assert engine.supports(program("bfs"), graph, 1, Device("cuda")) == No(UNMEASURED)
    with pytest.raises(EngineFailure, match="has not been measured"):
        engine.generate(program("bfs"), graph, 1, Device("cuda"))


@pytest.mark.parametrize("known", [True, False])
def test_a_gpu_is_estimated_by_its_figures(known, monkeypatch):
    figures = tuple(made(4.0).items()) if known else None
    for name, value in {
        "cuda_unavailable": lambda _: "", "device_name": lambda _: "made",
        "known_figures": lambda name, _: figures if name == FIGURES else None,
    }.items():  # fmt: skip
        monkeypatch.setattr(cuda_engine, name, value)
    graph, device = problem("sssp", "grid", 1)[0], Device("cuda")
    engine, fitted = OnyxCudaEngine(ESTIMATED), OnyxCudaEngine(OnyxSchedule(direction="adaptive"))
    answers = [one.supports(program("sssp"), graph, 1, device) for one in (engine, fitted)]
    assert isinstance(answers[0], Yes)
    assert answers[0] == answers[1]
    fitted.generate(program("sssp"), graph, 1, device)
    share = share_of_pulls(lowered("sssp"), graph.facts, 1, *DEFAULT.bottom_up_costs)
    assert fitted.resolved_options()["dense_share"] == share
    assert ("the direction changes at" in fitted.explain()) is known
    if not known:
        engine.build(program("sssp"), graph, 1, device, Phases())  # waits for the figures
        assert not hasattr(engine, "planned")
        return
    engine.generate(program("sssp"), graph, 1, device)
    assert engine.resolved_options()["share_by"] == "estimated"
    assert engine.planned.extension.rebuild_share == engine.resolved_options()["dense_share"] < 0.3


@pytest.mark.parametrize("chip", ["sm_90", pytest.param("sm_80", marks=pytest.mark.full)])
def test_the_kernels_of_the_probe_compile_without_spills(chip):
    found = compiled(SOURCE.read_text(encoding="utf-8"), {}, chip).resources()
    assert set(found) == set(KERNELS)
    assert all(one["spills"] == 0 for one in found.values())


@pytest.mark.parametrize("memory", [0, 1 << 30, 8 << 30, 80 << 30])
def test_every_owner_and_every_source_of_the_probe_has_a_row(memory):
    assert f"constexpr int DEGREE = {DEGREE};" in SOURCE.read_text(encoding="utf-8")
    for vertices, edges in sizes(memory).values():
        assert edges % DEGREE == 0
        assert edges // DEGREE <= vertices
        assert vertices * LONG * FLOAT <= max(memory // 16, 8 << 20)


@pytest.mark.gpu
def test_the_probe_of_a_gpu_measures_positive_figures():
    found = cuda_figures(0)
    assert set(found) == set(NAMES)
    assert all(math.isfinite(value) and value > 0 for value in found.values())
    for place in (f"near_{LONG}", f"far_{LONG}"):  # an atomic operation takes longer than a load
        assert found[f"gather_{place}"] < found[f"add_{place}"]


@pytest.mark.gpu
@pytest.mark.parametrize("name", ["bfs", "label_propagation"])
def test_an_estimated_share_runs_on_a_gpu(name):
    graph, inputs = problem(name, GRAPHS[name][-1], 4)
    engine = OnyxCudaEngine(ESTIMATED)
    engine.prepare(program(name), graph, 4, Device("cuda"), Phases())
    engine.reset(inputs)
    steps = engine.run(20).supersteps
    share = engine.resolved_options()["dense_share"]
    assert {step.choice.by for step in steps} == {"estimated"}
    assert steps[0].choice.share == share
    assert all(step.choice.share <= share for step in steps)
    assert all(step.choice.push_s > 0 and step.choice.pull_s > 0 for step in steps)
    engine.close()


# Of each work: seconds of an edge with a near row of 1 and of 16 floats, and a far row of 16 floats.
WORK_SECONDS = {"gather": (2, 32, 92), "least": (3, 63, 103), "add": (5, 95, 175), "offer": (7, 127, 287)}


@pytest.mark.parametrize(
    ("name", "features", "seconds"),
    [
        # half of the rows are far; two properties are read; a push also keeps and reads what it sent
        ("pagerank", 1, (2 * (2 + 60 / 2), 5 + 80 / 2, 5, 4, 3, 2)),
        ("pagerank", 16, (2 * (32 + 60 / 2), 95 + 80 / 2, 5, 64, 48, 32)),
        ("bfs", 1, (3 + 40 / 2, 7 + 160 / 2, 3, 4, 1, 1)),
        ("bfs", 8, (3 + 60 * 7 / 15 + 40 / 2, 7 + 120 * 7 / 15 + 160 / 2, 3, 32, 8, 8)),
        ("sssp", 64, (3 + 60 * 63 / 15 + 4 * 40 / 2, 7 + 120 * 63 / 15 + 4 * 160 / 2, 3, 256, 64, 64)),
        ("components", 1, (3 + 40 / 2, 7 + 160 / 2, 3, 4, 1, 1)),
        ("kcore", 1, (2 + 60 / 2, 5 + 80 / 2, 5, 4, 3, 2)),
    ],
)
def test_the_seconds_of_each_part_of_a_superstep(name, features, seconds):
    graph = GraphFacts(1000, 8000, 20)
    figures = {"cache": FLOAT * features * 1000 / 2, "stream": FLOAT, "launch": 1.0}
    for work, (short, long, far) in WORK_SECONDS.items():
        figures |= {f"{work}_near_{SHORT}": short, f"{work}_near_{LONG}": long, f"{work}_far_{LONG}": far}
    costs = Costs.of(lowered(name), features, graph, figures)
    found = costs.gathered, costs.scattered, costs.launches, costs.vertex, costs.source, costs.row
    assert found == pytest.approx(seconds)
    gathered, scattered, launches, vertex, source, row = seconds
    assert costs.pull == pytest.approx(launches + 8000 * gathered + 1000 * (vertex + row))
    assert costs.push(0.0) == pytest.approx(launches)
    whole = launches + 8000 * scattered + 1000 * (vertex + source)
    assert costs.push(1.0) == pytest.approx(whole, rel=1e-3)  # nearly all vertices have one of 8000 edges
