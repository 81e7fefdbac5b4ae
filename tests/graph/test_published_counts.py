"""Real files have the published counts."""

import json

import networkx as nx
import numpy as np
import pytest
import scipy.io
import scipy.sparse

from harness.graph import load_graph
from harness.graph.formats.uai import MarkovNetwork

# file, options, vertices, stored edges
TEXT_FILES = [
    ("wiki-Vote.txt", {}, 7115, 103689),
    ("ca-GrQc.txt", {}, 5242, 28980),
    ("facebook_combined.txt.gz", {"symmetrize": True}, 4039, 2 * 88234),
    ("rome99.gr", {"duplicates": "keep"}, 3353, 8870),
    ("PGPgiantcompo.graph", {}, 10680, 2 * 24316),
    ("4elt.graph", {}, 15606, 2 * 45878),
    ("ml-latest-small/ratings.csv", {}, 610 + 9724, 100836),
    ("movietweetings-100k/ratings.dat", {}, 16554 + 10506, 100000),
    ("mtx/karate.mtx", {}, 34, 2 * 78),
    ("mtx/west0067.mtx", {}, 67, 294),
    ("mtx/bcsstk13.mtx", {}, 2003, 2 * 42943 - 2003),
    ("mtx/Erdos971.mtx", {}, 472, 2 * 1314),
    ("mtx/GD97_b.mtx", {}, 47, 2 * 132),
]


@pytest.mark.parametrize(("file", "options", "vertices", "edges"), TEXT_FILES, ids=[entry[0] for entry in TEXT_FILES])
def test_text_files(data, file, options, vertices, edges):
    graph = load_graph(data / file, **options)
    graph.validate()
    assert (graph.num_vertices, graph.num_edges) == (vertices, edges)


ARCHIVES = [
    "as-caida20071105", "bitcoin-otc", "cit-HepTh", "cnr-2000", "cora", "dblp-2010", "delaunay_n16", "digits-knn10",
    "email-Enron", "luxembourg_osm", "moby-thesaurus", "world-highways",
]  # fmt: skip


@pytest.mark.parametrize("name", ARCHIVES)
def test_archives(data, name):
    graph = load_graph(data / f"{name}.npz")
    with np.load(data / f"{name}.npz") as archive:
        meta = json.loads(str(archive["meta"]))
        np.testing.assert_array_equal(graph.csr.offsets, archive["indptr"])
        np.testing.assert_array_equal(graph.csr.neighbours, archive["indices"])
        matrix = scipy.sparse.csr_array((np.ones(graph.num_edges), archive["indices"], archive["indptr"]))
    assert (graph.num_vertices, graph.num_edges) == (meta["V"], meta["arcs_stored"])
    assert graph.directed == meta["directed"]
    assert int((graph.csr.row_of_edge == graph.csr.neighbours).sum()) == meta["self_loops"]
    transposed = matrix.tocsc()
    np.testing.assert_array_equal(graph.csc.neighbours, transposed.indices)


@pytest.mark.parametrize("name", ["karate", "west0067", "bcsstk13", "bcspwr10", "Erdos971", "GD97_b"])
def test_matrices_are_as_scipy_reads_them(data, name):
    path = data / "mtx" / f"{name}.mtx"
    theirs = scipy.io.mmread(path, spmatrix=False).tocsr()
    graph = load_graph(path)
    np.testing.assert_array_equal(graph.csr.offsets, theirs.indptr)
    np.testing.assert_array_equal(graph.csr.neighbours, theirs.indices)
    if graph.weights is not None:
        np.testing.assert_array_equal(graph.weights, theirs.data.astype(np.float32))


def test_an_edge_list_is_as_networkx_reads_it(data):
    graph = load_graph(data / "wiki-Vote.txt")
    theirs = nx.read_edgelist(data / "wiki-Vote.txt", nodetype=int, create_using=nx.DiGraph)
    ids = graph.vertex_data["original_id"]
    assert set(zip(ids[graph.csr.row_of_edge], ids[graph.csr.neighbours], strict=True)) == set(theirs.edges)


# file, variables, factors, largest cardinality
NETWORKS = [
    ("Segmentation_11", 228, 845, 2), ("Grids_11", 100, 300, 2), ("Grids_15", 400, 1160, 2),
    ("ObjectDetection_11", 60, 225, 11), ("DBN_11", 40, 440, 2), ("pdb2fdn", 42, 94, 81),
]  # fmt: skip


@pytest.mark.parametrize(("name", "variables", "factors", "states"), NETWORKS)
def test_markov_networks(data, name, variables, factors, states):
    network = MarkovNetwork.from_graph(load_graph(data / "uai" / f"{name}.uai", format="uai"))
    network.graph.validate()
    assert (network.graph.num_vertices, network.unary.shape[1]) == (variables, states)
    assert network.graph.meta["factors"] == factors
    np.testing.assert_array_equal(network.pairwise[network.graph.reverse_edges], network.pairwise.transpose(0, 2, 1))
    csr, states = network.graph.csr, network.state_mask
    pairs = states[csr.row_of_edge][:, :, None] & states[csr.neighbours][:, None, :]
    assert not network.pairwise[~pairs].any()
    assert network.unary[network.state_mask].min() >= 0
    assert not network.unary[~network.state_mask].any()
