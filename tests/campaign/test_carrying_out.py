"""Carrying out a plan in this process: the jobs that run, their order, the journal, and the exit status."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import signal
from concurrent.futures.process import BrokenProcessPool
from importlib.metadata import EntryPoint
from pathlib import Path
from types import SimpleNamespace

import pytest
from omegaconf import OmegaConf

from harness.campaign import dry_run, sweep
from harness.campaign import plan as plans
from harness.campaign.dry_run import dry_run_cell
from harness.campaign.errors import CampaignError
from harness.campaign.journal import Journal
from harness.campaign.plan import plan_sweep, prepare_output, refuse_graphs
from harness.campaign.sweep import Terminated, run_job, run_plan
from harness.plugins import load_plugins
from harness.records import write_record
from harness.records.outcome import Outcome
from tests.campaign.test_cell import config
from tests.campaign.test_plan import SETTINGS
from tests.conftest import FAKES
from tests.records.samples import record, solved


@pytest.fixture
def planned(tmp_path, monkeypatch):
    """Plan a cell for each number of features; keys are settings of the sweep, or of the cell as in ``config``."""
    monkeypatch.syspath_prepend(str(FAKES))
    registry = load_plugins(found=[EntryPoint("fakes", "onyx_fakes", "onyx_harness")])
    monkeypatch.setattr(plans, "load_plugins", lambda _: registry)
    monkeypatch.setattr(sweep, "load_plugins", lambda _: registry)

    def plan(*features, cell=(), **settings):
        known = {**SETTINGS, "output": str(tmp_path), "rounds": 1, **settings}
        return plan_sweep(([f"features={k}"], {**config(features=k, **dict(cell)), **known}) for k in features)

    return plan


@pytest.fixture
def ran(monkeypatch):
    """Replace the run of a cell; ``outcomes``: by features, an outcome or an error. Return the features that ran."""
    found = []

    def install(outcomes):
        def run_cell(assignment):
            k = assignment.cell.features
            found.append(k)
            outcome = outcomes.get(k, "ok")
            if isinstance(outcome, BaseException):
                raise outcome
            assignment.folder.mkdir(parents=True, exist_ok=True)
            solve = solved([1.0] * 7) if outcome == "ok" else None
            write_record(assignment.folder, record(outcome=outcome, solve=solve, cell=assignment.key, features=k))
            return assignment.folder / "record.json"

        monkeypatch.setattr(sweep, "run_cell", run_cell)
        monkeypatch.setattr(sweep, "show_page", lambda *_: None)
        return found

    return install


def status_of(plan):
    """Run a plan; return its exit status."""
    try:
        run_plan(plan, None, None)
    except SystemExit as ended:
        return ended.code
    return 0


@pytest.mark.parametrize(
    ("outcomes", "settings", "status", "features"),
    [
        ({}, {}, 0, [1, 2, 3]),
        ({2: "unsupported"}, {}, 0, [1, 2, 3]),
        ({1: "wrong"}, {}, 1, [1, 2, 3]),
        ({1: "wrong"}, {"fail_fast": True}, 1, [1]),
        ({1: "unsupported"}, {"fail_fast": True}, 0, [1, 2, 3]),
        (dict.fromkeys((1, 2, 3), "unsupported"), {}, 1, [1, 2, 3]),
        (dict.fromkeys((1, 2, 3), "unsupported"), {"allow_unsupported": True}, 0, [1, 2, 3]),
        ({2: KeyboardInterrupt()}, {}, 130, [1, 2]),
        ({2: Terminated()}, {}, 143, [1, 2]),
    ],
)
def test_the_exit_status_of_a_sweep(planned, ran, outcomes, settings, status, features, capsys):
    found = ran(outcomes)
    assert status_of(planned(1, 2, 3, **settings)) == status
    assert found == features
    shown = capsys.readouterr()
    assert shown.out.startswith("sweep mine: 3 cells\n")
    assert ("nothing ran: every cell is unsupported" in shown.err) == (len(outcomes) == 3 and status == 1)
    missing = {130: "2 of 3 cells have not", 143: "2 of 3 cells have not"}
    if settings.get("fail_fast") and status:
        missing[1] = "2 of 3 cells have not"
    assert ("have not been run" in shown.out) == (status in missing)
    assert missing.get(status, "") in shown.out


def test_only_cells_that_are_due_run(planned, ran, capsys):
    found = ran({2: "wrong"})
    status_of(planned(1, 2))
    status_of(planned(1, 2, 3))
    assert found == [1, 2, 2, 3]
    assert "sweep mine: 3 cells, 2 on record (rerun=all measures them again)" not in capsys.readouterr().out
    status_of(planned(1, 2, 3, rerun="none"))
    assert found == [1, 2, 2, 3]
    assert "sweep mine: 3 cells, 3 on record (rerun=all measures them again)" in capsys.readouterr().out
    status_of(planned(1, 2, 3, rerun="all"))
    assert found == [1, 2, 2, 3, 1, 2, 3]


def test_a_record_that_cannot_be_written_ends_the_sweep_after_the_other_cells(planned, ran, capsys):
    found = ran({1: CampaignError("the first"), 2: OSError(28, "No space left"), 3: "ok"})
    with pytest.raises(CampaignError, match="the first"):
        run_plan(planned(1, 2, 3), None, None)
    assert found == [1, 2, 3]
    assert "2 of 3 cells have not been run" in capsys.readouterr().out, "the table is shown"


def test_the_journal_names_the_owner_the_cells_and_their_outcomes(planned, ran, monkeypatch):
    seen = []
    made = Journal.open

    def open_journal(journal, owner):
        seen.append((journal, owner))
        made(journal, owner)

    news = []
    monkeypatch.setattr(Journal, "open", open_journal)
    ran({2: "wrong"})
    plan = planned(1, 2)
    end = Journal.end
    monkeypatch.setattr(
        Journal, "end", lambda self, *given: (end(self, *given), news.append(list(Journal(self.path).news())))
    )
    status_of(plan)
    [(journal, owner)] = seen
    first, second = (one.key for one in plan.cells)
    assert news[-1] == [("begin", first, ""), ("end", first, "ok"), ("begin", second, ""), ("end", second, "wrong")]
    assert owner.rsplit("/", 2)[1] == str(os.getpid())
    assert journal.path.parent == Path(plan.folder, ".running").absolute()
    assert journal.path.name.startswith(f"{os.getpid()}-")
    assert not journal.path.exists()


def test_a_journal_that_cannot_be_written_is_an_error_of_the_output(planned, ran, monkeypatch):
    def full(self, owner):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Journal, "open", full)
    found = ran({})
    with pytest.raises(CampaignError, match=r"output folder .* cannot be written \(No space left on device\)"):
        run_plan(planned(1), None, None)
    assert found == []


class Launcher:
    """Runs no job, but records those it got."""

    def __init__(self, error=None):
        self.got, self.error = [], error

    def launch(self, jobs, initial_job_idx):
        self.got.append((initial_job_idx, [list(job) for job in jobs]))
        return [SimpleNamespace(return_value=self.value()) for _ in jobs] if self.error is None else self.fail()

    def value(self):
        return ""

    def fail(self):
        raise self.error


@pytest.mark.parametrize(
    ("batch", "starts"), [(None, [(0, 3)]), (2, [(0, 2), (2, 1)]), (3, [(0, 3)]), (1, [(0, 1), (1, 1), (2, 1)])]
)
def test_a_launcher_gets_jobs_in_batches(planned, ran, monkeypatch, batch, starts):
    monkeypatch.setattr(sweep, "to_build", lambda *_: [])
    ran({})
    launcher, plan = Launcher(), planned(1, 2, 3)
    with contextlib.suppress(SystemExit):
        run_plan(plan, launcher, batch)
    assert [(first, len(jobs)) for first, jobs in launcher.got] == starts
    jobs = [job for _, part in launcher.got for job in part]
    for job, one in zip(jobs, plan.cells, strict=True):
        assert job[:2] == [f"features={one.cell.features}", "round=1"]
        place = dict(line.removeprefix("sweep.").split("=", 1) for line in job[2:])
        assert list(place) == ["id", "cell", "known", "directory", "owner", "journal"]
        assert (place["id"], place["cell"], place["known"]) == ("'mine'", f"'{one.key}'", "'none'")
        assert place["directory"] == f"'{Path.cwd()}'"
        assert place["journal"].endswith(".journal'")


@pytest.mark.parametrize("batch", [None, 2])
def test_a_launcher_gets_no_jobs_of_a_sweep_that_is_done(planned, ran, monkeypatch, batch):
    found = ran({})
    assert status_of(planned(1, 2)) == 0
    launcher = Launcher()
    run_plan(planned(1, 2), launcher, batch)
    assert (launcher.got, found) == ([], [1, 2])


@pytest.mark.parametrize(("left", "status"), [([1, 2, 3], 0), ([1, 3], 1), ([], 1)])
def test_a_sweep_without_all_of_its_records_has_failed(planned, ran, monkeypatch, left, status):
    """A record may have been removed, or may be unreadable."""
    ran({})
    plan = planned(1, 2, 3)
    show = sweep._show

    def then_removed(given):
        for one in plan.cells:
            if one.cell.features not in left:
                (one.folder / "record.json").write_text("{")
        return show(given)

    monkeypatch.setattr(sweep, "_show", then_removed)
    assert status_of(plan) == status


def test_a_worker_that_died_is_named(planned, ran, monkeypatch):
    monkeypatch.setattr(sweep, "to_build", lambda *_: [])
    ran({})
    with pytest.raises(
        CampaignError, match=r"a worker of the launcher died \(it was killed\); the same command resumes"
    ):
        run_plan(planned(1), Launcher(BrokenProcessPool("it was killed\nby someone")), None)


def test_a_job_runs_its_cell_in_its_place(planned, ran, tmp_path, monkeypatch):
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)  # as in a launcher's process
    ran({1: "wrong"})
    ended_with = []
    monkeypatch.setattr(sweep, "end_with", ended_with.append)
    journal = Journal(tmp_path / "a.journal")
    place = {"id": "mine", "cell": "key", "known": "none", "directory": str(tmp_path), "owner": "me/1/2",
             "journal": str(journal.path)}  # fmt: skip
    settings = {**config(features=1), **SETTINGS, "output": "results", "round": 1, "sweep": place}
    assert run_job(OmegaConf.create(settings)) == "results/mine/key/record.json"
    assert ended_with == ["me/1/2"]
    assert (tmp_path / "results" / "mine" / "key" / "record.json").is_file()
    assert list(elsewhere.iterdir()) == []
    assert list(journal.news()) == [("begin", "key", ""), ("end", "key", "wrong")]
    assert run_job(OmegaConf.create(settings | {"fail_fast": True})) == "", "a cell has failed"
    with pytest.raises(CampaignError, match="a job was started without its sweep"):
        run_job(OmegaConf.create(settings | {"sweep": place | {"cell": None}}))


@pytest.fixture
def interruptible():
    """Ctrl-C interrupts, which a shell turns off for commands in the background."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("interruptible")
def test_the_second_signal_is_patient_and_handlers_are_restored():
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
    with pytest.raises(Terminated), sweep._endings():
        signal.raise_signal(signal.SIGTERM)
    with sweep._endings():
        with pytest.raises(KeyboardInterrupt) as first:
            signal.raise_signal(signal.SIGINT)
        assert first.type is KeyboardInterrupt
        signal.raise_signal(signal.SIGINT)  # the running cell is still ended and recorded
        with pytest.raises(Terminated):
            signal.raise_signal(signal.SIGTERM)
    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with sweep._endings():
            signal.raise_signal(signal.SIGINT)
            assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


@pytest.mark.parametrize(
    ("outcome", "rerun", "on_demand", "refused", "runs", "why"),
    [
        (None, "failed", False, "", True, ""),
        (None, "failed", True, "", True, "only if other work disturbs a time of round 1"),
        (None, "failed", False, "no GPU", False, "unsupported: no GPU"),
        (None, "failed", True, "no GPU", False, "unsupported: no GPU"),
        ("ok", "failed", False, "", False, "ok is on record, rerun=failed leaves it"),
        ("ok", "all", False, "", True, "ok is on record, rerun=all runs it again"),
        ("ok", "all", False, "no GPU", False, "unsupported: no GPU"),
        ("wrong", "failed", False, "", True, "wrong is on record, rerun=failed runs it again"),
        ("wrong", "none", False, "no GPU", False, "wrong is on record, rerun=none leaves it"),
    ],
)
def test_a_dry_run_says_why(planned, monkeypatch, outcome, rerun, on_demand, refused, runs, why):
    monkeypatch.setattr(dry_run, "refusal", lambda spec, cell: refused)
    plan = planned(4, rerun=rerun)
    one = dataclasses.replace(plan.cells[0], on_demand=on_demand)
    found = dry_run_cell(plan, one, outcome and record(outcome=outcome))
    assert (found.runs, found.why, found.features, found.round) == (runs, why, 4, 1)
    assert found.labels == one.cell.labels


def test_a_dry_run_shows_every_cell_and_runs_none(planned, ran, capsys):
    found = ran({})
    first = planned(1)
    status_of(first)
    run_plan(planned(1, 2, dry_run=True), None, None)
    lines = [line.split("│") for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
    cells = [[part.strip() for part in line[1:-1]] for line in lines][-2:]
    assert cells == [
        ["fake_ring", "fake_spread", "1", "fake_right", "1", "skip", "ok is on record, rerun=failed leaves it"],
        ["fake_ring", "fake_spread", "2", "fake_right", "1", "run", ""],
    ]
    assert found == [1]


def test_a_graph_that_cannot_be_had_ends_the_command_only_if_its_cell_is_due(planned, ran):
    ran({})
    plan = planned(1)
    broken = dataclasses.replace(plan.registry.graphs["fake_ring"], check="harness.graph.generators.rmat:check_rmat")
    refuse_graphs(plan)
    prepare_output(plan)
    plan.registry.graphs["fake_ring"] = broken
    with pytest.raises(CampaignError, match="fake_ring: a parameter is of the wrong type"):
        refuse_graphs(plan)
    plan.cells[0].folder.mkdir()
    write_record(plan.cells[0].folder, record())
    refuse_graphs(plan)


def test_too_little_space_is_refused_with_the_numbers(planned, monkeypatch, tmp_path):
    plan = planned(1, 2, 3)
    for free, enough in ((300_000, True), (299_999, False)):
        monkeypatch.setattr(plans.shutil, "disk_usage", lambda _, free=free: SimpleNamespace(free=free))
        if enough:
            prepare_output(plan)
        else:
            with pytest.raises(
                CampaignError, match=r"only 299,999 bytes are free in output folder .*, for 3 cells; free"
            ):
                prepare_output(plan)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"rerun": "fialed"}, "rerun is 'fialed'; did you mean 'failed'? (there are: all, failed, none)"),
        ({"fail_fast": "yes"}, "fail_fast is 'yes'; it must be true or false"),
        ({"dry_run": 1}, "dry_run is 1; it must be true or false"),
        ({"allow_unsupported": None}, "allow_unsupported is None; it must be true or false"),
        ({"rounds": 0}, "rounds is 0; it must be an integer of at least 1"),
        (
            {"rounds": [1, 2]},
            "rounds is [1, 2]; it must be an integer of at least 1; to sweep, write rounds=1,2 without brackets",
        ),
        ({"sweep": {"id": "a/b"}}, "sweep.id is 'a/b'; it must be letters, digits, '_', '-' and '.', 64 at most"),
        ({"sweep": {"id": ".a"}}, "sweep.id is '.a'; it must be letters, digits, '_', '-' and '.', 64 at most"),
        (
            {"sweep": {"id": "a" * 65}},
            f"sweep.id is '{'a' * 65}'; it must be letters, digits, '_', '-' and '.', 64 at most",
        ),
    ],
)
def test_settings_of_a_sweep_are_checked(planned, settings, message):
    with pytest.raises(CampaignError) as met:
        planned(1, **settings)
    assert str(met.value) == message


def test_a_sweep_without_an_id_is_named_by_its_cells(planned):
    name = planned(1, 2, sweep={"id": None}).identity
    assert name.startswith("fake_spread-fake_ring-")
    assert len(name.rpartition("-")[2]) == 11
    assert planned(2, 1, sweep={"id": None}).identity == planned(1, 2, sweep={"id": None}, rounds=3).identity == name
    assert planned(1, sweep={"id": None}).identity != name
    two = plan_sweep(
        ([], {**config(graph=graph), **SETTINGS, "rounds": 1, "sweep": {"id": None}})
        for graph in ({"name": "fake_ring", "vertices": 12}, {"name": "fake_path", "vertices": 9})
    )
    assert two.identity.startswith("fake_spread-2_graphs-")
    assert planned(1, sweep={"id": "a.b-c_9" + "x" * 57}).identity == "a.b-c_9" + "x" * 57


def test_cells_requested_twice_are_run_once_and_rounds_follow_each_other(planned):
    assert sorted(one.cell.features for one in planned(2, 1, 2).cells) == [1, 2]
    plan = planned(2, 1, rounds=2)
    assert [(one.cell.features, one.cell.round) for one in plan.cells] == [(2, 1), (1, 1), (2, 2), (1, 2)]
    assert [one.folder for one in plan.cells] == [plan.folder / one.key for one in plan.cells]
    assert not any(one.on_demand for one in plan.cells)
    more = planned(1, rounds=3, more_rounds="disturbed")
    assert [one.on_demand for one in more.cells] == [False, True, True]
    assert [len(part.cells) for part in more.parts()] == [1, 3]
    assert planned(1).parts() == [planned(1)]


def test_a_record_of_a_newer_version_is_not_measured_again(planned, tmp_path):
    [one] = planned(1).cells
    one.folder.mkdir(parents=True)
    assert one.record() is None
    assert one.first_record() is None
    (one.folder / "record.json").write_text("{")
    assert one.record() is None, "half of a restored backup"
    (one.folder / "record.json").write_text('{"schema": 999}')
    with pytest.raises(CampaignError, match="or give another folder with output="):
        one.record()


def test_the_outcomes_that_a_sweep_may_have():
    assert sorted(outcome.value for outcome in Outcome if outcome.acceptable) == ["ok", "unsupported"]


def test_a_job_is_told_its_cell_and_its_place_in_the_sweep(planned, monkeypatch, tmp_path):
    """The stamp is that of the record when it was first read; a record that came later is not to be replaced."""
    monkeypatch.chdir(tmp_path)
    plan = planned(3, rounds=2, sweep={"id": "mine"})
    first, second = plan.cells
    assert first.known == "none"
    write_record(first.folder, record(cell=first.key))
    place = f"sweep.directory='{tmp_path}'"
    assert plan.job_overrides(first, "host/1/2", "j") == [
        "features=3", "round=1", "sweep.id='mine'", f"sweep.cell='{first.key}'", "sweep.known='none'", place,
        "sweep.owner='host/1/2'", "sweep.journal='j'",
    ]  # fmt: skip
    assert plan.job_overrides(second, "", "")[1] == "round=2"


@pytest.mark.parametrize(
    ("taken", "order"),
    [
        ([(1, "a", 1), (1, "a", 1), (1, "a", 2)], [0, 2, 1]),  # the problems of a graph take turns
        ([(1, "a", 1), (1, "b", 1), (1, "a", 1)], [0, 2, 1]),  # graphs follow each other
        ([(1, "a", 1), (2, "a", 1), (1, "a", 1)], [0, 2, 1]),  # and so do rounds
        ([(2, "a", 1), (1, "a", 1), (2, "a", 2)], [0, 2, 1]),
    ],
)
def test_jobs_at_once_take_turns(taken, order):
    """A cell is given by its round, its graph and its features."""
    cells = [
        SimpleNamespace(cell=SimpleNamespace(round=turn, graph=graph, graph_parameters={}, algorithm="a", parameters={},
                                             features=features))
        for turn, graph, features in taken
    ]  # fmt: skip
    places = {id(cell): number for number, cell in enumerate(cells)}
    assert [places[id(one)] for one in plans.in_turns(cells)] == order
