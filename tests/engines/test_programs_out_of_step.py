"""Which programs Scaph may process out of step, and which message, step or reduction forbids it in others."""

import pytest

from engines.outofmemory.scaph.asynchronous import ordered, out_of_step
from engines.outofmemory.schedules import ScaphSchedule
from harness.language import minimum
from harness.language.analysis import unfolded
from harness.lowering.setting import LoweredProgram
from tests.engines.problems import program
from tests.engines.programs import traced


def made(*, steps=None, several=False, repeat=False, whole=False):
    """Return distances along edges, with more than that."""

    def build(p, self):
        p.vertex("x0")
        p.vertex("x", start="x0")
        if whole:
            p.over_graph(into="most", reduce="max")(lambda v: v.x)
        p.over_edges(into="near", reduce="min")(lambda src: src.x + 1.0)
        if several:
            p.over_edges(into="far", reduce="min")(lambda src: src.x + 2.0)

        @p.over_vertices
        def step(v, graph):
            near = minimum(v.near, v.far) if several else v.near
            if whole:
                near = near + 0.0 * graph.most
            return {"x": steps(v) if steps else minimum(v.x, near)}

        if repeat:
            p.repeat(3)
        else:
            p.until_settled(at_most=99)
        p.output("x", bound=0.0)

    return traced(build, "made")


def second_step():
    """Return distances that another step reads and writes."""

    def build(p, self):
        p.vertex("x0")
        p.vertex("x", start="x0")
        p.vertex("y", start="x0")
        p.over_edges(into="near", reduce="min")(lambda src: src.x + 1.0)
        p.over_vertices(lambda v: {"x": minimum(v.x, v.near), "y": v.x})
        p.until_settled(at_most=99)
        p.output("x", bound=0.0)

    return traced(build, "second_step")


def counted():
    """Return distances, and their sum in every superstep."""

    def build(p, self):
        p.vertex("x0")
        p.vertex("x", start="x0")
        p.over_edges(into="near", reduce="min")(lambda src: src.x + 1.0)
        p.over_vertices(lambda v: {"x": minimum(v.x, v.near)})
        p.over_graph(into="total", reduce="max")(lambda v: v.x)
        p.until_settled(at_most=99)
        p.output("x", bound=0.0)

    return traced(build, "counted")


SUM = "is a sum, of which every message counts once"
NOT_MIN = "step does not set 'x' to min(old, aggregate, constants)"
PROGRAMS = {
    "made": (made, ""),
    "bfs": (lambda: program("bfs"), ""),
    "sssp": (lambda: program("sssp"), ""),
    "components": (lambda: program("components"), ""),
    "kcore": (lambda: program("kcore"), f"count {SUM}"),
    "pagerank": (lambda: program("pagerank"), f"share {SUM}"),
    "als": (lambda: program("als"), f"score {SUM}"),
    "hits": (lambda: program("hits"), f"pointed_at {SUM}"),
    "repeated": (lambda: made(repeat=True), "the program does not end when nothing moves"),
    "two reductions": (lambda: made(several=True), NOT_MIN),
    "a value of the graph": (lambda: made(whole=True), NOT_MIN),
    "replaced": (lambda: made(steps=lambda v: v.near), NOT_MIN),
    "another step": (second_step, "stage_2 does more than bound 'x'"),
    "a reduction over the graph": (counted, "stage_3 reduces over the graph in every superstep"),
}


def reason(posed):
    lowered = LoweredProgram.of(posed)
    return ordered(lowered, unfolded(lowered.program))


@pytest.mark.parametrize("name", PROGRAMS)
def test_why_answers_depend_on_the_order_of_messages(name):
    posed, wanted = PROGRAMS[name]
    assert reason(posed()) == wanted
    lowered = LoweredProgram.of(posed())
    for options, given, once in (
        ({"rounds": 2}, "rounds=2", "rounds=1"), ({"low_rounds": 5}, "low_rounds=5", "low_rounds=1"),
        ({"rounds": 3, "low_rounds": 4}, "rounds=3, low_rounds=4", "rounds=1 and low_rounds=1"),
    ):  # fmt: skip
        found = out_of_step(lowered, unfolded(lowered.program), ScaphSchedule(**options))
        text = f"{given} processes subgraphs asynchronously, but {wanted}; give {once}"
        assert found == (text if wanted else "")
    assert out_of_step(lowered, unfolded(lowered.program), ScaphSchedule()) == ""
