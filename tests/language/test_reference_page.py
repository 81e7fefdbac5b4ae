"""The reference of the language, docs/language.md: complete, and every example has the value that it shows."""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path

import networkx as nx
import numpy as np
import pytest

import onyx_harness
from harness import language
from harness.language import Algorithm, K, ProgramBuilder
from harness.language.evaluation import Evaluator
from harness.language.expressions import Expression, read
from harness.language.numpy_calls import FUNCTIONS
from harness.language.program import BUILTIN_GRAPH, BUILTIN_VERTEX, SUPERSTEP

PAGE = (Path(__file__).parents[2] / "docs" / "language.md").read_text()
VALUES = {
    name: (shape, "bool" if kind else "float", np.array(ast.literal_eval(value)))
    for name, shape, kind, value in re.findall(r"^\| `v\.(\w+)` \| `(.*?)`(, bool)? \| `(.*)` \|$", PAGE, re.MULTILINE)
}
ROWS = re.findall(r"^\| (.+?) \| .*? \| `(v\..+?|.+?\(.+?|[-~(].+?)` \| `([^`|]*)` \|$", PAGE, re.MULTILINE)
PYTHON = {
    "+": "__add__", "-": "__sub__", "*": "__mul__", "/": "__truediv__", "**": "__pow__", "unary `-`": "__neg__",
    "abs()": "__abs__", "<": "__lt__", "<=": "__le__", ">": "__gt__", ">=": "__ge__", "==": "__eq__", "!=": "__ne__",
    "&": "__and__", "\\|": "__or__", "~": "__invert__", "@": "__matmul__", "[i]": "__getitem__",
}  # fmt: skip
REFUSED = {"__bool__", "__iter__", "__len__", "__float__", "__int__", "__index__", "__complex__", "__round__"}


class Vertex:
    """The vertex of the examples."""

    def __getattr__(self, name):
        shape, dtype, _ = VALUES[name]
        return read("v", name, tuple(K if part == "K" else int(part) for part in re.findall(r"\w+", shape)), dtype)


def test_the_page_has_a_row_for_every_operator_and_function():
    named = [name.strip("`") if name.count("`") == 2 and name.startswith("`") else name for name, _, _ in ROWS]
    assert len(ROWS) == len(re.findall(r"\| `[^`]*` \|$", PAGE, re.MULTILINE)) - len(VALUES) > 40
    assert sorted(named) == sorted([*PYTHON, ".T", *FUNCTIONS])
    methods = {name for name, one in vars(Expression).items() if name.startswith("__") and inspect.isfunction(one)}
    methods -= {"__init__", "__repr__", *REFUSED, *(name for name in methods if name.startswith(("__r", "__array")))}
    assert methods == set(PYTHON.values())


@pytest.mark.parametrize(("example", "shown"), [row[1:] for row in ROWS], ids=[row[1] for row in ROWS])
def test_an_example_has_the_value_that_the_page_shows(example, shown):
    node = compile(ast.parse(example.replace("\\|", "|"), mode="eval"), "page", "eval")
    expression = eval(node, {**vars(language), "v": Vertex()})  # noqa: S307  an expression of this repository
    evaluate = Evaluator(lambda space, name: VALUES[name][2][None].astype(VALUES[name][1]), {}, 3)
    expected = np.array(ast.literal_eval(shown))
    found = evaluate(expression)[0]
    assert found.shape == expected.shape
    assert (expression.dtype == "bool") == (expected.dtype == bool)
    np.testing.assert_allclose(found.astype(float), expected.astype(float), atol=1e-6)


@pytest.mark.parametrize("owner", [ProgramBuilder, Algorithm], ids=lambda owner: owner.__name__)
def test_every_method_of_an_author_is_on_the_page(owner):
    methods = {name for name, _ in inspect.getmembers(owner, inspect.isfunction) if not name.startswith("_")}
    prefix = "p." if owner is ProgramBuilder else ""
    assert len(methods) > 8
    assert {name for name in methods if not re.search(rf"^\| `{prefix}{name}\b", PAGE, re.MULTILINE)} == set()


def test_every_built_in_value_is_on_the_page():
    builtin = {*(f"v.{name}" for name in BUILTIN_VERTEX), *(f"graph.{name}" for name in (*BUILTIN_GRAPH, SUPERSTEP))}
    assert {name for name in builtin if f"`{name}`" not in PAGE} == set()


def example(name):
    """Return what an example of the page defines."""
    source = re.search(rf"<!-- example: {name} -->\n```python\n(.*?)```", PAGE, re.DOTALL)[1]
    space = {}
    exec(source, space)
    return space


def test_the_example_of_stages_that_run_once_is_right():
    graph = nx.gnp_random_graph(20, 0.2, seed=3, directed=True)
    for u, v in graph.edges:
        graph.edges[u, v]["weight"] = 1.0 + (u + 2 * v) % 3
    weights = nx.to_numpy_array(graph)
    steps = np.linalg.matrix_power((weights / np.maximum(weights.sum(axis=1, keepdims=True), 1e-9)).T, 3)
    for engine in ("scipy", "onyx"):
        result = onyx_harness.run(engine, example("once")["WeightedWalks"], graph, features=4, validate=True)
        np.testing.assert_allclose(result.answers["share"], steps[:, :4], atol=1e-6)


def test_the_example_of_phases_is_right():
    graph = nx.gnp_random_graph(30, 0.12, seed=5, directed=True)
    expected = nx.betweenness_centrality(graph, normalized=False)
    for engine in ("onyx", "gunrock", "simdx"):
        result = onyx_harness.run(engine, example("phases")["Betweenness"], graph, features=30, validate=True)
        found = np.where(result.answer("level") > 0, result.answer("dependency"), 0).sum(axis=1)
        np.testing.assert_allclose(found, [expected[vertex] for vertex in graph], rtol=1e-5, atol=1e-5)


def test_the_example_of_both_directions_is_right():
    space = example("hits")
    graph = nx.gnp_random_graph(30, 0.15, seed=3, directed=True)
    found = onyx_harness.run("scipy", space["Hubs"], graph, features=2).by_vertex("hub")
    expected, _ = nx.hits(graph)
    total = sum(found.values())
    for vertex, hub in expected.items():
        np.testing.assert_allclose(found[vertex] / total, hub, atol=2e-4)


def test_the_example_of_named_vertices_is_right():
    graph = nx.gnp_random_graph(60, 0.02, seed=4)
    found = onyx_harness.run("tigr", example("named vertices")["FastComponents"], graph, validate=True).by_vertex(
        "label"
    )
    parts = list(nx.connected_components(graph))
    assert len(parts) > 5
    assert all(found[vertex] == min(part) for part in parts for vertex in part)
