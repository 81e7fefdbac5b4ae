"""A mistake in a command line is one line of error, found before Hydra composes anything."""

from __future__ import annotations

import pytest
from hydra._internal.config_loader_impl import ConfigLoaderImpl

from harness.campaign import application
from harness.campaign.command_line import COMMANDS, check_overrides
from harness.campaign.errors import CampaignError

MISTAKES = {
    "engine=[scipy,onyx]": "write engine=scipy,onyx to run each",
    "graph=[digits]": "write graph=digits to run each",
    "hydra.mode=RUN": "omit hydra.mode=RUN",
    "hydra/sweeper=basic": "only the sweeper 'harness' checks, resumes and shows them; omit it",
    "lst": "neither KEY=VALUE nor a command; did you mean 'list'?",
    "engine=scipy,": "'engine=scipy,' ends with a comma; remove it, or add another value",
    "--engine=onyx": "there is no flag '--engine'; a key has no dashes: engine=VALUE (see --help)",
    "--dry-run": "there is no flag '--dry-run'; a key has no dashes: dry_run=VALUE (see --help)",
    "--hlep": "there is no flag '--hlep'; did you mean '--help'?",
    "experiment=roads": "experiment has no choice to replace; add one with a plus sign, as in +experiment=NAME",
    "features=[3": "'features=[3' cannot be read: no viable alternative at input '[3'",
    "graph.path=a{b": "'graph.path=a{b' cannot be read: mismatched input '{'",
}
MEANT = ["hydra.mode=MULTIRUN", "hydra/sweeper=harness", "engine=a,b", "+experiment=[a,b]", "~features", "k=[1,2]"]


@pytest.mark.parametrize(("argument", "message"), MISTAKES.items())
def test_a_mistake_is_one_line_with_the_correction(capsys, argument, message):
    assert application.main(["features=1", argument]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert line.startswith("onyx-harness: error: ")
    assert message in line
    assert "Exception" not in line
    assert "http" not in line


@pytest.mark.parametrize("argument", MEANT)
def test_valid_settings_of_a_sweep_pass(argument):
    check_overrides([argument])


def test_the_home_folder_is_expanded_in_values(plan, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    given = ("graph=file", "algorithm=pagerank", "engine=scipy", "features=1")
    for name in ("a.txt", "b.txt"):
        (tmp_path / name).write_text("0 1\n")
    found = plan(*given, "graph.path=~/a.txt,~/b.txt", "output=~/out")
    assert [p.cell.graph_parameters["path"] for p in found.cells] == [f"{tmp_path}/a.txt", f"{tmp_path}/b.txt"]
    assert found.output == tmp_path / "out"


def test_hydra_composes_a_sweep_once_before_its_jobs(plan, monkeypatch):
    composed, compose = [], ConfigLoaderImpl.load_configuration
    monkeypatch.setattr(ConfigLoaderImpl, "load_configuration", lambda *a, **k: composed.append(a) or compose(*a, **k))
    assert len(plan("engine=scipy", "graph=grid", "algorithm=pagerank,bfs").cells) == 2
    assert len(composed) == 1


def test_every_override_of_several_is_checked():
    with pytest.raises(CampaignError, match=r"omit hydra\.mode=RUN"):
        check_overrides(["engine=a", "hydra.mode=RUN"])


@pytest.mark.parametrize("argument", ["engine=[a,b]", "features=[3", "lst"])
def test_explain_checks_its_keys_too(capsys, argument):
    assert application.main(["explain", argument]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_explain_and_list_have_help(capsys):
    assert application.main(["explain", "--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"onyx-harness {command}" in shown for command in COMMANDS)
    assert application.main(["list"]) == 0
    listed = capsys.readouterr().out
    assert all(f"\n  {name} " in listed for name in ("scipy", "pagerank", "rmat"))
    assert application.main(["list", "engines"]) == 0
    assert "pagerank" not in capsys.readouterr().out
    assert application.main(["list", "engine"]) == 0
    capsys.readouterr()
    assert application.main(["list", "engins"]) == 2
    assert "did you mean 'engines'?" in capsys.readouterr().err


@pytest.mark.parametrize("flag", ["hydra/launcher=basic", "--config-dir"])
def test_a_flag_for_configuration_leaves_a_command_a_sweep(plan, tmp_path, flag):
    given = [flag, str(tmp_path)] if flag.startswith("-") else [flag]
    assert len(plan(*given, "engine=scipy,tigr", "graph=grid").cells) == 2


def test_the_warm_up_can_be_switched_off(plan):
    [planned] = plan("engine=scipy", "graph=grid", "measure.warmup_s=0").cells
    assert planned.cell.measure.warmup_s == 0
    assert application.main(["measure.warmup_s=-1"]) == 2
