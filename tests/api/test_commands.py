"""The commands that comparisons run, the files that they leave for other processes, and how they end."""

from __future__ import annotations

import re
import sys
import types

import numpy as np
import pytest
import yaml

from harness.api import Algorithm
from harness.graph import Graph
from harness.records import write_record
from onyx_harness import CampaignError, GraphError, Variant, as_graph, comparing
from onyx_harness.comparing import _features, compare, sweep
from onyx_harness.progress import Lines, NotebookDisplay, Silent, progress_display
from onyx_harness.settings import Settings
from tests.records.samples import record


class Ended:
    """Replaces the process of a command: it leaves a record, a message and a status."""

    def __init__(self, monkeypatch):
        self.status, self.message, self.leaves = 0, "", True
        monkeypatch.setattr(comparing, "_follow", self.follow)

    def follow(self, command, environment, errors, *, progress):
        self.command, self.environment, self.progress = command, environment, progress
        errors.write(self.message)
        settings = dict(argument.partition("=")[::2] for argument in command if "=" in argument)
        self.settings = settings
        if self.leaves:
            folder = comparing.Path(settings["output"].strip("'")) / settings["sweep.id"] / "cell"
            write_record(folder, record(cell="cell"))
        return self.status


@pytest.fixture
def process(monkeypatch):
    return Ended(monkeypatch)


def test_a_sweep_is_a_command(process, tmp_path):
    found = sweep(["engine=scipy", "features=1,8"], folder=tmp_path, progress=False)
    assert process.command[:3] == [sys.executable, "-m", "harness"]
    assert process.command[3:5] == ["engine=scipy", "features=1,8"]
    assert process.settings["output"] == f"'{tmp_path}'"
    assert re.fullmatch(r"s\w{11}", process.settings["sweep.id"])
    assert process.environment["ONYX_HARNESS_BEGINS"] == "1"
    assert process.progress is False
    assert [one["cell"] for one in found] == ["cell"]
    assert found.folder == tmp_path / process.settings["sweep.id"]
    first = process.settings["sweep.id"]
    sweep(["engine=scipy", "features=1,8"], folder=tmp_path)
    assert (process.settings["sweep.id"], process.progress) == (first, True)
    sweep(["engine=scipy"], folder=tmp_path)
    assert process.settings["sweep.id"] != first


def test_a_temporary_folder_is_deleted_with_the_results(process):
    found = sweep(["engine=scipy"])
    place = found.folder.parent
    assert place.is_dir()
    del found
    assert not place.exists()


@pytest.mark.parametrize("status", [130, 143])
def test_an_interrupted_command_raises(process, tmp_path, status):
    process.status = status
    with pytest.raises(KeyboardInterrupt, match="the comparison was interrupted; the same call continues it"):
        sweep(["engine=scipy"], folder=tmp_path)


@pytest.mark.parametrize(
    ("status", "leaves", "message", "met"),
    [
        (2, True, "onyx-harness: error: no engine called 'x'\n", "no engine called 'x'"),
        (2, True, "", "the command ended with status 2"),
        (1, False, "a traceback", "a traceback"),
        (-9, False, "", "the command ended with status -9"),
    ],
)
def test_a_mistake_has_the_message_of_the_command(process, tmp_path, status, leaves, message, met):
    process.status, process.leaves, process.message = status, leaves, message
    with pytest.raises(CampaignError) as error:
        sweep(["engine=x"], folder=tmp_path)
    assert str(error.value) == met


def test_failed_cells_are_results_and_warnings_are_passed_on(process, tmp_path, capsys):
    process.status, process.message = 1, "onyx-harness: warning: a plugin\n"
    assert len(sweep(["engine=scipy"], folder=tmp_path)) == 1
    assert capsys.readouterr().err == "onyx-harness: warning: a plugin\n"
    process.message = ""
    sweep(["engine=scipy"], folder=tmp_path)
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("key", ["output=x", "sweep.id=a", "dry_run=true"])
def test_keys_of_the_folder_are_refused(process, key):
    with pytest.raises(CampaignError) as error:
        sweep(["engine=scipy", key])
    assert str(error.value) == f"{key} is set by sweep(); give folder= instead, or use the command"


def test_a_text_is_not_a_list_of_overrides():
    with pytest.raises(
        CampaignError, match=r"overrides is a text; give a list, such as \['engine=scipy', 'features=1'\]"
    ):
        sweep("engine=scipy features=1")


def test_a_comparison_is_a_command_with_configuration_files(process, tmp_path):
    graph = Graph.from_edges([0, 1], [1, 2], name="a graph/of ${mine}")
    engines = ["scipy", Variant("onyx", direction="pull"), "scipy"]
    compare(
        engines, "pagerank", graph, features=[1, 8], folder=tmp_path, rounds=2, overrides=["save=arrays"], alpha=0.5
    )
    settings = process.settings
    assert process.command[3:5] == ["--config-dir", str(tmp_path / "conf")]
    first, second = settings["engine"].split(",")
    assert (first, settings["baseline"], settings["rounds"], settings["save"]) == ("scipy", "scipy", "2", "arrays")
    assert (settings["features"], settings["device"], settings["device.index"]) == ("1,8", "cpu", "0")
    files = {"engine": second, "algorithm": settings["algorithm"], "graph": settings["graph"]}
    paths = {group: tmp_path / "conf" / group / f"{name}.yaml" for group, name in files.items()}
    read = {group: yaml.safe_load(path.read_text()) for group, path in paths.items()}
    assert read["engine"]["name"] == "onyx"
    assert read["engine"]["direction"] == "pull"
    assert (read["algorithm"]["name"], read["algorithm"]["alpha"]) == ("pagerank", 0.5)
    assert read["graph"]["name"] == "a graph_of __mine_"
    registered = process.environment["PYTHONPATH"].split(":")[0]
    assert registered.startswith(str(tmp_path / "plugins" / "onyx_harness_session_"))
    compare("scipy", "bfs", "grid", folder=tmp_path, baseline="onyx", graph_options={"rows": 3})
    assert (process.settings["features"], process.settings["baseline"]) == ("auto", "onyx")
    made = yaml.safe_load((tmp_path / "conf" / "graph" / f"{process.settings['graph']}.yaml").read_text())
    assert made == {"name": "grid", "rows": 3}
    with pytest.raises(CampaignError, match="no engine is given; name at least one"):
        compare([], "bfs", "grid")
    with pytest.raises(CampaignError, match="rounds is 0; it must be an integer of at least 1"):
        compare("scipy", "bfs", "grid", rounds=0, folder=tmp_path)


class Own(Algorithm):
    name = "own"


class Natural(Algorithm):
    name = "natural"

    def default_features(self, graph):
        return 3


@pytest.mark.parametrize(
    ("given", "made", "text"),
    [
        (None, Own, "1"),
        (None, Natural, "auto"),
        (4, Own, "4"),
        ([1, 2], Own, "1,2"),
        (np.int64(3), Own, "3"),
        (np.array([5, 6]), Own, "5,6"),
        ((7,), Natural, "7"),
    ],
)
def test_the_number_of_features_of_a_command(given, made, text):
    assert _features(given, made(), None) == text


@pytest.mark.parametrize("given", [0, [1, 0], True, "8"])
def test_other_numbers_of_features_are_refused(given):
    with pytest.raises(CampaignError, match="features is "):
        _features(given, Own(), None)


def test_files_hold_text_literally(tmp_path):
    settings = Settings(tmp_path)
    stem = settings._choice("engine", "a b", {"way": "${x}", "width": 3, "none": None})
    assert re.fullmatch(r"a_b_\w{8}", stem)
    assert (tmp_path / "conf" / "engine" / f"{stem}.yaml").read_text().splitlines() == [
        "name: a b",
        "way: \\${x}",
        "width: 3",
        "none: null",
    ]
    assert settings._choice("engine", "a b", {"way": "${x}", "width": 3, "none": None}) == stem
    assert settings._choice("engine", "a b", {"way": "${x}", "width": 4, "none": None}) != stem
    assert settings._choice("engine", "a-b", {"way": "${x}", "width": 3, "none": None}) != stem


def test_a_graph_of_an_installed_name_is_told_apart(tmp_path):
    settings = Settings(tmp_path)
    stem = settings.graph(Graph.from_edges([0], [1], name="grid"), {})
    read = yaml.safe_load((tmp_path / "conf" / "graph" / f"{stem}.yaml").read_text())
    assert read["name"] == "grid (in memory)"
    plugins = list((tmp_path / "plugins").iterdir())
    [module] = [one.name for one in plugins]
    text = (plugins[0] / f"{module}.py").read_text()
    assert "def onyx_graphs():" in text
    assert "GraphSpec(name='grid (in memory)'" in text
    assert (
        plugins[0] / f"{module}-0.dist-info" / "entry_points.txt"
    ).read_text() == f"[onyx_harness]\n{module} = {module}\n"
    assert settings.python_path().split(":")[0] == str(plugins[0])


def test_progress_that_is_not_wanted_or_not_in_a_notebook(monkeypatch, capsys):
    monkeypatch.delitem(sys.modules, "IPython", raising=False)
    assert isinstance(progress_display(wanted=False), Silent)
    lines = progress_display(wanted=True)
    assert isinstance(lines, Lines)
    for line in ("sweep s: 2 cells\n", "a note\n", "begins: x\n", "[1/2] x  ok\n"):
        lines.line(line)
    lines.close(interrupted=False)
    assert capsys.readouterr().err == "sweep s: 2 cells\n[1/2] x  ok\n"


def test_a_notebook_shows_the_last_failures(monkeypatch):
    updates = []
    display = types.ModuleType("IPython.display")
    handle = types.SimpleNamespace(update=lambda one: updates.append(repr(one)))
    display.display = lambda shown, display_id: handle
    monkeypatch.setitem(sys.modules, "IPython", types.ModuleType("IPython"))
    monkeypatch.setitem(sys.modules, "IPython.display", display)
    shown = NotebookDisplay()
    assert repr(shown) == "0 of 0 cells; starting"
    shown.line("sweep s1: 30 cells, 5 on record (rerun=all)\n")
    assert updates == ["0 of 25 cells, 5 on record; between two cells"]
    for number in range(1, 23):
        shown.line(f"begins: g · a · k=auto · e{number}\n")
        shown.line(
            f"[{number}/25] g · a · k=8 · e{number}  {'crashed' if number > 1 else 'ok 1 s'}, about {number} s left\n"
        )
    assert (
        repr(shown).splitlines()[0]
        == "22 of 25 cells, 5 on record, 1 ok, 21 crashed; between two cells, about 22 s left"
    )
    assert repr(shown).splitlines()[1:] == [f"  g · a · k=8 · e{number}: crashed" for number in range(3, 23)]
    html = shown._repr_html_()
    assert '<progress value="22" max="25"></progress>' in html
    assert html.count("<li>") == 20
    count = len(updates)
    shown.line("a note\n")
    assert len(updates) == count
    shown.close(interrupted=False)
    assert updates[-1].startswith("22 of 25 cells, 5 on record, 1 ok, 21 crashed; finished\n")


@pytest.mark.parametrize(
    ("data", "options", "message"),
    [
        ((1, 2, 3, 4), {}, "a tuple of 4 is not a graph; give (src, dst) or (src, dst, weight), arrays [E]"),
        (
            (["a"], ["b"]),
            {"num_vertices": 3},
            "graph 'edge arrays': num_vertices is for vertex numbers; these ids are names",
        ),
        (
            ([1, 2], ["a", "b"]),
            {},
            "one end of the edges has integers, the other <U1; give only integers or only strings",
        ),
        (([1.5], [2.5]), {}, "vertex ids are float64, such as 1.5; give only integers or only strings"),
        ((np.array([1, "a"], object), np.array([2, 3], object)), {}, "vertex ids are integers and strings, or missing"),
        (
            np.zeros((2, 3)),
            {},
            "an array float64[2, 3] is not an edge_index; give integers [2, E], or a scipy.sparse matrix",
        ),
        (np.zeros((3, 2), int), {}, "an array int64[3, 2] is not an edge_index; give its transpose"),
        (3, {}, "data of type int are not a graph; give a name of the catalogue, a path, a Graph"),
        (([0], [1]), {"wieght": 1}, "a graph from arrays has no option 'wieght'"),
    ],
)
def test_data_that_is_no_graph(data, options, message):
    with pytest.raises(GraphError) as error:
        as_graph(data, **options)
    assert message in str(error.value)


def test_names_are_numbered_in_ascending_order():
    big = as_graph((np.array([7, 3], object), np.array([3, 9], object)), named=True)
    assert list(big.vertices()) == [3, 7, 9]
    assert big.graph.csr.neighbours.tolist() == [2, 0]
    plain = as_graph((np.array([0, 1], np.uint8), np.array([1, 2])), named=True)
    assert plain.names is None
    letters = as_graph((np.array(["b", "a"], object), np.array(["a", "c"], object), [2.0, 3.0]))
    assert list(letters.vertices()) == ["a", "b", "c"]
    assert letters.graph.weights.tolist() == [3.0, 2.0]
    assert letters.graph.meta["origin"] == "arrays"
