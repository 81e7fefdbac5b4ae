"""Every command on the pages is composed and planned, or parsed, as far as this machine allows."""

from __future__ import annotations

import argparse
import itertools
import runpy
import sys
import warnings

import pytest

from harness.campaign import application, doctor, plan
from harness.campaign.command_line import COMMANDS as COMMANDS_OF_THE_HARNESS
from tests.documented_commands import documented_commands, words
from tests.test_readme import block

COMMANDS = documented_commands()
PLANNED_CELLS = 3  # of a sweep: composing all of a large preset takes most of a minute
# Beginnings of commands that do not run here, each with the reason.
ELSEWHERE = {
    "python3 -m venv .venv": "the quick start installs from scratch; tests/test_readme.py checks what it names",
    "onyx-harness engine=gather": "the page's own engine: tests/plugins installs it and runs a sweep with it",
    "onyx-harness engine=scipy,gather": "the page's own engine: tests/plugins installs it and runs a sweep with it",
    "onyx-harness bisect": "times the commits of a checkout; tests/campaign/test_bisection.py runs it on a small one",
    "python -m tests.engines.implementation_choices": "no arguments; see tests/engines/test_implementation_choices.py",
    "pytest-benchmark compare": "compares files of measured runs; tests/records/test_benchmarks.py does so",
    "pytest --benchmark-compare=": "compares with a stored run, which is missing here",
    "pytest -p harness.conformance.plugin --engine gather": "the page's own engine; tests/conformance runs the suite",
}
EXPLAINED = "onyx-harness explain"


def elsewhere(command):
    """Return whether a command is listed as not run here."""
    return command.startswith(tuple(ELSEWHERE))


HARNESS = sorted(command for command in COMMANDS if command.startswith("onyx-harness") and not elsewhere(command))
MODULES = sorted(command for command in COMMANDS if command.startswith("python") and not elsewhere(command))
PYTEST = sorted(command for command in COMMANDS if command.startswith("pytest") and not elsewhere(command))


class Parsed(Exception):
    """The arguments were accepted."""


@pytest.fixture(autouse=True)
def _few_cells(monkeypatch):
    """Plan only the first cells of a sweep."""
    whole = plan.plan_sweep
    monkeypatch.setattr(plan, "plan_sweep", lambda jobs: whole(itertools.islice(jobs, PLANNED_CELLS)))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder that the pages call FOLDER, with the README's preset, in an otherwise empty working folder."""
    monkeypatch.chdir(tmp_path)
    preset = tmp_path / "FOLDER" / "experiment" / "mine.yaml"
    preset.parent.mkdir(parents=True)
    preset.write_text(block("example: preset"))
    (tmp_path / "roads.gr").write_text("p sp 2 1\na 1 2 3\n")
    return preset.parents[1]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", HARNESS)
def test_a_command_of_the_harness_is_planned(capsys, monkeypatch, command):
    tried = {key: {"error": "not tried"} for key in doctor.TRIALS} | {"numba": {"version": "0"}}
    monkeypatch.setattr(doctor, "run_probe", lambda: tried)
    arguments = words(command)[1:]
    runs_nothing = "--help" in arguments or "".join(arguments[:1]) in COMMANDS_OF_THE_HARNESS
    try:
        status = application.main(arguments if runs_nothing else [*arguments, "dry_run=true"])
    except SystemExit as ended:  # Hydra's --help
        status = ended.code
    told = capsys.readouterr()
    assert status == 0, f"{COMMANDS[command]}: {told.err}"
    assert told.out
    assert not told.err


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("command", MODULES)
def test_the_arguments_of_a_module_are_accepted(monkeypatch, command):
    _, _, module, *arguments = words(command)
    named = len(arguments) <= 1 and not any(argument.startswith("-") for argument in arguments)
    if named:  # in a sentence, without its required arguments
        arguments.append("--help")
    parse = argparse.ArgumentParser.parse_args

    def accept(parser, args=None, namespace=None):
        parse(parser, args, namespace)
        raise Parsed

    monkeypatch.setattr(argparse.ArgumentParser, "parse_args", accept)
    monkeypatch.setattr(sys, "argv", [module, *arguments])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # runpy's: the module may be imported already
        with pytest.raises((Parsed, SystemExit)) as ended:
            runpy.run_module(module, run_name="__main__")
    assert ended.type is Parsed or (named and ended.value.code == 0), f"{COMMANDS[command]}: {command} is refused"


def test_tests_that_are_named_to_pytest_exist(request):
    assert PYTEST
    for command in PYTEST:
        arguments = words(command)[1:]
        assert request.config._parser.parse_known_args(arguments), command
        paths = [argument for argument in arguments if argument.startswith("tests/")]
        assert all((request.config.rootpath / path).exists() for path in paths), COMMANDS[command]


def test_the_pages_are_read_as_they_are_written():
    assert len(HARNESS) > 15
    assert len(MODULES) > 15
    for start in ELSEWHERE:
        assert any(command.startswith(start) for command in COMMANDS), f"no page shows {start!r}: remove the entry"
    assert {*HARNESS, *MODULES, *PYTEST} == {command for command in COMMANDS if not elsewhere(command)}
