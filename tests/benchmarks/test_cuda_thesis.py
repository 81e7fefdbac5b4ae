"""The benchmark of the thesis's tables: what it measures, its tables and lists, its groups on an emulated device."""

from __future__ import annotations

import time
from types import SimpleNamespace

import numpy as np
import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from engines.onyx.policy import Policy
from harness.contract import Device
from harness.graph.generators import rmat
from tests.benchmarks import cuda_thesis, thesis_groups
from tests.benchmarks.cuda_checks import Checker
from tests.benchmarks.cuda_sheet import Budget, Sheet
from tests.benchmarks.thesis_groups import Group, rounds
from tests.benchmarks.thesis_pages import Entry, Place, Tables, brief, failed, kind_of
from tests.benchmarks.thesis_plan import ORDER, preset, sizes
from tests.benchmarks.thesis_problems import Bench
from tests.emulation.device import emulate, unavailable

DAILY = ("FA/CD", "SIMD-X", "PyTorch")
ENGINES = ("NFA/NCD", "FA/NCD", "NFA/CD", "FA/CD", "Gunrock", "PyTorch")


@pytest.fixture(scope="module")
def chosen():
    return preset()


def test_it_measures_what_conf_has(chosen):
    assert [column.label for column in chosen.columns] == [
        "NFA/NCD", "FA/NCD", "NFA/CD", "FA/CD", "Onyx", "Gunrock", "Tigr", "SIMD-X", "cuSPARSE", "PyTorch",
    ]  # fmt: skip
    fa_cd = chosen.columns[3]
    assert fa_cd.options == {"direction": "push", "feature_aware": True, "change_driven": True, "balance": "warp"}
    assert fa_cd.spec.name == "onyx"
    assert [column.options for column in chosen.columns[4:]] == [{}] * 6
    assert [column.spec.name == "onyx" for column in chosen.columns] == [True] * 5 + [False] * 5
    assert set(chosen.algorithms) == set(ORDER)
    assert chosen.algorithms["ALS"].sides == "all"
    assert not chosen.algorithms["LP"].clamp
    assert (chosen.features, chosen.supersteps) == ((4, 8), 20)


def test_graphs_have_the_sizes_of_the_thesis(chosen):
    found = {size.name: size for size in sizes(chosen.graphs)}
    assert list(found) == list(chosen.graphs)
    assert (found["like_soc_orkut"].vertices, found["like_soc_orkut"].arcs) == (2_997_166, 106_349_208)
    assert (found["like_road_usa"].rows, found["like_road_usa"].columns) == (4894, 4893)
    assert found["delaunay_16m"].vertices == 1 << 24
    small = {size.name: size for size in sizes(chosen.graphs, 100)}
    assert small["like_cit_patents"].vertices == 37_747
    assert all(size.arcs % 2 == 0 for size in small.values() if not size.rows)


# tables ---------------------------------------------------------------------------------------------------------------
def tables():
    made = Tables(ENGINES, ("LP", "ALS"), 20, entries={}, graphs=["like_cit_patents", "like_road_usa"])
    times = {"NFA/NCD": 200.0, "FA/NCD": 100.0, "NFA/CD": 400.0, "FA/CD": 50.0, "Gunrock": 25.0, "PyTorch": 150.0}
    for engine, ms in times.items():
        made.entries[Place(4, "LP", "like_cit_patents", engine)] = Entry([ms, ms + 2, ms + 1], 20)
        made.entries[Place(4, "LP", "like_road_usa", engine)] = Entry([ms, ms], 12)
    made.entries[Place(4, "LP", "like_road_usa", "Gunrock")] = Entry([5.0], 20, outcome="WRONG", reason="off by 0.1")
    made.entries[Place(4, "LP", "like_road_usa", "PyTorch")] = failed("unsupported: no: never")
    return made


def rows_of(parts, words):
    (part,) = [part for part in parts if words in part.title]
    return part.rows


def test_tables_are_laid_out_as_in_the_thesis():
    parts = tables().parts()
    (row,) = rows_of(parts, "7.4, k = 4, social networks")
    assert row[:4] == ["LP", "like_cit_patents", "201 (10.1)", "101 (5.05)"]
    (row,) = rows_of(parts, "7.2, k = 4, social networks")
    assert row == ["LP", "like_cit_patents", "201", "1.99x", "0.50x", "3.94x", ""]
    (row,) = rows_of(parts, "7.4, k = 4, roads")
    assert row[-3:] == ["WRONG", "unsupported", ""]
    assert not [part for part in parts if "meshes" in part.title]


def test_wins_and_losses_follow_from_the_times():
    parts = tables().parts()
    assert rows_of(parts, "where Onyx loses: 1 rows") == [
        ["LP", "like_cit_patents", "4", "FA/CD", "51.0", "Gunrock", "26.0", "0.51x", "Gunrock 1.96x", ""]
    ]
    assert rows_of(parts, "where Onyx wins: 1 rows") == [
        ["LP", "like_road_usa", "4", "FA/CD", "50.0", "-", "-", "alone", ""]
    ]
    first = rows_of(parts, "geometric means")[0]
    assert first[:5] == ["4", "LP", "0 of 1", "0.51x (1)", "0.51x (1)"]


def test_a_time_is_shown_only_with_a_right_answer():
    made = tables()
    for outcome in ("WRONG", "checking", "unchecked"):
        entry = Entry([1.0, 2.0], 20, outcome=outcome)
        assert entry.ms is None
        assert entry.text() == outcome
    reasons = rows_of(made.parts(), "without a time")
    assert ["Gunrock", "LP", "WRONG", "off by 0.1", "like_road_usa k=4", ""] in reasons
    assert ["PyTorch", "LP", "unsupported", "no: never", "like_road_usa k=4", ""] in reasons


def test_runs_that_settled_early_are_told():
    assert rows_of(tables().parts(), "settled before 20")[0][:3] == ["LP", "like_road_usa", "4"]


def test_onyx_without_a_time_loses():
    made = Tables(ENGINES, ("LP",), 20, graphs=["a"])
    made.entries[Place(4, "LP", "a", "NFA/NCD")] = Entry(outcome="out_of_memory")
    made.entries[Place(4, "LP", "a", "Gunrock")] = Entry([3.0, 3.0], 20)
    assert rows_of(made.parts(), "loses: 1")[0][-3:] == ["no time", "Gunrock", ""]
    assert not [part for part in made.parts() if "wins" in part.title]
    assert rows_of(made.parts(), "7.2")[0][2] == "out_of_memory"


def test_one_round_is_marked_and_numbers_are_brief():
    assert Entry([1234.5], 20).text() == "1,234¹ (61.7)"
    assert [brief(ms) for ms in (0.01234, 1.234, 99.94, 1234.0)] == ["0.0123", "1.23", "99.9", "1,234"]
    assert [kind_of(name) for name in ("like_road_usa", "delaunay_16m", "like_soc_orkut")] == [
        "roads", "meshes", "social networks",
    ]  # fmt: skip


# groups ---------------------------------------------------------------------------------------------------------------
@pytest.fixture
def bench(request, monkeypatch, chosen, tmp_path):
    """All but cuSPARSE, on the emulated device and, PyTorch, on the processor; of every day those of ``DAILY``."""
    if unavailable():
        pytest.skip(unavailable())
    torch_engine = pytest.importorskip("engines.libraries.torch_engine")
    emulate(monkeypatch)
    import cupy

    monkeypatch.setattr(cupy, "ascontiguousarray", np.ascontiguousarray, raising=False)
    monkeypatch.setattr(thesis_groups, "milliseconds", lambda work, stream: (1.0, work()))
    opened = torch_engine.TorchEngine.open
    monkeypatch.setattr(torch_engine.TorchEngine, "open", lambda self, _: opened(self, Device("cpu", threads=1)))
    monkeypatch.setattr(torch_engine.TorchEngine, "refused_device", lambda *_: "")
    for column in chosen.columns:
        if column.spec.name == "onyx":
            monkeypatch.setitem(column.options, "block_size", 64)
    wanted = DAILY if request.node.get_closest_marker("full") is None else [*ENGINES, "Tigr", "SIMD-X"]
    columns = tuple(column for column in chosen.columns if column.label in wanted)
    fewer = SimpleNamespace(columns=columns, algorithms=chosen.algorithms, supersteps=4)
    made = Tables([column.label for column in columns], ORDER, 4)
    sheet = Sheet(["it"], tmp_path / "page.md", "Tables", "Told.")
    checker = Checker(0)
    yield Bench(fewer, sheet, Budget(1e6), made, checker, end=time.monotonic() + 1e6)
    checker.close()


def whole(bench, names, k, graph=None):
    graph = graph or rmat(scale=6, edge_factor=6, symmetric=True, max_weight=3)
    assert graph.has_reverse_edges
    bench.tables.graphs.append(graph.name)
    bench.begin(graph, [k])
    for name in names:
        Group(bench, name, k, deadline=bench.end).measure()
    bench.done_with_graph()
    bench.write()
    return bench.tables


def test_every_engine_is_right_and_timed(bench):
    found = whole(bench, ["LP"], 4)
    row = found.row(4, "LP", "rmat_6")
    told = {name: (entry.outcome, entry.reason, entry.supersteps) for name, entry in row.items()}
    assert told == dict.fromkeys(DAILY, ("", "", 4))
    assert all(entry.samples == [1.0, 1.0, 1.0] for entry in row.values())
    assert "| LP | rmat_6 | 1.00 (0.250) |" in bench.sheet.page.read_text()


@pytest.mark.full
@pytest.mark.parametrize(("k", "hub_edges"), [(4, (2, 1)), (8, None)])
def test_all_algorithms(bench, k, hub_edges, monkeypatch):
    """Where there are hubs, which ones are depends on what is reduced."""
    if hub_edges:
        monkeypatch.setattr(OnyxCudaEngine, "policy", Policy(hub_edges=hub_edges))
    found = whole(bench, ORDER, k)
    for name in ORDER:
        row = found.row(k, name, "rmat_6")
        told = {engine: (entry.outcome, entry.reason) for engine, entry in row.items() if entry.ms is None}
        assert set(told) <= {"Gunrock"}, told
        assert all(outcome == "unsupported" for outcome, _ in told.values())


def test_a_wrong_answer_has_no_time(bench, monkeypatch):
    part_of = thesis_groups.part_of
    monkeypatch.setattr(thesis_groups, "part_of", lambda engine, name, *at: 1.5 * part_of(engine, name, *at))
    row = whole(bench, ["LP"], 4).row(4, "LP", "rmat_6")
    assert {entry.outcome for entry in row.values()} == {"WRONG"}
    assert "superstep 1: lp" in row["SIMD-X"].reason
    assert "| LP | rmat_6 | WRONG |" in bench.sheet.page.read_text()


def test_what_does_not_fit_the_time_is_listed(bench, monkeypatch):
    monkeypatch.setattr(thesis_groups, "PATIENCE_MS", 3.0)  # of a run of four supersteps of a millisecond each
    row = whole(bench, ["LP"], 4).row(4, "LP", "rmat_6")
    assert {entry.outcome for entry in row.values()} == {"too slow"}
    bench.begin(rmat(scale=6, symmetric=True, max_weight=3), [8])
    Group(bench, "LP", 8, deadline=-1e6).measure()
    assert {entry.outcome for entry in bench.tables.row(8, "LP", "rmat_6").values()} == {"left out"}
    assert bench.tables.left_out("rmat_6")[0] == Place(8, "LP", "rmat_6", "FA/CD")
    assert bench.tables.left_out("rmat_7") == []


def test_what_was_left_out_is_measured_once_more_and_nothing_else(bench, monkeypatch):
    graph = rmat(scale=6, edge_factor=6, symmetric=True, max_weight=3)
    whole(bench, ["LP"], 4, graph)
    before = dict(bench.tables.entries)
    [place] = [at for at in before if at.engine == "FA/CD"]
    bench.tables.entries[place] = Entry(outcome="left out")
    bench.begin(graph, [4])
    Group(bench, "LP", 4, deadline=bench.end).measure()
    bench.write()
    assert bench.tables.entries[place].ms is not None
    assert all(bench.tables.entries[at] is entry for at, entry in before.items() if at != place)


def test_what_is_ready_when_the_time_is_up_is_left_out(bench, monkeypatch):
    graph = rmat(scale=6, edge_factor=6, symmetric=True, max_weight=3)
    assert graph.has_reverse_edges
    bench.begin(graph, [4])
    monkeypatch.setattr(bench, "end", -1e6)
    Group(bench, "LP", 4, deadline=time.monotonic() + 100.0).measure()
    bench.write()
    row = bench.tables.row(4, "LP", "rmat_6")
    assert {(entry.outcome, entry.ms) for entry in row.values()} == {("left out", None)}


# the whole ------------------------------------------------------------------------------------------------------------
class Mesh:
    """A triangulation that is ready or not."""

    def __init__(self, vertices, ready):
        self.vertices, self.ready = vertices, ready

    def graph(self, name):
        return SimpleNamespace(name=name)


@pytest.mark.parametrize(
    ("ready", "order"),
    [
        ((True, True), ["delaunay_16m", "like_road_usa"]),
        ((False, True), ["like_road_usa", "delaunay of 100 points"]),
        ((False, False), ["like_road_usa"]),
    ],
)
def test_a_mesh_that_is_not_ready_waits_or_is_a_smaller_one(ready, order, monkeypatch):
    begun, shares = [], []
    monkeypatch.setattr(cuda_thesis, "made", lambda size: SimpleNamespace(name=size.name))
    monkeypatch.setattr(cuda_thesis, "compile_modules", lambda *_: None)
    monkeypatch.setattr(cuda_thesis, "WAIT", 0.0)
    monkeypatch.setattr(cuda_thesis, "measure_graph", lambda bench, features, deadline: shares.append(deadline))
    wanted = list(sizes(("delaunay_16m", "like_road_usa"), 1000))
    meshes = cuda_thesis.Meshes(wanted[0])
    meshes.makers = [Mesh(400, ready[0]), Mesh(100, ready[1])]
    bench = SimpleNamespace(
        end=time.monotonic() + 100.0, budget=Budget(1e6), sheet=Sheet([]), tables=Tables(["FA/CD"], ("LP",), 20),
        begin=lambda graph, _: begun.append(graph.name), done_with_graph=lambda: None,
    )  # fmt: skip
    cuda_thesis.measure(bench, meshes, wanted, (4,))
    assert begun == bench.tables.graphs == order
    nothing = {"delaunay_16m": ["all of it: the triangulation was not ready"]}
    assert bench.budget.left_out == ({} if any(ready) else nothing)
    assert shares == sorted(shares)
    assert len(order) < 2 or shares[-1] == bench.end


def test_what_was_left_out_is_listed():
    tables, budget = Tables(["FA/CD", "Tigr"], ("LP",), 20), Budget(1e6)
    for engine, entry in (("FA/CD", Entry([1.0], 20)), ("Tigr", Entry(outcome="left out"))):
        tables.entries[Place(8, "LP", "rmat_6", engine)] = entry
    cuda_thesis.note_left_out(tables, budget)
    assert budget.left_out == {"rmat_6, k = 8": ["LP by Tigr"]}


def test_a_graph_whose_share_was_too_small_comes_once_more(monkeypatch):
    monkeypatch.setattr(cuda_thesis, "made", lambda size: SimpleNamespace(name=size.name))
    monkeypatch.setattr(cuda_thesis, "compile_modules", lambda *_: None)
    wanted, tables, begun = list(sizes(("like_road_usa", "like_soc_orkut"), 1000)), Tables(["FA/CD"], ("LP",), 20), []

    def measure_graph(bench, features, deadline):
        place = Place(4, "LP", begun[-1], "FA/CD")
        first = begun == ["like_road_usa"]
        tables.entries[place] = Entry(outcome="left out") if first else Entry([1.0], 20)

    monkeypatch.setattr(cuda_thesis, "measure_graph", measure_graph)
    bench = SimpleNamespace(
        end=time.monotonic() + 100.0, budget=Budget(1e6), sheet=Sheet([]), tables=tables,
        begin=lambda graph, _: begun.append(graph.name), done_with_graph=lambda: None,
    )  # fmt: skip
    cuda_thesis.measure(bench, cuda_thesis.Meshes(None), wanted, (4,))
    assert begun == ["like_road_usa", "like_soc_orkut", "like_road_usa"]
    assert tables.graphs == begun[:2]
    assert not tables.left_out()


def test_groups_of_fewer_features_come_first(monkeypatch, chosen):
    begun = []

    class Fake:
        def __init__(self, bench, name, k, deadline):
            begun.append((k, name, deadline))

        def measure(self):
            pass

    monkeypatch.setattr(cuda_thesis, "Group", Fake)
    bench = SimpleNamespace(preset=chosen, write=lambda: None)
    cuda_thesis.measure_graph(bench, chosen.features, 100.0)
    assert begun == [(k, name, 100.0) for k in (4, 8) for name in ORDER]


@pytest.mark.parametrize(("samples", "often"), [([], 3), ([29.0, 9e9], 3), ([31.0], 2), ([80.0], 2), ([81.0], 1)])
def test_long_runs_are_timed_less_often(samples, often):
    assert rounds(samples) == often
