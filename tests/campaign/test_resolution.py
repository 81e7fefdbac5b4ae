"""If an engine refuses the requested schedule, the nearest supported one runs, unless the user chose the refused
option."""

from __future__ import annotations

import sys
from dataclasses import dataclass, replace
from types import ModuleType, SimpleNamespace
from typing import Literal

import pytest

from harness.algorithms.pagerank import PageRank
from harness.campaign.cell import resolve_cell
from harness.campaign.resolution import alternatives, fitting, hint, resolve
from harness.contract import EngineSpec, No, Yes, option, schedule_from_options
from harness.graph.generators import grid
from harness.language import Algorithm, K, trace
from harness.plugins import load_plugins
from tests.campaign.one_cell import record_of  # noqa: F401  a fixture
from tests.campaign.test_cell import CONFIG
from tests.engines.problems import SPECS

PUSHES = "nothing pushes here"


class HubsAndAuthorities(Algorithm):
    """Reduces over all vertices a property that no edge stage reads, whose changes are therefore not tracked."""

    name = "hubs_and_authorities"

    def build(self, p):
        p.vertex("hub", K, start=1.0)

        @p.over_edges(into="from_hubs", reduce="sum")
        def authority(src):
            return src.hub

        @p.over_graph(into="squares", reduce="sum")
        def asq(v):
            return v.from_hubs * v.from_hubs

        @p.over_vertices
        def settle(v, graph):
            return {"hub": v.from_hubs / graph.squares}

        p.repeat(3)
        p.output("hub", bound=1e-4)


def posed(algorithm):
    """Return a problem with enough edges that Onyx follows changes by default."""
    return SimpleNamespace(program=trace(algorithm), graph=grid(rows=200, columns=200), features=2)


def cell_with(**options):
    """Return a cell of Onyx with options that the user gave."""
    config = {**CONFIG, "engine": {"name": "onyx", **options}}
    return resolve_cell({**config, "algorithm": {"name": "pagerank"}, "graph": {"name": "grid"}}, load_plugins())


def test_onyx_runs_programs_that_only_its_default_refuses():
    cell, problem = cell_with(), posed(HubsAndAuthorities())
    engine = load(SPECS["onyx"])(schedule_from_options(SPECS["onyx"], {}))
    answer = engine.supports(problem.program, problem.graph, problem.features, cell.device)
    assert answer == No("asq reduces 'from_hubs', whose movement no edge stage tracks")
    found = resolve(SPECS["onyx"], cell, problem, answer.reason)
    assert (found.requested, found.resolved) == ({"change_driven": None}, {"change_driven": False})
    assert found.reason == answer.reason


def test_options_of_the_user_are_not_changed():
    """Even if it equals the default: the refusal then names a schedule that would run."""
    cell, problem = cell_with(change_driven=True), posed(HubsAndAuthorities())
    assert resolve(SPECS["onyx"], cell, problem, "refused") is None
    assert hint(SPECS["onyx"], cell, problem) == "; engine.change_driven=false would run it"


def test_several_options_are_named_together():
    cell, problem = cell_with(change_driven=True, block_size=64), posed(HubsAndAuthorities())
    assert hint(SPECS["onyx"], cell, problem) == "; engine.change_driven=false engine.block_size=null would run it"


def test_options_left_at_null_are_not_given():
    assert cell_with(change_driven=None, rebuild=3).given == ("rebuild",)
    assert cell_with(change_driven=None).schedule == cell_with().schedule
    assert cell_with(fold=True).schedule == cell_with().schedule
    assert cell_with().key("here") != cell_with(fold=True).key("here")  # because one may be changed and the other not


@dataclass(frozen=True)
class Several:
    balance: Literal["warp", "edge", "later"] = option("warp", "a choice", partial=("later",))
    width: Literal[1, 2] | None = option(None, "a choice or none")
    fold: bool = option(True, "a truth")
    rebuild: int = option(16, "a number")


class Refuses:
    opened, closed = [], []
    failure = RuntimeError("this schedule was never thought of")
    stepwise = True

    def __init__(self, schedule):
        self.schedule = schedule
        self.opened.append(schedule)

    def supports(self, program, graph, features, device):
        if self.schedule.balance == "edge":
            raise self.failure
        return Yes(0) if self.schedule.width == 2 else No("too narrow")

    def close(self):
        self.closed.append(self.schedule)


@pytest.fixture
def several(monkeypatch):
    module = ModuleType("engine_of_several_options")
    module.Engine = Refuses
    monkeypatch.setattr(Refuses, "opened", [])
    monkeypatch.setattr(Refuses, "closed", [])
    monkeypatch.setitem(sys.modules, module.__name__, module)
    return EngineSpec("several", "", Several, f"{module.__name__}:Engine")


def test_the_values_of_an_option(several):
    defaults = {"balance": "warp", "width": None, "fold": True, "rebuild": 16}
    others = {"balance": ["edge"], "width": [1, 2], "fold": [False], "rebuild": []}
    assert alternatives(several, defaults) == others
    assert alternatives(several, {**defaults, "width": 2, "rebuild": 3})["width"] == [None, 1]
    assert alternatives(several, {**defaults, "width": 2, "rebuild": 3})["rebuild"] == [16]


def cell_of_several(*given):
    schedule = {"balance": "warp", "width": None, "fold": True, "rebuild": 16}
    return SimpleNamespace(schedule=schedule, given=given, device=None)


def test_an_engine_that_fails_under_other_options_is_still_queried(several):
    problem = posed(PageRank())
    assert resolve(several, cell_of_several(), problem, "too narrow").resolved == {"width": 2}
    tried = [(schedule.balance, schedule.width) for schedule in Refuses.opened]
    assert tried == [("edge", None), ("warp", 1), ("warp", 2)]
    assert Refuses.closed == Refuses.opened


@dataclass(frozen=True)
class Ordered(Several):
    order: str | None = option(None, "an order", values=("steps", "whole"), instead=("steps",))


class BySteps(Refuses):
    """Solves whole problems, unless the order is by steps."""

    def supports(self, program, graph, features, device):
        return Yes(0, stepwise=self.schedule.order == "steps")


def test_the_value_that_an_option_has_instead_comes_first_and_a_plan_by_supersteps_is_found(several, monkeypatch):
    sys.modules["engine_of_several_options"].Engine = BySteps
    ordered = replace(several, schedule=Ordered)
    cell, problem = cell_of_several(), posed(PageRank())
    cell.schedule["order"], cell.warm, cell.engine = None, object(), "several"
    assert resolve(ordered, cell, problem, "not warm").resolved == {"order": "steps"}
    assert [schedule.order for schedule in Refuses.opened] == ["steps"]
    cell.warm = None
    assert resolve(ordered, cell, problem, "not counted", stepwise=True).resolved == {"order": "steps"}
    assert resolve(ordered, cell, problem, "any other").resolved == {"order": "steps"}
    cell.given = ("order",)
    assert resolve(ordered, cell, problem, "not counted", stepwise=True) is None


class Large(Refuses):
    """Needs 28 bytes where it has chosen, 10 by steps, and 5 without folding."""

    def supports(self, program, graph, features, device):
        needed = {"steps": 10, None: 28}[self.schedule.order]
        return Yes(needed if self.schedule.fold else 5, stepwise=self.schedule.order == "steps")


@pytest.mark.parametrize(
    ("has", "given", "resolved"),
    [(10, (), {"order": "steps"}), (9, (), None), (10, ("order",), None), (10, ("fold",), {"order": "steps"})],
)
def test_a_choice_that_does_not_fit_is_replaced_by_what_an_option_has_instead(several, has, given, resolved):
    """No option changes that does not choose by the problem: nobody has asked for a plan without folding."""
    sys.modules["engine_of_several_options"].Engine = Large
    ordered, cell, problem = replace(several, schedule=Ordered), cell_of_several(*given), posed(PageRank())
    cell.schedule["order"], cell.warm, cell.engine = None, None, "several"
    problem.max_supersteps = problem.program.max_supersteps
    found = fitting(ordered, cell, problem, "28 bytes do not fit", lambda answer: answer.bytes_needed <= has)
    if resolved is None:
        assert found is None
    else:
        assert (found.requested, found.resolved, found.reason) == ({"order": None}, resolved, "28 bytes do not fit")


def test_options_are_tried_one_by_one_and_then_together(several):
    assert resolve(several, cell_of_several("width"), posed(PageRank()), "too narrow") is None
    tried = [(schedule.balance, schedule.fold, schedule.width) for schedule in Refuses.opened]
    assert tried == [("edge", True, None), ("warp", False, None), ("edge", False, None)]


def test_memory_that_runs_out_is_no_refusal(several, monkeypatch):
    monkeypatch.setattr(Refuses, "failure", MemoryError())
    with pytest.raises(MemoryError):
        resolve(several, cell_of_several(), posed(PageRank()), "too narrow")
    assert Refuses.closed == Refuses.opened


@pytest.fixture
def pulls():
    import onyx_fakes_engines

    return onyx_fakes_engines.Pulls


def test_a_record_has_both_schedules(record_of, pulls):  # noqa: F811
    found = record_of(pulls, given=("width",))
    assert found["outcome"] == "ok", found["reason"]
    assert found["resolution"] == {
        "requested": {"direction": "push"}, "resolved": {"direction": "pull"}, "reason": PUSHES,
    }  # fmt: skip
    assert found["schedule"] == {"direction": "pull", "width": 1}
    assert found["config"]["schedule"] == {"direction": "push", "width": 1}


def test_a_record_has_the_options_that_the_engine_resolved(record_of, pulls):  # noqa: F811
    class Resolves(pulls):
        def resolved_options(self):
            return {"direction": "pull", "width": [1, 4]}

    found = record_of(Resolves, given=("width",))
    assert found["outcome"] == "ok", found["reason"]
    assert found["schedule"] == {"direction": "pull", "width": [1, 4]}
    assert found["config"]["schedule"] == {"direction": "push", "width": 1}


def test_a_record_names_a_supported_schedule(record_of, pulls):  # noqa: F811
    found = record_of(pulls, given=("direction", "width"))
    assert (found["outcome"], found["resolution"]) == ("unsupported", None)
    assert found["reason"] == f"{PUSHES}; engine.direction=pull would run it"
    assert found["schedule"]["direction"] == "push"


def test_a_supported_request_is_not_changed(record_of):  # noqa: F811
    import onyx_fakes_engines

    found = record_of(onyx_fakes_engines.Right)
    assert (found["outcome"], found["resolution"]) == ("ok", None)


def load(spec):
    module, _, name = spec.factory.partition(":")
    return getattr(__import__(module, fromlist=[name]), name)
