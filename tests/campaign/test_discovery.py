"""Every name, every option with its type, default and range is shown, completed, and enforced as shown."""

from __future__ import annotations

import contextlib
import dataclasses
import math
import os
import re

import pytest

from harness.api import Algorithm, EngineSpec, GraphSpec, ScheduleError, option
from harness.campaign import application
from harness.campaign.completion import complete
from harness.campaign.config_keys import VALUES, config_keys
from harness.campaign.discovery import Names, describe, options_of
from harness.contract import schedule_from_options
from harness.graph.errors import GraphError
from harness.graph.named import check_parameters
from harness.language import InvalidInput
from harness.options import Option, options_in
from harness.plugins import UnknownName, load_plugins
from tests.conftest import ROOT


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """Print tables for a wide terminal: workers of pytest-xdist have 80 columns."""
    monkeypatch.setenv("COLUMNS", "200")


@pytest.fixture(scope="module")
def names():
    return Names(load_plugins())


def test_every_option_of_every_builtin_has_a_help_text_and_accepts_its_default(names):
    specs = [spec for group in ("engine", "algorithm", "graph") for spec in names.specs(group).values()]
    options = [(spec.name, item) for spec in specs for item in options_of(spec)]
    assert len(options) > 100
    assert [one for one in options if not one[1].help or one[1].problem(one[1].default)] == []


@dataclasses.dataclass(frozen=True)
class Schedule:
    """A schedule."""

    share: float = option(0.5, "a share", within="[0, 1)")
    way: str | None = option(None, "a way", values=("a", "b"))


class Walk(Algorithm):
    """A walk."""

    name = "walk"
    alpha: float = option(0.5, "a share", within="(0, 1]")
    start: str = option("drawn", "a start", values=("drawn", "given"))


def test_options_have_types_defaults_ranges_and_values():
    assert options_in(Schedule) == (
        Option("share", "float", 0.5, "a share", within="[0, 1)"),
        Option("way", "text or null", None, "a way", values=("a", "b")),
    )
    spec = GraphSpec("ring", "", "a:b", {"size": option(3, "vertices", within="[1, inf)"), "seed": 0})
    assert spec.parameters == {"size": 3, "seed": 0}
    assert spec.options == (Option("size", "int", 3, "vertices", within="[1, inf)"), Option("seed", "int", 0))
    assert dataclasses.replace(spec, name="circle").options == spec.options


@pytest.mark.parametrize(("within", "inside", "outside"), [
    ("[0, 1)", (0, 0.5), (1, -0.1, math.nan)), ("(0, inf)", (1e9,), (0, -1)), ("[1, inf]", (1, math.inf), (0.5,)),
])  # fmt: skip
def test_a_range_has_open_and_closed_ends(within, inside, outside):
    item = Option("x", "float", 0.0, within=within)
    assert [item.problem(value) for value in inside] == [""] * len(inside)
    assert all(item.problem(value) == f"x={value!r}: give a number in {within}" for value in outside)
    with pytest.raises(ValueError, match="is not an interval"):
        option(0.0, "", within="0..1")


def test_values_outside_the_range_are_refused_by_every_kind_of_option():
    spec = EngineSpec("walker", "", Schedule, "a:b")
    with pytest.raises(ScheduleError, match=r"share=1\.0: give a number in \[0, 1\)"):
        schedule_from_options(spec, {"share": 1.0})
    with pytest.raises(ScheduleError, match="way='c': give one of a, b"):
        schedule_from_options(spec, {"way": "c"})
    with pytest.raises(InvalidInput, match=r"walk: alpha=0\.0: give a number in \(0, 1\]"):
        Walk(alpha=0.0)
    with pytest.raises(GraphError, match=r"ring: size=0: give a number in \[1, inf\)"):
        check_parameters(GraphSpec("ring", "", "a:b", {"size": option(3, "", within="[1, inf)")}), {"size": 0})


def test_the_example_of_the_page_declares_options():
    page = (ROOT / "docs" / "find-options.md").read_text()
    scope: dict[str, object] = {"__name__": __name__}
    exec(re.search(r"<!-- example: options -->\n```python\n(.*?)```", page, re.DOTALL)[1], scope)
    assert [item.within for item in options_in(scope["Decay"])] == ["(0, 1)"]
    assert [item.values for item in options_in(scope["MySchedule"])] == [(), ("row", "column")]
    assert scope["ring"].options == (Option("size", "int", 8, "vertices", within="[3, inf)"),)


def test_describe_shows_parameters_schedules_variants_and_presets(names):
    shown = describe(names, "pagerank")
    assert "  alpha        float in (0, 1)          0.85    damping factor\n" in shown
    assert "personalise  auto, uniform, vertices  auto " in shown
    assert "Langville & Meyer 2006" in shown
    assert re.search(r"\n  direction +pull, push, adaptive +null +", describe(names, "onyx"))
    assert "variants: onyx_fa_cd," in describe(names, "onyx")
    assert "engine.change_driven  False" in describe(names, "onyx_ncd")
    assert "scale           int in [0, 31]" in describe(names, "rmat")
    assert "algorithm  sssp" in describe(names, "roads")
    both = describe(names, "multimodal")  # an algorithm and a preset
    assert "algorithm=multimodal: " in both
    assert "\n+experiment=multimodal\n" in both
    assert "algorithm=multimodal: " not in describe(names, "preset=multimodal")
    with pytest.raises(UnknownName, match="nothing is called 'pagernak'; did you mean 'pagerank'"):
        describe(names, "pagernak")


def test_the_command_line_lists_describes_and_helps(capsys):
    assert application.main(["list", "presets"]) == 0
    listed = capsys.readouterr().out
    assert re.search(r"\n  roads +Distances along the world's highways, in km, from 4 places\n", listed)
    assert "onyx_ncd" not in listed
    for command in (["describe", "sssp"], ["algorithm=sssp", "--help"]):
        assert application.main(command) == 0
        shown = capsys.readouterr().out
        assert re.search(r'\n  sources +text +drawn +k vertices, such as "3 17", or', shown)
    assert application.main(["describe", "graph=nowhere"]) == 2
    assert application.main(["describe", "grph=grid"]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 2


def test_the_configuration_shows_every_parameter(capsys):
    assert application.main(["--cfg", "job", "algorithm=sssp", "graph=grid", "engine=tigr"]) == 0
    shown = capsys.readouterr().out
    assert "algorithm:\n  name: sssp\n  sources: drawn\n  seed: 0\n  supersteps: 1000000\n" in shown
    of_edges = "  edges: null\n  window_mb: null\n  advice: null\n  cache_mb: null\n  codes: null\n  panel: null\n"
    assert f"engine:\n  name: tigr\n{of_edges}  degree_bound: null\n" in shown
    assert "  length_spread: 0.5\n" in shown
    assert application.main(["--cfg", "job", "algorithm=thesis_lp", "engine=onyx_fa_ncd"]) == 0
    shown = capsys.readouterr().out
    assert "  name: label_propagation\n  alpha: 0.85\n  clamp: false\n  tolerance: 0.0001\n  supersteps: 200\n" in shown
    assert "  change_driven: false\n  fold: null\n  direction: push\n  rebuild: null\n" in shown
    assert "  balance: ${_thesis_balance.${device.kind}}\n" in shown


def test_every_key_of_the_configuration_is_listed_with_help(names):
    keys = {item.name: item for item in config_keys()}
    composed = {"features", "measure.cap_s", "device.threads", "plugins.block", "save", "rerun", "limits.wait_s"}
    assert composed <= keys.keys()
    assert [name for name, item in keys.items() if not item.help] == []
    assert keys["measure.cap_s"].default == 60.0
    assert keys["measure.cap_s"].help.startswith("seconds; if 6 runs would take longer")
    assert keys["max_supersteps"].help == "The largest number of supersteps of a run; null for the program's own limit."
    assert "sweep.id" not in keys
    for name, values in VALUES.items():
        assert str(keys[name].default).lower() in values
    shown = describe(names, "warm")
    assert shown.startswith("warm: Change a share of the graph's edges after a run")
    assert re.search(r"\n  warm.kind +insert|\n  warm.kind +text +mixed", shown)
    assert describe(names, "save").endswith("\nvalues: none, arrays, answer")


COMPLETED = {
    "des": ["describe"],
    "list p": ["presets"],
    "describe measure.c": ["measure.cap_s"],
    "describe ss": ["sssp"],
    "algorithm=ss": ["algorithm=sssp"],
    "engine=onyx,ti": ["engine=onyx,tigr"],
    "+experiment=roa": ["+experiment=roads"],
    "engine=onyx engine.direction=pu": ["engine.direction=pull", "engine.direction=push"],
    "algorithm=sssp algorithm.so": ["algorithm.sources="],
    "algorithm=pagerank algorithm.alpha=": ["algorithm.alpha=0.85"],
    "graph=rmat,grid graph.symm": ["graph.symmetric="],
    "measure.bud": ["measure.budget_s="],
    "graph=rmat graph.permuted=f": ["graph.permuted=false"],
    "rerun=a": ["rerun=all"],
    "--cf": ["--cfg"],
    "engine=nothing engine.dir": [],
}


def test_a_shell_completes_commands_names_keys_and_values(names):
    assert {line: complete(line, names) for line in COMPLETED} == COMPLETED


def test_the_shell_gets_the_completions_of_its_line(capsys, monkeypatch):
    monkeypatch.setenv("COMP_LINE", "onyx-harness describe gri")
    assert application.main(["-sc", "query=bash"]) == 0
    assert capsys.readouterr().out == "grid grid_30m grid_9m\n"
    assert application.main(["-sc", "install=bash"]) == 0
    assert "complete -o nospace -o default -F hydra_bash_completion onyx-harness" in capsys.readouterr().out


@pytest.mark.parametrize("command", [["list", "graphs"], ["--help"]])
def test_a_reader_that_stops_early_is_no_error(monkeypatch, command):
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr("sys.stdout", stream)
        with contextlib.suppress(SystemExit):  # Hydra's --help
            assert application.main(command) == 0
