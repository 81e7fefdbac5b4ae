"""Clean up after killed sweeps."""

from __future__ import annotations

import contextlib
from pathlib import Path

from harness.campaign.job import WORK_FOLDER
from harness.campaign.journal import Journal
from harness.campaign.lock import file_lock
from harness.campaign.orphans import end_orphans
from harness.campaign.work_folder import discard
from harness.records.store import restore_folder

SWEEP_LOCK = "sweep.lock"  # held while a sweep is described


def clean_up(folder: Path) -> None:
    """Restore every record of a sweep that was being replaced, and delete the work folders of cells that no process
    runs.

    Processes of killed sweeps are ended first, in case the process that watches them was killed too. The caller holds
    the lock of the sweep. Raises OSError if the folder cannot be written.
    """
    work = folder / WORK_FOLDER
    for unfinished in folder.glob(".sweep.json-*"):
        unfinished.unlink()
    for journal in sorted(work.glob("*.journal")):
        with contextlib.suppress(BlockingIOError), file_lock(journal, keep=False, wait=False):
            owner = Journal(journal).owner()
            if owner is not None:
                end_orphans(owner)
    cells = {path.stem for path in work.iterdir() if path.is_dir() or path.suffix == ".lock"}
    for cell in sorted(cells - {Path(SWEEP_LOCK).stem}):
        with contextlib.suppress(BlockingIOError), file_lock(work / f"{cell}.lock", keep=False, wait=False):
            restore_folder(folder / cell, work / cell / "aside")
            discard(work / cell)
