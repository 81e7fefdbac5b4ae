"""Time the programs of EMOGI and Subway beside our styles: ``python -m tests.benchmarks.others_out_of_memory``.

Their programs are built elsewhere (docs/paper-emogi.md says how). One line for each graph and algorithm: milliseconds
of their runs and of ours, and the ratio of the fastest of each. Searches of EMOGI are sums over the sources of its
option ``-i`` that reach more than their neighbours, of one run each; ours run from the same ones. Subway runs from the
first of them only, and so does our engine beside it. Other times are medians of five runs; ours come after one that is
not timed. EMOGI and Subway print the time of a run; ours is that of the host. BFS must take as many supersteps in both.
In SSSP and components EMOGI reads values of the same pass, so that the numbers are only printed.
"""

from __future__ import annotations

import argparse
import os
import re
import statistics
import subprocess
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.sssp import SSSP
from harness.contract import Device, Engine
from harness.graph import Graph
from harness.language import Algorithm, trace
from tests.benchmarks.orders_on_gpu import opened
from tests.benchmarks.workloads import ready

ALGORITHMS: dict[str, type[Algorithm]] = {"bfs": BFS, "sssp": SSSP, "cc": Components}
ACCESS = {"aligned": 1, "chunk": 2}  # by our names; EMOGI's option -t
IN_PLACE = 2  # EMOGI's option -m: host memory that the GPU reads in place
MODES = {"sync": 1, "async": 1_000_000}  # rounds of packed rows
SLOTS = 2
RUNS = 5


def write_emogi(graph: Graph, path: Path) -> None:
    """Write the files of EMOGI: offsets, neighbours (8 bytes each) and weights (4 bytes), each with its length."""
    csr = graph.csr
    for end, values in (("col", csr.offsets), ("dst", csr.neighbours), ("val", weights_of(graph))):
        with path.with_name(f"{path.name}.{end}").open("wb") as file:
            file.write(np.array([len(values), 0], np.uint64).tobytes())
            file.write(values.astype(np.uint32 if end == "val" else np.uint64).tobytes())


def write_subway(graph: Graph, path: Path) -> None:
    """Write the files of Subway: the sizes, offsets, and neighbours, in the second file with weights."""
    csr = graph.csr
    head = (
        np.array([graph.num_vertices, graph.num_edges], np.uint32).tobytes()
        + csr.offsets[:-1].astype(np.uint32).tobytes()
    )
    neighbours = csr.neighbours.astype(np.uint32)
    path.with_suffix(".bcsr").write_bytes(head + neighbours.tobytes())
    path.with_suffix(".bwcsr").write_bytes(head + np.stack([neighbours, weights_of(graph)], axis=1).tobytes())


def weights_of(graph: Graph) -> Any:
    """Return whole weights of the edges, uint32[E]."""
    assert graph.weights is not None
    whole = graph.weights.astype(np.uint32)
    assert np.array_equal(whole, graph.weights), "their weights are whole numbers"
    return whole


def emogi(folder: Path, path: Path, name: str, access: str, count: int) -> tuple[list[float], list[int]]:
    """Return the seconds of EMOGI's runs, and their supersteps; of components, of one run, the median of several."""
    several = ["-i", str(count)] if name != "cc" else []
    command = [str(folder / f"{name}_32"), "-f", str(path), "-t", str(ACCESS[access]), "-m", str(IN_PLACE), *several]
    texts = [printed(command) for _ in range(1 if several else RUNS)]
    times = [float(one) / 1000 for text in texts for one in re.findall(r"[,l] time:?\s+([\d.]+) ms", text)]
    steps = [int(one) for one in re.findall(r"iterations?:?\s+(\d+)", texts[0])]
    return times if several else [statistics.median(times)], steps


def subway(folder: Path, path: Path, name: str, mode: str, source: int) -> float:
    """Return the median seconds of Subway's runs."""
    file = path.with_suffix(".bwcsr" if name == "sssp" else ".bcsr")
    given = ["--source", str(source)] if name != "cc" else []
    command, pattern = (
        [str(folder / f"{name}-{mode}"), "--input", str(file), *given],
        r"finished in ([\d.e+-]+) \((m?s)\)",
    )
    found = [re.findall(pattern, printed(command))[-1] for _ in range(RUNS)]
    return statistics.median(float(one) / (1000 if unit == "ms" else 1) for one, unit in found)


def printed(command: list[str]) -> str:
    """Return what a program prints; the driver loads all its kernels at its start, not in the run that is timed."""
    environment = {**os.environ, "CUDA_MODULE_LOADING": "EAGER"}
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=120, env=environment).stdout


def ours(
    engine: str, options: Mapping[str, Any], name: str, graph: Graph, sources: list[int], device: Device
) -> tuple[float, list[int]]:
    """Return the sum over sources of the median seconds of our runs, and their supersteps."""
    base = ALGORITHMS[name]()
    prepared = base.prepare_graph(graph)
    made = ready((engine, options), base, prepared, 1, device)
    assert isinstance(made, Engine), made
    seconds, steps = 0.0, []
    for source in sources if name != "cc" else [0]:
        algorithm = base if name == "cc" else replace(base, sources=str(source))  # type: ignore[type-var, call-arg]
        inputs, taken = algorithm.inputs(prepared, 1), []
        for _ in range(1 + RUNS):
            made.reset(inputs)
            began = time.perf_counter()
            done = made.run(trace(algorithm).max_supersteps)
            taken.append(time.perf_counter() - began)
        seconds += statistics.median(taken[1:])
        steps.append(len(done.supersteps))
    made.close()
    return seconds, steps


def beside_emogi(folder: Path, path: Path, text: str, graph: Graph, count: int, device: Device) -> list[int]:
    """Print the lines of EMOGI; return the sources of the searches."""
    sources: list[int] = []
    for name in ALGORITHMS:
        runs = {way: emogi(folder, path, name, way, count) for way in ACCESS}
        steps = next(iter(runs.values()))[1]
        taken = [at for at, number in enumerate(steps) if number > 2 or name == "cc"]
        sources = sources if name == "cc" else [at * (graph.num_vertices // count) for at in taken]
        theirs = {way: sum(times[at] for at in taken) for way, (times, _) in runs.items()}
        runs_of_ours = {way: ours("emogi", {"access": way}, name, graph, sources, device) for way in (*ACCESS, "tiled")}
        expected, taken_by_ours = [steps[at] for at in taken], runs_of_ours["aligned"][1]
        assert name != "bfs" or expected == taken_by_ours, (expected, taken_by_ours)
        found = {way: seconds for way, (seconds, _) in runs_of_ours.items()}
        print(
            line(f"{text} {name}: EMOGI", theirs, found, ACCESS),
            f"supersteps {expected}, ours {taken_by_ours}",
            flush=True,
        )
    return sources


def beside_subway(folder: Path, path: Path, text: str, graph: Graph, source: int, share: float, device: Device) -> None:
    """Print the lines of Subway.

    ``share``: of the edges, in slots or in a partition. Ours also has two buffers of packed rows, as large as a slot.
    """
    os.environ["MAX_PARTITION_EDGES"] = str(int(share * graph.num_edges))
    for name in ALGORITHMS:
        options = {
            "values": "low", "slots": SLOTS,
            "window_mb": share * graph.num_edges * (8 if name == "sssp" else 4) / SLOTS / 1e6,
        }  # fmt: skip
        theirs = {mode: subway(folder, path, name, mode, source) for mode in MODES}
        found = {
            mode: ours("scaph", {**options, "low_rounds": rounds}, name, graph, [source], device)[0]
            for mode, rounds in MODES.items()
        }
        print(line(f"{text} {name}: Subway", theirs, found, MODES), flush=True)


def line(problem: str, theirs: Mapping[str, float], found: Mapping[str, float], compared: Iterable[str]) -> str:
    """Return the line of a problem. The ratio is that of the fastest of ``compared`` to the fastest of theirs."""
    left, right = (", ".join(f"{way} {1000 * one:.2f}" for way, one in times.items()) for times in (theirs, found))
    ratio = min(found[way] for way in compared) / min(theirs.values())
    return f"{problem} {left}; ours {right}; ours over theirs {ratio:.2f};"


def main() -> None:
    """Read the arguments, run, print the lines."""
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.others_out_of_memory", description=__doc__)
    parser.add_argument("emogi", type=Path, help="folder of bfs_32, sssp_32 and cc_32")
    parser.add_argument("--subway", type=Path, help="folder of bfs-async, sssp-async, cc-async and the same with -sync")
    parser.add_argument("--graphs", nargs="+", default=["rmat:20"], help="as of tests.benchmarks.orders_on_gpu")
    parser.add_argument("--sources", type=int, default=16)
    parser.add_argument("--share", type=float, default=0.25, help="share of the edges in slots, or in a partition")
    given = parser.parse_args()
    device = Device("cuda")
    for text in given.graphs:
        graph = opened(text)
        if graph.weights is None:
            draws = np.random.default_rng(1).integers(1, 11, graph.num_edges)
            graph = graph.with_weights(draws.astype(np.float32))
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "graph.bel"
            write_emogi(graph, path)
            (source, *_) = beside_emogi(given.emogi, path, text, graph, given.sources, device)
            if given.subway:
                write_subway(graph, path)
                beside_subway(given.subway, path, text, graph, source, given.share, device)


if __name__ == "__main__":
    main()
