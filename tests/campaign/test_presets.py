"""Every preset composes into valid cells; small versions run and reach the quality of their task."""

from __future__ import annotations

import pytest
from omegaconf import OmegaConf

from harness.campaign.configuration import configuration_folder
from harness.graph import load_graph
from harness.plugins import load_plugins
from harness.records import read_records
from harness.records.statistics import FEWEST_SAMPLES
from harness.report import units
from harness.report.layout import Layout
from tests.conftest import ROOT

PRESETS = sorted(path.stem for path in (configuration_folder() / "experiment").glob("*.yaml"))
FIVE = {"label_propagation", "als", "belief_propagation", "manifold_ranking", "multimodal"}
PAPERS = {  # a preset: its algorithms
    "table_7_2": FIVE,
    "table_7_4": FIVE,
    "thesis_tables": FIVE,
    "figure_7_1": FIVE,
    "figure_7_2": FIVE,
    "figure_7_3": {"label_propagation", "manifold_ranking"},
    "figure_7_4": {"label_propagation", "belief_propagation"},
    "simdx_lists": {"pagerank", "bfs", "sssp", "kcore", "label_propagation"},
    "simdx_filters": {"bfs", "sssp", "kcore", "components"},
    "simdx_fusion": {"pagerank", "bfs", "sssp", "kcore", "components"},
    "onyx_directions": {"label_propagation", "manifold_ranking"},
    "onyx_folding": FIVE - {"als"},
    "onyx_tracking": {"pagerank", "bfs", "sssp", "kcore", "components", "label_propagation"},
    "onyx_features": FIVE - {"als"} | {"pagerank", "bfs", "sssp"},
    "cusparse": {"feature_diffusion"},
    "mapped_edges": {"pagerank", "bfs", "feature_diffusion"},
    "edge_places": {"pagerank", "bfs", "feature_diffusion"},
    "emogi_figure_5": {"bfs"},
    "emogi_figure_7": {"bfs"},
    "emogi_figure_8": {"bfs"},
    "emogi_figure_9": {"bfs", "sssp", "components"},
    "emogi_figure_10": {"bfs", "sssp"},
    "emogi_figure_11": {"bfs", "sssp", "components"},
    "emogi_figure_12": {"bfs", "sssp", "components"},
    "emogi_table_3": {"bfs", "sssp", "components"},
    "out_of_memory_ratios": {"bfs", "sssp", "components"},
    "full_sweep_ratios": {"pagerank"},
    "onyx_streamed_ratios": {"pagerank", "feature_diffusion"},
    "scaph_used": {"components", "sssp"},
    "scaph_ablations": {"components", "sssp", "bfs"},
    "scaph_table": {"components", "sssp", "mst", "bfs", "pagerank"},
    "scaph_memory": {"components", "sssp"},
    "scaph_alpha": {"components", "sssp"},
    "scaph_overhead": {"components", "sssp"},
    "scaph_values": {"components", "sssp", "bfs"},
    "four_billion_edges": {"bfs"},
}
FEWER_GRAPHS = {
    "figure_7_3": 2, "simdx_lists": 4, "simdx_filters": 4, "simdx_fusion": 4, "onyx_directions": 2, "onyx_folding": 2,
    "onyx_tracking": 2, "onyx_features": 1, "cusparse": 2, "mapped_edges": 1, "edge_places": 1,
    "emogi_figure_5": 3, "emogi_figure_7": 3, "emogi_figure_8": 3, "emogi_figure_9": 3, "emogi_figure_10": 3,
    "emogi_figure_11": 3, "emogi_figure_12": 3, "emogi_table_3": 2, "scaph_used": 2, "scaph_ablations": 2,
    "scaph_table": 2, "scaph_memory": 2, "scaph_alpha": 2, "scaph_overhead": 2, "scaph_values": 2,
    "four_billion_edges": 2, "out_of_memory_ratios": 2, "onyx_streamed_ratios": 1, "full_sweep_ratios": 2,
}  # fmt: skip
GRAPHS_OF_THE_THESIS = 8  # of all other presets
GPU_SCALES = ("full", "stand_ins")  # alternate along the presets; they differ in their graphs and limits only
GPU_ALONE = ("simdx_filters", "simdx_fusion", "onyx_directions", "cusparse", "mapped_edges", "edge_places")
OTHERS = {  # a preset: its device, and its number of cells with all engines installed
    "originals": ("cuda", 16),
    "memory_counters": ("cuda", 27),
    "onyx_warm": ("cpu", 10),
    "adaptive_shares": ("cpu", 84),
    "cpu_features": ("cpu", 10),
    "cpu_peers": ("cpu", 100),
    "default_choice": ("cpu", 420),
    "onyx_persistent": ("cuda", 36),
    "krylov_plans": ("cpu", 18),
    "near_far": ("cuda", 48),
    "emogi_figure_4": ("cpu", 10),
    "sgd_schedules": ("cpu", 36),
    "sgd_hybrid": ("cpu", 12),
    "sgd_atomics": ("cpu", 1),
    "sgd_predictor": ("cpu", 338),
    "sgd_table_2": ("cpu", 3),
    "sgd_quality": ("cpu", 4),
    "sgd_peers": ("cpu", 20),
    "sgd_ratios": ("cpu", 40),
    "sgd_claims": ("cpu", 16),
    "sgd_roof": ("cpu", 32),
}
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
EVIDENCE = "1 2 2\n"  # one observation: variable 2 is in state 2
TASKS = {  # a preset: its reduced settings, the metrics in its table, and their required values
    "stereo": (["graph.shrink=8", "features=8"], {"bad_pixels": (0.0, 0.3)}),
    "denoising": (["graph.image=microaneurysms"], {"agreement": (0.6, 1.0), "noisy_agreement": (0.2, 0.5)}),
    "ranking": (["features=3"], {"precision": (0.8, 1.0)}),
    "multimodal": ([], {"accuracy": (0.95, 1.0)}),
    "ratings": (["graph.users=200", "graph.items=100", "graph.num_ratings=6000"], {"rmse": (0.2, 0.9)}),
    "network": (["graph.path=network.uai"], {"marginal_error": (0.0, 1e-5), "mean_marginal_error": (0.0, 1e-5)}),
    "roads": (["graph=grid", "graph.rows=32", "graph.columns=32"], {"reached": (0.7, 1.0), "farthest": (20.0, 99.0)}),
}
LINEAR = ("ranking", "multimodal")  # tasks whose programs are sparse matrix products
MEASURED_ELSEWHERE = (
    *LINEAR,
    "ratings",
    "stereo",
    "denoising",
)  # their algorithms' tests check the quality of the same tasks


@pytest.mark.parametrize("name", sorted(TASKS))
def test_a_preset_composes(plan, name):
    found = plan(f"+experiment={name}")
    assert len(found.cells) >= 2
    assert found.baseline in {planned.cell.labels["engine"].split()[0] for planned in found.cells}
    assert all(planned.cell.device.kind == "cpu" for planned in found.cells)


def has_a_column_for_every_cell(name, found, device):
    """Check the device, the baseline and the columns of a plan."""
    assert {planned.cell.device.kind for planned in found.cells} == {device}
    assert found.baseline in {planned.cell.engine for planned in found.cells}
    columns = [found.layout.column_of({"config": planned.cell.plain()}) for planned in found.cells]
    assert set(columns) == set(found.layout.columns)


def features(name):
    """Return the numbers of features of a test: composition is slow, so each test uses a part of the product."""
    return ["features=4,128"] if name == "figure_7_3" else []


@pytest.mark.parametrize(("name", "algorithms"), PAPERS.items())
def test_a_preset_of_a_paper_has_a_column_for_every_cell(plan, name, algorithms):
    small = plan(f"+experiment={name}", "graph=small_road", *features(name))
    assert {planned.cell.algorithm for planned in small.cells} == algorithms
    has_a_column_for_every_cell(name, small, "cuda" if name in GPU_ALONE else "cpu")


# A third of the presets, of both scales.
LARGE = [name for number, name in enumerate(PAPERS) if number % 6 < 2]


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=() if name in LARGE else (pytest.mark.full,)) for name in PAPERS]
)
def test_a_preset_of_a_paper_has_a_column_for_every_cell_of_a_gpu(plan, name):
    one = {
        "onyx_tracking": "pagerank",
        "cusparse": "diffusion",
        "mapped_edges": "diffusion",
        "edge_places": "diffusion",
        "four_billion_edges": "bfs",
        "onyx_streamed_ratios": "diffusion",
        "full_sweep_ratios": "pagerank",
    }.get(
        name,
        "bfs"
        if name.startswith(("simdx_f", "emogi", "out_of"))
        else "sssp"
        if name.startswith("scaph")
        else "thesis_lp",
    )
    scale = GPU_SCALES[list(PAPERS).index(name) % 2]
    large = plan(f"+experiment={name}", f"scale={scale}", f"algorithm={one}", *features(name))
    has_a_column_for_every_cell(name, large, "cuda")
    graphs = {planned.cell.graph for planned in large.cells}
    assert graphs <= set(large.layout.names)
    assert len(graphs) == FEWER_GRAPHS.get(name, GRAPHS_OF_THE_THESIS)


@pytest.mark.parametrize("name", PAPERS)
def test_every_graph_of_a_scale_exists_and_has_a_short_name(name):
    folder, known = configuration_folder(), load_plugins().graphs
    lists = OmegaConf.load(folder / "experiment" / f"{name}.yaml").get("paper_graphs")
    lists = lists or OmegaConf.load(folder / "paper_graphs" / "vaz2021.yaml")
    short = OmegaConf.load(folder / "paper" / "vaz2021.yaml")
    for scale in ("small", *GPU_SCALES):
        graphs = lists[scale].split(",")
        files = {graph: folder / "graph" / f"{graph}.yaml" for graph in graphs}
        names = [OmegaConf.load(file).name if file.exists() else graph for graph, file in files.items()]
        assert set(names) <= known.keys()
        assert set(names) <= set(short)
        assert len(set(graphs)) == len(graphs)
        if scale != "small":
            assert len(graphs) == FEWER_GRAPHS.get(name, GRAPHS_OF_THE_THESIS)


@pytest.mark.parametrize(("name", "device", "cells"), [(name, *expected) for name, expected in OTHERS.items()])
def test_a_preset_of_a_page_has_a_column_for_every_cell(plan, name, device, cells):
    found = plan(f"+experiment={name}")
    assert {planned.cell.device.kind for planned in found.cells} == {device}
    assert len(found.cells) == cells
    if found.layout is not None:
        columns = [found.layout.column_of({"config": planned.cell.plain()}) for planned in found.cells]
        assert set(columns) == set(found.layout.columns)


def test_an_invalid_layout_is_reported_before_anything_runs(command_here):
    finished = command_here("+experiment=figure_7_4", "layout.first=Nobody")
    assert finished.returncode == 2
    assert "layout.first is 'Nobody', not one of the columns: Unfolded, Folded" in finished.stderr


@pytest.mark.short_run(rows=1)
@pytest.mark.slow
def test_a_preset_of_a_paper_ends_with_the_paper_s_table(command_here, tmp_path):
    finished = command_here(
        "+experiment=figure_7_4", "algorithm=thesis_lp", "graph=small_road", "graph.rows=16", "graph.columns=16",
        "engine.change_driven=false", "max_supersteps=10", "measure.repetitions=1",
    )  # fmt: skip
    assert finished.returncode == 0, finished.stdout + finished.stderr
    [text] = (tmp_path / "results").rglob("layout.txt")
    assert text.read_text() in finished.stdout
    for word in ("as in figure 7.4 of Vaz 2021", "Unfolded", "Folded", "LP", "Grid"):
        assert word in text.read_text()
    assert text.with_suffix(".svg").exists()
    assert not finished.stderr


def test_overrides_take_precedence_over_a_preset(plan):
    found = plan("+experiment=stereo", "engine=onyx", "engine.change_driven=false", "features=8", "graph.shrink=4")
    [planned] = found.cells
    assert planned.cell.features == 8
    assert "change_driven=False" in planned.cell.labels["engine"]
    assert planned.cell.labels["graph"] == "motorcycle (shrink=4)"
    assert planned.cell.max_supersteps == 20


@pytest.mark.parametrize("name", PRESETS)
def test_linked_options_are_keys_of_the_variant(name):
    """An option of a variant's engine that its file lacks cannot be set, and the sweep would not begin."""
    preset = OmegaConf.load(configuration_folder() / "experiment" / f"{name}.yaml")
    for link in OmegaConf.select(preset, "hydra.sweeper.linked") or ():
        path = configuration_folder() / "engine" / f"{link['when'].get('engine')}.yaml"
        keys = OmegaConf.load(path) if path.exists() else None  # without a file, the engine's options are the keys
        wanted = {key.removeprefix("engine.") for key in link["set"] if key.startswith("engine.")}
        assert keys is None or wanted <= set(keys), link


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_that_compares_times_has_enough_samples_for_a_verdict(name):
    preset = OmegaConf.load(configuration_folder() / "experiment" / f"{name}.yaml")
    base = OmegaConf.load(configuration_folder() / "config.yaml")
    repetitions = OmegaConf.merge(base.measure, preset.get("measure", {})).repetitions
    compares_times = preset.get("layout", {}).get("kind") not in ("memory", "requests", "rates")
    assert repetitions >= FEWEST_SAMPLES or not compares_times


@pytest.mark.parametrize(
    "name",
    [
        "out_of_memory_ratios",
        "onyx_streamed_ratios",
        "full_sweep_ratios",
        "sgd_ratios",
        "sgd_claims",
        "sgd_roof",
        "default_choice",
    ],
)
def test_claims_name_what_is_swept_and_every_column_has_one(name):
    preset = OmegaConf.load(configuration_folder() / "experiment" / f"{name}.yaml")
    layout = Layout.from_plain(OmegaConf.to_container(preset.layout))
    assert {column for claim in layout.ratios for column in (claim.of, *claim.over) if column} == set(layout.columns)
    folder, swept = configuration_folder(), preset.hydra.sweeper.params
    names = {
        kind: {
            OmegaConf.load(path).name if (path := folder / kind / f"{one}.yaml").exists() else one
            for one in ",".join(lists).split(",")
        }
        for kind, lists in (("algorithm", [swept.algorithm]), ("graph", preset.paper_graphs.values()))
    }
    for claim in layout.ratios:
        assert set(claim.algorithms) <= names["algorithm"]
        assert set(claim.graphs) <= names["graph"]


def test_no_preset_is_left_out_here():
    assert sorted([*TASKS, *PAPERS, *OTHERS]) == PRESETS


def test_the_page_lists_every_preset():
    page = (ROOT / "docs" / "presets.md").read_text()
    assert [name for name in PRESETS if f"`{name}`" not in page] == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=(pytest.mark.full,) if name in MEASURED_ELSEWHERE else ()) for name in TASKS],
)
def test_a_small_version_ends_with_the_quality_of_its_task(command_here, tmp_path, name):
    smaller, wanted = TASKS[name]
    (tmp_path / "network.uai").write_text(NETWORK)
    (tmp_path / "network.uai.evid").write_text(EVIDENCE)
    # SciPy compiles nothing; full propagation compiles a quarter of the kernels of change-driven propagation.
    engine = ["engine=scipy"] if name in LINEAR else ["engine=onyx", "engine.change_driven=false"]
    finished = command_here(f"+experiment={name}", *engine, *smaller, "measure.repetitions=1")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    [(_, record)] = read_records(tmp_path / "results")
    assert record["outcome"] == "ok"
    for quality, (low, high) in wanted.items():
        assert low <= record["metrics"][quality] <= high
        assert f"{quality} {units.quality(record['metrics'][quality])}" in finished.stdout
    if name == "network":
        observed = load_graph(tmp_path / "network.uai")
        assert observed.vertex_data["evidence"].tolist() == [-1, -1, 2]
        assert record["graph"]["content_hash"] == observed.content_hash


def test_a_network_without_its_file_names_the_option(command_here):
    finished = command_here("+experiment=network", "engine=onyx")
    assert finished.returncode == 2
    assert "no path is given; set graph.path to a graph file" in finished.stderr
