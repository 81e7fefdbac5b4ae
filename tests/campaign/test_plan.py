from __future__ import annotations

import dataclasses
import threading
from importlib.metadata import EntryPoint

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from harness.campaign import plan as plans
from harness.campaign import sweep as sweeps
from harness.campaign.errors import CampaignError
from harness.campaign.expansion import linked_overrides, with_defaults
from harness.campaign.job import WORK_FOLDER
from harness.campaign.plan import plan_sweep, prepare_output
from harness.campaign.recovery import SWEEP_LOCK
from harness.campaign.resume import SWEEP_FILE, commands_of, continued, described
from harness.plugins import load_plugins
from harness.records import write_record
from harness.records.outcome import Outcome
from harness.records.timing_caveat import Mark
from tests.campaign.test_cell import config
from tests.conftest import FAKES
from tests.processes import waits_for_lock
from tests.records.samples import record

SETTINGS = {
    "sweep": {"id": "mine"}, "output": "results", "rerun": "failed", "baseline": None, "layout": None,
    "fail_fast": False, "dry_run": False, "allow_unsupported": False, "more_rounds": "always",
}  # fmt: skip
LINKS = [{"when": {"graph": "photo"}, "set": {"features": 8, "max_supersteps": 100}}]


def parse(*overrides):
    return OverridesParser.create().parse_overrides(list(overrides))


def keys(overrides):
    return [f"{o.get_key_element()}={o.get_value_element_as_str()}" for o in overrides]


def test_a_key_on_the_command_line_replaces_the_default():
    overrides, _ = with_defaults(parse("engine=mine"), parse("engine=a", "graph=photo"), [])
    assert keys(overrides) == ["graph=photo", "engine=mine"]


@pytest.mark.parametrize(
    ("given", "in_force"), [([], True), (["engine=x"], True), (["graph=photo"], False), (["features=3"], False)]
)
def test_a_link_of_the_default_comparison_is_in_force_until_one_of_its_keys_is_said(given, in_force):
    _, links = with_defaults(parse(*given), parse("graph=photo"), LINKS)
    assert bool(links) is in_force


@pytest.mark.parametrize(("given", "in_force"), [([], True), (["graph=photo"], True), (["features=3"], False)])
def test_a_link_of_a_preset_is_in_force_until_one_of_the_keys_that_it_sets_is_said(given, in_force):
    _, links = with_defaults(parse(*given), parse("graph=photo"), LINKS, ["hydra.sweeper.linked"])
    assert bool(links) is in_force


def test_linked_settings_apply_only_with_their_value():
    assert linked_overrides(["graph=photo"], LINKS) == ["graph=photo", "features=8", "max_supersteps=100"]
    assert linked_overrides(["graph=digits"], LINKS) == ["graph=digits"]


@pytest.mark.parametrize(("value", "text"), [(0.25, "0.25"), (3, "3"), ("0.25", "0.25")])
def test_a_link_compares_numbers_with_their_text_and_needs_all_of_its_values(value, text):
    links = [{"when": {"graph": "photo", "engine.alpha": value}, "set": {"engine.beta": 0.5}}]
    both = ["graph=photo", f"engine.alpha={text}"]
    assert linked_overrides(both, links) == [*both, "engine.beta=0.5"]
    for other in (["graph=photo", "engine.alpha=0.5"], ["graph=digits", f"engine.alpha={text}"], ["graph=photo"]):
        assert linked_overrides(other, links) == other


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Plan one cell for each number of features, of the sweep ``mine`` in the folder of the test."""
    monkeypatch.syspath_prepend(str(FAKES))
    registry = load_plugins(found=[EntryPoint("fakes", "onyx_fakes", "onyx_harness")])
    monkeypatch.setattr(plans, "load_plugins", lambda _: registry)

    def plan(*features, rounds=1, more_rounds="always", command=()):
        settings = {**SETTINGS, "output": str(tmp_path), "rounds": rounds, "more_rounds": more_rounds}
        return plan_sweep(
            (
                ([f"features={k}", f"rounds={rounds}", "sweep.id=mine"], {**config(features=k), **settings})
                for k in features
            ),
            command,
        )

    return plan


def listed(folder):
    return [cell["cell"] for cell in described(folder / "mine" / SWEEP_FILE)]


def test_cells_that_have_not_begun_stay_planned(planned, tmp_path):
    first, second = planned(1, 2, 3, 4, 5, 6), planned(7)
    prepare_output(first)
    for cell in first.cells[:2]:  # killed after two cells
        cell.folder.mkdir()
    prepare_output(second)
    assert listed(tmp_path) == [cell.key for cell in (*first.cells, *second.cells)]
    resumed = continued(parse("sweep.id=mine"), str(tmp_path))
    assert [overrides[0] for overrides in resumed] == [f"features={k}" for k in range(1, 8)]


def test_a_sweep_keeps_the_commands_that_requested_its_cells(planned, tmp_path):
    for command in (["features=1,2", "rerun=all"], [], ["features=3", "output=elsewhere"], ["features=1,2"]):
        prepare_output(planned(1, command=command))
    assert commands_of(tmp_path / "mine" / SWEEP_FILE) == ["features=1,2", "features=3"]
    assert commands_of(tmp_path / "other" / SWEEP_FILE) == []


def test_two_commands_that_start_together_keep_the_cells_of_both(planned, tmp_path, monkeypatch):
    write = plans.write_json
    second = threading.Thread(target=prepare_output, args=(planned(2),))

    def while_another_starts(path, data):
        if threading.current_thread() is not second and not second.ident:
            second.start()  # now the first has read the cells and not written them
            waits_for_lock(tmp_path / "mine" / WORK_FOLDER / SWEEP_LOCK, second)
            assert not path.exists()
        write(path, data)

    monkeypatch.setattr(plans, "write_json", while_another_starts)
    first = planned(1)
    prepare_output(first)
    second.join()
    assert listed(tmp_path) == [first.cells[0].key, planned(2).cells[0].key]


def test_every_cell_keeps_its_own_number_of_rounds(planned, tmp_path):
    prepare_output(planned(1))
    prepare_output(planned(2, rounds=2))
    together = plan_sweep(
        (overrides, {**config(features=int(overrides[0][-1])), **SETTINGS, "rounds": int(overrides[1][-1])})
        for overrides in continued(parse("sweep.id=mine"), str(tmp_path))
    )
    assert [(one.cell.features, one.cell.round) for one in together.cells] == [(1, 1), (2, 1), (2, 2)]


@pytest.mark.parametrize(
    ("marks", "rounds"),
    [((), 1), ((Mark.NOISY, Mark.DRIFTING), 1), ((Mark.BUSY,), 3), ((Mark.THROTTLED,), 3), ((Mark.SHARED,), 3)],
)
def test_rounds_on_demand_are_run_if_other_work_disturbed_the_first(planned, tmp_path, monkeypatch, marks, rounds):
    turns = []

    def run(plan, todo, *_):
        turns.extend(sorted({one.cell.round for one in todo}))
        for number, one in enumerate(todo):
            one.folder.mkdir()
            write_record(one.folder, record(round=one.cell.round, marks=list(marks if number == 1 else ())))
        return 0

    monkeypatch.setattr(sweeps, "_carry_out", run)
    plan = planned(1, 2, rounds=3, more_rounds="disturbed")
    sweeps.run_plan(plan, None, None)
    assert turns == list(range(1, rounds + 1))
    assert len(listed(tmp_path)) == 2 * rounds
    sweeps.run_plan(plan, None, None)  # nothing is left
    assert turns == list(range(1, rounds + 1))


def test_a_dry_run_shows_rounds_on_demand(planned, capsys):
    plan = planned(1, rounds=2, more_rounds="disturbed")
    sweeps.run_plan(dataclasses.replace(plan, dry_run=True), None, None)
    assert "only if other work disturbs a time of round 1" in " ".join(capsys.readouterr().out.split())


def test_an_unknown_choice_of_more_rounds_is_refused(planned):
    with pytest.raises(CampaignError, match="more_rounds is 'often' .*there are: always, disturbed"):
        planned(1, more_rounds="often")


def test_a_cell_that_has_not_begun_gives_way_to_the_same_with_other_code(planned, tmp_path, monkeypatch):
    before = planned(1, 2)
    prepare_output(before)
    before.cells[0].folder.mkdir()
    monkeypatch.setattr(plans, "environment_key", lambda: "other code or another machine")
    after = planned(1, 2)
    prepare_output(after)
    assert listed(tmp_path) == [before.cells[0].key, *(cell.key for cell in after.cells)]


@pytest.mark.parametrize("content", ["{", '{"cells": [{"cell": 1}]}', '{"cells": {}}', "[]"])
def test_a_damaged_description_is_refused_and_stays(planned, tmp_path, content):
    plan = planned(1)
    plan.folder.mkdir()
    (plan.folder / SWEEP_FILE).write_text(content)
    with pytest.raises(CampaignError, match=r"mine/sweep\.json does not list the cells of a sweep"):
        prepare_output(plan)
    assert (plan.folder / SWEEP_FILE).read_text() == content


@pytest.mark.parametrize("outcome", Outcome)
def test_rerun_failed_runs_cells_again_that_have_no_acceptable_record(planned, outcome):
    plan = planned(1)
    found = record(outcome=outcome.value)
    again = outcome.value not in ("ok", "unsupported")
    for rerun, due in (("failed", again), ("all", True), ("none", False)):
        assert dataclasses.replace(plan, rerun=rerun).due(found) is due
        assert dataclasses.replace(plan, rerun=rerun).due(None)
