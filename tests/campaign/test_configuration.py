"""Configurations of plugins' names by hand: their keys, the choices that Hydra sees, files of several folders."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from hydra.core.object_type import ObjectType
from omegaconf import OmegaConf

from harness.campaign.config_files import config_files
from harness.campaign.configuration import Choices, describe_choices, with_every_key
from harness.contract import AlgorithmSpec, EngineSpec, GraphSpec
from harness.options import option
from harness.plugins import Registry


@dataclasses.dataclass(frozen=True)
class Schedule:
    way: str = option("push", "the direction")
    width: int | None = option(None, "lanes")
    fold: bool = option(False, "fold columns")


@dataclasses.dataclass(frozen=True)
class Walk:
    seed: int  # required
    alpha: float = option(0.5, "a share")
    start: str = option("drawn", "where it starts")
    weights: tuple[float, ...] = option((1.0, 2.0), "weights")
    once: bool = option(True, "run once")
    limit: Any = option(None, "a limit")  # noqa: RUF009
    made: Any = option(dataclasses.field, "what no configuration can hold")  # noqa: RUF009


@pytest.fixture
def registry():
    made, here = Registry(), __name__
    made.engines["fast"] = EngineSpec("fast", "a fast engine", Schedule, f"{here}:Walk")
    made.engines["odd"] = EngineSpec("odd", "its schedule is no dataclass", int, f"{here}:Walk")
    made.algorithms["walk"] = AlgorithmSpec("walk", "walks at random", f"{here}:Walk")
    made.graphs["ring"] = GraphSpec("ring", "a ring", f"{here}:ring", {"vertices": 3, "kind": "plain", "path": ""})
    return made


def test_a_configuration_is_shown_with_every_option_of_its_choices(registry):
    """Options that are set keep their values. Those of an engine are null unless they are given."""
    given = OmegaConf.to_yaml(OmegaConf.create({
        "features": 4, "engine": {"name": "fast", "width": 2}, "algorithm": {"name": "walk", "alpha": 0.25, "new": 1},
        "graph": {"name": "ring", "kind": "double"}, "device": {"kind": "cpu"},
    }))  # fmt: skip
    shown = OmegaConf.to_container(OmegaConf.create(with_every_key(given, registry)))
    assert shown == {
        "features": 4, "engine": {"name": "fast", "way": None, "width": 2, "fold": None},
        "algorithm": {
            "name": "walk", "alpha": 0.25, "start": "drawn", "weights": [1.0, 2.0], "once": True, "limit": None,
            "new": 1,
        },
        "graph": {"name": "ring", "vertices": 3, "kind": "double", "path": ""}, "device": {"kind": "cpu"},
    }  # fmt: skip


@pytest.mark.parametrize("section", [{"name": "absent", "alpha": 1}, {"alpha": 1}, "text", None])
def test_a_choice_without_a_known_name_is_shown_as_it_is(registry, section):
    given = {"algorithm": section, "features": 1}
    shown = OmegaConf.to_container(OmegaConf.create(with_every_key(OmegaConf.to_yaml(given), registry)))
    assert shown == given
    assert OmegaConf.to_container(OmegaConf.create(with_every_key("features: 1\n", registry))) == {"features": 1}


def test_hydra_finds_the_names_of_every_group(registry, monkeypatch):
    monkeypatch.setattr(Choices, "registry", registry)
    monkeypatch.setattr("harness.campaign.configuration._default_choices",
                        lambda: {"engine": "default", "algorithm": "walk", "graph": "ring"})  # fmt: skip
    choices = Choices("test", "installed://")
    names = {"engine": ["default", "fast"], "algorithm": ["walk"], "graph": ["ring"], "device": []}
    for group, found in names.items():
        assert choices.list(group, ObjectType.CONFIG) == choices.list(f"{group}/", None) == found
        assert choices.list(group, ObjectType.GROUP) == []  # no group has groups in it
        assert choices.is_group(group) == (group != "device")
    assert choices.list("", None) == choices.list("", ObjectType.GROUP) == ["engine", "algorithm", "graph"]
    assert choices.list("", ObjectType.CONFIG) == []
    assert [choices.is_config(f"engine/{name}.yaml") for name in ("fast", "default", "odd", "absent")] == [
        True, True, False, False,
    ]  # fmt: skip
    loaded = choices.load_config("algorithm/walk.yaml")
    assert OmegaConf.to_container(loaded.config) == {
        "name": "walk", "alpha": 0.5, "start": "drawn", "weights": [1.0, 2.0], "once": True, "limit": None,
    }  # fmt: skip
    assert not OmegaConf.is_struct(loaded.config)
    assert OmegaConf.to_container(choices.load_config("engine/default").config) == {"name": "default"}


def test_the_help_lists_every_group_with_its_names(registry):
    assert describe_choices(registry) == (
        "engine=\n  fast               a fast engine\n  odd                its schedule is no dataclass\n"
        "algorithm=\n  walk               walks at random\n"
        "graph=\n  ring               a ring"
    )
    assert describe_choices(Registry(), ["graph"]) == "graph=\n  (none installed)"


def test_the_first_folder_that_has_a_file_provides_it(tmp_path):
    texts = {
        "first/graph/b.yaml": "# @package _global_\n# The first.\n#\n# More: text.\nname: ring\nvertices: 1\n# no\n",
        "second/graph/b.yaml": "# The second.\nname: ring\nvertices: 2\n",
        "second/graph/a.yaml": "graph:\n  name: grid\n",
        "second/graph/c.yaml": "",
        "second/graph/d.yaml": "# @package _global_\nhydra: {sweeper: {params: {features: '1,2'}}}\n",
        "second/graph/notes.txt": "# no file of Hydra\n",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = config_files("graph", [tmp_path / "first", "pkg://elsewhere", str(tmp_path / "second"), Path("absent")])
    assert list(found) == ["a", "b", "c", "d"]
    assert (found["b"].settings, found["b"].comment) == ({"name": "ring", "vertices": 1}, "The first.  More: text.")
    assert [one.of for one in found.values()] == ["grid", "ring", "", ""]
    assert [one.swept for one in found.values()] == [{}, {}, {}, {"features": "1,2"}]
    assert (found["c"].settings, found["c"].comment, found["c"].summary) == ({}, "", "")
    assert config_files("engine", [tmp_path / "first"]) == {}


def ring():
    """Return a ring."""
