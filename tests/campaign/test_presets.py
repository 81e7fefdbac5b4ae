"""Every preset composes into cells that can be meant; small versions run and end with the quality of their task."""

from __future__ import annotations

import pytest

from harness.campaign import application
from harness.campaign.configuration import configuration_folder
from harness.records import read_records
from tests.conftest import ROOT

PRESETS = sorted(path.stem for path in (configuration_folder() / "experiment").glob("*.yaml"))
NETWORK = """MARKOV
3
2 2 3
3
1 0
2 0 1
2 1 2
2
0.7 0.3
4
0.9 0.1 0.2 0.8
6
0.5 0.3 0.2 0.1 0.1 0.8
"""
WHOLE = "engine.change_driven=false"
TASKS = {  # a preset: what makes it small, the qualities that its table ends with, and what they must be
    "stereo": (["graph.shrink=8", "features=8", WHOLE], {"bad_pixels": (0.0, 0.3)}),
    "denoising": (["graph.image=microaneurysms", WHOLE], {"agreement": (0.6, 1.0), "noisy_agreement": (0.2, 0.5)}),
    "ranking": (["features=3"], {"precision": (0.8, 1.0)}),
    "multimodal": ([], {"accuracy": (0.95, 1.0)}),
    "ratings": (["graph.users=200", "graph.items=100", "graph.num_ratings=6000"], {"rmse": (0.2, 0.9)}),
    "network": (["graph.path=network.uai", WHOLE], {"marginal_error": (0.0, 1e-5), "mean_marginal_error": (0.0, 1e-5)}),
    "roads": (["graph=grid", "graph.rows=32", "graph.columns=32"], {"reached": (0.7, 1.0), "farthest": (20.0, 99.0)}),
}


@pytest.fixture
def plan(monkeypatch):
    """What a command would run: ``plan("+experiment=stereo").cells``."""

    def compose(*arguments):
        plans = []
        monkeypatch.setattr("harness.campaign.sweep.run_plan", lambda made, *_: plans.append(made))
        assert application.main(arguments) == 0
        return plans[0]

    return compose


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_composes(plan, name):
    found = plan(f"+experiment={name}")
    assert len(found.cells) >= 2
    assert found.baseline in {planned.cell.labels["engine"].split()[0] for planned in found.cells}
    assert all(planned.cell.device.kind == "cpu" for planned in found.cells)


def test_what_is_said_wins_over_a_preset(plan):
    found = plan("+experiment=stereo", "engine=onyx", "engine.change_driven=true", "features=8", "graph.shrink=4")
    [planned] = found.cells
    assert planned.cell.features == 8
    assert planned.cell.labels["graph"] == "motorcycle (shrink=4)"
    assert planned.cell.max_supersteps == 20


def test_the_readme_lists_every_preset():
    readme = (ROOT / "README.md").read_text()
    assert [name for name in PRESETS if f"`{name}`" not in readme] == []


@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_small_version_ends_with_the_quality_of_its_task(command, tmp_path, name):
    smaller, wanted = TASKS[name]
    (tmp_path / "network.uai").write_text(NETWORK)
    finished = command(f"+experiment={name}", "engine=onyx", *smaller, "measure.repetitions=1")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    [(_, record)] = read_records(tmp_path / "results")
    assert record["outcome"] == "ok"
    for quality, (low, high) in wanted.items():
        assert low <= record["metrics"][quality] <= high
        assert f"{quality} {record['metrics'][quality]:.3f}" in finished.stdout


def test_a_network_without_its_file_says_what_to_name(command):
    finished = command("+experiment=network", "engine=onyx")
    assert finished.returncode == 1
    assert "no path is given; set path to a graph file" in finished.stdout
