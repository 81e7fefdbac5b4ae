"""Choices of Onyx on the CPU: direction, whether supersteps track changes, what is prefetched, who never moves."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from engines.onyx import cpu_pull
from engines.onyx.cpu_plan import plan
from engines.onyx.cpu_tracking import LONGEST_WAIT, TrackingChoice
from engines.onyx.estimates import following_share, visited_share
from engines.onyx.fixed_vertices import never_moving
from engines.onyx.policy import Policy
from engines.onyx.ready_messages import ReadyMessages
from engines.onyx.resolve import far_rows, resolve
from engines.onyx.schedule import OnyxSchedule
from harness.device.cpu_cache import USUAL, own_cache_bytes
from harness.facts import DeviceFacts, GraphFacts, Spans
from harness.graph import Graph
from harness.graph.generators import grid
from harness.language.analysis import fold_groups
from harness.lowering.cpu.policy import CpuPolicy
from harness.lowering.setting import LoweredProgram
from harness.lowering.tracking import composed_writes, live_after
from tests.engines.problems import exact_trace, exactly, prepared, problem, program
from tests.engines.programs import traced

CPU = DeviceFacts("cpu", 2, cache_bytes=1 << 19)
FOLLOWS = OnyxSchedule(change_driven=True)
FACTS = GraphFacts(1000, 8000, 20)


# the tracking of a run ------------------------------------------------------------------------------------------------
def test_a_run_tracks_once_little_moves_and_follows_what_a_trial_finds():
    choice = TrackingChoice(0.1, 0.5)
    choice.begin("untracked")
    choice.after_untracked(0.4)
    assert choice.way == "untracked"
    choice.after_untracked(0.1)
    assert choice.way == "tracked"
    choice.after_tracked(0.05)
    assert choice.way == "sparse"
    assert choice.follows(0.1, again=False)
    assert not choice.follows(0.11, again=False)
    assert choice.follows(0.15, again=True)


def test_trials_that_fail_become_rare():
    choice = TrackingChoice(0.1, 0.5)
    choice.begin("untracked")
    waits = []
    for _ in range(9):
        untracked = 0
        while choice.way == "untracked":
            choice.after_untracked(1e-9)
            untracked += 1
        waits.append(untracked)
        choice.after_tracked(0.5)
    assert waits == [1, 1, 2, 4, 8, 16, 32, LONGEST_WAIT, LONGEST_WAIT]


def test_a_trial_shows_how_much_more_is_active_than_has_moved():
    choice = TrackingChoice(0.1, 0.5)
    choice.begin("untracked")
    choice.after_untracked(0.1)
    choice.after_tracked(0.4)
    choice.wait = 0
    choice.after_untracked(0.03)
    assert choice.way == "untracked"
    choice.after_untracked(0.025)
    assert choice.way == "tracked"


def test_supersteps_that_follow_correct_the_estimate_but_not_a_given_share():
    estimated, given = TrackingChoice(0.1, 0.5), TrackingChoice(0.1)
    for choice in (estimated, given):
        choice.begin("sparse")
        choice.after_sparse(100, 200)  # two edges for each that is followed
    assert estimated.follows(0.25, again=False)
    assert not estimated.follows(0.26, again=False)
    assert not given.follows(0.11, again=False)
    assert given.follows(0.2, again=True)
    estimated.begin("tracked")
    assert not estimated.follows(0.11, again=False)


@pytest.mark.parametrize("way", ["untracked", "tracked", "sparse"])
@pytest.mark.parametrize("visits", [None, 0.5])
def test_every_run_begins_as_the_first_whatever_runs_before_it_have_met(way, visits):
    first, rng = TrackingChoice(0.1, visits), np.random.default_rng(1)
    first.begin(way)
    used, met = TrackingChoice(0.1, visits), set()
    for _ in range(60):
        used.begin(way)
        assert used == first
        for _ in range(rng.integers(1, 9)):
            share = float(rng.choice([0.0, 0.01, 0.3, 1.0]))
            if used.way == "untracked":
                used.after_untracked(share)
            elif used.way == "tracked":
                used.after_tracked(share)
            else:
                used.after_sparse(10, int(rng.integers(10, 100)))
                if not used.follows(share, again=True):
                    used.crowded()
        met |= {name for name in vars(first) if getattr(used, name) != getattr(first, name)}
    assert met >= {"way", "wait", "pause", "moved", "ratio"} | ({"limit"} if visits else set())


@pytest.mark.parametrize("edges", [10, 1000, 13_700, 500_000])
def test_the_estimated_share_is_where_following_visits_half_of_the_edges(edges):
    facts = GraphFacts(1000, edges, 20)
    share = following_share(facts, Policy())
    assert 0 < share <= 1
    assert visited_share(facts, share) <= 0.5 + 1e-9
    assert share == 1 or visited_share(facts, share) == pytest.approx(0.5)
    assert visited_share(facts, share / 2) < visited_share(facts, share)


def test_all_changes_are_followed_on_a_graph_without_edges():
    assert following_share(GraphFacts(5, 0, 0), Policy()) == 1.0


class Scripted(TrackingChoice):
    """Take the ways of a list as far as they are possible: what has not been recorded cannot be followed."""

    ways: itertools.cycle

    def _next(self, *, recorded):
        wanted = next(self.ways)
        self.way = "tracked" if wanted == "sparse" and not recorded else wanted

    def begin(self, way):
        super().begin(way)
        self._next(recorded=way == "sparse")

    def after_untracked(self, moved):
        self._next(recorded=False)

    def after_tracked(self, active):
        self._next(recorded=True)

    def after_sparse(self, followed, visited):
        self._next(recorded=True)

    def follows(self, active, *, again):
        return True


SCRIPTS = ("U", "UT", "TSU", "UUUTSSUUTT", "TUTUUTSSSSUUU")
WAYS = {"U": "untracked", "T": "tracked", "S": "sparse"}
# Of the largest value. Sums are taken in the same order in every way; integers and extrema are exact.
ROUNDING = {"label_propagation": 5e-6, "pagerank": 2e-5, "manifold_ranking": 5e-6, "sssp": 1e-6, "components": 0.0}


@pytest.mark.parametrize("algorithm", ROUNDING)
@pytest.mark.parametrize("graph_name", ["grid", "rmat", "hub"])
def test_every_order_of_ways_propagates_everything(algorithm, graph_name, monkeypatch):
    """With tolerance 0; two runs, so that the second one begins in the state that the first one left."""
    graph, inputs = problem(algorithm, graph_name, 3)
    wanted = exact_trace(algorithm, graph_name, 3, 13)
    monkeypatch.setattr(cpu_pull, "TrackingChoice", Scripted)
    engine = prepared("onyx", {"direction": "pull"}, program(algorithm), graph, 3, 2)
    for script in SCRIPTS:
        Scripted.ways = itertools.cycle([WAYS[letter] for letter in script])
        engine.reset(exactly(inputs))
        for superstep, outputs in enumerate(wanted):
            engine.run(1)
            for name, value in outputs.items():
                scale = np.abs(value[np.isfinite(value)]).max(initial=0.0)
                np.testing.assert_allclose(
                    engine.values(name), value, rtol=0, atol=ROUNDING[algorithm] * scale,
                    err_msg=f"{script}, superstep {superstep}",
                )  # fmt: skip
    engine.close()


@pytest.mark.parametrize("graph_name", ["grid", "rmat"])
def test_label_propagation_ends_like_full_propagation_without_visiting_the_known_labels(graph_name):
    graph, inputs = problem("label_propagation", graph_name, 3)
    runs = []
    for followed in (True, False):
        engine = prepared("onyx", {"change_driven": followed}, program("label_propagation"), graph, 3, 1)
        for _ in range(2):
            engine.reset(inputs)
            statistics = engine.run(60)
        runs.append((statistics.supersteps, engine.values("lp")))
        engine.close()
    (steps, labels), (_, every) = runs
    assert np.abs(labels - every).max() <= 1e-4
    untracked = [step.edges for step in steps if step.direction == "untracked"]
    known = graph.in_degrees[inputs.properties["labelled"]].sum()
    assert untracked[:2] == [graph.num_edges] * 2
    assert untracked[2] == graph.num_edges - known
    assert known > 0


# what programs allow --------------------------------------------------------------------------------------------------
def group_of(algorithm):
    lowered = LoweredProgram.of(program(algorithm)).program
    (group,) = [group for group in fold_groups(lowered, "pull") if group.edge_stages]
    return lowered, group


def writes_of(algorithm):
    lowered, group = group_of(algorithm)
    return lowered, composed_writes(lowered, group, live_after(lowered, group.stages))


def test_vertices_whose_values_are_chosen_by_given_values_never_move():
    condition = never_moving(*writes_of("label_propagation"))
    assert condition is not None
    assert "labelled" in str(condition)
    for algorithm in ("pagerank", "manifold_ranking", "kcore", "sssp"):
        assert never_moving(*writes_of(algorithm)) is None


def test_messages_of_sources_only_are_made_once_per_source():
    ready = ReadyMessages.of(*group_of("pagerank"), 8.0)
    assert list(ready.made) == ["share_ready"]
    assert [stage.message.op for stage in ready.stages] == ["read"]
    assert not ReadyMessages.of(*group_of("pagerank"), 1.0).made
    for algorithm in ("label_propagation", "components", "bfs"):
        lowered, group = group_of(algorithm)
        found = ReadyMessages.of(lowered, group, 8.0)
        assert algorithm == "bfs" or not found.made


def test_other_messages_of_a_group_stay_and_names_are_new():
    """A message of the edge, one that only reads, and one whose name a property has."""

    def several(p, self):
        p.edge("w")
        for name in ("x0", "doubled_ready", "doubled_ready_"):
            p.vertex(name)
        p.vertex("x", start="x0")
        p.over_edges(into="a", reduce="sum")(lambda src, edge: edge.w * src.x)
        p.over_edges(into="b", reduce="sum")(lambda src: src.x)

        @p.over_edges(into="c", reduce="sum")
        def doubled(src):
            return 2.0 * src.x + src.doubled_ready

        p.over_vertices(lambda v: {"x": 0.1 * (v.a + v.b + v.c) + v.doubled_ready_})
        p.repeat(3)
        p.output("x", bound=1e-5)

    lowered = LoweredProgram.of(traced(several, "several")).program
    (group,) = (one for one in fold_groups(lowered, "pull") if one.edge_stages)
    ready = ReadyMessages.of(lowered, group, 8.0)
    assert list(ready.made) == ["doubled_ready__"]
    assert str(ready.made["doubled_ready__"]) == "((2 * v.x) + v.doubled_ready)"
    assert [(stage.into, str(stage.message)) for stage in ready.stages] == [
        ("a", "(edge.w * src.x)"), ("b", "src.x"), ("c", "src.doubled_ready__")
    ]  # fmt: skip
    assert set(ready.program.properties) == {*lowered.properties, "doubled_ready__"}
    after = ready.after([("x", group.vertex_steps[0].values[0][1])])
    assert str(after["doubled_ready__"]).endswith("+ v.doubled_ready_)) + v.doubled_ready)")


DIRECTIONS = {
    "bfs": "push", "sssp": "push", "components": "adaptive", "pagerank": "pull", "label_propagation": "pull"
}  # fmt: skip


@pytest.mark.parametrize(("algorithm", "direction"), DIRECTIONS.items())
def test_changes_along_paths_are_pushed_by_default(algorithm, direction):
    lowered = LoweredProgram.of(program(algorithm)).program
    for device, driven, expected in (
        (CPU, True, direction), (CPU, False, "pull"), (DeviceFacts("cuda"), True, "pull"),
    ):  # fmt: skip
        schedule = OnyxSchedule(change_driven=driven)
        assert resolve(schedule, lowered, 3, FACTS, device).direction == expected
        for given in ("push", "pull"):
            assert resolve(replace(schedule, direction=given), lowered, 3, FACTS, device).direction == given


# where rows are -------------------------------------------------------------------------------------------------------
def path(order):
    return Graph.from_edges(order[:-1], order[1:], num_vertices=len(order), name="path")


def test_spans_are_the_distances_between_the_ends_of_edges():
    assert path(np.arange(1000)).facts.spans == Spans(((1, 999),))
    assert path(np.arange(1000)).facts.spans.within(2) == 1.0
    assert Spans(((0, 1), (1, 2), (4, 1))).within(1) == 0.25  # the end is the same
    assert Spans(((0, 1), (1, 2), (4, 1))).within(15.9) == 0.75
    assert Spans(((0, 1), (1, 2), (4, 1))).within(16) == 1.0
    assert Spans().within(100) == 0.0
    mixed = path(np.random.default_rng(0).permutation(4096)).facts.spans
    assert mixed.within(512) < 0.3


@pytest.mark.parametrize(("features", "near", "scattered"), [(1, False, False), (64, False, True)])
def test_rows_are_prefetched_if_they_are_far_and_not_in_the_cache(features, near, scattered):
    count = 10_000
    for order, far in ((np.arange(count), near), (np.random.default_rng(0).permutation(count), scattered)):
        facts = path(order).facts
        assert far_rows(facts, features, CPU, Policy()) == far
        found = plan(program("pagerank"), FOLLOWS, facts, features, CPU, CpuPolicy())
        assert ("prefetch" in found.source.split("_share_untracked_part")[1].split("@njit")[0]) == far
        assert ("are prefetched 32 edges ahead" in found.text) == far


def test_a_plan_states_its_estimates():
    found = plan(program("label_propagation"), FOLLOWS, grid(rows=9, columns=9).facts, 3, CPU, CpuPolicy())
    assert "estimate: spread: sources that moved are followed if at most " in found.text
    assert "untracked" in found.text


@pytest.mark.parametrize(
    ("text", "size"), [("512K\n", 1 << 19), ("2M", 1 << 21), ("", USUAL), ("big", USUAL), (None, USUAL)]
)
def test_the_cache_of_a_core(tmp_path, text, size):
    file = tmp_path / "size"
    if text is not None:
        file.write_text(text)
    assert own_cache_bytes(file) == size
