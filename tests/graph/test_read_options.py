"""Every format of directed edges with every option, by hand: parallel edges, reverses, a self-loop, metadata."""

from __future__ import annotations

import inspect
import json

import numpy as np
import pytest
import scipy.sparse

from harness.graph import GraphError, load_graph
from harness.graph.catalogue.files import file

# Source, destination, weight: two parallel edges, a reverse of them, and a self-loop.
EDGES = [(0, 1, 5.0), (2, 2, 4.0), (1, 0, 7.0), (0, 1, 3.0), (0, 2, 1.0)]


def lines(row, first=0):
    return "".join(row.format(u + first, v + first, w) + "\n" for u, v, w in EDGES)


def numpy_archive(path):
    rows, columns, weights = zip(*sorted(EDGES, key=lambda edge: edge[0]), strict=True)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=3))])
    np.savez(path, indptr=offsets, indices=np.array(columns), weight=np.array(weights))


def scipy_archive(path):
    rows, columns, weights = zip(*EDGES, strict=True)
    scipy.sparse.save_npz(path, scipy.sparse.coo_array((weights, (rows, columns)), shape=(3, 3)))


TEXTS = {
    "edge_list": ("g.txt", "# source destination weight\n" + lines("{}\t{}\t{}")),
    "csv": ("g.csv", "source,destination,weight\n" + lines("{},{},{}")),
    "dimacs": ("g.gr", "p sp 3 5\n" + lines("a {} {} {}", first=1)),
    "matrix_market": ("g.mtx", "%%MatrixMarket matrix coordinate real general\n3 3 5\n" + lines("{} {} {}", first=1)),
}
ARCHIVES = {"npz": numpy_archive, "scipy_sparse": scipy_archive}
FORMATS = [*TEXTS, *ARCHIVES]


@pytest.fixture
def written(tmp_path, write):
    """Return a function that writes the edges in a format."""

    def to_file(kind):
        if kind in TEXTS:
            return write(*TEXTS[kind])
        ARCHIVES[kind](tmp_path / "g.npz")
        return tmp_path / "g.npz"

    return to_file


def expected(duplicates, symmetrize):
    """Return the sorted edges, of which each is stored in both directions if they are symmetrized."""
    every = [*EDGES, *((v, u, w) for u, v, w in EDGES if u != v)] if symmetrize else EDGES
    if duplicates == "keep":
        return sorted(every)
    merged = {}
    for u, v, w in every:
        merged.setdefault((u, v), []).append(w)
    return sorted((u, v, {"sum": sum, "min": min}[duplicates](weights)) for (u, v), weights in merged.items())


def edges_of(graph):
    rows, columns = graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist()
    return sorted(zip(rows, columns, graph.weights.tolist(), strict=True))


@pytest.mark.parametrize("duplicates", ["keep", "sum", "min"])
@pytest.mark.parametrize("kind", FORMATS)
def test_edges_are_merged_and_reversed_on_request(written, kind, duplicates):
    path = written(kind)
    for symmetrize in (False, True):
        graph = load_graph(path, duplicates=duplicates, symmetrize=symmetrize, name="named")
        graph.validate()
        assert edges_of(graph) == expected(duplicates, symmetrize)
        assert (graph.name, graph.num_vertices, graph.directed) == ("named", 3, not symmetrize)
    assert load_graph(path, duplicates=duplicates).name == "g"
    assert edges_of(load_graph(path, duplicates=duplicates)) == expected(duplicates, symmetrize=False)


@pytest.mark.parametrize("kind", FORMATS)
def test_parallel_edges_are_refused_unless_told_otherwise(written, kind):
    path = written(kind)
    for read in (load_graph, lambda path: file(str(path))):
        with pytest.raises(GraphError, match=r"edge 0 -> 1 is given more than once \(1 repeated edges\)"):
            read(path)


UAI = "MARKOV\n2\n2 2\n2\n1 0\n2 0 1\n2 0.5 0.5\n4 1 2 3 4\n"
META = {
    "edge_list": {"origin": "g.txt", "format": "edge_list"}, "csv": {"origin": "g.csv", "format": "edge_list"},
    "dimacs": {"origin": "g.gr", "format": "dimacs"}, "npz": {"format": "npz"},
    "matrix_market": {"origin": "g.mtx", "format": "matrix_market", "field": "real", "symmetry": "general"},
    "scipy_sparse": {"origin": "g.npz", "format": "scipy_sparse"},
}  # fmt: skip


@pytest.mark.parametrize("kind", FORMATS)
def test_the_metadata_name_the_file_and_its_format(written, write, kind):
    assert load_graph(written(kind), duplicates="min").meta == META[kind]
    assert load_graph(write("n.uai", UAI)).meta == {"origin": "n.uai", "format": "uai", "factors": 2}


@pytest.mark.parametrize("kind", FORMATS)
def test_a_graph_of_the_catalogue_is_that_of_the_file(written, kind):
    """The cache distinguishes the options."""
    path = written(kind)
    for options in ({"duplicates": "keep"}, {"duplicates": "sum"}, {"duplicates": "keep", "symmetrize": True}):
        found, read = file(str(path), **options), load_graph(path, **options)
        assert edges_of(found) == edges_of(read) == expected(options["duplicates"], options.get("symmetrize", False))
        assert (found.directed, found.meta["format"], found.name) == (read.directed, read.meta["format"], read.name)


def test_the_catalogue_has_the_options_of_the_loader():
    own, loaders = (inspect.signature(one).parameters for one in (file, load_graph))
    assert {name: own[name].default for name in own if name != "path"} == {
        name: loaders[name].default for name in loaders if name not in ("path", "name")
    }


@pytest.mark.parametrize("duplicates", ["keep", "sum", "min"])
def test_parallel_edges_of_metis_are_merged(write, duplicates):
    """The edge of the vertices 1 and 2 is listed twice at each of them, with the weights 5 and 3."""
    graph = load_graph(write("m.graph", "3 3 1\n2 5 2 3 3 9\n1 5 1 3\n1 9\n"), duplicates=duplicates)
    graph.validate()
    pairs = {"keep": [5.0, 3.0], "sum": [8.0], "min": [3.0]}[duplicates]
    wanted = [(0, 2, 9.0), (2, 0, 9.0), *((u, 1 - u, w) for w in pairs for u in (0, 1))]
    assert edges_of(graph) == sorted(wanted)
    assert (graph.directed, graph.name, graph.meta) == (False, "m", {"origin": "m.graph", "format": "metis"})


@pytest.mark.parametrize(
    ("text", "line"), [("2 1\n2\n1\n1\n", 4), ("2 1\n2\n1\n\n\n% c\n1\n", 7), ("2 1\n% c\n2\n1\n\n1\n2\n", 6)]
)
def test_the_first_line_beyond_the_vertices_is_named(write, text, line):
    with pytest.raises(GraphError, match=rf"m\.graph:{line}: there are more lines than the 2 vertices"):
        load_graph(write("m.graph", text))


NAMES = ("indptr", "indices", "weight", "meta", "labels", "feat_indptr", "feat_indices", "feat_shape")


@pytest.mark.parametrize(("vertices", "edges"), [(3, 4), (4, 3), (3, 2), (2, 5)])
def test_arrays_of_the_structure_are_no_data_whatever_their_lengths(tmp_path, vertices, edges):
    """There are as many offsets as edges, or as many shapes as vertices or edges."""
    offsets = np.array([0] * vertices + [edges])
    arrays = {
        "indptr": offsets, "indices": np.arange(edges) % vertices, "weight": np.arange(edges), "meta": json.dumps({}),
        "labels": np.arange(vertices), "feat_indptr": np.array([0] * vertices + [2]), "feat_indices": np.array([0, 1]),
        "feat_shape": np.array([vertices, 3]),
    }  # fmt: skip
    assert tuple(arrays) == NAMES
    np.savez(tmp_path / "g.npz", **arrays)
    graph = load_graph(tmp_path / "g.npz", duplicates="keep")
    assert graph.edge_data == {}
    assert list(graph.vertex_data) == ["features"]
    assert graph.vertex_data["features"].tolist() == [[0, 0, 0]] * (vertices - 1) + [[1, 1, 0]]
    assert graph.csr.degrees.tolist() == [0] * (vertices - 1) + [edges]


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint8, np.uint32, np.uint64])
def test_offsets_of_every_type_must_rise(tmp_path, dtype):
    """Differences of unsigned numbers are never negative."""
    for offsets, rises in (([0, 2, 2, 4], True), ([0, 3, 2, 4], False)):
        np.savez(tmp_path / "g.npz", indptr=np.array(offsets, dtype), indices=np.array([1, 2, 0, 1], dtype))
        if rises:
            graph = load_graph(tmp_path / "g.npz")
            assert graph.csr.offsets.tolist() == offsets
            assert (graph.csr.offsets.dtype, graph.csr.neighbours.dtype) == (np.int64, np.uint32)
        else:
            with pytest.raises(GraphError, match="indptr runs from 0 to 4; it must rise"):
                load_graph(tmp_path / "g.npz")
