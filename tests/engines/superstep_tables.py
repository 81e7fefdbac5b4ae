"""How engines on the CPU run small graphs: the supersteps, in the order in which they ran, for ``test_supersteps.py``.

``python -m tests.engines.superstep_tables`` writes ``supersteps.txt`` again; ``git diff`` then shows which supersteps
visit other edges. Values are levels, distances of small integers, or removed vertices, so that all counts are exact on
every machine. The kernels are those that other tests compile.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path
from typing import Any

from tests.engines.problems import ALGORITHMS, prepared, program, small

FILE = Path(__file__).with_name("supersteps.txt")
PULL, PUSH = {"direction": "pull", "change_driven": True}, {"direction": "push", "change_driven": True}
LISTS = {"warp_degree": 3, "block_degree": 9}
MOST = 60  # supersteps
# Engine, options, algorithm, features.
RUNS: dict[str, tuple[str, dict[str, Any], str, int]] = {
    "onyx pulls what changed, bfs": ("onyx", {**PULL, "dense_share": 0.5}, "bfs", 3),
    "onyx pulls what changed if little did, bfs": ("onyx", {**PULL, "dense_share": 0.05}, "bfs", 3),
    "onyx pulls what changed, always, bfs": ("onyx", {**PULL, "dense_share": 1.0}, "bfs", 3),
    "onyx pulls what changed, as estimated, bfs": ("onyx", PULL, "bfs", 3),
    "onyx pulls what changed if little did, unfolded, bfs": (
        "onyx", {**PULL, "dense_share": 0.05, "fold": False}, "bfs", 3,
    ),
    "onyx pulls what changed, kcore": ("onyx", {**PULL, "dense_share": 0.5}, "kcore", 1),
    "onyx pulls what changed, as estimated, kcore": ("onyx", PULL, "kcore", 1),
    "onyx pushes what changed, bfs": ("onyx", PUSH, "bfs", 3),
    "onyx pushes what changed, kcore": ("onyx", {**PUSH, "rebuild": 0}, "kcore", 1),
    "onyx pushes what changed, rebuilding every 2, kcore": ("onyx", {**PUSH, "rebuild": 2}, "kcore", 1),
    "onyx pulls or pushes, kcore": ("onyx", {"direction": "adaptive", "dense_share": 0.3}, "kcore", 1),
    "onyx never pulls, kcore": ("onyx", {"direction": "adaptive", "dense_share": 1.0}, "kcore", 1),
    "onyx, components": ("onyx", {}, "components", 4),
    "onyx pushes everything, components": ("onyx", {**PUSH, "change_driven": False, "fold": False}, "components", 1),
    "gunrock, sssp": ("gunrock", {}, "sssp", 7),
    "gunrock, bfs": ("gunrock", {}, "bfs", 33),
    "emogi, sssp": ("emogi", {}, "sssp", 7),
    "emogi, bfs": ("emogi", {}, "bfs", 4),
    "tigr, sssp": ("tigr", {"degree_bound": 3}, "sssp", 1),
    "simdx, bfs": ("simdx", LISTS, "bfs", 1),
    "simdx, sssp": ("simdx", LISTS, "sssp", 3),
    "scaph, bfs": ("scaph", {"window_mb": 0.0005}, "bfs", 7),
    "scaph reads every subgraph, bfs": ("scaph", {"window_mb": 0.0005, "values": "high"}, "bfs", 7),
    "scaph by value, bfs": ("scaph", {"window_mb": 0.0005, "order": "value", "counters": True}, "bfs", 7),
    "scaph by turns, bfs": ("scaph", {"window_mb": 0.0005, "order": "zigzag", "slots": 2, "low": "stream"}, "bfs", 7),
    "scaph twice each, bfs": ("scaph", {"window_mb": 0.0005, "rounds": 2, "order": "value", "slots": 3}, "bfs", 7),
}  # fmt: skip
GRAPHS = ("chain", "grid", "rmat", "scattered", "no edges")


def lines(run: str) -> Iterator[str]:
    """Return a line for each graph: how many supersteps in a row had these active sources, edges and direction."""
    name, options, algorithm, features = RUNS[run]
    chosen = ALGORITHMS[algorithm]
    for graph_name in GRAPHS:
        graph = chosen.prepare_graph(small(graph_name))
        inputs = chosen.inputs(graph, features)
        engine = prepared(name, options, program(algorithm), graph, features)
        engine.reset(inputs)
        found = engine.run(MOST)
        engine.close()
        steps = [f"{one.direction} {one.active}/{one.edges}{f' {one.choice.reason}' if one.choice else ''}"
                 for one in found.supersteps]  # fmt: skip
        counts = [(text, len(list(same))) for text, same in groupby(steps)]
        told = ", ".join(f"{count} x {text}" if count > 1 else text for text, count in counts)
        moved = found.transfers
        more = "" if moved is None else f"; {moved.visited} visited, {moved.moved}, {moved.subgraphs}, {moved.data}"
        yield f"    {graph_name} ({graph.num_vertices}/{graph.num_edges}): {told}; settled {found.settled}{more}"


def table() -> dict[str, list[str]]:
    """Return the lines of each run."""
    return {run: list(lines(run)) for run in RUNS}


def written() -> dict[str, list[str]]:
    """Return the table on the disk."""
    parts = FILE.read_text().strip("\n").split("\n\n")
    return {first: rest for first, *rest in (part.split("\n") for part in parts)}


if __name__ == "__main__":
    FILE.write_text("\n\n".join("\n".join([run, *found]) for run, found in table().items()) + "\n", encoding="utf-8")
