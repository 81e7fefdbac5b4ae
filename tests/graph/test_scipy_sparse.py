"""Matrices that scipy.sparse.save_npz wrote."""

import numpy as np
import pytest
import scipy.sparse

from harness.graph import GraphError, load_graph

SQUARE = np.array([[0, 2.5, 0], [0, 0, 1], [3, 0, 0.5]], dtype=np.float32)
WIDE = np.array([[0, 2, 0, 1], [4, 0, 0, 0]], dtype=np.int16)


def edges(graph):
    return list(zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), graph.weights.tolist(), strict=True))


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
@pytest.mark.parametrize("kind", ["matrix", "array"])
def test_a_square_matrix_is_an_adjacency(tmp_path, form, kind):
    matrix = getattr(scipy.sparse, f"{form}_{kind}")(SQUARE)
    scipy.sparse.save_npz(tmp_path / "a.npz", matrix, compressed=form != "coo")
    graph = load_graph(tmp_path / "a.npz")
    assert (graph.name, graph.bipartite, graph.num_vertices) == ("a", None, 3)
    assert edges(graph) == [(0, 1, 2.5), (1, 2, 1), (2, 0, 3), (2, 2, 0.5)]


@pytest.mark.parametrize("form", ["csr", "csc", "coo"])
def test_a_rectangular_matrix_holds_ratings(tmp_path, form):
    scipy.sparse.save_npz(tmp_path / "r.npz", getattr(scipy.sparse, f"{form}_array")(WIDE))
    graph = load_graph(tmp_path / "r.npz")
    assert (graph.bipartite, graph.num_vertices) == ((2, 4), 6)
    assert edges(graph) == [(0, 3, 2), (0, 5, 1), (1, 2, 4)]


def test_a_matrix_of_bools_has_no_weights(tmp_path):
    scipy.sparse.save_npz(tmp_path / "a.npz", scipy.sparse.csr_array(SQUARE > 0))
    assert load_graph(tmp_path / "a.npz").weights is None


def test_other_forms_are_refused_by_name(tmp_path):
    scipy.sparse.save_npz(tmp_path / "a.npz", scipy.sparse.dia_array(SQUARE))
    with pytest.raises(GraphError, match=r"the sparse matrix has the form 'dia'; save it as one of csr, csc, coo"):
        load_graph(tmp_path / "a.npz")


COO = {
    "format": np.array(b"coo"), "shape": np.array([3, 3]), "row": np.array([0, 1]), "col": np.array([1, 2]),
    "data": np.array([1.0, 2.0]),
}  # fmt: skip
CSR = {
    "format": np.array(b"csr"), "shape": np.array([3, 3]), "indptr": np.array([0, 1, 2, 2]),
    "indices": np.array([1, 2]), "data": np.array([1.0, 2.0]),
}  # fmt: skip


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        (COO | {"row": np.array([0, 3])}, "a row is outside the shape 3 x 3"),
        (COO | {"col": np.array([-1, 2])}, "a column is outside the shape"),
        (COO | {"data": np.array([1.0])}, "differ in length"),
        (COO | {"data": np.array([1.0, np.nan])}, "weight of edge 1 is nan"),
        (COO | {"shape": np.array([2**50, 2**50])}, "announces .* vertices"),
        (COO | {"shape": np.array([3])}, "the shape is"),
        (COO | {"shape": np.array([3.0, 3.0])}, "shape is missing or not a list of numbers"),
        (COO | {"row": np.array([0.5, 1])}, "row is missing"),
        (CSR | {"indptr": np.array([0, 1, 2])}, "indptr does not rise from 0 to 2 in 4 steps"),
        (CSR | {"indptr": np.array([0, 2, 1, 2])}, "indptr does not rise"),
        (CSR | {"format": np.array([b"csr"])}, "has the form 'None'"),
        (CSR | {"more": np.array(b"bytes")}, "only numbers and text are read"),
    ],
)
def test_each_fault_is_one_error(tmp_path, arrays, message):
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(GraphError, match=message) as met:
        load_graph(tmp_path / "a.npz")
    assert str(met.value).startswith(str(tmp_path / "a.npz"))
