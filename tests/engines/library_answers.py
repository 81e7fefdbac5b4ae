"""What engines that call libraries answer for each algorithm: the bytes that they need, or the reason of the refusal.

``python -m tests.engines.library_answers`` writes ``library_answers.txt`` again.
"""

from __future__ import annotations

from pathlib import Path

from harness.conformance.subject import load
from harness.contract import Device, No, schedule_from_options
from tests.engines.plan_tables import PROBLEMS, graph_of, own_graph, traced
from tests.engines.problems import SPECS

FILE = Path(__file__).with_name("library_answers.txt")
LIBRARIES = (
    "scipy", "scipy_graph", "krylov", "networkit", "scikit_network", "networkx", "igraph", "graphblas", "libmf",
    "surprise",
)  # fmt: skip
WAYS = {  # of libraries with several; and one that does not solve the problem
    "krylov": ("cg", "bicgstab"), "networkit": ("pagerank", "spsp"), "networkx": ("pagerank",),
    "scipy_graph": ("breadth_first_order", "dijkstra"), "igraph": ("prpack",),
}  # fmt: skip


def answer(engine: str, algorithm: str, graph: str = "", device: str = "cpu", features: int = 0, **options: str) -> str:
    """Return the answer of an engine as text."""
    of_algorithm, _ = PROBLEMS[algorithm]
    posed = graph_of(graph, of_algorithm) if graph else own_graph(algorithm)
    made = load(SPECS[engine].factory)(schedule_from_options(SPECS[engine], options))  # needs no library
    found = made.supports(traced(algorithm), posed, features or of_algorithm, Device(device, threads=2))
    return found.reason if isinstance(found, No) else f"{found.bytes_needed:,} bytes, of the host {found.host_bytes:,}"


def lines(engine: str) -> list[str]:
    """Return the answers of an engine."""
    found = [f"{algorithm}: {answer(engine, algorithm)}" for algorithm in PROBLEMS]
    found += [
        f"{algorithm} on {graph}: {answer(engine, algorithm, graph)}"
        for algorithm, graph in (("pagerank", "no edges"), ("components", "scattered"), ("kcore", "hub"),
                                 ("als", "grid"), ("sgd_mf", "grid"), ("bfs", "scattered"))
    ]  # fmt: skip
    found += [f"{one} on a GPU: {answer(engine, one, device='cuda')}" for one in ("pagerank", "sgd_mf")]
    found += [f"{one}, 700 features: {answer(engine, one, features=700)}" for one in ("pagerank", "bfs")]
    for way in WAYS.get(engine, ()):
        found += [f"{one} by {way}: {answer(engine, one, way=way)}" for one in ("pagerank", "bfs", "sssp")]
    return found


def written() -> dict[str, list[str]]:
    """Return the table on the disk."""
    parts = FILE.read_text(encoding="utf-8").strip("\n").split("\n\n")
    return {first: rest for first, *rest in (part.split("\n") for part in parts)}


if __name__ == "__main__":
    answers = [(engine, lines(engine)) for engine in LIBRARIES]
    FILE.write_text("\n\n".join("\n".join([one, *found]) for one, found in answers) + "\n", encoding="utf-8")
