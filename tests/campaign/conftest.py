from __future__ import annotations

import os
import subprocess

import pytest

from harness.campaign import application
from tests.conftest import FAKES, ROOT


@pytest.fixture
def plan(monkeypatch):
    """What a command would run: ``plan("+experiment=stereo").cells``."""

    def compose(*arguments):
        plans = []
        monkeypatch.setattr("harness.campaign.sweep.run_plan", lambda made, *_: plans.append(made))
        assert application.main(arguments) == 0
        return plans[0]

    return compose


@pytest.fixture
def command_here(tmp_path, monkeypatch, capfd):
    """Run ``onyx-harness`` as ``command`` does, but with its parent in this process, which need not import anew.

    Cells still run in processes of their own.
    """
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(FAKES), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr("sys.argv", ["onyx-harness"])
    monkeypatch.chdir(tmp_path)

    def run(*arguments, env=None):
        with monkeypatch.context() as patched:
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
