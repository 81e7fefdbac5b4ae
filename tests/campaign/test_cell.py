from __future__ import annotations

import copy
import dataclasses
import json
import math
import os
import sys
from dataclasses import replace

import pytest

from harness.campaign.cell import Cell, folder_name, graph_label, load, resolve_cell
from harness.campaign.errors import CampaignError
from harness.campaign.problem import identity
from harness.contract import ScheduleError
from harness.language.algorithm import MOST_FEATURES
from harness.plugins import UnknownName, load_plugins
from tests.conftest import FAKES

CONFIG = {
    "engine": {"name": "fake_right", "direction": "push", "width": 1},
    "algorithm": {"name": "fake_spread"},
    "graph": {"name": "fake_ring", "vertices": 12},
    "device": {"kind": "cpu", "index": 0, "threads": 1},
    "features": 4,
    "max_supersteps": None,
    "validate": True,
    "warm": {"change": None},
    "memory": "off",
    "save": "none",
    "measure": {"repetitions": 3},
    "limits": {"time_s": 10},
    "plugins": {"block": []},
}


@pytest.fixture(scope="module")
def registry():
    from importlib.metadata import EntryPoint

    sys.path.insert(0, str(FAKES))
    yield load_plugins(found=[EntryPoint(name="fakes", value="onyx_fakes", group="onyx_harness")])
    sys.path.remove(str(FAKES))


def config(**changes):
    """Return the configuration with keys such as ``engine__width`` changed."""
    changed = copy.deepcopy(CONFIG)
    for key, value in changes.items():
        section, _, name = key.partition("__")
        if name:
            changed[section][name] = value
        else:
            changed[section] = value
    return changed


def test_a_cell_holds_the_requested_values(registry):
    cell = resolve_cell(config(engine__width=2, algorithm__scale=2, features="auto"), registry)
    assert cell.schedule == {"direction": "push", "width": 2}
    assert cell.parameters == {"scale": 2.0}
    assert cell.features is None
    assert cell.labels == {
        "engine": "fake_right (width=2)",
        "algorithm": "fake_spread (scale=2.0)",
        "graph": "fake_ring",
    }


@pytest.mark.parametrize(("given", "taken"), [(17, "17"), (-1, "-1"), (0.5, "0.5"), ("3 17", "3 17")])
def test_a_number_for_a_text_is_its_digits(given, taken):
    """Hydra parses ``algorithm.sources=17`` as a number."""
    sections = {"engine": {"name": "onyx"}, "graph": {"name": "grid"}}
    cell = resolve_cell(config(**sections, algorithm={"name": "bfs", "sources": given}), load_plugins())
    assert cell.parameters == {"sources": taken}
    with pytest.raises(CampaignError, match="'sources' of algorithm 'bfs' is True; it must be text"):
        resolve_cell(config(**sections, algorithm={"name": "bfs", "sources": True}), load_plugins())


def test_a_cell_survives_the_way_to_another_process(registry):
    cell = resolve_cell(config(), registry)
    assert Cell.from_plain(json.loads(json.dumps(cell.plain()))) == cell


@pytest.mark.parametrize(
    ("change", "error", "message"),
    [
        ({"engine__name": "fake_rihgt"}, UnknownName, "no engine called 'fake_rihgt'; did you mean 'fake_right'"),
        ({"engine__directon": "pull"}, ScheduleError, "'directon'; did you mean 'direction'"),
        ({"engine__width": "wide"}, ScheduleError, "takes an integer"),
        ({"algorithm__scael": 1.0}, CampaignError, "no parameter 'scael'; did you mean 'scale'"),
        (
            {"algorithm__scale": "big"},
            CampaignError,
            "'scale' of algorithm 'fake_spread' is 'big'; it must be a number",
        ),
        ({"algorithm__scale": True}, CampaignError, "it must be a number"),
        ({"graph__vertexes": 3}, CampaignError, "no parameter 'vertexes'; did you mean 'vertices'"),
        ({"graph": {}}, CampaignError, "no graph.name; choose one with graph=NAME"),
        ({"features": 0}, CampaignError, "features is 0; it must be an integer of at least 1 or 'auto'"),
        ({"features": -3}, CampaignError, "features is -3"),
        ({"features": 2.5}, CampaignError, "features is 2.5"),
        ({"features": True}, CampaignError, "features is True"),
        (
            {"features": MOST_FEATURES + 1},
            CampaignError,
            f"features is {MOST_FEATURES + 1}; a program has 1 to {MOST_FEATURES} on every engine",
        ),
        ({"features": "many"}, CampaignError, "features is 'many'"),
        ({"max_supersteps": 0}, CampaignError, "max_supersteps is 0"),
        ({"device__kind": "cuad"}, CampaignError, "device.kind is 'cuad'; did you mean 'cuda'"),
        ({"device__threads": 0}, CampaignError, "device.threads is 0"),
        ({"device__threads": 100_000}, CampaignError, "set at most"),
        ({"measure__repetition": 3}, CampaignError, "did you mean 'repetitions'"),
        ({"measure__repetitions": 0}, CampaignError, "measure.repetitions is 0"),
        ({"measure__width": 0.0}, CampaignError, "measure.width is 0.0; it must be a number above 0"),
        ({"measure__warmup_s": -0.5}, CampaignError, "measure.warmup_s is -0.5"),
        ({"measure__cap_s": math.inf}, CampaignError, "measure.cap_s is inf"),
        ({"measure__accuracy": 1}, CampaignError, "'accuracy' of measure is 1; it must be true or false"),
        ({"limits__wait_s": 0}, CampaignError, "limits.wait_s is 0"),
        ({"limits__memory_gb": -1}, CampaignError, "limits.memory_gb is -1"),
        ({"device__index": -1}, CampaignError, "device.index is -1; it must be an integer of at least 0"),
        (
            {"warm": {"change": 0.1, "kind": "insrt"}},
            CampaignError,
            "warm.kind is 'insrt'; did you mean 'insert'? (there are: insert, delete, ",
        ),
        ({"warm": {"change": 0.1, "seed": -1}}, CampaignError, "warm.seed is -1; it must be an integer of at least 0"),
        ({"warm": {"change": 1.01}}, CampaignError, "warm.change is 1.01; it is a share of the edges, at most 1"),
        ({"round": 0}, CampaignError, "round is 0"),
        ({"save": "everything"}, CampaignError, "save is 'everything'"),
        ({"measure__budget_s": -1.0}, CampaignError, "measure.budget_s is -1.0"),
        ({"limits__time_s": 0}, CampaignError, "limits.time_s is 0"),
        ({"limits__memory_gb": "all"}, CampaignError, "limits.memory_gb is 'all'"),
        ({"limits__device_memory_gb": 0}, CampaignError, "limits.device_memory_gb is 0"),
        ({"memory": "modle"}, CampaignError, "memory is 'modle'; did you mean 'model'"),
        ({"memory": "counters"}, CampaignError, "set device=cuda, or use memory=model on any device"),
        ({"validate": "yes"}, CampaignError, "validate is 'yes'; it must be true, false or sampled"),
        ({"warm__change": 1.5}, CampaignError, "warm.change is 1.5; it is a share of the edges, at most 1"),
        ({"warm__change": 0.0}, CampaignError, "warm.change is 0.0; it must be a number above 0"),
        ({"validate": "sampled", "warm__change": 0.1}, CampaignError, "a warm run is compared with a whole reference"),
    ],
)
def test_invalid_settings_are_refused_with_the_correction(registry, change, error, message):
    with pytest.raises(error) as met:
        resolve_cell(config(**change), registry)
    assert message in str(met.value)


@pytest.mark.parametrize("share", [1e-9, 0.5, 1, 1.0])
def test_a_change_is_of_up_to_all_edges(registry, share):
    warm = resolve_cell(config(warm__change=share), registry).warm
    assert (warm.change, warm.kind, warm.seed) == (share, "mixed", 0)
    assert resolve_cell(config(), registry).warm is None


def test_the_key_depends_on_everything_that_affects_result_or_time(registry):
    key = resolve_cell(config(), registry).key("machine")
    for change in ({"engine__width": 2}, {"algorithm__scale": 2.0}, {"graph__vertices": 13}, {"features": 5},
                   {"max_supersteps": 3}, {"memory": "model"}, {"save": "arrays"}, {"measure__repetitions": 4},
                   {"validate": False}):  # fmt: skip
        assert resolve_cell(config(**change), registry).key("machine") != key, change
    assert resolve_cell(config(), registry).key("another machine") != key
    for code in ("sources", "graph_sources"):
        assert dataclasses.replace(resolve_cell(config(), registry), **{code: "changed"}).key("machine") != key, code


def test_the_identity_depends_on_the_problem_and_on_how_it_is_run(registry):
    cell = resolve_cell(config(), registry)
    others = [
        {"engine": "another"}, {"schedule": {**cell.schedule, "width": 99}}, {"sources": "another"},
        {"device": dataclasses.replace(cell.device, threads=cell.device.threads + 1)},
    ]  # fmt: skip
    found = {identity("problem", cell), identity("another", cell)}
    found |= {identity("problem", dataclasses.replace(cell, **other)) for other in others}
    assert len(found) == 2 + len(others)
    assert identity("problem", dataclasses.replace(cell, round=cell.round + 1)) == identity("problem", cell)


def test_a_request_has_what_is_not_the_default_only():
    """Fields that were added later are absent, so that keys of older cells stay."""
    registry = load_plugins()

    def requested(**changes):
        problem = {"engine": {"name": "onyx"}, "algorithm": {"name": "bfs"}, "graph": {"name": "grid"}}
        return resolve_cell(config(**problem, **changes), registry).requested()

    known = set(requested())
    assert known == {
        "engine", "schedule", "given", "algorithm", "parameters", "graph", "graph_parameters", "features",
        "max_supersteps", "device", "validate", "measure", "round",
    }  # fmt: skip
    assert set(requested(memory="model")) == known | {"memory"}
    assert set(requested(save="arrays")) == known | {"save"}
    warm = requested(warm={"change": 0.5, "kind": "delete", "seed": 3})
    assert set(warm) == known | {"warm"}
    assert warm["warm"] == {"change": 0.5, "kind": "delete", "seed": 3}
    assert set(requested()["device"]) == {"kind", "index", "threads"}


def test_a_change_is_part_of_the_label_and_the_key():
    registry = load_plugins()
    problem = {"engine": {"name": "onyx"}, "algorithm": {"name": "bfs"}, "graph": {"name": "grid"}}
    changes = [
        {"change": None}, {"change": 0.001}, {"change": 0.5}, {"change": 0.5, "kind": "delete"},
        {"change": 0.5, "seed": 1},
    ]  # fmt: skip
    cells = [resolve_cell(config(**problem, warm=warm), registry) for warm in changes]
    assert [cell.labels["graph"].partition(")")[2].removeprefix(" ") or cell.labels["graph"] for cell in cells] == [
        "grid", "grid after mixed, change=0.001, seed=0", "grid after mixed, change=0.5, seed=0",
        "grid after delete, change=0.5, seed=0", "grid after mixed, change=0.5, seed=1",
    ]  # fmt: skip
    assert len({cell.key("machine") for cell in cells}) == len(cells)


def test_the_title_of_a_cell_names_graph_algorithm_features_and_engine(registry):
    assert (
        resolve_cell(config(engine__width=2), registry).title == "fake_ring · fake_spread · k=4 · fake_right (width=2)"
    )
    assert "· k=auto ·" in resolve_cell(config(features="auto"), registry).title


def test_a_limit_of_device_memory_is_in_bytes(registry):
    assert resolve_cell(config(limits__device_memory_gb=1.5), registry).limits.device_bytes == 1_500_000_000
    assert resolve_cell(config(), registry).limits.device_bytes is None


def test_all_usable_cores_are_the_default(registry, monkeypatch):
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: {0, 3, 5})
    assert resolve_cell(config(device={"kind": "cpu"}), registry).device.threads == 3
    assert resolve_cell(config(device={"kind": "cpu", "threads": 3}), registry).device.threads == 3
    with pytest.raises(CampaignError, match=r"device\.threads is 4, but this process may use 3 cores; set at most 3"):
        resolve_cell(config(device={"kind": "cpu", "threads": 4}), registry)


def test_the_key_does_not_depend_on_limits(registry):
    key = resolve_cell(config(), registry).key("machine")
    assert resolve_cell(config(limits__time_s=99), registry).key("machine") == key


def test_the_key_depends_on_the_limit_that_a_panel_is_chosen_by():
    def cell(panel, limit):
        gpu = {"kind": "cuda", "index": 0, "threads": 1}
        limits = {"time_s": 10, "device_memory_gb": limit}
        engine, algorithm, graph = {"name": "onyx", "panel": panel}, {"name": "pagerank"}, {"name": "rmat"}
        given = config(engine=engine, algorithm=algorithm, graph=graph, device=gpu, limits=limits)
        return resolve_cell(given, load_plugins())

    cells = [cell(panel, limit) for panel in ("auto", 4) for limit in (1.0, 2.0)]
    assert [one.device.memory for one in cells] == [10**9, 2 * 10**9, None, None]
    assert len({one.key("machine") for one in cells}) == 3
    assert [one.requested()["device"].get("memory") for one in cells] == [10**9, 2 * 10**9, None, None]
    assert Cell.from_plain(cells[0].plain()) == cells[0]


def test_a_changed_file_is_another_cell(registry, tmp_path):
    file = tmp_path / "graph.txt"
    keys = set()
    for text in ("0 1", "0 1 2"):
        file.write_text(text)
        cell = resolve_cell(config(graph={"name": "fake_file", "path": str(file)}), registry)
        keys.add(cell.key("machine"))
    assert len(keys) == 2


def test_the_folder_of_a_cell_names_it_and_a_hash_distinguishes_it():
    assert folder_name("onyx", "page rank/../x", "rmat", "k8", "0123") == "onyx-pagerankx-rmat-k8-0123"
    assert folder_name("a" * 40, "..") == f"{'a' * 20}-"


def test_a_file_of_the_same_size_that_was_written_later_is_another_cell(registry, tmp_path):
    file = tmp_path / "graph.txt"
    file.write_text("0 1")
    settings = config(graph={"name": "fake_file", "path": str(file)})
    first = resolve_cell(settings, registry).key("machine")
    assert resolve_cell(settings, registry).key("machine") == first
    os.utime(file, ns=(file.stat().st_atime_ns, file.stat().st_mtime_ns + 1))
    assert resolve_cell(settings, registry).key("machine") != first


@pytest.mark.parametrize("spelt", ["{folder}/graph.txt", "~/graph.txt", "graph.txt", "./graph.txt", "~/a/../graph.txt"])
def test_a_changed_file_is_another_cell_however_its_path_is_spelt(registry, tmp_path, monkeypatch, spelt):
    """Absolute, below the home folder, and relative to the present folder."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").mkdir()
    file, settings = tmp_path / "graph.txt", config(graph={"name": "fake_file", "path": spelt.format(folder=tmp_path)})
    keys = [resolve_cell(settings, registry).key("machine")]
    for text, later in (("0 1", 0), ("0 1 2", 0), ("0 1 3", 10**9)):
        file.write_text(text)
        os.utime(file, ns=(10**18, 10**18 + later))
        keys.append(resolve_cell(settings, registry).key("machine"))
        assert resolve_cell(settings, registry).key("machine") == keys[-1]
    assert len(set(keys)) == 4, "no file, a file, another size, another time"


def test_the_key_of_a_cell_has_the_machine_and_both_sources(registry):
    cell = resolve_cell(config(), registry)
    others = [replace(cell, sources="x"), replace(cell, graph_sources="x"), replace(cell, sources="", graph_sources="")]
    keys = {cell.key("machine"), cell.key("another"), *(one.key("machine") for one in others)}
    assert len(keys) == 5


def test_a_graph_of_a_file_is_called_by_the_file():
    defaults = {"path": "", "duplicates": "error"}
    assert graph_label("file", {"path": "/data/roads.gr", "duplicates": "sum"}, defaults) == "roads.gr (duplicates=sum)"
    assert graph_label("file", {"path": "", "duplicates": "error"}, defaults) == "file"
    assert graph_label("rmat", {"scale": 9}, {"scale": 16}) == "rmat (scale=9)"


def test_sources_are_those_of_the_engine_with_the_algorithm_and_of_the_graph(registry, monkeypatch):
    monkeypatch.setattr("harness.campaign.cell.source_hash", lambda factories: " ".join(factories))
    cell = resolve_cell(config(), registry)
    engine, algorithm = registry.engine("fake_right").factory, registry.algorithm("fake_spread").factory
    assert cell.sources == f"{engine} {algorithm}"
    assert cell.graph_sources == registry.graph("fake_ring").factory


def test_a_limit_of_a_gpu_is_no_part_of_a_cell_on_the_processor():
    engine, algorithm, graph = {"name": "onyx", "panel": "auto"}, {"name": "pagerank"}, {"name": "rmat"}
    limits = {"time_s": 10, "device_memory_gb": 1.0}
    cell = resolve_cell(config(engine=engine, algorithm=algorithm, graph=graph, limits=limits), load_plugins())
    assert cell.device.memory is None


@pytest.mark.parametrize("features", [1, MOST_FEATURES])
def test_a_program_has_up_to_the_most_features(registry, features):
    assert resolve_cell(config(features=features), registry).features == features


def test_options_in_another_order_are_the_same_cell(registry):
    """The same cell is measured once, whatever the order of the overrides."""
    names = [("direction", "pull"), ("width", 2)]
    cells = [
        resolve_cell(config(engine=dict([("name", "fake_right"), *given])), registry) for given in (names, names[::-1])
    ]
    assert [cell.given for cell in cells] == [("direction", "width")] * 2
    assert cells[0] == cells[1]
    assert cells[0].key("machine") == cells[1].key("machine")
    assert resolve_cell(config(engine={"name": "fake_right", "width": None}), registry).given == ()


def test_labels_and_code_do_not_make_another_request(registry):
    cell = resolve_cell(config(), registry)
    other = dataclasses.replace(cell, labels={}, sources="changed", graph_sources="changed")
    assert other == cell
    assert other.requested() == cell.requested()
    assert dataclasses.replace(cell, features=5) != cell


class Nameless(Exception):
    def __init__(self):
        super().__init__("no such file")


@pytest.mark.parametrize(
    ("error", "met"),
    [
        (ImportError("no module 'x'"), "no module 'x'"), (KeyError("x"), "KeyError: 'x'"),
        (Nameless(), "Nameless: no such file"), (SystemExit(3), "SystemExit: 3"),
    ],
)  # fmt: skip
def test_code_of_a_plugin_that_cannot_be_loaded_is_named_with_its_error(monkeypatch, error, met):
    def fail(module):
        raise error

    monkeypatch.setattr("importlib.import_module", fail)
    with pytest.raises(CampaignError) as refused:
        load("json:loads")
    assert str(refused.value) == f"'json:loads', which a plugin names, cannot be loaded: {met}"
