"""Bounds of all messages of a program of paths: derived, or refused for a reason, and never exceeded in float32."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.language import K, exp, maximum, minimum, total, trace, where
from harness.language.evaluation import Evaluator
from harness.language.message_bounds import BEST, EXTREME, MessageBound, message_bound
from tests.language.programs import program_of

MESSAGES = {
    "the source's value": lambda src, edge: src.x,
    "a step": lambda src, edge: src.x + 1.0,
    "a length": lambda src, edge: src.x + edge.weight,
    "lengths of the edge and its source": lambda src, edge: (src.x + edge.weight) + src.toll,
    "a bottleneck": lambda src, edge: minimum(src.x, edge.weight),
    "a floor": lambda src, edge: maximum(src.x - 0.5, edge.weight),
    "a share": lambda src, edge: src.x * 0.3,
}
REFUSED = {
    "decreases": (lambda src, edge: src.x - edge.weight, "does not increase with all that it reads"),
    "multiplies and adds": (lambda src, edge: src.x * 0.5 + edge.weight, "multiplies and adds"),
    "multiplies by zero": (lambda src, edge: src.x * 0.0, "multiplies by 0"),
    "exp": (lambda src, edge: exp(src.x), "has the operation exp"),
    "chooses": (lambda src, edge: where(edge.weight > 1.0, src.x, src.x + 1.0), "has the operation"),
    "mixes features": (lambda src, edge: src.x + total(src.x), "has the operation sum"),
}


def tightened(message, reduce="min", *, twice=False, tolerance=False):
    """Return a program that bounds ``x`` by messages; in two steps, or within a tolerance."""

    def build(p, self):
        p.edge("weight")
        p.vertex("toll")
        p.vertex("start", K)
        p.vertex("x", K, start="start")
        bound = minimum if reduce == "min" else maximum

        @p.over_edges(into="found", reduce=reduce)
        def send(src, edge):
            return message(src, edge)

        @p.over_vertices
        def settle(v):
            return {"x": bound(v.x, v.found)}

        if twice:

            @p.over_vertices
            def limit(v):
                return {"x": bound(v.x, 7.0)}

        p.until_settled(*([self.tolerance] if tolerance else []), at_most=99)
        p.output("x", bound=1e-6)

    return program_of(build)


@given(st.sampled_from(sorted(MESSAGES)), st.sampled_from(["min", "max"]), st.integers(0, 2**32 - 1))
def test_no_message_in_float32_is_better_than_the_bound(name, reduce, seed):
    found = message_bound(tightened(MESSAGES[name], reduce))
    assert isinstance(found, MessageBound), found
    assert (found.state, found.minimizes) == ("x", reduce == "min")
    rng = np.random.default_rng(seed)
    values = {one: rng.uniform(-9, 9, (40, 2) if one == "x" else 40).astype(np.float32) for one in ("x", *found.inputs)}
    best = np.min if found.minimizes else np.max
    extremes = {one: best(array, axis=0, keepdims=True) for one, array in values.items()}
    spaces = {"src": values, "edge": values, BEST: extremes, EXTREME: extremes}
    evaluate = Evaluator(lambda space, one: spaces[space][one], {}, 2, np.float32)
    messages, bound = evaluate(found.reduction.message), evaluate(found.message)
    assert messages.dtype == bound.dtype == np.float32
    assert (bound <= messages if found.minimizes else bound >= messages).all()


@pytest.mark.parametrize("name", REFUSED)
def test_messages_without_a_bound(name):
    message, reason = REFUSED[name]
    assert reason in str(message_bound(tightened(message)))


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"twice": True}, "settle and limit write 'x'"),
        ({"tolerance": True}, "test ends within a tolerance, below which movement of 'x' is not sent"),
    ],
)
def test_other_programs_without_a_bound(options, reason):
    assert message_bound(tightened(MESSAGES["a length"], **options)) == reason


@pytest.mark.parametrize(
    ("algorithm", "wanted"),
    [
        (BFS(), ("level", ())), (SSSP(), ("distance", ("weight",))), (Components(), ("label", ())),
        (KCore(core=3), "count reduces by sum, of which every message counts"),
        (PageRank(), "pagerank is not one reduction over edges that moves one property"),
    ],
)  # fmt: skip
def test_built_in_algorithms(algorithm, wanted):
    found = message_bound(trace(algorithm))
    assert (found if isinstance(found, str) else (found.state, found.inputs)) == wanted
