"""Follow the journal of a sweep in a thread and show its progress, for any launcher."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Sequence

from harness.campaign.child_report import REPORT_FILE, WAIT_STAGE, read_report, waited_s
from harness.campaign.job import work_folder
from harness.campaign.journal import Journal
from harness.campaign.plan import Planned
from harness.report.progress import Progress

_INTERVAL_S = 0.2
_LOOKS_A_REPORT = 5


class ProgressMonitor:
    """Shows, while entered, each cell that begins or ends."""

    def __init__(self, journal: Journal, cells: Sequence[Planned]) -> None:
        self._journal = journal
        self._cells = {planned.key: planned for planned in cells}
        self._progress = Progress(len(cells))
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._monitor, daemon=True)

    def __enter__(self) -> None:
        self._thread.start()

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _monitor(self) -> None:
        began = time.monotonic()
        running: set[str] = set()
        looks = 0
        with self._progress:
            while True:
                over = self._over.wait(_INTERVAL_S)
                for kind, key, _ in self._journal.news():
                    planned = self._cells[key]
                    if kind == "begin":
                        running.add(key)
                        self._progress.begun(key, planned.cell.labels, planned.cell.features, planned.cell.round)
                        continue
                    running.discard(key)
                    if (record := planned.record()) is not None:
                        self._progress.ended(key, record, time.monotonic() - began)
                if over:
                    return
                looks += 1
                if looks % _LOOKS_A_REPORT == 0:
                    self._tell_waits(running)

    def _tell_waits(self, running: Iterable[str]) -> None:
        """Show the cells that wait for their device, and who holds it."""
        for key in running:
            report = read_report(work_folder(self._cells[key].folder) / REPORT_FILE)
            waits = report.get("stage") == WAIT_STAGE
            self._progress.waiting(key, waited_s(report) if waits else 0.0, str(report.get("behind", "")))
