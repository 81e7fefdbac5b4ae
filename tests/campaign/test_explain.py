"""``onyx-harness explain`` shows what would run without running it."""

from __future__ import annotations

import json

import numba
import pytest

from harness.device.driver import cuda_unavailable


def test_the_program_the_analysis_and_the_kernels_are_shown(command_here, tmp_path):
    cell = ("engine=onyx", "engine.change_driven=true", "algorithm=pagerank", "graph=rmat", "graph.scale=6")
    finished = command_here("explain", *cell, "features=3")
    assert finished.returncode == 0, finished.stderr
    shown = finished.stdout
    assert "program pagerank" in shown
    assert "schedule OnyxSchedule(edges='resident', feature_aware=True, change_driven=True" in shown
    assert "direction='pull', " in shown
    assert "\nchosen by the engine: edges, direction, dense_share\n" in shown
    assert "\nestimate: share: " in shown
    assert "missed: " in shown
    assert "def _share_part(" in shown
    assert not (tmp_path / "results").exists()


def test_cuda_kernels_are_shown_without_a_device(command_here):
    cell = ("engine=onyx", "algorithm=label_propagation", "graph=rmat", "graph.scale=6", "features=5", "device=cuda")
    schedule = ("engine.change_driven=false", "algorithm.seeds=random")
    finished = command_here("explain", *cell, *schedule)
    assert finished.returncode == 0, finished.stderr
    for shown in (
        "program label_propagation",
        "schedule OnyxSchedule(edges='resident', feature_aware=True, change_driven=False",
        "dense_share=0.01, pipeline=True, balance='warp', vector_width=4, block_size=256, persistent=False, "
        "bottom_up=False), groups",
        "chosen by the engine: edges, direction, dense_share, pipeline, balance, vector_width, block_size, "
        "persistent, bottom_up\n",
        "kernel spread: spread, n_aggr, prob, settle",
        "// Generated: label_propagation, k = 5.",
        'extern "C" __global__ void __launch_bounds__(BLOCK) spread(Run* run',
        "const float* __restrict__ csc_weight",
        "aggr_total",
    ):
        assert shown in finished.stdout, shown


def test_an_engine_that_cannot_run_it_says_why(command_here):
    finished = command_here(
        "explain", "engine=scipy", "algorithm=components", "graph=rmat", "graph.scale=6", "features=1"
    )
    assert finished.returncode == 0, finished.stderr
    assert "scipy: unsupported: " in finished.stdout


@pytest.mark.parametrize(
    ("device", "shown"),
    [
        ("cpu", ("dense_share=0.3", "at least 0.3 of the edges have moved (given); otherwise pushes", "_pull_part(t")),
        ("cuda", (
            "direction='adaptive'", "of the edges have moved (fitted)",
            "direction: after a pull, the next one is expected",
            "_changes(Run* run", "_rebuilt(Run* run",
            "bottom_up: pulls skip vertices that are as good as (best.level + 1),",
        )),
    ],
)  # fmt: skip
def test_a_direction_that_switches_by_itself_is_explained(command_here, device, shown):
    cell = ("algorithm=bfs", "graph=rmat", "graph.scale=6", "features=1", f"device={device}")
    share = ("engine.dense_share=0.3",) if device == "cpu" else ()
    finished = command_here("explain", "engine=onyx", "engine.direction=adaptive", *share, *cell)
    assert finished.returncode == 0, finished.stderr
    for text in shown:
        assert text in finished.stdout


@pytest.mark.full
def test_the_record_of_a_cell_with_adaptive_direction_has_the_choices(command_here, tmp_path):
    cell = ("algorithm=components", "graph=rmat", "graph.scale=6", "features=1", "measure.repetitions=1")
    finished = command_here("engine=onyx", "engine.direction=adaptive", *cell)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    (path,) = tmp_path.glob("results/*/*/record.json")
    record = json.loads(path.read_text())
    assert record["schedule"]["share_by"] == "estimated"
    assert len(record["choices"]) == len(record["supersteps"]) > 1
    share = record["schedule"]["dense_share"]
    for (_, _, direction), (_, reason, compared, by, push_s, pull_s) in zip(
        record["supersteps"], record["choices"], strict=True
    ):
        assert (compared, by, push_s > 0, pull_s > 0) == (share, "estimated", True, True)
        assert direction == ("push" if reason == "few" or share == 1 else "pull")


def test_a_refused_default_is_replaced_by_a_supported_option(command_here):
    finished = command_here("explain", "engine=fake_pulls", "algorithm=fake_spread", "graph=fake_ring", "features=2")
    assert finished.returncode == 0, finished.stderr
    start = "resolved: engine.direction=pull instead of engine.direction=push: nothing pushes here\nschedule Schedule("
    assert f"{start}direction='pull', width=1)" in finished.stdout


def test_every_phase_is_explained(command_here):
    finished = command_here(
        "explain", "engine=onyx_supersteps", "algorithm=fake_phases", "graph=fake_ring", "features=2"
    )
    assert finished.returncode == 0, finished.stderr
    programs, _, engines = finished.stdout.partition("schedule OnyxSchedule(")
    assert programs.count("program fake_phases") == 2
    assert engines.count("schedule OnyxSchedule(") == 1
    first, second = engines.split("schedule OnyxSchedule(")
    assert ("vertex_level" in first, "vertex_x" in first) == (True, False)
    assert ("vertex_level" in second, "vertex_x" in second) == (True, True)


def test_mistakes_are_reported_in_one_line(command_here):
    for mistake, words in {
        "engine=onix": "did you mean",
        "engine=onyx,scipy": "one cell",
        "features=0": "features is 0",
    }.items():
        finished = command_here("explain", "algorithm=pagerank", "graph=rmat", "graph.scale=6", mistake)
        assert finished.returncode == 2, finished.stdout
        assert "Traceback" not in finished.stderr
        assert words in finished.stderr


def test_the_threads_that_pack_rows_are_shown(command_here):
    cell = ("engine=scaph", "algorithm=bfs", "graph=rmat", "graph.scale=6", "features=1", "device=cuda")
    finished = command_here("explain", *cell)
    assert finished.returncode == 0, finished.stderr
    (chosen,) = [line for line in finished.stdout.splitlines() if line.startswith("chosen by the engine: ")]
    assert chosen.endswith(", extract_threads")
    assert f", extract_threads={numba.config.NUMBA_NUM_THREADS})" in finished.stdout
    without = command_here("explain", *cell, "engine.low=stream")
    assert "extract_threads=" not in without.stdout


@pytest.mark.skipif(not cuda_unavailable(0), reason="there is a CUDA device")
def test_an_engine_that_needs_a_device_to_describe_itself_says_so(command_here):
    cell = ("algorithm=pagerank", "graph=rmat", "graph.scale=6", "features=1", "device=cuda")
    finished = command_here("explain", "engine=cusparse", *cell)
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout.splitlines()[-1].startswith("cusparse: unsupported: ")
