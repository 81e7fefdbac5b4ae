"""Graphs that a sweep of concurrent jobs on a GPU builds ahead, in another process."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from importlib.metadata import EntryPoint
from types import SimpleNamespace

import psutil
import pytest
from omegaconf import OmegaConf

from harness.campaign import application
from harness.campaign.cell import resolve_cell
from harness.campaign.graphs_ahead import building_ahead, to_build
from harness.campaign.orphans import start_of, this_process, this_space
from harness.graph.named import open_graph
from harness.plugins import load_plugins
from tests.campaign.test_cell import config
from tests.conftest import FAKES, ROOT
from tests.processes import never_ending, waits_for_lock

CUDA, CPU = ({"kind": kind, "index": 0, "threads": 1} for kind in ("cuda", "cpu"))


def test_concurrent_jobs_on_a_gpu_build_each_graph_once_in_the_order_of_the_sweep(monkeypatch):
    found = []

    def keep(plan, launcher, batch):
        found.extend(to_build([planned.cell for planned in plan.cells], launcher))

    monkeypatch.setattr("harness.campaign.sweep.run_plan", keep)
    swept = ("engine=onyx,gunrock", "graph=small_social,small_road", "device=cuda")
    assert application.main((*swept, "hydra/launcher=joblib", "hydra.launcher.n_jobs=2")) == 0
    assert [(cell.graph, cell.engine) for cell in found] == [("rmat", "onyx"), ("grid", "onyx")]


@pytest.fixture
def registry(monkeypatch):
    monkeypatch.syspath_prepend(str(FAKES))
    return load_plugins(found=[EntryPoint(name="fakes", value="onyx_fakes", group="onyx_harness")])


RING, PATH = {"name": "fake_ring", "vertices": 12}, {"name": "fake_path"}


@pytest.mark.parametrize(
    ("jobs", "devices", "graphs"),
    [
        ({"n_jobs": 2}, [CPU, CPU], [RING, PATH]),
        ({"n_jobs": 2}, [CUDA, CPU], [RING, PATH]),
        ({"n_jobs": 2}, [CUDA, CUDA], [RING, RING]),
        ({"n_jobs": 1}, [CUDA, CUDA], [RING, PATH]),
        ({}, [CUDA, CUDA], [RING, PATH]),
        (None, [CUDA, CUDA], [RING, PATH]),
    ],
    ids=["processor", "both devices", "one graph", "one worker", "other launcher", "no launcher"],
)
def test_nothing_is_built_ahead_otherwise(registry, jobs, devices, graphs):
    launcher = None if jobs is None else SimpleNamespace(config=OmegaConf.create({"hydra": {"launcher": jobs}}))
    cells = [cell(registry, device, **graph) for device, graph in zip(devices, graphs, strict=True)]
    assert to_build(cells, launcher) == []


def test_graphs_that_differ_in_one_parameter_are_built_apart_and_equal_ones_once(registry):
    launcher = SimpleNamespace(config=OmegaConf.create({"hydra": {"launcher": {"n_jobs": 3}}}))
    graphs = [RING, {**RING, "vertices": 13}, PATH, RING, {**RING, "vertices": 13}]
    cells = [cell(registry, **graph) for graph in graphs]
    assert to_build(cells, launcher) == cells[:3]
    assert to_build(cells[::-1], launcher) == [cells[4], cells[3], cells[2]]
    assert to_build([], launcher) == []


def cell(registry, device=CUDA, **graph):
    return resolve_cell(config(device=device, graph=graph), registry)


@pytest.fixture
def gated(registry, tmp_path, monkeypatch):
    """Return a cell of a graph that is built once its gate is open, and the gate."""
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(FAKES), os.environ.get("PYTHONPATH", "")]))

    def make(name):
        os.mkfifo(tmp_path / name)
        return cell(registry, name="fake_gated", log=str(tmp_path / "log"), gate=str(tmp_path / name)), tmp_path / name

    return make


def builders():
    """Return the processes of this one that build graphs ahead."""
    return [one for one in psutil.Process().children() if "harness.campaign.graphs_ahead" in one.cmdline()]


def test_a_cell_waits_for_the_graph_and_finds_it(gated, registry, tmp_path):
    (first, gate), (second, next_gate) = gated("first"), gated("second")
    fails = cell(registry, name="fake_file", path="absent")
    found = []
    spec = registry.graph(first.graph)
    with building_ahead([fails, first, second], this_process()):
        with gate.open("w"):  # the graph is being built
            lock = max((tmp_path / "cache" / "entries").glob("*.lock"), key=lambda path: path.stat().st_mtime_ns)
            arriving = threading.Thread(target=lambda: found.append(open_graph(spec, first.graph_parameters)))
            arriving.start()
            waits_for_lock(lock, arriving)
            assert not found
        arriving.join()
        assert found[0].num_vertices == 12
        with next_gate.open("w"):
            assert (tmp_path / "log").read_text().split() == ["first", "second"]
            [builder] = builders()
        # the second graph may or may not be stored when the process is ended
    assert not never_ending([builder.pid])
    assert not [*(tmp_path / "cache").rglob("writing-*")]


def test_the_process_ends_with_the_sweep(gated):
    waiting, gate = gated("first")
    owner = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    name = "/".join([this_space(), str(owner.pid), start_of(owner.pid)])
    with building_ahead([waiting], name), gate.open("w"):
        [builder] = builders()
        owner.kill()
        owner.communicate()
        assert not never_ending([builder.pid])
