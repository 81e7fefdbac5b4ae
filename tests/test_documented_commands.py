"""Every command on the pages is composed and planned, or parsed, as far as this machine allows."""

from __future__ import annotations

import argparse
import itertools
import re
import runpy
import subprocess
import sys
import tomllib
import warnings

import pytest

from harness.campaign import application, doctor, plan
from harness.campaign.command_line import COMMANDS as COMMANDS_OF_THE_HARNESS
from harness.campaign.configuration import configuration_folder
from tests.covering import covering
from tests.documented_commands import PAGES, ROOT, SHELL_BLOCK, documented_commands, segments, unknown_programs, words
from tests.test_readme import block

COMMANDS = documented_commands()
PLANNED_CELLS = 3  # of a sweep: composing all of a large preset takes most of a minute
# Beginnings of commands that do not run here, each with the reason.
ELSEWHERE = {
    "python3 -m venv .venv": "a module of Python; .ci/run runs it with the quick start",
    "uv venv": "uv need not be installed; .ci/run runs the quick start with pip",
    "apt install g++": "a program of the system",
    "git worktree add ../before main": "changes the repository; tests/campaign/test_bisection.py adds worktrees",
    "onyx-harness engine=gather": "the page's own engine: tests/plugins installs it and runs a sweep with it",
    "onyx-harness engine=scipy,gather": "the page's own engine: tests/plugins installs it and runs a sweep with it",
    "onyx-harness bisect": "times the commits of a checkout; tests/campaign/test_bisection.py runs it on a small one",
    "python -m tests.engines.implementation_choices": "no arguments; see tests/engines/test_implementation_choices.py",
    "pytest-benchmark compare": "compares files of measured runs; tests/records/test_benchmarks.py does so",
    "pytest --benchmark-compare=": "compares with a stored run, which is missing here",
    "pytest -p harness.conformance.plugin --engine gather": "the page's own engine; tests/conformance runs the suite",
}
PRESETS = {("+experiment", path.stem) for path in (configuration_folder() / "experiment").glob("*.yaml")}
NUMBER = re.compile(r"-?[\d.]+(e-?\d+)?")
OUTSIDE = {"ziglang"}  # packages to install that are no extra of the project


def elsewhere(command):
    """Return whether a command is listed as not run here."""
    return command.startswith(tuple(ELSEWHERE))


HARNESS = sorted(command for command in COMMANDS if command.startswith("onyx-harness") and not elsewhere(command))


def settings(command):
    """Return the words of a command, those with several values as one for each value: ``k=a,b`` as ``k=a``, ``k=b``.

    All numbers of a key count as one value. The presets are left out; tests/campaign/test_presets.py composes all of
    them.
    """
    keyed = [(key, value) for key, _, value in (word.partition("=") for word in words(command))]
    every = {(key, one) for key, value in keyed for one in value.split(",")} - PRESETS
    return {(key, "a number" if NUMBER.fullmatch(one) else one) for key, one in every}


# Commands that together have every word of all of them; to compose and plan all takes a minute.
EVERY_WORD = covering(HARNESS, settings)
MODULES = sorted(command for command in COMMANDS if command.startswith("python") and not elsewhere(command))
PYTEST = sorted(command for command in COMMANDS if command.startswith("pytest") and not elsewhere(command))
INSTALLS = sorted(command for command in COMMANDS if re.match(r"(uv )?pip ", command))
SITE = sorted(command for command in COMMANDS if command.startswith("mkdocs"))
CHECKS = sorted(command for command in COMMANDS if command.startswith((".ci/run", "ruff", "mypy")))


class Parsed(Exception):
    """The arguments were accepted."""


@pytest.fixture(autouse=True)
def _few_cells(monkeypatch):
    """Plan only the first cells of a sweep."""
    whole = plan.plan_sweep
    monkeypatch.setattr(plan, "plan_sweep", lambda jobs, command: whole(itertools.islice(jobs, PLANNED_CELLS), command))


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder that the pages call FOLDER, with the README's preset, in a working folder with a graph.

    The pages call the file of a graph GRAPH.
    """
    monkeypatch.chdir(tmp_path)
    preset = tmp_path / "FOLDER" / "experiment" / "mine.yaml"
    preset.parent.mkdir(parents=True)
    preset.write_text(block("example: preset"))
    (tmp_path / "roads.gr").write_text("p sp 2 1\na 1 2 3\n")
    return preset.parents[1]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(
    "command", [pytest.param(one, marks=() if one in EVERY_WORD else (pytest.mark.full,)) for one in HARNESS]
)
def test_a_command_of_the_harness_is_planned(capsys, monkeypatch, command):
    tried = {key: {"error": "not tried"} for key in doctor.TRIALS} | {"numba": {"version": "0"}}
    monkeypatch.setattr(doctor, "run_probe", lambda: tried)
    arguments = [word.replace("=GRAPH", "=roads.gr") for word in words(command)[1:]]
    runs_nothing = "--help" in arguments or "".join(arguments[:1]) in COMMANDS_OF_THE_HARNESS
    try:
        status = application.main(arguments if runs_nothing else [*arguments, "dry_run=true"])
    except SystemExit as ended:  # Hydra's --help
        status = ended.code
    printed = capsys.readouterr()
    assert status == 0, f"{COMMANDS[command]}: {printed.err}"
    assert printed.out
    assert not printed.err


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
        files = [request.config.rootpath / path.partition("::")[0] for path in paths]
        assert all(file.exists() for file in files), COMMANDS[command]


@pytest.mark.parametrize("command", INSTALLS)
def test_what_is_installed_exists(command):
    from pip._internal.commands import create_command

    arguments = words(command)[1 + words(command).index("pip") :]
    options, names = create_command(arguments[0]).parse_args(arguments[1:])
    assert all((ROOT / path).is_file() for path in options.constraints), COMMANDS[command]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"].keys()
    for name in [*names, *options.editables]:
        found = re.fullmatch(r"(\.|onyx-harness)(?:\[([\w,]+)\])?", name)
        assert name in OUTSIDE or (found and set((found[2] or "test").split(",")) <= extras), COMMANDS[command]


@pytest.mark.parametrize("command", SITE)
def test_a_command_of_the_site_is_accepted(command):
    cli = pytest.importorskip("mkdocs.__main__", reason="the site needs the extra 'docs'").cli
    name, *arguments = words(command)[1:]
    assert cli.commands[name].make_context(name, arguments).command.name == name


def test_what_contributors_run_is_what_the_whole_check_runs():
    check = ROOT / ".ci" / "run"
    if not check.exists():  # the source distribution has no .ci
        pytest.skip("the whole check is in the repository only")
    steps = check.read_text()
    for command in CHECKS:
        assert command == ".ci/run" or re.search(rf"\.venv/bin/{re.escape(command)}( |\")", steps), COMMANDS[command]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_shell_code_is_valid(page):
    for found in SHELL_BLOCK.finditer(page.read_text()):
        done = subprocess.run(["bash", "-n"], input=found[2], capture_output=True, text=True, check=False)
        assert done.returncode == 0, f"{found[2]}\n{done.stderr}"


@pytest.mark.parametrize(
    ("line", "commands"),
    [
        ("python3 -m venv a && .venv/bin/pip install -e '.[a]'", ["python3 -m venv a", "pip install -e '.[a]'"]),
        ("(test $s = a || cd ../x; A=1 pytest -k 'a and b')", ["test '$s' = a", "cd ../x", "pytest -k 'a and b'"]),
        ("FLAGS='-a -b' pip install 'x[a]'", ["pip install 'x[a]'"]),
        ('eval "$(onyx-harness --help)"', ["onyx-harness --help", "eval INNER"]),
        ("source (onyx-harness list \\| psub)  # fish", ["source", "onyx-harness list", "psub"]),
        ("python -m harness.records benchmark a > b.json", ["python -m harness.records benchmark a"]),
    ],
)
def test_a_line_of_shell_code_is_split_into_commands(line, commands):
    assert list(segments(line)) == commands


def test_the_pages_are_read_as_they_are_written():
    assert len(HARNESS) > 15
    assert set().union(*map(settings, EVERY_WORD)) == set().union(*map(settings, HARNESS))
    assert len(MODULES) > 15
    for start in ELSEWHERE:
        assert any(command.startswith(start) for command in COMMANDS), f"no page shows {start!r}: remove the entry"
    checked = {*HARNESS, *MODULES, *PYTEST, *INSTALLS, *SITE, *CHECKS}
    assert checked == {command for command in COMMANDS if not elsewhere(command)}
    assert unknown_programs() == set()


def test_a_preset_with_several_values_is_swept(folder, capsys):
    (folder / "experiment" / "swept.yaml").write_text(block("example: swept preset"))
    given = ["--config-dir", "FOLDER", "+experiment=swept", "algorithm=bfs", "graph=grid", "dry_run=true"]
    assert application.main(given) == 0
    shown = capsys.readouterr().out
    assert "scipy" in shown
    assert "onyx" in shown
    assert f"{PLANNED_CELLS} of {PLANNED_CELLS} cells would be run" in shown  # of four
