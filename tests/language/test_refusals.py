"""Refusals of a program in whole sentences: declarations, decorators, sides, named vertices, ends of edges, outputs."""

from __future__ import annotations

import math

import numpy as np
import pytest

from harness.graph import Graph
from harness.language import Inputs, InvalidInput, K, LanguageError, total
from harness.language.errors import authored
from harness.language.initial_state import check_inputs
from harness.language.wellformed import check_name
from tests.language.programs import program_of


def declared(p):
    p.edge("weight")
    p.edge("msg", K, start=1.0)
    p.vertex("seed", K)
    p.vertex("x", K, start="seed")
    p.vertex("n", start=0.0)
    p.vertex("flag", dtype=bool, start=False)
    p.graph("rate")


def ended(p):
    p.over_vertices(lambda v: {"x": 0.5 * v.x})
    p.repeat(1)
    p.output("x", bound=1.0)


REFUSED = {
    "a dtype": (
        lambda p: p.vertex("y", dtype=int), "property 'y': dtype is float or bool, not <class 'int'>",
    ),
    "a start of no property": (
        lambda p: p.vertex("y", K, start="sead"),
        "property 'y' starts as 'sead', which is not a declared vertex float of shape (K,); declare it before",
    ),
    "a start of another place": (
        lambda p: p.vertex("y", K, start="msg"),
        "property 'y' starts as 'msg', which is not a declared vertex float of shape (K,); declare it before",
    ),
    "a start that is a list": (
        lambda p: p.vertex("y", start=[1.0]),
        "property 'y' starts as [1.0]; a start is a constant or the name of a property declared before (an input, for "
        "example, if it depends on parameters)",
    ),
    "a built-in name": (
        lambda p: p.vertex("in_degree"), "property 'in_degree' is built in; choose another name",
    ),
    "a name twice": (
        lambda p: p.edge("seed"), "property 'seed' is already a property of the vertex; choose another name",
    ),
    "a nonnegative bool": (
        lambda p: p.vertex("y", dtype=bool, nonnegative=True), "property 'y' is bool; only numbers are nonnegative",
    ),
    "a negative start": (
        lambda p: p.vertex("y", start=-1.0, nonnegative=True),
        "property 'y' is nonnegative and starts as -1.0, which may be negative",
    ),
    "a start of any sign": (
        lambda p: p.vertex("y", K, start="seed", nonnegative=True),
        "property 'y' is nonnegative and starts as 'seed', which may be negative",
    ),
    "no property of this place": (
        lambda p: p.over_vertices(lambda v: {"x": v.sead}),
        "v.sead: no vertex property 'sead' is known here; did you mean 'seed'?",
    ),
    "a property of another place": (
        lambda p: p.over_vertices(lambda v: {"n": v.weight}),
        "v.weight: 'weight' is a property of the edge; read it from the argument edge",
    ),
    "a property of the graph": (
        lambda p: p.over_edges(into="s", reduce="sum")(lambda src: src.rate),
        "src.rate: 'rate' is a property of the graph; read it from the argument graph",
    ),
    "a property of a vertex at an edge": (
        lambda p: p.over_edges(into="s", reduce="sum")(lambda edge: edge.reverse.n),
        "edge.reverse.n: 'n' is a property of the vertex; read it from the argument src, dst or v",
    ),
    "an update of both ends and a sum": (
        lambda p: p.over_edges(into="s", reduce="sum", update="both"),
        'over_edges(update="both") takes order=, conflicts= and when= only',
    ),
    "an order of a sum": (
        lambda p: p.over_edges(into="s", reduce="sum", order="given"),
        'order= and conflicts= belong to over_edges(update="both")',
    ),
    "conflicts of a sum": (
        lambda p: p.over_edges(into="s", reduce="sum", conflicts="lossy"),
        'order= and conflicts= belong to over_edges(update="both")',
    ),
    "neither a sum nor an update": (
        lambda p: p.over_edges(), 'over_edges() takes either into= with reduce=, or updates=, or update="both"',
    ),
    "a sum without a reducer": (
        lambda p: p.over_edges(into="s"), 'over_edges() takes either into= with reduce=, or updates=, or update="both"',
    ),
    "a reducer": (
        lambda p: p.over_graph(into="s", reduce="mean"),
        "reduce='mean' is not known; the reducers are sum, prod, min, max",
    ),
    "a factor of a sum": (
        lambda p: p.over_edges(into="s", reduce="sum", initial="x")(lambda src: src.x),
        "initial='x' is a factor of a prod; with reduce='sum' add it in the vertex step after",
    ),
    "a factor of another shape": (
        lambda p: p.over_edges(into="s", reduce="prod", initial="n")(lambda src: src.x),
        "initial='n' must name a vertex float of shape (K,), the message's; declare it before",
    ),
    "a factor of edges": (
        lambda p: p.over_edges(into="s", reduce="prod", initial="msg")(lambda src: src.x),
        "initial='msg' must name a vertex float of shape (K,), the message's; declare it before",
    ),
    "named vertices with a guard": (
        lambda p: p.over_vertices(into="s", reduce="min", at=lambda v: v.n, when=lambda v: v.flag)(lambda v: v.n),
        "over_vertices() that reduces takes into=, reduce= and at=, and no guard; where() in the function chooses what "
        "is reduced",
    ),
    "named vertices without a name": (
        lambda p: p.over_vertices(into="s", reduce="min")(lambda v: v.n),
        "over_vertices() that reduces takes into=, reduce= and at=, and no guard; where() in the function chooses what "
        "is reduced",
    ),
    "a sum at named vertices": (
        lambda p: p.over_vertices(into="s", reduce="sum", at=lambda v: v.n)(lambda v: v.n),
        "reduce='sum': a reduction at named vertices is min or max, whose result does not depend on the order of the "
        "vertices",
    ),
    "a vector at named vertices": (
        lambda p: p.over_vertices(into="s", reduce="min", at=lambda v: v.n)(lambda v: v.x),
        "<lambda> must give a scalar to reduce, not the shape (K,)",
    ),
    "a vector that names a vertex": (
        lambda p: p.over_vertices(lambda v: {"n": v.at(v.x).n}),
        "at() takes the number of a vertex, a float scalar such as v.root, not a float of shape (K,)",
    ),
    "a bool that names a vertex": (
        lambda p: p.over_vertices(into="s", reduce="min", at=lambda v: v.flag)(lambda v: v.n),
        "at= takes the number of a vertex, a float scalar such as v.root, not a bool of shape ()",
    ),
    "a stage that is no function": (
        lambda p: p.over_vertices(dict), "a stage or a guard is a plain function, not <class 'dict'>",
    ),
    "a sum that is no function": (
        lambda p: p.over_edges(into="s", reduce="sum")(dict),
        "a stage or a guard is a plain function, not <class 'dict'>",
    ),
    "a step at both ends that is no function": (
        lambda p: p.over_edges(update="both")(dict), "a stage or a guard is a plain function, not <class 'dict'>",
    ),
    "a reduction over the graph that is no function": (
        lambda p: p.over_graph(into="s", reduce="sum")(dict),
        "a stage or a guard is a plain function, not <class 'dict'>",
    ),
    "a guard that is no function": (
        lambda p: p.over_vertices(when=dict)(lambda v: {"x": v.x}),
        "a stage or a guard is a plain function, not <class 'dict'>",
    ),
    "an argument": (
        lambda p: p.over_edges(into="s", reduce="sum")(lambda v: v.x),
        "<lambda> has an argument 'v'; edge functions take src, dst, edge, graph",
    ),
    "nothing returned": (
        lambda p: p.over_edges(into="s", reduce="sum")(lambda src: None),
        "<lambda> must return one value; it returned nothing",
    ),
    "a guard of a vector": (
        lambda p: p.over_vertices(when=lambda v: v.x > 0)(lambda v: {"x": v.x}),
        "the guard of <lambda> gives a bool of shape (K,); it must give one bool",
    ),
    "a norm": (
        lambda p: p.until_settled(at_most=9, norm="mean"), "norm='mean' is not known; the norms are max, sum",
    ),
    "a sum of movements without a tolerance": (
        lambda p: p.until_settled(at_most=9, norm="sum"),
        "norm='sum' is relative to the column's magnitude: give a tolerance and relative=True",
    ),
    "no supersteps": (
        lambda p: p.repeat(0), "the number of supersteps is a positive int, not 0",
    ),
    "a fraction of supersteps": (
        lambda p: p.until_settled(at_most=1.5), "the number of supersteps is a positive int, not 1.5",
    ),
    "an output that is an input": (
        lambda p: p.output("seed", bound=1.0), "output 'seed' must be a declared property with a start",
    ),
    "a floor": (
        lambda p: p.output("x", bound=1.0, floor=1.5),
        "the floor of output 'x' is 1.5; it is a plain number from 0 to 1",
    ),
    "a negative floor": (
        lambda p: p.output("x", bound=1.0, floor=-0.1),
        "the floor of output 'x' is -0.1; it is a plain number from 0 to 1",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", REFUSED)
def test_what_a_program_may_not_do(what):
    mistake, message = REFUSED[what]

    def build(p, self):
        declared(p)
        mistake(p)
        ended(p)

    with pytest.raises(LanguageError) as met:
        program_of(build)
    assert met.value.message == message
    assert str(met.value).startswith(f"{message}\n  at {__file__}:")


def alternating(stage):
    def build(p, self):
        declared(p)
        stage(p)
        p.alternate_sides()
        ended(p)

    return build


@pytest.mark.parametrize(
    ("stage", "message"),
    [
        (
            lambda p: (
                p.over_vertices(lambda v: {"t": v.x}),
                p.over_graph(into="g", reduce="sum")(lambda v: total(v.t)),
            ),
            "stage reads 't' of both sides, but a superstep writes it on one side only; declare it with a start",
        ),
        (
            lambda p: (p.over_vertices(lambda v: {"t": v.n}), p.over_edges(into="s", reduce="sum")(lambda src: src.t)),
            "stage reads 't' of both sides, but a superstep writes it on one side only; declare it with a start",
        ),
        (lambda p: (p.over_vertices(lambda v: {"t": v.x}), p.over_vertices(lambda v: {"x": v.t})), None),
        (
            lambda p: (p.over_vertices(lambda v: {"t": v.n}), p.over_edges(into="s", reduce="sum")(lambda dst: dst.t)),
            None,
        ),
        (lambda p: p.over_graph(into="g", reduce="sum")(lambda v: total(v.x)), None),
        (
            lambda p: p.over_vertices(lambda v: {"n": v.at(v.n).n}),
            "stage names vertices by values, which may be of either side; remove alternate_sides()",
        ),
    ],
)
def test_values_of_the_other_side(stage, message):
    if message is None:
        program_of(alternating(stage))
        return
    with pytest.raises(LanguageError) as met:
        program_of(alternating(stage))
    assert met.value.message == message


def at_both_ends(step, *, end=lambda p: p.repeat(2)):
    def build(p, self):
        p.vertex("y", K, start=1.0)
        p.vertex("truth", dtype=bool, start=False)
        p.vertex("given", K)
        p.edge("weight")
        p.over_edges(update="both")(step)
        end(p)
        p.output("y", bound=1.0)

    return build


@pytest.mark.parametrize(
    ("step", "end", "message"),
    [
        (
            lambda src, dst: {"src": {"given": src.y}, "dst": {"y": dst.y}},
            None,
            "updates 'given' in place; declare it as a float of vertices with a start",
        ),
        (
            lambda src, dst: {"src": {"truth": src.truth}, "dst": {"y": dst.y}},
            None,
            "updates 'truth' in place; declare it as a float of vertices with a start",
        ),
        (
            lambda src, dst, edge: {"src": {"y": src.y * edge.reverse.weight}, "dst": {"y": dst.y}},
            None,
            "updates both ends of an edge; it cannot read edge.reverse",
        ),
        (
            lambda src, dst: {"src": {"y": dst.y}, "dst": {"y": src.y}},
            lambda p: (p.alternate_sides(), p.repeat(2)),
            "updates both ends of an edge; remove alternate_sides()",
        ),
        (
            lambda src, dst: {"src": {"y": dst.y}, "dst": {"y": src.y}},
            lambda p: p.until_settled(at_most=9),
            "moves both ends of an edge each time it runs, so the program never settles; use p.repeat(n)",
        ),
    ],
)
def test_steps_that_update_both_ends(step, end, message):
    with pytest.raises(LanguageError) as met:
        program_of(at_both_ends(step, **({"end": end} if end else {})))
    assert met.value.message.endswith(message)


@pytest.mark.parametrize("name", ["", "2x", "_x", "class", "a b", "reverse", "at", "superstep", 3, None])
def test_names_that_are_none(name):
    for good in ("x", "x_2", "Ä", "klass"):
        check_name(good)
    with pytest.raises(LanguageError) as met:
        check_name(name)
    rule = "use a Python identifier without leading underscore, other than 'reverse', 'at', 'superstep'"
    assert met.value.message == f"{name!r} is not a property name: {rule}"


def fails():
    return 1 / 0


@pytest.mark.parametrize("kind", [LanguageError, InvalidInput])
def test_errors_of_an_authors_code_have_its_line(kind):
    with pytest.raises(kind) as met, authored("own.inputs", kind):
        fails()
    assert str(met.value).startswith(f"own.inputs raised ZeroDivisionError: division by zero\n  at {__file__}:")
    line = fails.__code__.co_firstlineno + 1
    assert f"{__file__}:{line}" in str(met.value)
    for passed in (LanguageError("known"), InvalidInput("known"), MemoryError("known")):
        with pytest.raises(type(passed), match="known"), authored("own.inputs", kind):
            raise passed


GRAPH = Graph.from_edges([0, 1, 2], [1, 2, 0], name="ring")


def with_inputs(p, self):
    p.vertex("x0", K, nonnegative=True)
    p.vertex("flag", dtype=bool)
    p.edge("length")
    p.graph("rate")
    p.vertex("x", K, start="x0")
    p.over_edges(into="s", reduce="sum")(lambda src, edge, graph: src.x * edge.length * graph.rate)
    p.over_vertices(lambda v: {"x": v.s * (v.flag * 1.0)})
    p.repeat(1)
    p.output("x", bound=1.0)


RIGHT = {
    "x0": np.ones((3, 2), np.float32), "flag": np.ones(3, np.bool_), "length": np.ones(3, np.float32),
    "rate": np.float32(0.5),
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"x0": None}, "x0"),
        ({"x0": np.ones((2, 2), np.float32)}, "x0"),
        ({"x0": np.ones((3, 3), np.float32)}, "x0"),
        ({"x0": np.full((3, 2), math.nan, np.float32)}, "x0"),
        ({"x0": -np.ones((3, 2), np.float32)}, "6 of its values are below zero"),
        ({"flag": np.ones(3, np.float32)}, "flag"),
        ({"length": np.ones(4, np.float32)}, "length"),
        ({"rate": np.ones(2, np.float32)}, "rate"),
        ({"length": np.array(["a"] * 3)}, "length"),
    ],
)
def test_inputs_are_checked_before_an_engine_reads_them(changes, words):
    program = program_of(with_inputs)
    check_inputs(program, GRAPH, 2, Inputs(RIGHT))
    check_inputs(program, GRAPH, 2, Inputs({name: RIGHT[name] for name in ("x0", "flag", "rate")}), made=("length",))
    given = {name: value for name, value in (RIGHT | changes).items() if value is not None}
    with pytest.raises(InvalidInput) as met:
        check_inputs(program, GRAPH, 2, Inputs(given))
    assert words in str(met.value)


def test_inputs_are_of_their_class():
    with pytest.raises(InvalidInput) as met:
        check_inputs(program_of(with_inputs), GRAPH, 2, {"x0": 1})
    assert str(met.value) == "inputs() of test returned dict; it must return Inputs(...)"
