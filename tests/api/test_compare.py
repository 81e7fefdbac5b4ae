"""Compare in isolated processes: records, tables, frames, figures; mistakes are found before anything runs."""

from __future__ import annotations

import builtins
import importlib
import os
import subprocess
import sys

import networkx as nx
import pytest

import onyx_harness
from harness.records import validate
from harness.report import figures
from onyx_harness import CampaignError, Results, UnknownName, Variant, as_graph, compare, sweep
from onyx_harness.comparing import _follow, _Place
from onyx_harness.settings import Settings

QUICK = ("measure.budget_s=0.05", "measure.warmup_s=0", "measure.accuracy=false")
MODULE = '''
import numpy as np
from harness.api import Algorithm, Inputs


class Doubling(Algorithm):
    """Twice the sum over in-edges, twice."""

    name = "doubling"
    factor: float = 2.0

    def build(self, p):
        p.edge("weight")
        p.vertex("value", start=1.0)

        @p.over_edges(into="sum", reduce="sum")
        def send(src, edge):
            return src.value * edge.weight

        @p.over_vertices
        def scale(v):
            return {"value": self.factor * v.sum}

        p.repeat(2)
        p.output("value", bound=1e-5)
'''


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("compared")


@pytest.fixture
def doubling(tmp_path, monkeypatch):
    """Return an algorithm class in a module beside a notebook, which no plugin registers."""
    (tmp_path / "doubling_module.py").write_text(MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    yield importlib.import_module("doubling_module").Doubling
    sys.modules.pop("doubling_module")


@pytest.mark.short_run(rows=1)
@pytest.mark.slow
@pytest.mark.usefixtures("fakes")
def test_engines_are_compared_on_a_graph_and_a_class_of_this_process(doubling, tmp_path, capsys):
    graph = nx.DiGraph(name="$a/b, {odd} ${name}")
    graph.add_weighted_edges_from([("x", "y", 0.5), ("y", "x", 0.25), ("x", "z", 1.0)])
    engines = ["scipy", Variant("fake_pulls", width=3), "fake_raises"]
    found = compare(engines, doubling(factor=3.0), graph, folder=tmp_path / "kept", overrides=[*QUICK, "save=arrays"])
    assert [record["outcome"] for record in found] == ["ok", "ok", "engine_error"]
    for results in (found, Results.read(tmp_path / "kept")):
        saved = results.answers(found.records[0])
        assert dict(zip(saved["vertex"], saved["value"], strict=True)) == {"x": 1.125, "y": 1.125, "z": 2.25}
    with pytest.raises(FileNotFoundError, match=r"fake_raises \(engine_error\) kept no answer .*save=arrays"):
        found.answers(found.records[2])
    for record in found:
        validate(record)
        assert record["config"]["parameters"] == {"factor": 3.0}
    assert {row["graph"] for row in found.rows()} == {"_a_b_ _odd_ __name_"}
    pulls = found.records[1]
    assert pulls["labels"]["engine"] == "fake_pulls (width=3)"
    assert pulls["resolution"]["resolved"] == {"direction": "pull"}
    assert pulls["graph"]["content_hash"] == as_graph(graph).graph.content_hash
    assert (found.baseline, found.cells, len(found)) == ("scipy", 3, 3)
    printed = capsys.readouterr().err
    assert "[3/3]" in printed
    assert "fake_raises  engine_error" in printed
    table, html = found.table(), found._repr_html_()
    for shown in ("speed-up over scipy", "1 (baseline)", "fake_pulls (width=3)", "engine_error"):
        assert shown in table
        assert shown in html
    assert "was refused" in table
    assert "the [red]kernel[/red] was refused" in html


@pytest.fixture(scope="module")
def results(folder):
    """Return the results of two engines for two numbers of features, by the command's own arguments."""
    arguments = ["engine=scipy,torch", "algorithm=pagerank", "graph=grid", "graph.rows=8", "graph.columns=9"]
    return sweep([*arguments, "features=1,2", "baseline=scipy", *QUICK], folder=folder, progress=False)


@pytest.mark.slow
def test_a_sweep_is_the_command(results, folder):
    assert [row["features"] for row in results.rows()] == [1, 1, 2, 2]
    assert {row["outcome"] for row in results.rows()} <= {"ok", "unsupported"}
    assert results.folder.parent == folder
    assert (results.folder / "report.html").is_file()
    row = results.rows()[0]
    assert row["low_s"] <= row["solve_s"] <= row["high_s"]
    assert row["edges_visited"] > 0
    assert (
        repr(results)
        == f"<Results: 4 of 4 cells, {sum(r['outcome'] == 'ok' for r in results)} ok, in {results.folder}>"
    )


@pytest.mark.slow
def test_a_figure_is_drawn_or_names_the_missing_part(results, monkeypatch, tmp_path):
    pytest.importorskip("matplotlib")
    for kind in (None, "features", "supersteps", "phases"):
        results.figure(kind).savefig(tmp_path / "figure.svg")
        assert "scipy" in (tmp_path / "figure.svg").read_text()
    with pytest.raises(ValueError, match=r"no figure of kind 'pie' .*\(kinds: speed-ups, features"):
        results.figure("pie")
    real = builtins.__import__

    def without(name, *arguments):
        if name.partition(".")[0] == "matplotlib":
            raise ImportError(name)
        return real(name, *arguments)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=r"pip install 'onyx-harness\[figures\]'"):
        results.figure()
    assert figures.FORMATS


@pytest.mark.slow
def test_a_frame_has_the_rows(results, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "pandas", None)
        with pytest.raises(ImportError, match=r"frame\(\) needs pandas: pip install pandas; rows\(\) returns dict"):
            results.frame()
    pandas = pytest.importorskip("pandas")
    assert isinstance(results.frame(), pandas.DataFrame)
    assert list(results.frame()["engine"]) == [row["engine"] for row in results.rows()]


@pytest.mark.parametrize(
    ("engines", "options", "error", "message"),
    [
        ([], {}, CampaignError, "no engine is given"),
        (["scipi"], {}, UnknownName, "did you mean 'scipy'"),
        ("scipy", {"alhpa": 1}, CampaignError, "did you mean 'alpha'"),
        ("scipy", {"features": "8"}, CampaignError, "features is '8'"),
        ("scipy", {"rounds": 0}, CampaignError, "rounds is 0"),
        ("scipy", {"graph_options": {"row": 3}}, CampaignError, "did you mean 'rows'"),
        ("scipy", {"overrides": ["measur.budget_s=1"]}, CampaignError, "no key 'measur'; did you mean 'measure'"),
    ],
)  # fmt: skip
def test_a_mistake_is_found_before_anything_is_measured(tmp_path, engines, options, error, message):
    with pytest.raises(error, match=message):
        compare(engines, "pagerank", "grid", folder=tmp_path, **options)
    assert not list(tmp_path.rglob("record.json"))


def test_a_sweep_takes_a_list_without_the_keys_of_its_folder():
    with pytest.raises(CampaignError, match=r"give a list, such as \['engine=scipy', 'features=1'\]"):
        sweep("engine=scipy features=1")
    with pytest.raises(CampaignError, match="output=x is set by sweep"):
        sweep(["output=x"])


def test_a_graph_is_kept_once_and_whole(tmp_path, monkeypatch):
    from onyx_harness.kept import keep_graph, kept_graph

    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    photo = as_graph("photo", neighbours=8).graph
    opened = kept_graph(**keep_graph(photo))
    assert (opened.name, opened.meta, opened.content_hash) == (photo.name, photo.meta, photo.content_hash)
    with pytest.raises(onyx_harness.GraphError, match="is not in the cache any more"):
        kept_graph("0" * 20, "lost", "{}")


def test_configurations_hold_any_value(tmp_path):
    settings = Settings(tmp_path)
    from omegaconf import OmegaConf

    stem = settings._choice("graph", "odd, name", {"path": "${x} 'a' # b", "limit": float("inf"), "small": 1e-7})
    read = OmegaConf.to_container(OmegaConf.load(tmp_path / "conf" / "graph" / f"{stem}.yaml"), resolve=True)
    assert read == {"name": "odd, name", "path": "${x} 'a' # b", "limit": float("inf"), "small": 1e-7}


def test_a_temporary_folder_lives_as_long_as_its_results():
    place = _Place(None)
    results = Results((), None, place.path, 0, keep=place)
    path = place.path
    del place
    assert path.is_dir()
    del results
    assert not path.exists()


def test_an_interrupt_ends_the_command_and_is_passed_on(tmp_path, monkeypatch):
    class Interrupting:
        def write(self, text):
            raise KeyboardInterrupt

    source = (
        "import pathlib, signal, sys\n"
        "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})\n"
        "print('[1/2] begun', flush=True)\n"
        "signal.sigwait({signal.SIGINT})\n"
        "pathlib.Path(sys.argv[1]).write_text('ended in order')\n"
    )
    monkeypatch.setattr(sys, "stderr", Interrupting())
    command = [sys.executable, "-c", source, str(tmp_path / "ending")]
    with pytest.raises(KeyboardInterrupt):
        _follow(command, os.environ, subprocess.DEVNULL, progress=True)
    assert (tmp_path / "ending").read_text() == "ended in order"


@pytest.mark.slow
def test_graphs_of_the_same_name_are_not_confused(tmp_path):
    for vertices in (4, 5):
        graph = nx.path_graph(vertices)
        results = compare("scipy", "pagerank", graph, folder=tmp_path, overrides=QUICK, progress=False)
        assert [record["graph"]["vertices"] for record in results] == [vertices]
        assert [record["labels"]["graph"] for record in results] == ["networkx graph"]
