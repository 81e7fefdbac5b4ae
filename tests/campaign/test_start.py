"""Startup of the command."""

from __future__ import annotations

import subprocess
import sys

from harness import __main__
from harness.records import read_records


def test_an_interrupt_while_it_is_loading_ends_it_quietly(monkeypatch):
    class Interrupting:
        def find_spec(self, name, *_):
            if name == "harness.campaign.application":
                raise KeyboardInterrupt

    monkeypatch.delitem(sys.modules, "harness.campaign.application", raising=False)
    monkeypatch.setattr(sys, "meta_path", [Interrupting(), *sys.meta_path])
    assert __main__.main() == 130


def test_an_interrupt_before_hydra_starts_ends_it_quietly(monkeypatch):
    def interrupted():
        raise KeyboardInterrupt

    monkeypatch.setattr("harness.campaign.application.load_plugins", interrupted)
    monkeypatch.setattr(sys, "argv", ["onyx-harness", "list"])
    assert __main__.main() == 130


def test_a_broken_pipe_is_accepted(tmp_path, harness_environment):
    cell = "engine=fake_right algorithm=fake_spread graph=fake_ring features=1 measure.budget_s=0.01"
    done = subprocess.run(
        ["sh", "-c", f"exec {sys.executable} -m harness {cell} >&-"],
        cwd=tmp_path, env=harness_environment, stderr=subprocess.PIPE, text=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, "")
    [(_, record)] = read_records(tmp_path / "results")
    assert record["outcome"] == "ok"


def test_signs_that_the_encoding_of_the_output_lacks_are_replaced(tmp_path, harness_environment):
    cell = ("engine=fake_right", "algorithm=fake_spread", "graph=fake_ring", "features=1", "measure.budget_s=0.01")
    done = subprocess.run(
        [sys.executable, "-m", "harness", *cell],
        cwd=tmp_path, env={**harness_environment, "PYTHONIOENCODING": "ascii"}, capture_output=True, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"[1/1] fake_ring ? fake_spread ? k=1 ? fake_right  ok" in done.stdout
