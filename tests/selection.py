"""Select tests: deselect those that need a GPU if there is none, and draw a sample of the long ones.

A test marked ``gpu`` is deselected at collection on a machine without a CUDA device; one line of the summary gives
the number and the reason. ``--collect-only`` lists all tests. ``--sample-full SECONDS`` orders the selected tests by
a hash of the seed and the test's name and starts none after that time. Under pytest-xdist every worker selects, and
the controller prints.
"""

from __future__ import annotations

import hashlib
import time
from typing import Any

import pytest

from harness.device.driver import cuda_unavailable

LEFT_OUT, SAMPLED = "tests_without_a_gpu", "tests_sampled"


class Selection:
    """The selection of one process: a worker of pytest-xdist, or the only process."""

    def __init__(self, config: pytest.Config) -> None:
        self.config = config
        self.seconds: float | None = config.getoption("--sample-full")
        self.deadline = float("inf")
        self.found: dict[str, Any] = {}

    @pytest.hookimpl(trylast=True)  # after -k and -m, so that only tests that would run are counted
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        on_gpu = [item for item in items if item.get_closest_marker("gpu")]
        reason = cuda_unavailable(0) if on_gpu and not self.config.option.collectonly else ""
        if reason:
            self.config.hook.pytest_deselected(items=on_gpu)
            items[:] = [item for item in items if not item.get_closest_marker("gpu")]
            self.found[LEFT_OUT] = (len(on_gpu), reason)
        if self.seconds is not None:
            seed = self.config.getoption("--sample-seed")
            items.sort(key=lambda item: hashlib.sha256(f"{seed}\0{item.nodeid}".encode()).digest())
            self.found[SAMPLED] = (0, len(items))

    def pytest_runtestloop(self) -> None:
        if self.seconds is not None:
            self.deadline = time.monotonic() + self.seconds

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_protocol(self) -> bool | None:
        if self.seconds is None:
            return None
        if time.monotonic() >= self.deadline:
            return True  # without a report: the test is neither passed nor skipped
        ran, selected = self.found[SAMPLED]
        self.found[SAMPLED] = (ran + 1, selected)
        return None

    def pytest_sessionfinish(self) -> None:
        if hasattr(self.config, "workeroutput"):
            self.config.workeroutput.update(self.found)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Add the results of a worker of pytest-xdist: all select the same tests, each runs some."""
        found = getattr(node, "workeroutput", {})
        if LEFT_OUT in found:
            self.found[LEFT_OUT] = found[LEFT_OUT]
        if SAMPLED in found:
            ran, selected = found[SAMPLED]
            self.found[SAMPLED] = (self.found.get(SAMPLED, (0, 0))[0] + ran, selected)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        if LEFT_OUT in self.found:
            count, reason = self.found[LEFT_OUT]
            terminalreporter.write_line(f"{count} tests marked gpu were deselected: {reason}")
        if SAMPLED in self.found:
            ran, selected = self.found[SAMPLED]
            terminalreporter.write_line(f"{ran} of {selected} selected tests were started within {self.seconds:g} s")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Declare the options of the sample."""
    group = parser.getgroup("selection")
    group.addoption("--sample-full", type=float, metavar="SECONDS", help="start tests for this long, in drawn order")
    group.addoption("--sample-seed", default="", metavar="TEXT", help="seed of that order, such as a commit")


def pytest_configure(config: pytest.Config) -> None:
    """Register the selection of this process."""
    config.pluginmanager.register(Selection(config), "selection")
