"""Loading a large edge list takes a few times the memory of the finished graph."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import harness

MEASURE = """
import sys
import numpy, scipy.sparse
from harness.graph import load_graph

def most_bytes():  # of this process alone: what getrusage tells begins with what its parent had
    return next(1024 * int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))

before = most_bytes()
graph = load_graph(sys.argv[1], duplicates="min")
graph.csc, graph.in_weights
print(graph.num_edges, (most_bytes() - before) / graph.nbytes)
"""


@pytest.mark.slow
def test_four_million_edges_take_less_than_three_times_the_graph(tmp_path):
    path = tmp_path / "large.txt"
    rng = np.random.default_rng(1)
    with path.open("wb") as file:
        for _ in range(4):  # a million lines of two numbers of six digits
            line = np.full((1_000_000, 14), ord("0"), dtype=np.uint8)
            line[:, [6, 13]] = ord("\t"), ord("\n")
            digits = rng.integers(0, 10, size=(1_000_000, 12), dtype=np.uint8)
            digits[:, [0, 6]] = 1 + digits[:, [0, 6]] % 5
            line[:, [*range(6), *range(7, 13)]] += digits
            file.write(line.tobytes())
    command = [sys.executable, "-c", MEASURE, str(path)]
    root = Path(harness.__file__).parents[1]
    result = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    edges, multiple = result.stdout.split()
    assert int(edges) > 3_960_000
    assert float(multiple) < 3
