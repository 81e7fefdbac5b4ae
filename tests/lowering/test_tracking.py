"""Which groups of stages a change marks: groups as readers of properties."""

import dataclasses

import pytest

from harness.algorithms.als import ALS
from harness.algorithms.belief_propagation import BeliefPropagation
from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.label_propagation import LabelPropagation
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.language import Algorithm, maximum, minimum, trace, where
from harness.language.analysis import fold_groups, unfolded, watched
from harness.lowering.accumulators import separated
from harness.lowering.log_products import products_as_sums
from harness.lowering.tracking import Tracking, composed_writes, live_after
from tests.engines.programs import program_named


def names(groups):
    return [Tracking.name(group) for group in groups]


def tracked(program, *, fold=True):
    groups = fold_groups(program, "pull") if fold else unfolded(program)
    return Tracking(program, groups, True, watched(program))


def test_folded_label_propagation_listens_to_itself():
    tracking = tracked(trace(LabelPropagation()))
    (group,) = tracking.groups
    assert tracking.sources(group) == ("lp",)
    assert tracking.own(group) == ("lp",)  # values that it reduces and derives are its own
    assert names(tracking.stale_groups("lp")) == names(tracking.listening_groups("lp")) == ["spread"]


def test_unfolded_steps_follow_each_other():
    tracking = tracked(trace(LabelPropagation()), fold=False)
    assert names(tracking.groups) == ["spread", "n_aggr", "prob", "settle"]
    assert names(tracking.stale_groups("aggr")) == ["n_aggr"]
    assert names(tracking.stale_groups("n_aggr")) == ["prob"]
    assert names(tracking.stale_groups("lp")) == ["prob"]
    assert names(tracking.listening_groups("lp")) == ["spread"]
    assert names(tracking.stale_groups("seed")) == ["settle"] or tracking.stale_groups("seed") == ()


def test_reductions_over_the_graph_mark_no_vertices_stale():
    tracking = tracked(trace(PageRank()))
    assert names(tracking.groups) == ["dangling", "share"]
    assert "dangling" not in names(tracking.stale_groups("rank"))
    assert tracking.of_graph(tracking.groups[1]) == ("dangling",)


def test_als_reads_its_own_vertex_only_through_its_reduction():
    tracking = tracked(trace(ALS()))
    (group,) = tracking.groups
    assert tracking.own(group) == ()
    assert tracking.sources(group) == ("lf",)


@pytest.mark.parametrize("algorithm", [BFS, SSSP, Components, KCore])
@pytest.mark.parametrize("fold", [True, False])
def test_steps_that_only_bound_their_property_do_not_mark_themselves(algorithm, fold):
    """minimum(level, nearest) applied again gives the same; so does where(neighbours >= core, alive, 0)."""
    program = trace(algorithm())
    (name,) = program.outputs
    tracking = tracked(program, fold=fold)
    assert name in tracking.own(tracking.groups[-1])
    assert tracking.stale_groups(name) == tracking.groups[-1:]
    assert tracking.stale_after(name) == ()


@pytest.mark.parametrize(
    ("step", "hears"),
    [
        (lambda v: {"x": minimum(maximum(v.x, 1.0), v.heard)}, False),
        (lambda v: {"x": where(v.heard > 1.0, minimum(v.x, v.heard), 2.0)}, False),
        (lambda v: {"x": v.x}, False),
        (lambda v: {"x": minimum(v.x + 1.0, v.heard)}, True),
        (lambda v: {"x": minimum(v.x, v.heard - v.x)}, True),
        (lambda v: {"x": where(v.x > 1.0, v.x, v.heard)}, True),
        (lambda v: {"x": where(v.heard > 1.0, v.x, v.x + 1.0)}, True),
        (lambda v: {"x": minimum(v.x, v.heard), "y": v.x}, True),
        (lambda v: {"x": minimum(v.x, v.heard), "y": v.heard}, False),
        (lambda v: {"x": minimum(v.y, v.heard), "y": v.x}, True),
    ],
)
def test_groups_that_read_their_own_writes(step, hears):
    class Bounded(Algorithm):
        name = "bounded"

        def build(self, p):
            p.vertex("x", start=1.0)
            p.vertex("y", start=2.0)
            p.over_edges(into="heard", reduce="min")(lambda src: src.x)
            p.over_vertices(step)
            p.repeat(3)
            p.output("x", bound=0.0)

    tracking = tracked(trace(Bounded()))
    assert bool(tracking.stale_after("x")) == hears


def test_a_bound_on_what_messages_read_at_their_destination_is_not_only_a_bound():
    """A smaller x of a vertex gives smaller messages to it: its reduction is stale."""

    class Halfway(Algorithm):
        name = "halfway"

        def build(self, p):
            p.vertex("x", start=1.0)
            p.over_edges(into="heard", reduce="min")(lambda src, dst: 0.5 * (src.x + dst.x))
            p.over_vertices(lambda v: {"x": minimum(v.x, v.heard)})
            p.repeat(3)
            p.output("x", bound=0.0)

    tracking = tracked(trace(Halfway()))
    assert tracking.stale_after("x") == tracking.groups


def test_bounds_with_a_second_writer_do_not_count():
    tracking = tracked(program_named("two_writers"), fold=False)
    assert tracking.stale_after("y") == tracking.stale_groups("y")


def test_every_writer_of_a_shared_property_is_marked_by_the_others():
    tracking = tracked(program_named("two_writers"), fold=False)
    assert {"first", "second"} <= set(names(tracking.stale_groups("y")))


def test_values_that_only_a_group_reads_are_not_live():
    program = trace(LabelPropagation())
    (group,) = fold_groups(program, "pull")
    live = live_after(program, group.stages)
    assert live == {"lp"}
    assert [name for name, _ in composed_writes(program, group, live)] == ["lp"]
    alone = unfolded(program)
    assert live_after(program, alone[0].stages) == {"aggr"}
    assert live_after(program, alone[1].stages) == {"n_aggr"}


@pytest.mark.parametrize("fold", [True, False])
def test_temporaries_read_by_others_are_live(fold):
    program = program_named("aggregate_rewritten")
    groups = fold_groups(program, "push") if fold else unfolded(program)
    written = {name for group in groups for name in live_after(program, group.stages)}
    assert {"aggr", "second", "x", "drift"} <= written


def test_groups_hear_what_earlier_groups_of_a_superstep_write():
    tracking = tracked(program_named("two_writers"), fold=False)
    groups = dict(zip(names(tracking.groups), tracking.groups, strict=True))
    heard = {"spread", "spread_again"}
    assert {name for name, group in groups.items() if tracking.moved_before(group)} == heard
    assert {name for name, group in groups.items() if tracking.hears_at_once(group)} == heard
    order = list(groups)
    for number, name in enumerate(order):
        behind = [other for other in order if tracking.propagates_after(groups[name], groups[other])]
        assert behind == order[:number]
    assert {name: tracking.own(group) for name, group in groups.items()} == {
        "first": ("x",), "spread": (), "second": ("y",), "spread_again": (), "last": ("aggr", "other"),
    }  # fmt: skip
    alternating = dataclasses.replace(tracking.program.control, alternate=True)
    sides = dataclasses.replace(tracking, program=dataclasses.replace(tracking.program, control=alternating))
    assert not any(sides.hears_at_once(group) for group in sides.groups)
    assert not any(sides.propagates_after(one, other) for one in sides.groups for other in sides.groups)


def test_a_reduction_reads_its_destination_as_its_own_vertex():
    gather, move = tracked(program_named("reads_destination"), fold=False).groups
    tracking = tracked(program_named("reads_destination"), fold=False)
    assert (tracking.own(gather), tracking.sources(gather)) == (("x", "y"), ("x",))
    assert (tracking.destinations(gather), tracking.destinations(move)) == (("x", "y"), ())
    assert tracking.own(move) == ("x", "pull", "y")
    assert names(tracking.stale_groups("y")) == ["difference", "move"]


def test_a_property_that_is_watched_reaches_memory():
    program = trace(LabelPropagation())
    groups = unfolded(program)
    assert Tracking(program, groups, False, (("vertex", "prob"),)).live(groups[2].stages) == {"prob"}
    assert Tracking(program, groups, False, (("vertex", "n_aggr"),)).live(groups[2].stages) == {"prob"}
    (group,) = fold_groups(program, "pull")
    assert Tracking(program, (group,), False, (("vertex", "prob"),)).live(group.stages) == {"lp", "prob"}


def test_an_update_hears_every_change_of_the_parts_of_a_product():
    """The tolerance was applied to its factors; what the program itself watches is compared with the tolerance."""
    program = program_named("beliefs")
    lowered = separated(products_as_sums(program))
    tracking = Tracking(lowered, unfolded(lowered), True, watched(program))
    (update,) = (group for group in tracking.groups if group.kind == "update")
    parts = tracking.sources(update)
    assert parts
    assert all(tracking.exact(update, name) for name in parts)
    assert tracking.sent(update) == ()
    seen = dataclasses.replace(tracking, watches=tuple(("vertex", name) for name in parts))
    assert not any(seen.exact(update, name) for name in parts)
    assert seen.sent(update) == parts
    others = [group for group in tracking.groups if group is not update]
    assert not any(tracking.exact(group, name) for group in others for name in parts)


@pytest.mark.parametrize("fold", [True, False])
def test_readers_of_an_edge_property_are_the_groups_that_read_it(fold):
    tracking = tracked(separated(products_as_sums(trace(BeliefPropagation()))), fold=fold)
    for name in {prop.name for prop in tracking.program.properties.values() if prop.place == "edge"}:
        found = tracking.edge_readers(name)
        assert all(spaces for _, spaces in found)
        readers = [group for group in tracking.groups if any(read == name for _, read in tracking.edges(group))]
        assert [group for group, _ in found] == readers
