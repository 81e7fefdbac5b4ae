"""A right engine passes the suite, and each broken one fails the check that is meant to catch it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harness.conformance.__main__ import main
from harness.conformance.suite import test_answers as suite
from harness.contract import No, Yes
from tests.conftest import ROOT

FAKES = Path(__file__).parent / "fakes"
sys.path.insert(0, str(FAKES))
import onyx_suspects_engines  # noqa: E402
from onyx_suspects import BROKEN, SCHEDULES, name_of  # noqa: E402

sys.path.remove(str(FAKES))  # other tests in this process must not find these engines installed

RIGHTLY = "test_supported_programs_are_answered_correctly"
RELEASED = "test_everything_is_released"
MEMORY = "test_exhausted_memory_raises_memory_error"
# The check that is meant to catch the fault, and words of its message.
CAUGHT = {
    "wrong_column": (RIGHTLY, "is off by"),
    "float64": (RIGHTLY, "is float64"),
    "padded": (RIGHTLY, "has shape (24, 4), not (24, 1)"),
    "says_yes_then_fails": (RIGHTLY, "products are not implemented"),
    "unsettled": (RIGHTLY, "it reports that it has not settled"),
    "vague": ("test_supports_is_consistent", "'no' is not a sentence for a table"),
    "fickle": ("test_supports_is_consistent", "come back later"),
    "refuses_all": ("test_it_supports_something", "this engine runs nothing at all"),
    "remembers": ("test_reset_discards_all_state", "is off by"),
    "keeps_parameters": ("test_reset_discards_all_state", "is off by"),
    "ignores_state": ("test_a_warm_state_is_used", "is off by"),
    "starts_again": ("test_a_run_continues_from_its_state", "is off by"),
    "ignores_limit": ("test_a_run_stops_at_its_limit", "after 0 supersteps"),
    "lenient": ("test_an_input_that_is_missing_or_misshapen_is_refused", "DID NOT RAISE"),
    "writes_inputs": ("test_inputs_are_not_written", "it wrote to the caller's x0"),
    "views": ("test_values_are_copies", "changes the engine"),
    "silent": ("test_explain_names_the_schedule", "an engine"),
    "random": ("test_repetitions_agree", "it declares itself deterministic"),
    "leaks_started": (RELEASED, "left {'threads': 12, 'open files': 24, 'child processes': 12}"),
    "leaks_memory": (RELEASED, "bytes"),
    "undead": (RELEASED, "a reference to the engine remains after close"),
    "litters": ("test_the_process_is_unchanged", "generated.c"),
    "shouts": ("test_the_process_is_unchanged", "changed: the environment"),
    "closes_others": ("test_close_is_harmless_at_any_time", "KeyError"),
    "dies_without_memory": (MEMORY, "the process ended with status -6"),
    "hides_memory": (MEMORY, "RuntimeError instead of MemoryError"),
    "wrong_afterwards": (MEMORY, "the next run is wrong"),
    "any_option": ("test_the_schedule_is_a_frozen_dataclass_whose_options_are_explained", "is_dataclass"),
    "extra_options": ("test_an_unknown_option_is_refused_by_name", "DID NOT RAISE"),
    "any_word": ("test_an_unknown_word_is_refused_by_name", "direction=no_such_word"),
}


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Return an empty folder to work in, with the fakes installed, also for processes that are started."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(FAKES)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(FAKES)]))
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")  # scanning entry points takes a third of such a run
    yield tmp_path
    onyx_suspects_engines.clean_up()


def test_every_fake_runs_the_suite():
    assert set(CAUGHT) == {name_of(name) for name in BROKEN} | set(SCHEDULES)


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("name", CAUGHT)
def test_a_broken_engine_is_caught(installed, capsys, name):
    check, words = CAUGHT[name]
    status = main([name, "--", "-x", "-q", "--tb=short", "-k", check])
    output = capsys.readouterr().out
    assert status == 1, output
    assert f"::{check}" in output
    assert words in output
    assert " error" not in output.splitlines()[-1], "it failed before the check was reached"


def answering(answers):
    """Return an engine under test whose ``supports`` gives these answers in turn."""
    following = iter(answers)
    engine = SimpleNamespace(supports=lambda *_: next(following))
    return SimpleNamespace(new=lambda: engine, says=lambda *_: next(following), device="cpu")


@pytest.mark.parametrize(
    ("answers", "right"),
    [
        ((Yes(8), Yes(8)), True), ((Yes(8, 2), Yes(8, 2)), True),
        ((No("it has no loops"), No("it has no loops")), True),
        ((Yes(8), Yes(16)), False), ((Yes(16), Yes(8)), False), ((Yes(8, 2), Yes(8, 3)), False),
        ((No("it has no loops"), No("it has two loops")), False), ((Yes(8), No("it has no loops")), False),
        ((No("it has no loops"), Yes(8)), False), ((Yes(0), Yes(0)), False), ((Yes(8.0), Yes(8.0)), False),
        ((No("no loops"), No("no loops")), False), ((True, True), False),
    ],
)  # fmt: skip
def test_supports_answers_alike_every_time(answers, right):
    """A second answer may differ from the first neither in bytes nor in its reason."""
    subject = answering(answers)
    if right:
        suite.test_supports_is_consistent(subject, "averaging", 3)
        return
    with pytest.raises(AssertionError):
        suite.test_supports_is_consistent(subject, "averaging", 3)


@pytest.mark.parametrize(("many", "right"), [(64, True), (16, True), (15, False)])
def test_bytes_that_shrink_with_the_number_of_features_are_caught(many, right):
    subject = answering([Yes(16), Yes(many)] * len(suite.PROGRAMS))
    if right:
        suite.test_memory_grows_with_features(subject)
        return
    with pytest.raises(AssertionError):
        suite.test_memory_grows_with_features(subject)


def test_a_leak_shows_in_a_process_that_has_memory_left_over(installed, capsys):
    """The process has free memory between blocks in use, as after earlier work."""
    blocks = [np.ones(30_000, np.uint8) for _ in range(20_000)]
    held = blocks[::50]
    del blocks
    assert main(["leaks_memory", "--", "-q", "-k", RELEASED]) == 1
    assert RELEASED in capsys.readouterr().out
    assert len(held) == 400


def test_a_right_engine_passes(installed, monkeypatch):
    """The whole suite passes, run as a command."""
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    finished = subprocess.run(
        [sys.executable, "-m", "harness.conformance", "right"], capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "supports 28 of 28 programs" in finished.stdout
    assert "it declares itself deterministic" in finished.stdout
    assert "when memory runs out: MemoryError, and the next run is right" in finished.stdout
    assert "passed, 1 skipped" in finished.stdout.splitlines()[-1]  # a program without a tolerance
    assert list(installed.iterdir()) == []


def test_noise_that_is_not_denied_is_stated_and_passes(installed, capsys):
    assert main(["honest_noise", "--", "-k", "test_repetitions_agree"]) == 0
    output = capsys.readouterr().out
    assert "it declares itself not deterministic" in output
    assert "averaging differs by up to" in output


def test_without_a_device_tests_that_need_one_are_skipped_with_the_reason(installed, capsys, monkeypatch):
    monkeypatch.setattr("harness.device.driver._library", lambda: None)
    assert main(["on_a_device", "--device", "cuda", "--", "-rs"]) == 0
    output = capsys.readouterr().out
    assert "no CUDA device: this machine has no NVIDIA driver" in output
    assert "7 passed, " in output.splitlines()[-1]  # the plugin's claims about the engine


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "name one engine"),
        (["right", "random"], "name one engine"),
        (["rigth"], "did you mean 'right'?"),
        (["right", "block=3"], "did you mean 'blocks'?"),
        (["right", "--device", "cuda"], "engine 'right' does not run on cuda (it runs on: cpu)"),
        (["right", "blocks=2", "--table"], "the table covers every schedule"),
    ],
)
def test_misuse_is_reported(installed, capsys, arguments, words):
    assert main(arguments) == 2
    assert words in capsys.readouterr().err


def test_the_table_of_one_engine(installed, capsys):
    assert main(["--table", "right"]) == 0
    output = capsys.readouterr().out
    assert "| algorithm | right |" in output
    assert "| bfs | runs |" in output
