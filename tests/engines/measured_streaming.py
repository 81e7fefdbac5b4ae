"""Run shortest paths on a stored graph, with edges of files, in this process, and print the memory that it took.

    python -m tests.engines.measured_streaming FOLDER SMALL_FOLDER ENGINE OPTIONS

OPTIONS: of the schedule, as JSON.

First everything runs on the small graph, so that code is compiled and loaded. The peak of the resident memory is then
measured from opening the graph to the end of the run. Standard output: JSON with ``before``, ``peak`` (bytes),
``bytes_needed`` and ``total`` (the sum of the distances).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from harness.algorithms.sssp import SSSP
from harness.contract import Device, Phases
from harness.graph.cache import open_stored
from harness.language import trace
from tests.engines.problems import new_engine

FEATURES, SUPERSTEPS = 3, 4


def status(key):
    """Return a size in bytes from the status of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith(f"{key}:"))


def solve(folder, name, options):
    """Open a graph and run on it; return the bytes that the engine needs, and the sum of the distances."""
    algorithm, graph = SSSP(), open_stored(Path(folder), name="stored", meta={})
    engine, device, program = new_engine(name, options), Device(threads=2), trace(algorithm)
    answer = engine.supports(program, graph, FEATURES, device)
    engine.prepare(program, graph, FEATURES, device, Phases())
    engine.reset(algorithm.inputs(graph, FEATURES))
    engine.run(SUPERSTEPS)
    found = engine.values(program.outputs[0])
    return answer.bytes_needed, float(found[np.isfinite(found)].sum(dtype=np.float64))


def main():
    """Measure, and print."""
    folder, small, name, given = sys.argv[1:]
    options = json.loads(given)
    solve(small, name, options)
    Path("/proc/self/clear_refs").write_text("5")  # sets the peak to the present size
    before = status("VmRSS")
    needed, total = solve(folder, name, options)
    measured = {"before": before, "peak": status("VmHWM"), "bytes_needed": needed, "total": total}
    sys.stdout.write(json.dumps(measured))


if __name__ == "__main__":
    main()
