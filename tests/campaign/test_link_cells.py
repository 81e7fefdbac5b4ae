"""Records of cells whose edges are outside of the device's memory: the link, and the bytes that were moved."""

from __future__ import annotations

import json

import pytest


def records_of(command_here, tmp_path, *overrides):
    """Return the records of a sweep of BFS on an R-MAT graph, by the place of the edges."""
    finished = command_here("-m", "graph=rmat", "graph.scale=14", "algorithm=bfs", "features=1", *overrides)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    made = [json.loads(path.read_text()) for path in tmp_path.glob("results/*/*/record.json")]
    return {one["schedule"]["edges"]: one for one in made}


@pytest.mark.full
def test_cells_on_the_cpu_read_a_file(command_here, tmp_path):
    records = records_of(command_here, tmp_path, "engine=onyx", "engine.edges=resident,mapped,streamed", "device=cpu")
    assert records["resident"]["link"] is None
    assert "link" not in records["resident"]["phases"]
    for place in ("mapped", "streamed"):
        link = records[place]["link"]
        assert link["read"] > 1e6
        assert (link["copy"], link["in_place"], link["run_bytes"]) == (None, {}, None)
        assert records[place]["phases"]["link"] > 0
    moved = records["streamed"]["transfers"]
    assert moved["moved_bytes"]["read"] == moved["visited_bytes"] > 0


@pytest.mark.gpu
def test_cells_on_a_gpu_cross_its_link(command_here, tmp_path):
    """All pages of managed edges are moved once; every place reads at least the bytes of the visited edges."""
    places = "engine.edges=resident,mapped,managed"
    records = records_of(command_here, tmp_path, "engine=emogi", places, "device=cuda", "graph.edge_factor=256")
    assert records["resident"]["link"] is None
    for place in ("mapped", "managed"):
        link, transfers = records[place]["link"], records[place]["transfers"]
        assert 1e9 < link["in_place"]["32"] < link["in_place"]["128"] < 1.1 * link["copy"]
        assert transfers["visited_bytes"] > 4e6
        if link["run_bytes"] is None:
            pytest.skip("this GPU does not count the bytes of its link")
        assert link["run_bytes"] > 0.8 * transfers["visited_bytes"]
    managed = records["managed"]
    assert managed["transfers"]["moved_bytes"] == {"pages": managed["link"]["run_bytes"]}
    assert 0.8 < managed["transfers"]["amplification"] < 3
    assert records["mapped"]["transfers"]["amplification"] is None, "requests are only counted on request"
