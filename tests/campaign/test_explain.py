"""``onyx-harness explain``: what would run, without running it."""

from __future__ import annotations


def test_the_program_the_analysis_and_the_kernels_are_shown(command, tmp_path):
    finished = command("explain", "engine=onyx", "algorithm=pagerank", "graph=rmat", "graph.scale=6", "features=3")
    assert finished.returncode == 0, finished.stderr
    shown = finished.stdout
    assert "program pagerank" in shown
    assert "schedule OnyxSchedule(feature_aware=True, change_driven=True" in shown
    assert "missed: " in shown
    assert "def _share_part(" in shown
    assert not (tmp_path / "results").exists()


def test_cuda_kernels_are_shown_without_a_device(command):
    cell = ("engine=onyx", "algorithm=label_propagation", "graph=rmat", "graph.scale=6", "features=5", "device=cuda")
    schedule = ("engine.change_driven=false", "algorithm.seeds=random")
    finished = command("explain", *cell, *schedule)
    assert finished.returncode == 0, finished.stderr
    for shown in (
        "program label_propagation",
        "schedule OnyxSchedule(feature_aware=True, change_driven=False",
        "kernel spread: spread, n_aggr, prob, settle",
        "// Generated: label_propagation, k = 5.",
        'extern "C" __global__ void __launch_bounds__(BLOCK) spread(Run* run',
        "const float* __restrict__ csc_weight",
        "aggr_total",
    ):
        assert shown in finished.stdout, shown


def test_an_engine_that_cannot_run_it_says_why(command):
    finished = command("explain", "engine=scipy", "algorithm=components", "graph=rmat", "graph.scale=6", "features=1")
    assert finished.returncode == 0, finished.stderr
    assert "scipy: unsupported: " in finished.stdout


def test_mistakes_are_told_in_one_line(command):
    for mistake, words in {
        "engine=onix": "did you mean",
        "engine=onyx,scipy": "one cell",
        "features=0": "features is 0",
    }.items():
        finished = command("explain", "algorithm=pagerank", "graph=rmat", "graph.scale=6", mistake)
        assert finished.returncode == 2, finished.stdout
        assert "Traceback" not in finished.stderr
        assert words in finished.stderr
