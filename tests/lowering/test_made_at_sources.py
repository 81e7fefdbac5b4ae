"""Messages that are computed once per source vertex."""

from __future__ import annotations

import dataclasses

import pytest

from harness.language import K, outer
from harness.language.program import EdgeReduce, VertexStep
from harness.lowering.made_at_sources import made_at_sources
from tests.engines.names import named
from tests.engines.problems import program
from tests.engines.programs import traced


def test_messages_of_several_properties_are_made_at_their_source():
    made = made_at_sources(program("pagerank"))
    reductions = [stage for stage in made.stages if isinstance(stage, EdgeReduce)]
    assert [stage.message.op for stage in reductions] == ["read"]
    steps = {name for stage in made.stages if isinstance(stage, VertexStep) for name in stage.writes}
    assert steps == {"rank", reductions[0].message.attribute[1]}
    for name in ("bfs", "label_propagation", "als_all", "belief_propagation"):
        assert made_at_sources(program(name)) is program(name)


def test_the_sending_side_runs_no_steps_if_sides_alternate():
    made = made_at_sources(program("pagerank"))
    alternating = dataclasses.replace(made.control, alternate=True)
    pagerank = dataclasses.replace(program("pagerank"), control=alternating)
    assert made_at_sources(pagerank) is pagerank


def test_reductions_in_a_row_stay_together():
    def build(p, self):
        p.vertex("x", start=1.0)
        p.over_edges(into="a", reduce="sum")(named(lambda src: src.x / src.out_degree, "one"))
        p.over_edges(into="b", reduce="max")(named(lambda src: src.x * src.in_degree, "two"))
        p.over_edges(into="c", reduce="max")(named(lambda src: src.b * src.in_degree, "three"))
        p.over_vertices(named(lambda v: {"x": v.a + v.b + v.c}, "step"))
        p.repeat(2)
        p.output("x", bound=1e-5)

    made = made_at_sources(traced(build, "several"))
    assert [stage.name for stage in made.stages] == [
        "one_make", "two_make", "one", "two", "three_make", "three", "step",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("message", "made"),
    [
        (lambda src: src.x / src.out_degree, True),
        (lambda src: src.x * src.y, True),
        (lambda src: src.a * src.out_degree, True),
        (lambda src: 2.0 * src.x, False),  # one property
        (lambda src: src.x * src.x, False),
        (lambda src, dst: src.x * dst.out_degree, False),
        (lambda src, edge: src.x * src.out_degree * edge.weight, False),
        (lambda src, graph: src.x * src.a / graph.num_vertices, False),
        (lambda src, dst: dst.x * dst.a, False),
    ],
)
def test_messages_of_several_properties_of_the_source_alone_are_made_there(message, made):
    def build(p, self):
        p.vertex("x", K, start=1.0)
        p.vertex("y", K, start=1.0)
        p.vertex("a", start=1.0)
        p.edge("weight")
        p.over_edges(into="heard", reduce="sum")(named(message, "send"))
        p.over_vertices(named(lambda v: {"x": 0.5 * v.x, "a": 0.5 * v.a}, "step"))
        p.over_vertices(named(lambda v: {"y": v.y + v.heard}, "take"))
        p.repeat(2)
        p.output("y", bound=1e-5)

    traced_program = traced(build, "one message")
    found = made_at_sources(traced_program)
    if not made:
        assert found is traced_program
        return
    step, reduction = found.stages[:2]
    assert (step.name, step.writes, reduction.name) == ("send_make", ("send_sent",), "send")
    assert reduction.message.attribute == ("src", "send_sent")
    assert found.properties["send_sent"].shape == reduction.message.shape
    assert found.stages[2:] == traced_program.stages[1:]


def test_a_message_larger_than_what_it_reads_is_not_made():
    def build(p, self):
        p.vertex("x", K, start=1.0)
        p.vertex("y", K, start=1.0)
        p.over_edges(into="square", reduce="sum")(named(lambda src: outer(src.x, src.y), "send"))
        p.over_vertices(named(lambda v: {"x": v.square @ v.x}, "step"))
        p.repeat(2)
        p.output("x", bound=1e-3)

    traced_program = traced(build, "matrices")
    assert made_at_sources(traced_program) is traced_program


def test_names_of_the_program_are_not_taken():
    def build(p, self):
        p.vertex("x", start=1.0)
        p.vertex("send_sent", start=1.0)
        p.over_edges(into="a", reduce="sum")(named(lambda src: src.x / src.out_degree, "send"))
        p.over_vertices(named(lambda v: {"x": v.a + v.send_sent}, "send_make"))
        p.repeat(2)
        p.output("x", bound=1e-5)

    found = made_at_sources(traced(build, "names"))
    assert [stage.name for stage in found.stages] == ["send_make_", "send", "send_make"]
    assert found.stages[0].writes == ("send_sent_",)
