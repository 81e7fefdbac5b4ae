from __future__ import annotations

import os
import subprocess
import time

import pytest

from harness.campaign import application
from harness.campaign.process import run_process
from tests.conftest import FAKES, ROOT

# The environment of all processes, so that one server serves them; only the first variable differs between tests.
SERVED = {"PYTEST_CURRENT_TEST": "", "A_VARIABLE": "set"}


@pytest.fixture(scope="session")
def modules(tmp_path_factory):
    """Return a folder for modules."""
    return tmp_path_factory.mktemp("modules")


@pytest.fixture
def run_module(modules, monkeypatch):
    """Run a module's source in a separate process, as a cell; return how it ended and what it printed."""
    monkeypatch.setenv("PYTHONPATH", str(modules))

    def run(source, time_s=60.0, memory_bytes=10**9, words=0, **environment):
        """Run a module; the time limit starts once ``words`` are printed, because starting may be slow on a busy
        machine."""
        name = f"a_child_{len(list(modules.iterdir()))}"
        (modules / f"{name}.py").write_text(source)
        output, began = modules / f"{name}.txt", time.monotonic()

        def until_it_has_printed():
            return 0.0 if len(output.read_text().split()) >= words else time.monotonic() - began + 0.1

        ending = run_process(
            name, ["argument"], output=output, environment={**SERVED, **environment}, time_s=time_s,
            memory_bytes=memory_bytes, forgiven_s=until_it_has_printed,
        )  # fmt: skip
        return ending, output.read_text().strip()

    return run


@pytest.fixture
def plan(monkeypatch):
    """Return the plan of a command: ``plan("+experiment=stereo").cells``."""

    def compose(*arguments):
        plans = []
        monkeypatch.setattr("harness.campaign.sweep.run_plan", lambda made, *_: plans.append(made))
        assert application.main(arguments) == 0
        return plans[0]

    return compose


@pytest.fixture
def command_here(tmp_path, monkeypatch, capfd):
    """Run ``onyx-harness`` as ``command`` does, but with its parent in this process, which avoids imports.

    Cells still run in processes of their own, forked from one server for all tests with the same environment.
    """
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(FAKES), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.argv", ["onyx-harness"])
    monkeypatch.chdir(tmp_path)

    def run(*arguments, env=None):
        with monkeypatch.context() as patched:
            patched.delenv("PYTEST_CURRENT_TEST")  # the only variable that differs from test to test
            for name, value in (env or {}).items():
                patched.setenv(name, value)
            capfd.readouterr()
            try:
                status = application.main(arguments)
            except SystemExit as ended:
                status = ended.code or 0
            captured = capfd.readouterr()
        return subprocess.CompletedProcess(arguments, status, captured.out, captured.err)

    return run
