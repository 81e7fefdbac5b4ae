"""The configurations of a sweep equal those that Hydra composes one by one, and Hydra composes few of them."""

from __future__ import annotations

import pytest
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import MissingMandatoryValue

from harness.campaign import application
from harness.campaign.config_cache import Compositions, plain
from harness.campaign.errors import CampaignError

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
    "engine/own": "engine: {name: scipy}\n_own: 4\nmeasure: {repetitions: 2}\n",
    "graph/other": "graph: {name: grid}\n_other: 5\n",
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
    monkeypatch.setattr("harness.campaign.plan.plan_sweep", lambda given, _: found.append(list(given)))
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


@pytest.fixture
def compositions(configurations, monkeypatch):
    """Return the compositions of a sweep, and the choices of each configuration that Hydra composes."""
    made, composed = [], []
    create, compose = Compositions.__init__, Compositions._compose_files
    monkeypatch.setattr(Compositions, "__init__", lambda self, *given: made.append(self) or create(self, *given))
    monkeypatch.setattr(
        Compositions, "_compose_files", lambda self, lines: composed.append(lines) or compose(self, lines)
    )
    configurations("engine=own", "algorithm=bfs", "graph=other")
    composed.clear()
    return made[0], composed


def chosen(engine, graph, *values):
    return [f"engine={engine}", "algorithm=bfs", f"graph={graph}", *values]


def test_products_have_the_keys_of_their_own_files_and_need_few_compositions(compositions):
    """The last of four products is not composed. A key that only one file of a group sets is in its products only."""
    of, composed = compositions
    found = {(e, g): of(chosen(e, g)) for e in ("own", "scipy") for g in ("other", "grid")}
    assert composed == [tuple(chosen("own", "grid")), tuple(chosen("scipy", "other"))]
    for (engine, graph), made in found.items():
        assert made.get("_own") == (4 if engine == "own" else None)
        assert made.get("_other") == (5 if graph == "other" else None)
        assert made["measure"]["repetitions"] == (2 if engine == "own" else 7)
        assert (made["engine"]["name"], made["graph"]["name"], made["algorithm"]["name"]) == ("scipy", "grid", "bfs")
        assert "hydra" not in made
    assert found["scipy", "grid"].keys() == found["own", "other"].keys() - {"_own", "_other"}
    assert [of(chosen(*given)) for given in found] == list(found.values())
    assert len(composed) == 2


def test_a_value_is_that_of_its_own_configuration(compositions):
    """Values that a command sets replace those of files, in one configuration only."""
    of, composed = compositions
    own, plain_ = chosen("own", "grid"), chosen("scipy", "grid")
    before = of(own), of(plain_)
    changed = ["measure.repetitions=9", "features=6", "measure.width=0.5", "_own=8"]
    set_ = of([*own, *changed])
    assert set_ == {**before[0], "features": 6, "_own": 8,
                    "measure": {**before[0]["measure"], "repetitions": 9, "width": 0.5}}  # fmt: skip
    assert of([*plain_, "features=${rounds}", "rounds=4"]) == {**before[1], "features": 4, "rounds": 4}
    assert (of(own), of(plain_)) == before
    for value in ("limits.time_s=3", "measure.cap_s=7"):  # after other values of the same files
        key, _, name = value.partition("=")[0].partition(".")
        number = int(value[-1])
        assert of([*own, value]) == {**before[0], key: {**before[0][key], name: number}}
    assert len(composed) == 2
    for value in ("mesure.width=0.5", "measure.wdith=0.5"):
        with pytest.raises(HydraException, match=f"Could not override '{value.partition('=')[0]}'"):
            of([*plain_, value])
    with pytest.raises(CampaignError, match="the configuration has no key 'mesure'; did you mean 'measure'"):
        of([*plain_, "+mesure=1"])


def test_files_that_choices_select_are_composed(compositions):
    """The preset has another file for one pair of choices."""
    of, composed = compositions
    found = {}
    for kind in "ab":
        for level in "xy":
            choices = [*chosen("scipy", "grid"), "+experiment=pairs", f"kind={kind}", f"level={level}"]
            made = of(choices)
            found[kind + level] = made["rounds"], made["features"]
    assert found == {"ax": (2, 1), "ay": (2, 2), "bx": (3, 1), "by": (3, 7)}
    assert len(composed) == 4


def test_plain_data_is_resolved_and_has_no_part_of_hydra():
    config = OmegaConf.create({"hydra": {"job": "${never.resolved}"}, "a": {"b": [1, "${c}"]}, "c": "x"})
    assert plain(config) == {"a": {"b": [1, "x"]}, "c": "x"}
    assert plain(OmegaConf.create({"a": 1})) == {"a": 1}
    with pytest.raises(MissingMandatoryValue):
        plain(OmegaConf.create({"a": "???"}))
