"""Carrying out a plan: launch its jobs, show progress and the table, and say how it went by the exit status."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig

from harness.campaign.cell import resolve_cell
from harness.campaign.job import Assignment, run_cell
from harness.campaign.plan import Plan, Planned, plain, prepare_output
from harness.plugins import load_plugins
from harness.records import read_record
from harness.records.outcome import Outcome
from harness.report import progress
from harness.report.summary import show_page, show_sweep

if TYPE_CHECKING:
    from hydra.plugins.launcher import Launcher

INTERRUPTED_STATUS = 130


def run_plan(plan: Plan, launcher: Launcher, batch: int | None) -> None:
    """Run what is unfinished and show the sweep; SystemExit with status 1 when a cell failed, 130 when stopped."""
    prepare_output(plan)
    todo = plan.unfinished()
    progress.say_begin(plan.identity, len(plan.cells), len(plan.cells) - len(todo))
    interrupted = False
    try:
        _launch(plan, todo, launcher, batch)
    except KeyboardInterrupt:
        interrupted = True
    records = [record for planned in plan.cells if (record := plan.record(planned)) is not None]
    show_sweep(records, len(plan.cells), plan.baseline, plan.output / plan.identity)
    show_page(records, len(plan.cells), plan.baseline, plan.output / plan.identity)
    if interrupted:
        sys.exit(INTERRUPTED_STATUS)
    if len(records) < len(plan.cells) or not all(Outcome(record["outcome"]).acceptable for record in records):
        sys.exit(1)


def _launch(plan: Plan, todo: Sequence[Planned], launcher: Launcher, batch: int | None) -> None:
    jobs = [plan.job_overrides(planned, number, len(todo)) for number, planned in enumerate(todo, start=1)]
    for start, part in _parts(jobs, batch):
        for result in launcher.launch(part, initial_job_idx=start):
            _ = result.return_value  # raises what the job itself raised


def _parts(jobs: list[list[str]], size: int | None) -> Iterator[tuple[int, list[list[str]]]]:
    step = size or max(1, len(jobs))
    for start in range(0, len(jobs), step):
        yield start, jobs[start : start + step]


def run_job(config: DictConfig) -> str:
    """Hydra's job: run the cell that one composed configuration describes; the path of its record.

    It may be called in a process of a launcher's own, on another machine with the same folders.
    """
    settings: dict[str, Any] = plain(config)
    cell = resolve_cell(settings, load_plugins(settings["plugins"]["block"]))
    place = settings["sweep"]
    if place["id"] is None:
        mode = HydraConfig.get().mode
        raise SystemExit(f"onyx-harness: hydra.mode={mode} runs a job without its sweep; leave hydra.mode alone")
    folder = Path(settings["output"]).expanduser() / place["id"] / place["cell"]
    with progress.cell(cell.labels, cell.features, place["number"], place["total"]) as finished:
        path = run_cell(Assignment(cell, place["id"], place["cell"], folder))
        finished(read_record(path))
    return str(path)
