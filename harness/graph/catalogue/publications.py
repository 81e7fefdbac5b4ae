"""The eight graphs of the thesis, at their places of publication. A graph is fetched at its first use."""

from __future__ import annotations

from dataclasses import dataclass

from harness.graph.cache import cached
from harness.graph.catalogue.downloads import extracted, fetch
from harness.graph.errors import GraphError
from harness.graph.formats import load_graph
from harness.graph.graph import Graph
from harness.graph.named import caches_itself, source_digest

SUITESPARSE = "https://sparse.tamu.edu/MM"
SNAP = "https://snap.stanford.edu/data"


@dataclass(frozen=True)
class Publication:
    """The place of publication of a graph: a .tar.gz that contains `member`, or a graph file if `member` is None."""

    url: str
    member: str | None
    help: str
    symmetrize: bool = False
    sha256: str | None = None


def _suitesparse(group: str, name: str, text: str) -> Publication:
    return Publication(f"{SUITESPARSE}/{group}/{name}.tar.gz", f"{name}.mtx", f"{text} (SuiteSparse {group}/{name})")


PUBLICATIONS = {
    "cit_patents": _suitesparse("SNAP", "cit-Patents", "citations among US patents: 3.8 M vertices, 16.5 M edges"),
    "road_central": _suitesparse(
        "DIMACS10", "road_central", "roads of the central USA: 14.1 M vertices, 16.9 M undirected edges"
    ),
    "road_usa": _suitesparse("DIMACS10", "road_usa", "roads of the USA: 23.9 M vertices, 28.9 M undirected edges"),
    "delaunay_n24": _suitesparse(
        "DIMACS10", "delaunay_n24", "Delaunay triangulation: 16.8 M vertices, 50.3 M undirected edges"
    ),
    "hollywood_2009": _suitesparse(
        "LAW", "hollywood-2009", "actors in films together: 1.1 M vertices, 56.4 M undirected edges"
    ),
    "soc_live_journal1": _suitesparse(
        "SNAP", "soc-LiveJournal1", "LiveJournal friendships: 4.8 M vertices, 69.0 M edges"
    ),
    "kron_g500_l21": _suitesparse(
        "DIMACS10", "kron_g500-logn21", "Graph500 Kronecker graph: 2.1 M vertices, 91.0 M undirected edges"
    ),
    "soc_orkut": Publication(
        f"{SNAP}/bigdata/communities/com-orkut.ungraph.txt.gz",
        None,
        "Orkut friendships (SNAP com-Orkut): 3.1 M vertices, 117.2 M undirected edges; the thesis: 106.3 M",
        symmetrize=True,
    ),
}


@caches_itself
def published(graph: str) -> Graph:
    """Return one of PUBLICATIONS, fetched into the cache at its first use. Raises GraphError if it is unavailable."""
    if graph not in PUBLICATIONS:
        raise GraphError(f"published graph {graph!r} is unknown; choose one of {', '.join(PUBLICATIONS)}")
    return open_publication(graph, PUBLICATIONS[graph])


def open_publication(name: str, publication: Publication) -> Graph:
    """Return the graph of `publication`; the file is fetched once and parsed once per content."""
    suffix = ".tar.gz" if publication.member is not None else ".txt.gz"
    path, digest = fetch(publication.url, name + suffix, publication.sha256)

    def build() -> Graph:
        if publication.member is None:
            return load_graph(path, name=name, symmetrize=publication.symmetrize)
        with extracted(path, publication.member) as file:
            return load_graph(file, name=name, symmetrize=publication.symmetrize)

    key = ["published", name, digest, publication.member, publication.symmetrize, source_digest(load_graph)]
    return cached(key, build)
