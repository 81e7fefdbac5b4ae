"""Checks of parameters before a graph is built, and building it ahead."""

import re
from pathlib import Path

import pytest

from harness.graph import Graph, GraphError
from harness.graph.catalogue.digit_images import check_digits
from harness.graph.catalogue.files import check_file
from harness.graph.named import build_graph, check_parameters, not_cached, open_graph, source_digest, uses
from harness.options import option
from harness.specifications import GraphSpec

calls = []


def ring(count: int = 3, weight: float = 1.0) -> Graph:
    calls.append((count, weight))
    return Graph.from_edges(range(count), [(v + 1) % count for v in range(count)], weights=[weight] * count, name="r")


@not_cached
def fresh_ring(count: int = 3) -> Graph:
    return ring(count)


def check_ring(count: int) -> None:
    if count < 2:
        raise GraphError(f"ring: count={count}; it must be 2 or more")


RING = GraphSpec(
    "ring", "a directed ring", factory=f"{__name__}:ring", check=f"{__name__}:check_ring",
    parameters={"count": 3, "weight": option(1.0, "of every edge", within="(0, 8]")},
)  # fmt: skip


@pytest.fixture(autouse=True)
def _no_calls():
    calls.clear()


def test_a_graph_built_ahead_is_not_built_again():
    build_graph(RING, {"count": 4})
    build_graph(RING, {"count": 4})
    assert calls == [(4, 1.0)]
    graph = open_graph(RING, {"count": 4})
    assert calls == [(4, 1.0)]
    assert (graph.num_edges, graph.weights.tolist()) == (4, [1.0] * 4)
    assert open_graph(RING, {"weight": 2.0}).weights.tolist() == [2.0] * 3, "parameters override the specification's"
    assert open_graph(f"{__name__}:ring").num_edges == 3, "the function's defaults"
    assert calls == [(4, 1.0), (3, 2.0), (3, 1.0)]


def test_a_graph_that_is_not_cached_is_made_at_each_opening():
    build_graph(f"{__name__}:fresh_ring")
    assert calls == []
    for count in (5, 5):
        assert open_graph(f"{__name__}:fresh_ring", {"count": count}).num_edges == 5
    assert calls == [(5, 1.0)] * 2


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"weight": 9.0}, "ring: weight=9.0: give a number in (0, 8]"),
        ({"weight": 0}, "ring: weight=0: give a number in (0, 8]"),
        ({"count": 1}, "ring: count=1; it must be 2 or more"),
        ({"count": "x"}, "ring: a parameter is of the wrong type ('<' not supported"),
    ],
)
def test_values_are_refused_before_anything_is_built(parameters, message):
    with pytest.raises(GraphError, match=re.escape(message)):
        check_parameters(RING, parameters)
    assert calls == []


def test_accepted_values_pass_and_nothing_is_built():
    check_parameters(RING, {"count": 2, "weight": 8})
    check_parameters(GraphSpec("plain", "a ring", factory=RING.factory, parameters={"count": 0}), {})
    assert calls == []


@pytest.mark.parametrize(
    ("file", "options", "message"),
    [
        ("", {}, "no path is given; set graph.path to a graph file"),
        ("absent.mtx", {}, "absent.mtx: there is no such file; give the path of a graph file"),
        (".", {}, "the suffix names no known format"),
        ("folder.mtx", {}, "folder.mtx: is a folder; give the path of a graph file"),
        ("graph.mtx", {"format": "excel"}, "format='excel' is unknown; choose one of matrix_market (.mtx), edge_list"),
        ("graph.xls", {}, "graph.xls: the suffix names no known format; give format=, one of matrix_market"),
        ("empty.mtx", {}, "empty.mtx: the file is empty; fetch or write it again"),
        ("plain.mtx.gz", {}, "plain.mtx.gz: it is named .gz but is not gzip; rename it, or compress it"),
    ],
)
def test_a_file_is_checked_without_parsing_it(write, tmp_path, monkeypatch, file, options, message):
    monkeypatch.chdir(tmp_path)
    for name, text in {"graph.mtx": "no matrix", "graph.xls": "0 1", "empty.mtx": ""}.items():
        write(name, text)
    Path("plain.mtx.gz").write_text("0 1\n")
    Path("folder.mtx").mkdir()
    check_file("graph.mtx", None, 100.0)
    check_file("graph.xls", "edge_list", 100.0)
    with pytest.raises(GraphError, match=re.escape(message)):
        check_file(file, options.get("format"), 100.0)


def test_an_unreadable_file_is_one_error(write, monkeypatch):
    def locked(*_, **__):
        raise PermissionError(13, "Permission denied")

    path = write("graph.mtx", "0 1\n")
    monkeypatch.setattr(Path, "open", locked)
    with pytest.raises(GraphError, match=r"it cannot be read \(Permission denied\); check its permissions"):
        check_file(str(path), None, 100.0)


@pytest.mark.parametrize("neighbours", [0, 1797, -1])
def test_every_digit_has_as_many_neighbours_as_there_are(neighbours):
    check_digits(1)
    check_digits(1796)
    with pytest.raises(GraphError, match=rf"digits: neighbours={neighbours}; it must be 1\.\.1796"):
        check_digits(neighbours)


def test_the_digest_is_of_the_files_beside_a_module_of_a_package(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("alone_of_a_test.py", "beside_of_a_test.py"):
        (tmp_path / name).write_text("def make(): pass\n")
    import alone_of_a_test

    alone = source_digest(alone_of_a_test.make)
    (tmp_path / "beside_of_a_test.py").write_text("def make(): return 1\n")
    assert source_digest(alone_of_a_test.make) == alone, "a file outside a package depends on no other"
    package = tmp_path / "package_of_a_test"
    package.mkdir()
    for name in ("__init__.py", "one.py", "two.py"):
        (package / name).write_text("def make(): pass\n")
    from package_of_a_test import one

    before = source_digest(one.make)
    (package / "two.py").write_text("def make(): return 1\n")
    changed = source_digest(one.make)
    (package / "two.py").rename(package / "three.py")
    assert len({before, changed, source_digest(one.make), alone}) == 4


@pytest.mark.parametrize("package", ["no-such-package", "numpy"])
def test_a_factory_needs_its_packages_whenever_it_is_called(package):
    @uses("pytest", package, extra="data")
    def make(count):
        """Make a graph."""
        return ring(count)

    assert make.data_packages == (("pytest", package), "data")
    assert make.__name__ == "make"
    if package == "numpy":
        assert make(4).num_edges == make(count=4).num_edges == 4
        return
    with pytest.raises(GraphError) as met:
        make(4)
    assert str(met.value) == "graph make: the package no-such-package is missing; pip install 'onyx-harness[data]'"
    assert calls == []
