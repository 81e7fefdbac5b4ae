"""Programs that no lowering accepts: the reasons, and what they depend on."""

from __future__ import annotations

import dataclasses

import pytest

from harness.facts import GraphFacts
from harness.language.program import EdgeUpdate
from harness.lowering.refusals import MAX_LANES, unsupported
from tests.engines.names import named
from tests.engines.problems import program
from tests.engines.programs import program_named, traced, whole_graph
from tests.language.programs import program_of
from tests.language.test_edge_steps import stepping

GRAPH = GraphFacts(10, 20, 3, paired=True, bipartite=(5, 5))


def reason(traced_program, features=2, graph=GRAPH, *, change_driven=False, **given):
    return unsupported(traced_program, graph, features, change_driven=change_driven, **given)


def product_over_graph(p, self):
    p.vertex("x", start=1.0)
    p.over_graph(into="all", reduce="prod")(named(lambda v: v.x, "everything"))
    p.over_edges(into="aggr", reduce="sum")(named(lambda src: src.x, "spread"))
    p.over_vertices(named(lambda v, graph: {"x": v.aggr / graph.all}, "step"))
    p.repeat(3)
    p.output("x", bound=1e-3)


def rows_of(elements):
    """Return a program whose values have rows of some elements, whatever the number of features is."""

    def build(p, self):
        p.vertex("x", (2, elements), start=1.0)
        p.over_vertices(named(lambda v: {"x": 0.5 * v.x}, "halve"))
        p.repeat(3)
        p.output("x", bound=1e-3)

    return traced(build, "rows")


def moving_sum(space):
    """Return a program whose sum over the graph reads a property that edge stages read from ``space`` only."""

    def build(p, self):
        p.vertex("x", start=1.0)
        p.vertex("y", start=1.0)
        p.edge("flow", start=0.0)
        p.over_graph(into="all", reduce="sum")(named(lambda v: v.y, "moving"))
        if space == "dst":
            p.over_edges(updates="flow")(named(lambda edge, dst: 0.5 * edge.flow + dst.y, "update"))
        else:
            p.over_edges(updates="flow")(named(lambda edge, src: 0.5 * edge.flow + src.x, "update"))
        p.over_edges(into="aggr", reduce="sum")(named(lambda src, edge: src.x * edge.flow, "spread"))
        p.over_vertices(named(lambda v, graph: {"x": v.aggr / graph.all, "y": 0.5 * v.y}, "step"))
        p.repeat(3)
        p.output("x", bound=1e-3)

    return build


@pytest.mark.parametrize("features", [0, -1, MAX_LANES + 1])
def test_the_number_of_features_has_limits(features):
    assert reason(program("pagerank"), features) == f"features={features}: this engine handles 1 to {MAX_LANES}"
    assert [reason(program("pagerank"), k) for k in (1, MAX_LANES)] == ["", ""]


def test_a_row_has_at_most_as_many_elements_as_there_may_be_features():
    assert reason(rows_of(MAX_LANES)) == ""
    message = f"a value of the program has {MAX_LANES + 1} elements in a row; this engine handles 1 to {MAX_LANES}"
    assert reason(rows_of(MAX_LANES + 1)) == message


def test_what_a_program_needs_of_its_graph():
    als, reverse = program("als"), program_named("beliefs")
    assert reason(als) == ""
    alternates = "the program alternates sides and the graph is not bipartite"
    assert reason(als, graph=dataclasses.replace(GRAPH, bipartite=None)) == alternates
    assert reason(reverse) == ""
    unpaired = dataclasses.replace(GRAPH, paired=False)
    assert "reads reverse edges, but some edges of the graph have none" in reason(reverse, graph=unpaired)
    assert reason(program("pagerank"), graph=unpaired) == ""


def test_products_over_the_graph_are_not_lowered():
    assert reason(traced(product_over_graph, "product")) == (
        "everything is a product over the whole graph, which is not lowered"
    )
    assert reason(traced(whole_graph, "sums")) == ""


def test_updates_of_edges_need_their_changes_tracked_and_both_sides_at_once():
    traced_program = program_named("beliefs")
    (update,) = (stage for stage in traced_program.stages if isinstance(stage, EdgeUpdate))
    untracked = f"{update.name} updates an edge property, whose changes are not tracked"
    assert reason(traced_program, change_driven=True) == untracked
    assert reason(traced_program, change_driven=True, tracks_edges=True) == ""
    alternating = dataclasses.replace(
        traced_program, control=dataclasses.replace(traced_program.control, alternate=True)
    )
    assert reason(alternating) == f"{update.name} updates edges of both sides, and the program alternates sides"


@pytest.mark.parametrize(("space", "tracked"), [("dst", True), ("src", False)])
def test_a_reduction_over_the_graph_reads_what_edges_track(space, tracked):
    traced_program = traced(moving_sum(space), "a moving sum")
    assert reason(traced_program) == reason(traced_program, tracks_edges=True) == ""
    message = "" if tracked else "moving reduces 'y', whose movement no edge stage tracks"
    assert reason(traced_program, change_driven=True, tracks_edges=True) == message


def test_steps_in_place_need_an_engine_of_them():
    traced_program = program_of(lambda p, self: stepping(p, self))
    assert reason(traced_program) != ""
    assert reason(traced_program, in_place=True) == ""
