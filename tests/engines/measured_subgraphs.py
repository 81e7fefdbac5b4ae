"""Run shortest paths on a stored graph with subgraphs of a file in this process, and print the memory that it took.

    python -m tests.engines.measured_subgraphs FOLDER SMALL_FOLDER OPTIONS

As :mod:`tests.engines.measured_streaming`; OPTIONS: of the schedule, as JSON.
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
from tests.engines.measured_streaming import FEATURES, SUPERSTEPS, status
from tests.engines.problems import new_engine


def solve(folder, options):
    """Open a graph and run on it; return the bytes that the engine needs, and the sum of the distances."""
    algorithm, graph = SSSP(), open_stored(Path(folder), name="stored", meta={})
    engine, device, program = new_engine("scaph", options), Device(threads=2), trace(algorithm)
    answer = engine.supports(program, graph, FEATURES, device)
    engine.prepare(program, graph, FEATURES, device, Phases())
    engine.reset(algorithm.inputs(graph, FEATURES))
    engine.run(SUPERSTEPS)
    found = engine.values(program.outputs[0])
    return answer.bytes_needed, float(found[np.isfinite(found)].sum(dtype=np.float64))


def main():
    """Measure, and print."""
    folder, small, options = sys.argv[1:]
    solve(small, json.loads(options))
    Path("/proc/self/clear_refs").write_text("5")  # sets the peak to the present size
    before = status("VmRSS")
    needed, total = solve(folder, json.loads(options))
    told = {"before": before, "peak": status("VmHWM"), "bytes_needed": needed, "total": total}
    sys.stdout.write(json.dumps(told))


if __name__ == "__main__":
    main()
