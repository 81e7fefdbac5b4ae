"""Presets of users' own, in the form that Hydra documents, together with the default sweep parameters."""

from __future__ import annotations

import pytest

from harness.campaign import application

MINE = """# @package _global_
defaults:
  - override /engine: scipy
  - override /graph: grid
  - override /algorithm: pagerank
features: 2
"""
SWEPT = """# @package _global_
defaults:
  - override /graph: grid
hydra: {sweeper: {params: {engine: "scipy,tigr", graph: "grid,rmat", features: "1,2"}}}
"""
LINKED = """# @package _global_
features: 3
"""


@pytest.fixture
def preset(tmp_path):
    """Write a preset into a separate folder; return the flag that names the folder."""
    folder = tmp_path / "mine" / "experiment"
    folder.mkdir(parents=True)

    def write(name, text):
        (folder / f"{name}.yaml").write_text(text)
        return str(folder.parent)

    return write


def cells(plan):
    return [(p.cell.engine, p.cell.algorithm, p.cell.graph, p.cell.features) for p in plan.cells]


@pytest.mark.parametrize("place", ["--config-dir", "hydra.searchpath"])
def test_groups_overridden_by_a_preset_run(plan, preset, place):
    folder = preset("mine", MINE)
    where = ["--config-dir", folder] if place == "--config-dir" else [f"hydra.searchpath=[file://{folder}]"]
    assert cells(plan(*where, "+experiment=mine")) == [("scipy", "pagerank", "grid", 2)]


def test_the_command_line_wins_over_a_preset_and_defaults_fill_the_rest(plan, preset):
    folder = preset("mine", "# @package _global_\ndefaults: [{override /graph: grid}]\n")
    found = cells(plan("--config-dir", folder, "+experiment=mine", "engine=tigr,scipy", "features=1"))
    assert found == [(engine, "label_propagation", "grid", 1) for engine in ("tigr", "scipy")]


def test_sweep_parameters_of_a_preset_win_over_its_own_choice(plan, preset):
    found = cells(plan("--config-dir", preset("swept", SWEPT), "+experiment=swept"))
    assert {cell[0] for cell in found} == {"scipy", "tigr"}
    assert {cell[2] for cell in found} == {"grid", "rmat"}
    assert {cell[3] for cell in found} == {1, 2}


def test_a_value_of_a_preset_wins_over_a_linked_default(plan, preset):
    found = cells(plan("--config-dir", preset("linked", LINKED), "+experiment=linked", "engine=scipy"))
    in_turn = [("scipy", "label_propagation", graph, 3) for graph in ("digits", "photo")]
    assert found == 6 * in_turn  # the rounds of the default comparison


def test_a_part_of_a_preset_has_the_settings_of_the_whole(plan):
    tolerances = {
        cell.cell.algorithm: cell.cell.parameters["tolerance"]
        for cell in plan(
            "+experiment=default_choice", "algorithm=multimodal,pagerank", "engine=onyx", "features=1"
        ).cells
    }
    assert tolerances["multimodal"] == 1e-5
    assert tolerances["pagerank"] != 1e-5


def test_each_of_several_presets_has_its_own_sweep(plan, preset):
    preset("mine", MINE)
    folder = preset("swept", SWEPT)
    found = cells(plan("--config-dir", folder, "+experiment=mine,swept"))
    assert found[0] == ("scipy", "pagerank", "grid", 2)
    assert len(found) == 1 + 2 * 2 * 2


def test_a_changed_preset_is_composed_again(plan, preset):
    for features in (2, 5):
        folder = preset("mine", MINE.replace("features: 2", f"features: {features}"))
        command = (f"hydra.searchpath=[file://{folder}]", "+experiment=mine")
        assert cells(plan(*command)) == [("scipy", "pagerank", "grid", features)]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (MINE.replace("# @package _global_\n", "").replace("defaults", "ignored"), "'# @package _global_'"),
        (MINE.replace("features:", "featurs:"), "no key 'featurs'; did you mean 'features'"),
        (MINE.replace("scipy", "scypi"), "no engine called 'scypi'; did you mean 'scipy'"),
    ],
)
def test_a_preset_that_would_be_ignored_is_refused(capsys, preset, text, message):
    assert application.main(["--config-dir", preset("mine", text), "+experiment=mine"]) == 2
    assert message in capsys.readouterr().err
