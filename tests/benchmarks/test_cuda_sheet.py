"""What a benchmark prints and keeps, and which parts of it come first; no device is taken."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from scipy.sparse import csr_array

from harness.contract import RunStatistics, Superstep
from harness.graph.generators import delaunay, grid, rmat
from harness.language import Inputs, trace
from harness.language.reference import ReferenceRun
from tests.benchmarks import cuda_groups, cuda_onyx, cuda_products, cuda_runs
from tests.benchmarks.cuda_cells import Timed
from tests.benchmarks.cuda_sheet import Budget, Column, Ratio, Sheet
from tests.benchmarks.workloads import SparseProduct

COLUMNS = (Column("graph", 8, "<"), Column("arcs/|E|", 9))


def test_a_page_holds_what_was_printed_and_what_it_was_measured_on(tmp_path, capsys):
    page = tmp_path / "page.md"
    sheet = Sheet(["python", "-m", "it"], page)
    sheet.describe(device="A GPU", CuPy="14")
    sheet.part("something", COLUMNS)
    sheet.row(["ring", "1.50"])
    sheet.row(["star"], "out_of_memory")
    sheet.ratio(Ratio("ring", 8, "fast over slow", 2.996, 3.0))
    sheet.ratio(Ratio("ring", 8, "faster over slow", 2.99, 3.0))
    sheet.part("nothing", COLUMNS)
    assert page.exists()
    sheet.close({"it": ["k=4"]})
    text, printed = page.read_text(), capsys.readouterr().out
    assert "| device | A GPU |" in text
    assert "| command | `python -m it` |" in text
    assert "| graph | arcs/\\|E\\| |  |\n| --- | ---: | --- |\n| ring | 1.50 |  |\n| star |  | out_of_memory |" in text
    assert "| ring | 8 | fast over slow | 3.00 | at least 3: met |" in text
    assert "1 of 2 ratios are what they have to be at least; these are not:" in text
    assert "Nothing of it fitted the time." in text
    assert "- it: k=4" in text
    assert "star     out_of_memory" in printed
    assert "ring k=8 faster over slow: 2.99x (at least 3: MISSED)" in printed


def measured_as(table, graph, cells, others=None):
    """A group of cells that were all measured: the later, the faster."""
    labels = [cell.label for cell in (*cells, *(others or {}))]
    found = {label: Timed(100.0 - i, 1) for i, label in enumerate(labels)}
    for cell in cells:
        table.sheet.row([graph.name, str(cell.features), cell.label, "1.0", "1", "-", "1"])
    return found


@pytest.fixture
def without_a_device(monkeypatch):
    """The benchmark with graphs of the host and times of nobody."""

    class Triangulated:
        def __init__(self, points):
            pass

        def graph(self):
            return delaunay(num_vertices=50)

    pytest.importorskip("cupy")  # for its errors
    run = cuda_runs.Run(2.0, RunStatistics(settled=True, supersteps=[Superstep(5, 7, "push")]))
    monkeypatch.setattr(cuda_onyx, "DelaunayMaker", Triangulated)
    monkeypatch.setattr(cuda_onyx, "rmat_graph", lambda *_: rmat(scale=6, symmetric=True, max_weight=2))
    monkeypatch.setattr(cuda_onyx, "road_grid", lambda *_: grid(rows=8, columns=8))
    monkeypatch.setattr(cuda_onyx, "measured", measured_as)
    monkeypatch.setattr(cuda_onyx, "by_hand", lambda *_: {"by hand": None})
    monkeypatch.setattr(cuda_onyx, "against_cusparse", lambda table, graph, ks: table.title(f"cuSPARSE {graph.name}"))
    for module in (cuda_onyx, cuda_runs):
        monkeypatch.setattr(module, "compile_ahead", lambda *_: None)
    for module in (cuda_onyx, cuda_runs):
        monkeypatch.setattr(module, "DeviceGraph", lambda graph: graph)
    monkeypatch.setattr(cuda_runs, "posed", lambda algorithm, graph, k: (graph, None))
    monkeypatch.setattr(cuda_runs, "release", lambda *_: None)
    monkeypatch.setattr(cuda_runs, "_cold", lambda *_: run)
    monkeypatch.setattr(cuda_runs, "_changed", lambda algorithm, graph, k: (graph, None, None))
    monkeypatch.setattr(cuda_runs, "_warm", lambda *_: run)


@pytest.mark.usefixtures("without_a_device")
def test_what_ratios_are_asked_of_comes_first(capsys):
    sheet = Sheet([])
    cuda_onyx.measure(cuda_groups.Table(sheet, Budget(1e6), None), cuda_onyx.QUICK)
    titles = [part.title for part in sheet.parts]
    everything = next(number for number, title in enumerate(titles) if title.startswith("every algorithm"))
    first, later = sheet.parts[: everything - 1], sheet.parts[everything:]
    asked = {ratio.graph.partition("_")[0] for part in first for ratio in part.ratios if ratio.at_least}
    assert asked == {"rmat", "grid", "delaunay"}
    assert not any(ratio.at_least for part in later for ratio in part.ratios)
    for words in ("weighted aggregation on rmat", "cuSPARSE grid", "folding of belief_propagation", "warm starts"):
        assert any(words in part.title for part in first), titles
    assert "change-driven over full: 1.00x" in capsys.readouterr().out


@pytest.mark.usefixtures("without_a_device")
def test_parts_are_measured_alone():
    sheet = Sheet([])
    cuda_onyx.measure(cuda_groups.Table(sheet, Budget(1e6), None), cuda_onyx.QUICK, ["cusparse"])
    assert [part.title.partition("_")[0] for part in sheet.parts] == ["cuSPARSE rmat", "cuSPARSE grid"]
    assert len(sheet.graphs) == 2
    assert {name for name, *_ in cuda_onyx.parts(None, cuda_onyx.QUICK)} == set(cuda_onyx.PARTS)


@pytest.fixture
def as_on_a_device(monkeypatch):
    """Calls a function with NumPy in CuPy's place, as far as the two are alike."""

    def call(function, *arguments):
        with monkeypatch.context() as context:
            context.setitem(sys.modules, "cupy", np)
            return function(*arguments)

    return call


def test_cusparse_is_given_the_same_product(as_on_a_device):
    graph, k = rmat(scale=7, edge_factor=6, symmetric=True, max_weight=3), 4
    matrix = as_on_a_device(cuda_products.Averages, graph)
    walk = graph.with_weights(np.array(matrix.outwards))
    assert np.allclose(walk.in_weights, matrix.inwards)
    x = np.empty((graph.num_vertices, k), np.float32)
    as_on_a_device(cuda_products.fill, x)
    run = ReferenceRun(trace(SparseProduct()), walk, k)
    run.reset(Inputs({"x": x}, {}))
    run.run(1)
    expected, vertices = run.values("y"), matrix.sample()
    assert graph.in_degrees.argmax() in vertices
    assert np.allclose(as_on_a_device(matrix.rows, x, vertices), expected[vertices], rtol=1e-6)
    shape = (graph.num_vertices,) * 2
    y = csr_array((matrix.inwards, matrix.columns, matrix.offsets), shape=shape) @ x
    assert as_on_a_device(cuda_products.farthest, y, expected) < 1e-6
    y[3, 1] = np.nan
    assert as_on_a_device(cuda_products.farthest, y, expected) == float("inf")


@pytest.mark.parametrize("order", ["C", "F"])
def test_rows_are_filled_alike_in_either_order(as_on_a_device, order):
    rows, other = np.empty((50, 3), np.float32), np.empty((50, 3), np.float32, order=order)
    as_on_a_device(cuda_products.fill, rows)
    as_on_a_device(cuda_products.fill_rows, other)
    assert np.array_equal(rows, other)
