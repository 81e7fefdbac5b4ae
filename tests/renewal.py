"""Run the tests of a worker in a process that is replaced when it has grown.

Numba cannot unload machine code, and a worker of the long run loads thousands of modules: 2.7 GB. Therefore each
worker of pytest-xdist forks a process after collection and hands it one test after the other. When a test leaves that
process with more than ``MOST_MB`` of memory, the process tears its fixtures down and ends, and the next test starts in
a new copy of the worker, which has never run a test.

On a machine with a CUDA device the workers run their tests themselves: the driver does not work in a copy of a
process that has used it.
"""

from __future__ import annotations

import multiprocessing
import os
import sys
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest

from harness.device.driver import cuda_unavailable

MOST_MB = 1000.0  # of resident memory after a test; in a sample of the long tests, one added at most 123


def resident_mb() -> float:
    """Return the resident memory of this process in megabytes."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


class Renewal:
    """The plugin in a worker, and in the process that it forks."""

    def __init__(self, config: pytest.Config, most_mb: float) -> None:
        self.config, self.most_mb = config, most_mb
        self.positions: dict[int, int] = {}  # of tests among all, by their id()
        self.process: multiprocessing.process.BaseProcess | None = None
        self.connection: Connection | None = None
        self.answers: Connection | None = None  # in the forked process: to the worker

    @pytest.hookimpl
    def pytest_runtest_protocol(self, item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
        """Hand a test over, and report what the forked process reports."""
        if self.answers is not None:
            return None  # the process that runs the tests
        if not self.positions:
            self.positions = {id(one): place for place, one in enumerate(item.session.items)}
        connection = self._forked(item.session)
        connection.send((self.positions[id(item)], nextitem and self.positions[id(nextitem)]))
        item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
        for report in self._reports(connection):
            item.ihook.pytest_runtest_logreport(report=report)
        item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
        return True

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """In the forked process: send a report to the worker."""
        if self.answers is not None:
            self.answers.send(self.config.hook.pytest_report_to_serializable(config=self.config, report=report))

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self) -> None:
        """End the forked process, which has torn its fixtures down after the last test."""
        if self.answers is None:
            self._end()

    def _reports(self, connection: Connection) -> Iterator[pytest.TestReport]:
        """Yield the reports of a test; end the process after it if it has grown.

        If the process dies, the worker dies too: pytest-xdist then reports the test as crashed and replaces the worker.
        """
        while True:
            try:
                data = connection.recv()
            except EOFError:
                os._exit(1)
            if isinstance(data, bool):
                break
            yield self.config.hook.pytest_report_from_serializable(config=self.config, data=data)
        if data:
            self._end()

    def _end(self) -> None:
        if self.connection is not None and self.process is not None:
            self.connection.close()
            self.process.join()
        self.connection = self.process = None

    def _forked(self, session: pytest.Session) -> Connection:
        """Return the connection to the process that runs the tests; fork it if there is none."""
        if self.connection is None:
            self.connection, other = multiprocessing.Pipe()
            self.process = multiprocessing.get_context("fork").Process(target=self._serve, args=(session, other))
            self.process.start()
            other.close()
        return self.connection

    def _serve(self, session: pytest.Session, answers: Connection) -> None:
        """Run tests until the worker closes the connection."""
        assert self.connection is not None
        self.connection.close()
        for plugin in self.config.pluginmanager.get_plugins():
            if hasattr(plugin, "sendevent"):  # of pytest-xdist: reports would reach the controller twice
                self.config.pluginmanager.unregister(plugin)
        self.answers = answers
        _start_numba_again()
        while True:
            try:
                place, following = answers.recv()
            except EOFError:
                return
            item, nextitem = session.items[place], None if following is None else session.items[following]
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=nextitem)
            grown = resident_mb() > self.most_mb
            if grown:
                session._setupstate.teardown_exact(None)
            answers.send(grown)


def _start_numba_again() -> None:
    """Let Numba start threads in this process.

    Importing engines prepares them in the worker, which runs no kernel and therefore starts none. Numba refuses to run
    kernels in another process than the one that has prepared the threads.
    """
    threads: Any = sys.modules.get("numba.np.ufunc.parallel")
    if threads is not None and threads._is_initialized:
        threads._is_initialized = False
        threads._launch_threads()


def pytest_configure(config: pytest.Config) -> None:
    """Register the plugin in workers that may be copied."""
    if hasattr(config, "workerinput") and cuda_unavailable(0):
        config.pluginmanager.register(Renewal(config, MOST_MB), "renewal")
