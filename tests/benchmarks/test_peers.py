"""What Onyx is compared with gives the same answers, and the comparison prints what it promises."""

from __future__ import annotations

import sys

import numpy as np
import pytest

from harness.graph import Graph
from tests.benchmarks import peers
from tests.benchmarks.workloads import rmat

pytest.importorskip("sknetwork", reason="scikit-network has no wheels for this version of Python")


def islands() -> Graph:
    """Two undirected rings, one of them with chords, a vertex with a loop alone, and one with nothing."""
    ring = np.arange(20)
    pairs = [
        (ring, (ring + 1) % 20),
        (ring[::3], (ring[::3] + 7) % 20),
        (20 + ring, 20 + (ring + 1) % 20),
        ([40], [40]),
    ]
    sources, destinations = (np.concatenate(ends) for ends in zip(*pairs, strict=True))
    weights = np.random.default_rng(4).random(len(sources), np.float32) + np.float32(0.1)
    return Graph.from_edges(
        sources, destinations, num_vertices=42, weights=weights, name="islands", symmetrize=True, duplicates="min"
    )


@pytest.mark.parametrize("graph", [rmat(7), islands()], ids=["rmat", "islands"])
@pytest.mark.parametrize("name", peers.JOBS)
def test_every_peer_gives_the_true_answer(graph, name):
    job = dict(peers.jobs(graph, 2))[name]()
    truth = job.truth()
    assert np.isfinite(truth).any()
    assert len(job.peers) >= 1
    for peer in job.peers:
        error = job.error(np.asarray(peer.answer(peer.solve()), np.float64), truth)
        assert error <= job.bound, peer.name


def test_the_comparison_tells_who_is_the_best_peer(capsys, monkeypatch):
    monkeypatch.setattr(
        sys, "argv", ["peers", "--graphs", "rmat", "--scale", "6", "--jobs", "components", "--rounds", "1"]
    )
    monkeypatch.setattr(peers, "TRIAL_S", 0.0)
    for name in [f"{pool}_NUM_THREADS" for pool in peers.POOLS] + ["GOMP_SPINCOUNT"]:
        monkeypatch.setenv(name, "2")  # so that what is set does not outlive the test
    peers.main()
    told = capsys.readouterr().out
    assert "rmat_6: 64 vertices" in told
    assert "connected components (weak)" in told
    assert told.count("<- best peer") == 1
    assert "left out" not in told
    assert "supersteps" in told


def test_who_is_wrong_is_left_out_and_said_so(capsys):
    job = dict(peers.jobs(rmat(6), 2))["bfs"]()
    wrong = peers.Contender("wrong", lambda: None, lambda: job.truth() + 1, np.asarray)
    right = peers.Contender("right", lambda: None, job.truth, np.asarray)
    assert list(peers.right_ones(job, [wrong, right])) == ["right"]
    assert "more than 0: wrong" in capsys.readouterr().out


def test_a_job_that_there_is_not_is_refused(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["peers", "--jobs", "sleeping"])
    with pytest.raises(SystemExit):
        peers.main()
    assert "there is no job sleeping" in capsys.readouterr().err
