"""MatrixMarket files, compared with SciPy's reader."""

import numpy as np
import pytest
import scipy.io
import scipy.sparse

from harness.graph import GraphError, load_graph

MATRIX = np.array([[0, 2, 0], [-3.5, 0, 1], [0, 0, 4]])


def dense(graph):
    weights = np.ones(graph.num_edges) if graph.weights is None else graph.weights
    shape = (graph.num_vertices, graph.num_vertices)
    return scipy.sparse.csr_array((weights, graph.csr.neighbours, graph.csr.offsets), shape=shape).toarray()


@pytest.mark.parametrize(
    ("field", "symmetry"),
    [
        *((field, symmetry) for field in ("real", "integer", "pattern") for symmetry in ("general", "symmetric")),
        ("real", "skew-symmetric"),
        ("integer", "skew-symmetric"),
    ],
)
def test_every_kind_reads_as_scipy_reads_it(tmp_path, field, symmetry):
    matrix = MATRIX if field == "real" else np.trunc(MATRIX).astype(int)
    if field == "pattern":
        matrix = (matrix != 0).astype(int)
    if symmetry == "symmetric":
        matrix = matrix + matrix.T
    elif symmetry == "skew-symmetric":
        matrix = matrix - matrix.T
    path = tmp_path / "m.mtx"
    scipy.io.mmwrite(path, scipy.sparse.coo_array(matrix), field=field, symmetry=symmetry, comment="a comment")
    graph = load_graph(path)
    graph.validate()
    np.testing.assert_array_equal(dense(graph), scipy.io.mmread(path, spmatrix=False).toarray())
    assert (graph.weights is None) == (field == "pattern")
    assert graph.directed == (symmetry != "symmetric")


def test_a_real_hermitian_matrix_is_symmetric(write):
    graph = load_graph(write("m.mtx", "%%MatrixMarket matrix coordinate real hermitian\n2 2 1\n2 1 3\n"))
    np.testing.assert_array_equal(dense(graph), [[0, 3], [3, 0]])


@pytest.mark.parametrize(("field", "value"), [("pattern", ""), ("integer", " 1"), ("real", " 1")])
def test_entries_of_the_fewest_characters_fit_into_the_file(write, field, value):
    entries = [f"{i} {j}{value}\n" for i in range(1, 10) for j in range(1, 10)]
    head = f"%%MatrixMarket matrix coordinate {field} general\n9 9 81\n"
    assert load_graph(write("m.mtx", head + "".join(entries))).num_edges == 81


@pytest.mark.parametrize(("rows", "columns"), [(2, 3), (3, 2)])
def test_a_rectangular_matrix_has_a_vertex_for_each_row_and_column(write, rows, columns):
    head = f"%%MatrixMarket matrix coordinate pattern general\n{rows} {columns} 1\n"
    graph = load_graph(write("m.mtx", f"{head}{rows} {columns}\n"))
    assert (graph.num_vertices, graph.bipartite) == (5, (rows, columns))
    assert (graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist()) == ([rows - 1], [4])


def test_a_rectangular_matrix_is_bipartite(write):
    graph = load_graph(write("m.mtx.gz", "%%MatrixMarket matrix coordinate real general\n2 3 2\n1 3 5\n2 1 6\n"))
    graph.validate()
    assert graph.bipartite == (2, 3)
    assert graph.csr.neighbours.tolist() == [4, 2]


@pytest.mark.parametrize(("symmetry", "symmetric"), [("general", False), ("symmetric", True)])
def test_a_matrix_is_symmetrized_on_request(write, symmetry, symmetric):
    path = write("m.mtx", f"%%MatrixMarket matrix coordinate real {symmetry}\n3 3 2\n2 1 5\n3 3 6\n")
    graph = load_graph(path)
    np.testing.assert_array_equal(dense(graph), [[0, 5 if symmetric else 0, 0], [5, 0, 0], [0, 0, 6]])
    assert graph.directed is not symmetric
    both = load_graph(path, symmetrize=True, name="both")
    np.testing.assert_array_equal(dense(both), [[0, 5, 0], [5, 0, 0], [0, 0, 6]])
    assert not both.directed


def test_upper_case_and_an_empty_matrix_are_read(write):
    assert load_graph(write("m.mtx", "%%MatrixMarket MATRIX Coordinate REAL General\n3 3 0\n")).num_vertices == 3


@pytest.mark.parametrize(
    ("head", "rest", "message"),
    [
        ("real general", "2 2 2\n1 1 3\n", r"m\.mtx:2: the header announces 2 entries, the file has 1"),
        ("real general", "2 2 1\n1 1 3\n2 2 3\n", r":2: the header announces 1 entries, the file has 2"),
        ("real general", "2 2 1\n%\n1 3 3\n", r":4: column is '3', outside 1..2"),
        ("real general", "2 2 1\n0 1 3\n", r":3: row is '0', outside 1..2"),
        ("real general", "2 2 1\n1 1\n", r":3: 2 fields instead of 3"),
        ("real general", "2 2 1\n1 1 3 4\n", r":3: 4 fields instead of 3"),
        ("pattern general", "2 2 1\n1 1 3\n", r":3: 3 fields instead of 2; a pattern entry must be: row column"),
        ("real general", "2 2 1\n1 1 nan\n", r":3: value is 'nan', not a finite"),
        ("real general", "2 2 1\n1 1 -inf\n", r":3: value is '-inf', not a finite"),
        ("real general", "2 2 1\n1 1 3x\n", r":3: value is '3x', not a number"),
        ("real general", "2 2 9000000000\n1 1 3\n", r":2: the header announces 9000000000 entries, more than fit"),
        ("real general", "9000000000 9000000000 1\n1 1 3\n", r":2: the header announces 18000000000 vertices"),
        ("real general", "2 9000000000 1\n1 1 3\n", r":2: the header announces 9000000002 vertices"),
        ("real general", "9000000000 2 1\n1 1 3\n", r":2: the header announces 9000000002 vertices"),
        ("real general", "2 2\n1 1 3\n", r":2: the size line is '2 2'"),
        ("real general", "2 -2 1\n1 1 3\n", r":2: the size line is"),
        ("complex general", "2 2 1\n1 1 3 0\n", r":1: a complex general matrix.*weights are real"),
        ("complex hermitian", "2 2 1\n1 1 3 0\n", r":1: a complex hermitian"),
        ("real symmetric", "2 3 1\n2 1 3\n", r":2: a symmetric matrix of 2 x 3 is not square"),
        ("real skew-symmetric", "2 2 1\n1 1 3\n", r"entry 1 of a skew-symmetric matrix is on the diagonal"),
        ("pattern skew-symmetric", "2 2 1\n2 1\n", r":1: a pattern has no signs"),
    ],
)
def test_each_fault_is_one_error_with_its_line(write, head, rest, message):
    with pytest.raises(GraphError, match=message):
        load_graph(write("m.mtx", f"%%MatrixMarket matrix coordinate {head}\n{rest}"))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 1 3\n", r":1: this is not a MatrixMarket matrix; the first line must be"),
        ("%%MatrixMarket matrix array real general\n1 1\n3\n", r":1: the matrix is stored as array"),
        ("%%MatrixMarket matrix coordinate real general\n", r"the size line is ''"),
    ],
)
def test_a_wrong_head_is_named(write, text, message):
    with pytest.raises(GraphError, match=message):
        load_graph(write("m.mtx", text))
