"""The jobs that walk a graph: levels, distances, components, a core."""

from __future__ import annotations

from typing import Any

import networkit as nk
import networkx as nx
import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csgraph
from sknetwork.path import get_distances
from sknetwork.topology import get_core_decomposition

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.sssp import SSSP
from harness.graph import Graph
from harness.language.validation import relative_error
from tests.benchmarks.peer_forms import (
    all_distances,
    each_distance,
    from_dicts,
    levels_from,
    matrix_of,
    networkit_of,
    pairs_of,
)
from tests.benchmarks.peer_jobs import MOST_ARCS_OF_NETWORKX, Job, Peer, differing

Array = NDArray[Any]


def levels(graph: Graph, features: int) -> Job:
    algorithm = BFS()
    inputs, matrix = algorithm.inputs(graph, features), matrix_of(graph, weighted=False)
    network = networkit_of(graph, weighted=False)
    sources = inputs.properties["source"].argmin(axis=0)
    peers = [
        Peer(
            "scipy breadth_first_order, levels from its predecessors",
            lambda: np.stack([levels_from(matrix, s) for s in sources], axis=1),
        ),
        Peer(
            "networkit SPSP, sources in parallel",
            lambda: nk.distance.SPSP(network, sources.tolist()).run(),
            all_distances,
        ),
        _one_by_one("BFS", network, sources),
        Peer(
            "scikit-network get_distances",
            lambda: np.stack([get_distances(matrix, source=int(s)) for s in sources], axis=1),
            lambda found: np.where(found < 0, np.inf, found.astype(np.float64)),
        ),
    ]
    if graph.num_edges <= MOST_ARCS_OF_NETWORKX:
        wires = nx.DiGraph(pairs_of(graph))
        wires.add_nodes_from(range(graph.num_vertices))
        peers.append(
            Peer(
                "networkx single_source_shortest_path_length",
                lambda: [dict(nx.single_source_shortest_path_length(wires, int(s))) for s in sources],
                lambda found: from_dicts(found, graph.num_vertices),
            )
        )
    return Job(
        f"BFS, {features} sources", algorithm, graph, inputs, features, "level",
        lambda: algorithm.settled_answer(graph, features).values["level"], differing, 0.0, peers,
    )  # fmt: skip


def distances(graph: Graph, features: int) -> Job:
    algorithm = SSSP()
    inputs, matrix = algorithm.inputs(graph, features), matrix_of(graph, weighted=True)
    network = networkit_of(graph, weighted=True)
    sources = inputs.properties["source"].argmin(axis=0)
    peers = [
        Peer("scipy dijkstra", lambda: csgraph.dijkstra(matrix, indices=sources), lambda found: found.T),
        _spsp(network, sources),
        _one_by_one("Dijkstra", network, sources),
    ]  # fmt: skip
    if graph.num_edges <= MOST_ARCS_OF_NETWORKX:
        wires = nx.DiGraph()
        wires.add_nodes_from(range(graph.num_vertices))
        wires.add_weighted_edges_from(
            (u, v, w) for (u, v), w in zip(pairs_of(graph), graph.weights.tolist(), strict=True)
        )
        peers.append(
            Peer(
                "networkx dijkstra",
                lambda: [nx.single_source_dijkstra_path_length(wires, int(s)) for s in sources],
                lambda found: from_dicts(found, graph.num_vertices),
            )
        )
    return Job(
        f"SSSP, {features} sources", algorithm, graph, inputs, features, "distance",
        lambda: algorithm.settled_answer(graph, features).values["distance"],
        lambda a, b: float(relative_error(a, b).max()), 1e-5, peers,
    )  # fmt: skip


def components(graph: Graph) -> Job:
    algorithm = Components()
    prepared = algorithm.prepare_graph(graph)
    matrix, network = matrix_of(graph, weighted=False), networkit_of(prepared, weighted=False)

    def least(component: Array) -> Array:
        _, first, member = np.unique(component, return_index=True, return_inverse=True)
        return np.asarray(first[member.reshape(-1)])

    def networkit(kind: Any) -> Any:
        return kind(network).run()

    def labels(found: Any) -> Array:
        component = np.empty(graph.num_vertices, np.int64)
        for number, members in enumerate(found.getComponents()):
            component[members] = number
        return least(component)

    peers = [
        Peer(
            "scipy connected_components, weak",
            lambda: csgraph.connected_components(matrix, directed=graph.directed, connection="weak")[1], least,
        ),
        Peer(
            "networkit ParallelConnectedComponents",
            lambda: networkit(nk.components.ParallelConnectedComponents), labels,
        ),
        Peer("networkit ConnectedComponents", lambda: networkit(nk.components.ConnectedComponents), labels),
    ]  # fmt: skip
    return Job(
        "connected components (weak)", algorithm, prepared, algorithm.inputs(prepared, 1), 1, "label",
        lambda: algorithm.settled_answer(prepared, 1).values["label"], differing, 0.0, peers,
    )  # fmt: skip


def core(graph: Graph, core: int) -> Job:
    algorithm = KCore(core=core)
    prepared = algorithm.prepare_graph(graph)
    matrix, network = matrix_of(prepared, weighted=False), networkit_of(prepared, weighted=False)

    def numbers(found: Any) -> Array:
        return np.asarray(found.scores()) >= core

    def in_core(found: Any) -> Array:
        return np.asarray(found) >= core

    peers = [
        Peer("networkit CoreDecomposition", lambda: nk.centrality.CoreDecomposition(network).run(), numbers),
        Peer("scikit-network get_core_decomposition", lambda: get_core_decomposition(matrix), in_core),
    ]
    return Job(
        f"k-core, core {core}", algorithm, prepared, algorithm.inputs(prepared, 1), 1, "alive",
        lambda: algorithm.settled_answer(prepared, 1).values["alive"], differing, 0.0, peers,
        note="the peers find the core number of every vertex, which is more than was asked for",
    )  # fmt: skip


def _spsp(network: Any, sources: Array) -> Peer:
    return Peer(
        "networkit SPSP, sources in parallel", lambda: nk.distance.SPSP(network, sources.tolist()).run(), all_distances
    )


def _one_by_one(kind: str, network: Any, sources: Array) -> Peer:
    algorithm = getattr(nk.distance, kind)
    return Peer(
        f"networkit {kind}, one source after the other",
        lambda: [algorithm(network, int(source), False).run() for source in sources], each_distance,
    )  # fmt: skip
