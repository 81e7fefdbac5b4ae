"""A persistent kernel has the supersteps, the statistics and the answers of launches of single supersteps, emulated.

Blocks of the emulated device run one after another, so a kernel with a global barrier has one block here.
"""

from __future__ import annotations

import sys

import numpy as np
import pytest

from harness.graph.generators import grid
from tests.benchmarks import gpu_side_by_side
from tests.emulation.device import THREADS
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.problems import problem, program
from tests.engines.test_cuda import prepared

WAYS = {
    "pull": {"balance": "warp"},
    "pull edges": {"balance": "edge"},
    "push": {"direction": "push", "balance": "edge", "rebuild": 2},
    "all edges": {"change_driven": False, "balance": "edge"},
    "all owners": {"change_driven": False, "balance": "warp"},
}
EXACT = ("bfs", "sssp", "components", "kcore")
TODAY = (("bfs", "pull edges", 1), ("pagerank", "pull", 1))
GRAPHS = {"als": "ratings", "belief_propagation": "picture", "bfs": "grid", "sssp": "grid"}
CASES = [
    *TODAY,
    *((name, way, 3) for name in ("sssp", "components", "kcore", "pagerank", "label_propagation") for way in WAYS),
    *(("als", way, 3) for way in ("pull", "all owners")),
    *(("belief_propagation", way, 8) for way in ("pull", "pull edges", "push", "all edges")),
]


def both(monkeypatch, name, way, features, device):
    """Return the engine with launches of supersteps, and with a persistent kernel; skip if a schedule is refused."""
    for persistent in (False, True):
        options = {**WAYS[way], "persistent": persistent, "block_size": THREADS}
        monkeypatch.setitem(SCHEDULES, f"persistent={persistent}", ("onyx", options))
    graph, inputs = problem(name, GRAPHS.get(name, "rmat"), features)
    made = [prepared(f"persistent={one}", program(name), graph, features, device) for one in (False, True)]
    for engine in made:
        engine.reset(inputs)
    return made


@pytest.mark.parametrize(
    ("name", "way", "features"),
    [pytest.param(*case, marks=() if case in TODAY else (pytest.mark.full,)) for case in CASES],
)
def test_the_run_is_the_same(name, way, features, emulated, monkeypatch):
    launched, persistent = both(monkeypatch, name, way, features, emulated)
    for supersteps in (3, 2, 40):
        wanted, found = launched.run(supersteps), persistent.run(supersteps)
        assert found.settled == wanted.settled
        assert [one.direction for one in found.supersteps] == [one.direction for one in wanted.supersteps]
        for number, (one, other) in enumerate(zip(found.supersteps, wanted.supersteps, strict=True)):
            assert name not in EXACT or one == other, number
            assert abs(one.active - other.active) <= 1, number  # a vertex whose movement is about the tolerance
        for output in program(name).outputs:
            values, expected = persistent.values(output), launched.values(output)
            if name in EXACT:
                np.testing.assert_array_equal(values, expected)
            else:  # blocks add the parts of a sum in another order
                np.testing.assert_allclose(values, expected, rtol=1e-4, atol=1e-6)
        assert persistent.executor.run_in_progress.launches == bool(wanted.supersteps)
    for engine in (launched, persistent):
        engine.close()


@pytest.mark.full
def test_schedules_are_measured_side_by_side(emulated, monkeypatch, capsys):
    monkeypatch.setattr(gpu_side_by_side, "GRAPHS", {"small": lambda: grid(rows=6, columns=6)})
    monkeypatch.setattr(gpu_side_by_side, "compile_all", lambda *_: None)  # the emulator compiles otherwise
    arguments = ["--graphs", "small", "--algorithms", "bfs", "--ways", "launched,persistent", "--rounds", "1"]
    monkeypatch.setattr(sys, "argv", ["gpu_side_by_side", *arguments])
    assert gpu_side_by_side.main() == 0
    (row,) = [line.split() for line in capsys.readouterr().out.splitlines() if line.startswith("small ")]
    assert row[1] == "bfs"
    assert all(float(milliseconds) > 0 for milliseconds in row[-2:])
