"""Graphs opened by the name of a factory: the key under which they are cached, and what a factory is given."""

import importlib.metadata

import pytest

from harness.graph import Graph, GraphError, named
from harness.graph.named import build_graph, caches_itself, not_cached, open_graph, uses
from harness.specifications import GraphSpec

CALLS = []


def path(length=3, weight=1.0, *, name="path"):
    CALLS.append((length, weight))
    return Graph.from_edges(range(length), range(1, length + 1), weights=[weight] * length, name=name)


@uses("numpy", extra="data")
def from_a_package(length):
    return path(length)


@uses("no-such-package", extra="data")
def from_a_missing_package():
    return path()


alone, made_again = caches_itself(lambda length=1: path(length)), not_cached(lambda length=1: path(length))
no_function = 3


def factory(name):
    return f"{__name__}:{name}"


@pytest.fixture(autouse=True)
def calls():
    """Return the calls of the factory ``path``."""
    CALLS.clear()
    return CALLS


def key_of(graph, **parameters):
    return named._request(graph, parameters)[2]


def test_a_key_has_all_parameters_the_versions_of_packages_and_the_source():
    given = {"length": 2, "weight": 1.0, "name": "path"}
    digest = named.source_digest(path)
    assert key_of(factory("path"), length=2) == ["named", factory("path"), given, {}, digest]
    assert key_of(factory("path"), length=2, weight=1.0) == key_of(factory("path"), length=2)
    versions = {"numpy": importlib.metadata.version("numpy")}
    assert key_of(factory("from_a_package"), length=2)[2:4] == [{"length": 2}, versions]
    assert key_of(factory("alone")) is key_of(factory("made_again")) is None


def test_given_parameters_win_over_those_of_the_specification():
    spec = GraphSpec("mine", "", factory("path"), {"length": 5, "weight": 2.0})
    assert key_of(spec, length=4)[2] == {"length": 4, "weight": 2.0, "name": "path"}
    assert open_graph(spec, {"length": 4}).num_edges == 4


def test_a_change_of_any_file_beside_a_factory_is_another_source(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    folder = tmp_path / "onyx_graphs_of_a_test"
    folder.mkdir()
    (folder / "__init__.py").write_text("from .made import made\n")
    (folder / "made.py").write_text("def made():\n    return 1\n")
    (folder / "helper.py").write_text("x = 1\n")
    function = named.resolve("onyx_graphs_of_a_test:made")
    digests = {named.source_digest(function)}
    for file, text in (("made.py", "def made():\n    return 2\n"), ("helper.py", "x = 2\n"), ("other.py", "")):
        (folder / file).write_text(text)
        digests.add(named.source_digest(function))
    (folder / "notes.txt").write_text("no source")
    assert named.source_digest(function) in digests
    assert len(digests) == 4


def test_a_graph_is_built_once_unless_it_is_not_cached(calls):
    for _ in range(2):
        assert open_graph(factory("path"), {"length": 2}).num_edges == 2
        build_graph(factory("path"), {"length": 2})
    assert calls == [(2, 1.0)]
    build_graph(factory("made_again"), {"length": 7})
    assert calls == [(2, 1.0)]
    for _ in range(2):
        assert open_graph(factory("made_again"), {"length": 7}).num_edges == 7
        build_graph(factory("alone"), {"length": 8})
    assert calls == [(2, 1.0), (7, 1.0), (8, 1.0), (7, 1.0), (8, 1.0)]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("path", {"lenght": 2}, "has no parameter 'lenght'; did you mean 'length'?"),
        ("path", {"colour": 2}, "has no parameter 'colour'; it has: length, weight, name"),
        ("from_a_package", {}, "needs the parameter 'length'; set it"),
        ("from_a_missing_package", {}, "the package no-such-package is missing; pip install 'onyx-harness[data]'"),
        ("no_function", {}, "is not a function; it must be 'package.module:function'"),
        ("absent", {}, "cannot be found"),
    ],
)
def test_what_a_factory_lacks_is_named(name, parameters, message):
    with pytest.raises(GraphError) as met:
        open_graph(factory(name), parameters)
    assert message in str(met.value)
