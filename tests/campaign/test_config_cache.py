"""The configurations of a sweep equal those that Hydra composes one by one, and Hydra composes few of them."""

from __future__ import annotations

import pytest

from harness.campaign import application
from harness.campaign.config_cache import Compositions, plain

PRESETS = {
    "refers": "features: 3\nlimits: {time_s: '${_times.${graph.name}}'}\n_times: {grid: 1.0, rmat: 2.0}\n",
    "pairs": "defaults: [{/kind: a}, {/level: x}, {'optional /special@_global_': '${kind}_${level}'}]\n",
    "overrides": "defaults: [{override /algorithm: pagerank}]\n",
    "scales": "hydra: {sweeper: {params: {scale: 'small,mine', engine: 'scipy,tigr'}}}\n",
}
FILES = {
    "kind/a": "rounds: 2\n",
    "kind/b": "rounds: 3\n",
    "level/x": "features: 1\n",
    "level/y": "features: 2\n",
    "special/b_y": "features: 7\n",
    "scale/mine": "defaults: [{override /device: cuda}]\nscale: mine\n",
    "engine/first": "engine: {name: scipy}\nrounds: 2\nmeasure: {repetitions: 1}\n",
    "graph/second": "graph: {name: grid}\nrounds: 3\nlimits: {time_s: 10}\n",
}
COMPARED = 4  # configurations of a command
COMMANDS = {  # a command, and the number of its configurations that Hydra composes
    "choices": (("engine=onyx_fa_cd,onyx", "algorithm=thesis_lp,thesis_bp", "device=cpu,cuda", "graph=grid"), 4),
    "choices and values": (("engine=onyx,tigr", "graph=grid,rmat", "graph.seed=1", "+_mine=5", "features=${_mine}"), 3),
    "a value that refers to a choice": (("+experiment=refers", "engine=scipy,tigr", "graph=grid,rmat"), 3),
    "an override in a preset": (("+experiment=overrides", "engine=scipy,tigr", "graph=grid,rmat"), 3),
    "files with a defaults list": (("+experiment=scales", "graph=grid,rmat"), 2 * 3),
    "files that set the same key": (("engine=first,scipy", "graph=second,grid"), 4),
    "a file that two choices select": (("+experiment=pairs", "kind=a,b", "level=x,y", "engine=scipy", "graph=grid"), 4),
}


@pytest.fixture
def configurations(tmp_path, monkeypatch):
    """Return the overrides and the configurations of a command's sweep."""
    for name, text in {**{f"experiment/{name}": text for name, text in PRESETS.items()}, **FILES}.items():
        path = tmp_path / f"{name}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"# @package _global_\n{text}")
    found = []
    monkeypatch.setattr("harness.campaign.plan.plan_sweep", lambda given: found.append(list(given)))
    monkeypatch.setattr("harness.campaign.sweep.run_plan", lambda *_: None)

    def of(*arguments):
        assert application.main(["--config-dir", str(tmp_path), *arguments]) == 0
        return found.pop()

    return of


class ByHydra:
    """Compositions of a few of the configurations, evenly spaced, by Hydra, which takes 0.1 s for one."""

    def __init__(self, count):
        self.calls, self.compared = 0, {round(number * (count - 1) / (COMPARED - 1)) for number in range(COMPARED)}

    def __call__(self, compositions, overrides):
        self.calls += 1
        if self.calls - 1 not in self.compared:
            return None
        return plain(compositions._loader.load_sweep_config(compositions._master, list(overrides)))


@pytest.mark.parametrize(("command", "few"), COMMANDS.values(), ids=COMMANDS)
def test_every_configuration_equals_the_one_that_hydra_composes(configurations, monkeypatch, command, few):
    composed = []
    compose = Compositions._compose_files
    monkeypatch.setattr(Compositions, "_compose_files", lambda *given: composed.append(given) or compose(*given))
    made = configurations(*command)
    assert len(made) >= COMPARED
    assert len(composed) == few
    by_hydra = ByHydra(len(made))
    monkeypatch.setattr(Compositions, "__call__", lambda *given: by_hydra(*given))
    expected = configurations(*command)
    compared = [(one, wanted) for (_, one), (_, wanted) in zip(made, expected, strict=True) if wanted is not None]
    assert len(compared) == COMPARED
    assert all(one == wanted for one, wanted in compared)


def test_a_key_that_files_of_two_groups_set_has_the_value_of_its_own_files(configurations):
    """The default is one round; of the files of two groups the later group of the defaults list wins."""
    found = configurations("engine=first,scipy", "graph=second,grid", "algorithm=bfs", "device=cpu")
    rounds = {
        tuple(sorted(one for one in overrides if one.startswith(("engine=", "graph=")))): made["rounds"]
        for overrides, made in found
    }
    later = rounds.pop(("engine=first", "graph=second"))
    assert rounds == {
        ("engine=first", "graph=grid"): 2, ("engine=scipy", "graph=second"): 3, ("engine=scipy", "graph=grid"): 1,
    }  # fmt: skip
    assert later in (2, 3)


@pytest.mark.parametrize("engines", ["scipy,first", "first,scipy"])
@pytest.mark.parametrize("graphs", ["grid,second", "second,grid"])
def test_a_file_may_set_keys_that_the_others_of_its_group_lack(configurations, engines, graphs):
    """The keys of a file apply to its configurations only, wherever it is in the list of choices."""
    found = configurations(f"engine={engines}", f"graph={graphs}", "algorithm=bfs", "device=cpu")
    assert len(found) == 4
    for overrides, made in found:
        assert made["measure"]["repetitions"] == (1 if "engine=first" in overrides else 7)
        assert made["limits"]["time_s"] == (10 if "graph=second" in overrides else 600.0)
