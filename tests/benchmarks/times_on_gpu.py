"""Exact times of supersteps of persistent kernels of Onyx, and of the host's part of a run (an experiment)."""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import numpy as np

from harness.contract import Device, Phases
from harness.language import trace
from harness.lowering.cuda import persistent, persistent_executor, run_state
from tests.benchmarks.choices_on_gpu import GRAPHS, made
from tests.benchmarks.plans_on_gpu import ALGORITHMS

HEADER = Path(run_state.__file__).with_name("run.cuh")
NOW = '__device__ inline Count now() { Count t; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(t)); return t; }\n'
CLOCK: dict[str, float] = {}


def patch():
    """Record the time of the end of a superstep in the place of the edges of moved sources."""
    text = HEADER.read_text()
    if "globaltimer" not in text:
        text = text.replace("// Statistics of a superstep;", NOW + "// Statistics of a superstep;")
        text = text.replace("run->dense, sent, run->rebuild_edges}", "run->dense, now(), run->rebuild_edges}")
        HEADER.write_text(text)
    start = "    if (blockIdx.x == 0 && threadIdx.x == 0) past[1000].sent = now();\n    while (!run->over()) {{"
    persistent.LOOP = persistent.LOOP.replace("    while (!run->over()) {{", start)
    call, fields = persistent_executor.PersistentLoop.__call__, run_state.Look.fields

    def timed(self, *given):
        CLOCK["launch"] = time.perf_counter()
        call(self, *given)
        CLOCK["launched"] = time.perf_counter()

    def found(self):
        CLOCK["done"] = time.perf_counter()
        return fields(self)

    persistent_executor.PersistentLoop.__call__, run_state.Look.fields = timed, found


def main() -> None:
    """Read the arguments, run, print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("graph", choices=sorted(GRAPHS))
    parser.add_argument("problems", nargs="+")
    parser.add_argument("--plans", nargs="+")
    parser.add_argument("--between", nargs="+", default=["nothing"], choices=["nothing", "diff", "sleep"])
    given = parser.parse_args()
    patch()
    graph, device = GRAPHS[given.graph](), Device("cuda")
    for problem in given.problems:
        name, _, features = problem.partition(":")
        algorithm = ALGORITHMS[name]()
        known = algorithm.prepare_graph(graph)
        program, inputs = trace(algorithm), algorithm.inputs(known, int(features))
        for plan in given.plans:
            engine = made(plan)
            engine = engine.on(device) if not hasattr(engine, "executor_type") else engine
            engine.prepare(program, known, int(features), device, Phases())
            for between in given.between:
                rows, host = [], []
                for turn in range(12):
                    engine.reset(inputs)
                    if between == "diff":
                        np.diff(known.csr.offsets).sum()
                    elif between == "sleep":
                        time.sleep(0.004)
                    began = time.perf_counter()
                    done = engine.run(program.max_supersteps)
                    end = time.perf_counter()
                    past = engine.executor.current.past[:1001].get()
                    count = len(done.supersteps)
                    stamps = [past[1000, 3], *past[:count, 3]]
                    if turn > 1:
                        rows.append(np.diff(stamps) / 1e3)
                        marks = [began, CLOCK["launch"], CLOCK["launched"], CLOCK["done"], end]
                        host.append([*(1e6 * np.diff(marks)), 1e6 * (end - began)])
                times = np.median(np.array(rows), axis=0)
                before, launch, wait, after, total = np.median(np.array(host), axis=0)
                print(
                    f"{problem} {plan.partition('=')[0]} {between}: {total:.0f} us; host before {before:.0f} launch "
                    f"{launch:.0f} wait {wait:.0f} after {after:.0f}; device {times.sum():.0f}:",
                    " ".join(
                        f"{one.direction[0]}{t:.0f}({one.active},{one.edges})"
                        for t, one in zip(times[:16], done.supersteps, strict=False)
                    ),
                    flush=True,
                )
            engine.close()


if __name__ == "__main__":
    KEPT = HEADER.read_text()
    try:
        main()
    finally:
        HEADER.write_text(KEPT)
