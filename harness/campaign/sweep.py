"""Execution of a plan: launch its jobs, show progress and the table, and set the exit status."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig

from harness.campaign.cell import resolve_cell
from harness.campaign.config_cache import plain
from harness.campaign.dry_run import dry_run_cell
from harness.campaign.errors import CampaignError
from harness.campaign.graphs_ahead import building_ahead, to_build
from harness.campaign.job import WORK_FOLDER, Assignment, run_cell, unwritable
from harness.campaign.journal import Journal
from harness.campaign.lock import file_lock
from harness.campaign.orphans import marking_children
from harness.campaign.parent_watch import end_with
from harness.campaign.plan import Plan, Planned, in_turns, prepare_output, refuse_graphs
from harness.campaign.progress_monitor import ProgressMonitor
from harness.plugins import load_plugins
from harness.records import Record, merge_rounds, read_record
from harness.records.outcome import Outcome
from harness.records.timing_caveat import DISTURBING
from harness.report.progress import say_begin, say_more_rounds
from harness.report.summary import show_dry_run, show_layout, show_page, show_sweep

if TYPE_CHECKING:
    from hydra.core.utils import JobReturn
    from hydra.plugins.launcher import Launcher

INTERRUPTED_STATUS, TERMINATED_STATUS = 130, 143
_PATIENT = 2  # the signal that is ignored, because the first one is being handled


class Terminated(KeyboardInterrupt):
    """SIGTERM arrived; the running cell is ended and recorded as after Ctrl-C."""


def run_plan(plan: Plan, launcher: Launcher | None, batch: int | None) -> None:
    """Run the unfinished cells and show the sweep. A dry run shows the cells that would be run.

    Cells on demand are run if other work disturbed a time of the others.

    ``launcher``: starts the jobs; None: the cells run one after the other, without Hydra, which would compose each of
    them again.

    Raises SystemExit: status 1 if a cell failed or every cell is unsupported, 130 or 143 if stopped.
    """
    refuse_graphs(plan)
    if plan.dry_run:
        show_dry_run(plan.identity, [dry_run_cell(plan, planned, planned.record()) for planned in plan.cells])
        return
    plan, *whole = plan.parts()
    prepare_output(plan)
    try:
        status = _run_due(plan, launcher, batch)
        if whole and not status and (disturbed := _disturbed(plan)):
            [plan] = whole
            say_more_rounds(disturbed)
            prepare_output(plan)
            status = _run_due(plan, launcher, batch)
    finally:
        records = _show(plan)
    if status:
        sys.exit(status)
    outcomes = {Outcome(record["outcome"]) for record in records}
    if len(records) < len(plan.cells) or not all(outcome.acceptable for outcome in outcomes):
        sys.exit(1)
    if outcomes == {Outcome.UNSUPPORTED} and not plan.allow_unsupported:
        sys.stderr.write("onyx-harness: nothing ran: every cell is unsupported (allow_unsupported=true accepts that)\n")
        sys.exit(1)


def _run_due(plan: Plan, launcher: Launcher | None, batch: int | None) -> int:
    """Run the cells that are due; return the exit status that a signal requires, or 0."""
    todo = [planned for planned in plan.cells if plan.due(planned.first_record())]
    say_begin(plan.identity, len(plan.cells), len(plan.cells) - len(todo))
    return _carry_out(plan, todo, launcher, batch)


def _disturbed(plan: Plan) -> int:
    """Return the number of cells with a time that other work disturbed."""
    records = [record for planned in plan.cells if (record := planned.record()) is not None]
    return sum(any(mark in record["marks"] for mark in DISTURBING) for record in records)


def _show(plan: Plan) -> list[Record]:
    """Show the table and write the page of all records."""
    records = [record for planned in plan.cells if (record := planned.record()) is not None]
    merged = merge_rounds(records)
    show_sweep(merged, len(plan.cells) - len(records) + len(merged), plan.baseline, plan.folder)
    if plan.layout is not None:
        show_layout(merged, plan.layout, plan.folder)
    show_page(records, len(plan.cells), plan.baseline, plan.folder, plan.layout)
    return records


def _carry_out(plan: Plan, todo: Sequence[Planned], launcher: Launcher | None, batch: int | None) -> int:
    """Launch the jobs; return the exit status that a signal requires, or 0."""
    journal = Journal((plan.folder / WORK_FOLDER / f"{os.getpid()}-{os.urandom(4).hex()}.journal").absolute())
    ahead = to_build([planned.cell for planned in todo], launcher)
    try:
        with (
            file_lock(journal.path, keep=False), marking_children() as owner, _endings(),
            ProgressMonitor(journal, todo), building_ahead(ahead, owner),
        ):  # fmt: skip
            try:
                journal.open(owner)
            except OSError as error:
                raise unwritable(plan.output, error) from error
            if launcher is None:
                _run_here(plan, todo, journal)
                return 0
            jobs = [plan.job_overrides(planned, owner, str(journal.path)) for planned in in_turns(todo)]
            for start, part in _parts(jobs, batch):
                for result in _launch(launcher, part, start):
                    with contextlib.redirect_stderr(io.StringIO()):  # Hydra lists every override first
                        _ = result.return_value  # raises the exception of the job
    except KeyboardInterrupt as interruption:
        return TERMINATED_STATUS if isinstance(interruption, Terminated) else INTERRUPTED_STATUS
    return 0


def _run_here(plan: Plan, todo: Sequence[Planned], journal: Journal) -> None:
    """Run every job, one after the other; then raise the first CampaignError of a job.

    One record may not fit on a disk on which those of other cells do.
    """
    failed: CampaignError | None = None
    for planned in todo:
        assignment = Assignment(planned.cell, plan.identity, planned.key, planned.folder, planned.known)
        try:
            _run(assignment, journal, fail_fast=plan.fail_fast)
        except CampaignError as error:
            failed = failed or error
    if failed is not None:
        raise failed


def _launch(launcher: Launcher, jobs: Sequence[Sequence[str]], first: int) -> Sequence[JobReturn]:
    """Launch jobs and wait for them. Raises CampaignError if a worker of the launcher has died."""
    try:
        return launcher.launch(jobs, initial_job_idx=first)
    except BrokenExecutor as error:
        met = f"a worker of the launcher died ({str(error).splitlines()[0]})"
        raise CampaignError(f"{met}; the same command resumes the sweep") from error


@contextlib.contextmanager
def _endings() -> Iterator[None]:
    """Let Ctrl-C and SIGTERM end a sweep; during the second signal the running cell is still ended and recorded.

    The third signal ends the sweep immediately. Ctrl-C has no effect in a process that was started with it ignored.
    """
    met = 0

    def end(number: int, _: object) -> None:
        nonlocal met
        met += 1
        if met != _PATIENT:
            raise KeyboardInterrupt if number == signal.SIGINT else Terminated

    heeded = [n for n in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(n) is not signal.SIG_IGN]
    before = {number: signal.signal(number, end) for number in heeded}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _parts(jobs: list[list[str]], size: int | None) -> Iterator[tuple[int, list[list[str]]]]:
    step = size or max(1, len(jobs))
    for start in range(0, len(jobs), step):
        yield start, jobs[start : start + step]


def run_job(config: DictConfig) -> str:
    """Run the cell that one composed configuration describes; Hydra's job. Return the path of the record.

    It may be called in a launcher's process, on another machine with the same folders.
    """
    settings: dict[str, Any] = plain(config)
    place = settings["sweep"]
    if place["cell"] is None:
        raise CampaignError("a job was started without its sweep; leave hydra.mode and hydra/sweeper unchanged")
    end_with(place["owner"])
    os.chdir(place["directory"])
    cell = resolve_cell(settings, load_plugins(settings["plugins"]["block"]))
    output, journal = Path(settings["output"]).expanduser(), Journal(Path(place["journal"]))
    known = Assignment(cell, place["id"], place["cell"], output / place["id"] / place["cell"], place["known"])
    return _run(known, journal, fail_fast=settings["fail_fast"])


def _run(assignment: Assignment, journal: Journal, *, fail_fast: bool) -> str:
    """Run a cell and enter it in the journal; return the path of the record.

    With ``fail_fast`` nothing is run once a cell of the sweep has failed.
    """
    if fail_fast and journal.failed():
        return ""
    try:
        journal.begin(assignment.key)
        path = run_cell(assignment)
        journal.end(assignment.key, read_record(path)["outcome"])
    except OSError as error:
        raise unwritable(assignment.folder.parent.parent, error) from error
    return str(path)
