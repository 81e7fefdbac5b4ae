"""Messages that are computed once per source vertex."""

from __future__ import annotations

import dataclasses

from harness.language.program import EdgeReduce, VertexStep
from harness.lowering.made_at_sources import made_at_sources
from tests.engines.problems import program


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
