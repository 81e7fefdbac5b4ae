"""Messages that are computed once per source vertex."""

from __future__ import annotations

import dataclasses

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
