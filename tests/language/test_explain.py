from __future__ import annotations

import math

import pytest

from harness.algorithms.als import ALS
from harness.language import K, minimum, outer, total, trace, where
from harness.language.explain import explain_program
from tests.language.programs import program_of


def test_als_is_explained_in_full():
    assert explain_program(trace(ALS(lam=0.1, tolerance=1e-5))) == (
        "program als\n"
        "  edge rating: float() (input)\n"
        "  vertex initial: float(K,) (input)\n"
        "  vertex lf: float(K,) (state, start initial)\n"
        "  vertex sc: float(K,) (temporary)\n"
        "  vertex ic: float(K, K) (temporary)\n"
        "  score: sc(v) = sum over in-edges of (edge.rating * src.lf)\n"
        "  gram: ic(v) = sum over in-edges of outer(src.lf, src.lf)\n"
        "  solve: lf(v) = solve_spd((v.ic + ((self.lam * where(self.weighted, maximum(v.degree, 1), 1)) * eye(K))), "
        "v.sc)\n"
        "  supersteps: until settled (within self.tolerance, absolute), at most 30, alternating sides\n"
        "  output lf, relative error at most 0.0015\n"
        "watched: vertex lf\n"
        "settled when no entry of lf moves by more than self.tolerance, absolute; measured in every 4th superstep\n"
        "fold groups (push)\n"
        "  edge: score, gram\n"
        "  vertex: solve\n"
        "fold groups (pull)\n"
        "  edge+vertex: score, gram, solve (stays within: sc, ic)\n"
        "change-driven\n"
        "  score: linear: when src.lf has moved, the edge adds (edge.rating * (src.lf - sent.lf))\n"
        "  gram: difference: when src.lf has moved, the edge adds "
        "(outer(src.lf, src.lf) - outer(sent.lf, sent.lf))"
    )


def guarded(p, self):
    p.edge("weight")
    p.vertex("x", K, start=1.0)
    p.edge("msg", K, start=0.5)

    @p.over_edges(updates="msg", when=lambda src: total(src.x) > 0)
    def message(src, edge):
        return src.x * edge.weight

    @p.over_edges(into="aggr", reduce="min")
    def gather(edge):
        return edge.msg

    @p.over_vertices(when=lambda v: v.in_degree > 1)
    def step(v):
        return {"x": v.aggr}

    @p.over_graph(into="mass", reduce="sum")
    def weigh(v):
        return total(v.x)

    p.repeat(4)
    p.output("x", bound=1e-3)


def test_guards_read_as_conditions_not_as_where():
    lines = [line.strip() for line in explain_program(program_of(guarded)).splitlines()]
    assert "message: msg(u, v) = (src.x * edge.weight) where (total(src.x) > 0), else unchanged" in lines
    assert "gather: aggr(v) = min over in-edges where (total(src.x) > 0) of edge.msg" in lines
    assert "step_guard: step_guard(v) = (v.in_degree > 1)" in lines
    assert "step: x(v) = v.aggr where v.step_guard, else unchanged" in lines
    assert "weigh: mass = sum over vertices of total(v.x)" in lines
    assert "supersteps: 4" in lines
    assert "watched: nothing, the number of supersteps is fixed" in lines
    assert not any("where(" in line for line in lines)


def test_a_reduction_without_change_driven_form_says_why_and_the_others_keep_theirs():
    text = explain_program(program_of(guarded))
    assert "change-driven: not the whole program, because gather is a min of an edge's changing property 'msg'" in text
    assert "gather: no form: gather is a min of an edge's changing property 'msg'" in text

    def half(p, self):
        p.edge("weight")
        p.vertex("d", start=0.0)

        @p.over_edges(into="mass", reduce="sum")
        def spread(src):
            return total(outer_of(src)) * src.d

        @p.over_edges(into="best", reduce="min")
        def offer(src, edge):
            return src.d * edge.weight

        @p.over_vertices
        def take(v):
            return {"d": minimum(v.d, v.best)}

        p.output("d", bound=1e-3)

    def outer_of(src):
        from harness.language import stack

        return outer(stack(src.degree, 1.0), stack(1.0, 2.0))

    text = explain_program(program_of(half))
    assert "not the whole program, because the message of offer is not monotone in its source" in text
    assert "spread: linear: when src.d has moved" in text
    assert "offer: no form: the message of offer is not monotone in its source" in text


@pytest.mark.parametrize(
    ("reduce", "other", "line"),
    [
        ("sum", 0.0, "sum over in-edges where (src.x > 3) of src.x"),
        ("sum", 2.0, "sum over in-edges of where((src.x > 3), src.x, 2)"),
        ("prod", 1.0, "prod over in-edges where (src.x > 3) of src.x"),
        ("prod", 0.0, "prod over in-edges of where((src.x > 3), src.x, 0)"),
        ("max", -math.inf, "max over in-edges where (src.x > 3) of src.x"),
        ("max", 0.0, "max over in-edges of where((src.x > 3), src.x, 0)"),
        ("min", math.inf, "min over in-edges where (src.x > 3) of src.x"),
    ],
)
def test_only_a_message_that_is_otherwise_nothing_is_one_of_some_edges(reduce, other, line):
    def build(p, self):
        p.vertex("x", start=1.0)
        p.over_edges(into="y", reduce=reduce)(lambda src: where(src.x > 3, src.x, other))
        p.over_vertices(lambda v: {"x": where(v.y > 0, v.y, 5.0)})
        p.repeat(1)
        p.output("x", bound=1.0)

    lines = [one.strip() for one in explain_program(program_of(build)).splitlines()]
    assert f"stage: y(v) = {line}" in lines
    assert "stage_2: x(v) = where((v.y > 0), v.y, 5)" in lines


def test_what_one_group_writes_and_no_other_reads_stays_within_it():
    def build(p, self):
        p.vertex("x", start=1.0)
        p.over_vertices(lambda v: {"half": 0.5 * v.x})
        p.over_vertices(lambda v: {"twice": 2.0 * v.half, "sent": v.half + 1.0})
        p.over_edges(into="y", reduce="sum")(lambda src: src.sent)
        p.over_vertices(lambda v: {"x": v.y + v.twice})
        p.repeat(1)
        p.output("x", bound=1.0)

    lines = [one.strip() for one in explain_program(program_of(build)).splitlines()]
    assert "vertex: stage, stage_2 (stays within: half)" in lines
    assert "edge: stage_3" in lines
    assert "edge+vertex: stage_3, stage_4 (stays within: y)" in lines
