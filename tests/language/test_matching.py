"""Which programs are the same up to names."""

from __future__ import annotations

import pytest

from harness.algorithms.kcore import KCore
from harness.algorithms.recognition import TEMPLATES, recognised
from harness.algorithms.recognition_of_sgd import recognised_sgd
from harness.algorithms.sgd_mf import RATES, SGDMatrixFactorisation
from harness.language import Algorithm, K, maximum, minimum, trace
from harness.language.matching import matched
from tests.language.programs import program_of


def relaxing(**changes):
    """Return a program with every kind of name; each keyword changes one thing."""
    change = changes.get
    x, y, given = change("names", ("x", "y", "given"))
    into = change("into", "near")

    def send(self, src, edge):
        rate, length = getattr(self, change("parameters", ("tol", "rate"))[1]), getattr(edge, change("edge", "weight"))
        value = getattr(src, x)
        return rate * (length * value) if change("swapped") else rate * (value * length)

    def update(v):
        near = getattr(v, into)
        own = getattr(v, given) if change("own") else getattr(v, x)
        values = {x: minimum(near + own * change("factor", 0.25), 9.0), y: getattr(v, change("builtin", "in_degree"))}
        return dict(reversed(values.items())) if change("reversed") else values

    class Relaxing(Algorithm):
        name = "relaxing"
        tol: float = 0.1
        rate: float = 0.5
        other: float = 0.5

        def build(self, p):
            p.edge("weight")
            p.edge("length")
            p.vertex(given, K)
            p.vertex("spare", K)
            p.vertex(x, K, start=change("start", given))
            p.vertex(y, start=change("constant", 0.0))
            if change("before"):
                p.over_vertices(lambda v: {y: getattr(v, y) + 1.0})
            p.over_edges(into=into, reduce=change("reduce", "sum"))(lambda src, edge: send(self, src, edge))
            p.over_vertices(update)
            if change("repeat"):
                p.repeat(3)
            else:
                tolerance = getattr(self, change("parameters", ("tol", "rate"))[0])
                p.until_settled(tolerance, at_most=change("at_most", 50), relative=change("relative", False))
            for output in change("outputs", (x, y)):
                p.output(output, bound=change("bound", 1e-4))

    return trace(Relaxing())


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"names": ("p", "q", "r")},
        {"into": "sum_of_near"},
        {"at_most": 7},
        {"bound": 1e-3},
        {"names": ("y", "x", "spare2")},
    ],
)
def test_names_limits_and_bounds_do_not_matter(changes):
    names = matched(relaxing(), relaxing(**changes))
    x, y, given = changes.get("names", ("x", "y", "given"))
    assert names.properties == {
        "x": x,
        "y": y,
        "given": given,
        "near": changes.get("into", "near"),
        "weight": "weight",
        "in_degree": "in_degree",
    }
    assert names.parameters == {"rate": "rate", "tol": "tol"}


def test_parameters_may_have_other_names():
    names = matched(relaxing(), relaxing(parameters=("rate", "other")))
    assert names.parameters == {"rate": "other", "tol": "rate"}


@pytest.mark.parametrize(
    "changes",
    [
        {"reduce": "max"},
        {"swapped": True},
        {"factor": 0.5},
        {"own": True},
        {"builtin": "out_degree"},
        {"repeat": True},
        {"relative": True},
        {"outputs": ("x",)},
        {"outputs": ("y", "x")},
        {"before": True},
        {"reversed": True},
        {"constant": 1.0},
        {"start": 0.0},
        {"start": "spare"},
        {"edge": "length"},
        {"parameters": ("rate", "rate")},
    ],
    ids=str,
)
def test_anything_else_makes_another_program(changes):
    if changes == {"start": "spare"}:  # the start may be any input of the same kind
        assert matched(relaxing(), relaxing(**changes)).properties["given"] == "spare"
        return
    assert matched(relaxing(), relaxing(**changes)) is None
    assert matched(relaxing(**changes), relaxing()) is None
    assert matched(relaxing(**changes), relaxing(**changes)) is not None


def test_two_names_are_not_one():
    def either(first, second):
        def build(p, self):
            p.vertex("a", K)
            p.vertex("b", K)
            p.vertex("x", K, start=0.0)
            p.over_edges(into="most", reduce="max")(lambda src: src.x)
            p.over_vertices(lambda v: {"x": maximum(v.most, getattr(v, first)) + getattr(v, second)})
            p.until_settled(at_most=9)
            p.output("x", bound=1e-4)

        return program_of(build)

    assert matched(either("a", "b"), either("b", "a")).properties["a"] == "b"
    assert matched(either("a", "b"), either("a", "a")) is None
    assert matched(either("a", "a"), either("a", "b")) is None


@pytest.mark.parametrize("kind", TEMPLATES)
def test_built_in_algorithms_are_recognised(kind):
    made = KCore(core=5) if kind == "kcore" else TEMPLATES[kind]()
    program = trace(made)
    found = recognised(program)
    assert (found.kind, found.core) == (kind, 5 if kind == "kcore" else 0)
    assert all(mine == theirs for mine, theirs in found.properties.items())
    assert set(program.outputs) <= set(found.properties)
    assert all(mine == theirs for mine, theirs in found.parameters.items())
    assert set(found.parameters) == ({"alpha", "tolerance"} if kind == "pagerank" else set())


def test_other_programs_are_not_recognised():
    assert recognised(relaxing()) is None
    assert recognised_sgd(relaxing()) is None
    assert recognised_sgd(trace(TEMPLATES["pagerank"]())) is None


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("bias", ["none", "both"])
def test_options_of_factorisation_are_recognised(rates, bias):
    program = trace(SGDMatrixFactorisation(bias=bias, rates=rates))
    found = recognised_sgd(program)
    [step] = program.stages
    assert (found.bias, found.rates, found.step) == (bias == "both", rates, "step")
    assert (found.order, found.conflicts) == (step.order, step.conflicts)
    assert found.properties["x"] == "x"
    assert ("b" in found.properties) == (bias == "both")
    assert found.parameters["lam"] == "lam"
