"""SNAP edge lists."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.graph import Graph, GraphError, load_graph
from harness.graph.formats import source
from harness.graph.formats.rows import Edges


def edges_of(graph):
    return list(zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), strict=True))


def test_ids_with_gaps_are_compacted_and_kept(write):
    graph = load_graph(write("a.txt", "# a comment\n# another\n30\t10\n10  20\r\n\n20\t4000000000\n"))
    graph.validate()
    assert graph.vertex_data["original_id"].tolist() == [10, 20, 30, 4000000000]
    assert edges_of(graph) == [(0, 1), (1, 3), (2, 0)]
    assert (graph.name, graph.directed, graph.weights) == ("a", True, None)


def test_ids_without_gaps_stay(write):
    graph = load_graph(write("a.txt.gz", "2 0\n0 1"))
    assert edges_of(graph) == [(0, 1), (2, 0)]
    assert "original_id" not in graph.vertex_data


def test_a_third_column_is_the_weight(write):
    graph = load_graph(write("a.tsv", "1 0 2.5\n0 1 -1e-3\n"))
    np.testing.assert_allclose(graph.weights, [-1e-3, 2.5], rtol=1e-6)


@pytest.mark.parametrize(
    "text", ["0,1,2.5\n1,0,3\n", "src, dst, weight\n0, 1, 2.5\n1, 0, 3\n", "from to w\n0 1 2.5\n1\t0 3\n"]
)
def test_commas_and_a_header_are_read(write, text):
    graph = load_graph(write("a.txt", text))
    assert edges_of(graph) == [(0, 1), (1, 0)]
    assert graph.weights.tolist() == [2.5, 3]


def test_percent_comments_are_skipped_in_files_that_begin_with_one(write):
    graph = load_graph(write("a.edges", "% asym unweighted\n% 2 3 3\n1 2 % an edge\n%\n2 3\n"))
    assert graph.vertex_data["original_id"].tolist() == [1, 2, 3]
    assert edges_of(graph) == [(0, 1), (1, 2)]
    with pytest.raises(GraphError, match=r":2: source is '%', not an integer"):
        load_graph(write("b.edges", "0 1\n% late\n"))


@pytest.mark.parametrize(("name", "text"), [("a.txt", "0 1 2.5\n"), ("a.csv", "source,target,weight\n0,1,2.5\n")])
def test_a_byte_order_mark_is_skipped(write, name, text):
    graph = load_graph(write(name, text.encode("utf-8-sig")))
    assert (edges_of(graph), graph.weights.tolist()) == ([(0, 1)], [2.5])


def test_a_path_in_the_home_folder_is_expanded(write, monkeypatch):
    path = write("a.txt", "0 1\n")
    monkeypatch.setenv("HOME", str(path.parent))
    assert load_graph("~/a.txt").num_edges == 1


def test_large_ids_are_exact(write):
    ids = [2**62 + 1, 2**62 + 3, 2**53 + 1]
    graph = load_graph(write("a.txt", f"{ids[0]} {ids[1]}\n{ids[1]} {ids[2]}\n"))
    assert graph.vertex_data["original_id"].tolist() == sorted(ids)


def test_an_edge_listed_once_is_symmetrized_on_request(write):
    path = write("a.edges", "0 1\n1 2\n1 1\n")
    assert load_graph(path).num_edges == 3
    both = load_graph(path, symmetrize=True, name="both")
    assert edges_of(both) == [(0, 1), (1, 0), (1, 1), (1, 2), (2, 1)]
    assert (both.directed, both.name) == (False, "both")


def test_parallel_edges_name_the_file(write):
    path = write("a.txt", "0 1\n0 1\n")
    with pytest.raises(GraphError, match=r"a\.txt.*edge 0 -> 1 is given more than once.*duplicates="):
        load_graph(path)
    assert load_graph(path, duplicates="keep").num_edges == 2


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9), st.integers(-8, 8)), min_size=1), st.integers(1, 40))
def test_any_size_of_block_reads_the_same(tmp_path_factory, edges, block):
    path = tmp_path_factory.getbasetemp() / "round.txt"
    path.write_text("# head\n" + "".join(f"{u} {v} {w / 4}\n# between\n" for u, v, w in edges))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(source, "BLOCK", block)
        graph = load_graph(path, duplicates="keep")
    ids = sorted({end for edge in edges for end in edge[:2]})
    u, v, w = (list(column) for column in zip(*edges, strict=True))
    expected = Graph.from_edges(
        np.searchsorted(ids, u), np.searchsorted(ids, v), weights=np.array(w) / 4, duplicates="keep", name="expected"
    )
    assert edges_of(graph) == edges_of(expected)
    assert graph.weights.tolist() == expected.weights.tolist()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("0 1\n# x\n2\n", r"a\.txt:3: 1 fields instead of 2; a line must be: source destination"),
        ("0 1\n2 3 4\n", r":2: 3 fields instead of 2"),
        ("0 1 2 3\n", r":1: 4 fields"),
        ("0;1\n1;2\n", r":1: 1 fields; a line must be: .* separated by spaces, tabs or commas"),
        ("0,1\n1 2\n", r":2: 1 fields instead of 2"),
        ("user,item,rating\n0,1,2\n", r":1: the header 'user item rating' names ratings; give graph\.format=ratings"),
        ("alice bob\n", r":1: the first line, 'alice bob', is neither a header .* for names .* onyx_harness\.as_graph"),
        ("source target\nalice bob\n", r":2: source is 'alice', not an integer \(for names, .* onyx_harness\.as_graph"),
        ("0 1\n1 x\n", r":2: destination is 'x', not an integer"),
        ("0 1\n1 2.5\n", r":2: destination is '2.5', not an integer"),
        ("0 1\n-1 2\n", r":2: source is '-1', outside 0"),
        ("0 1\n1 99999999999999999999\n", r":2: destination is '99999999999999999999', outside"),
        ("0 1 nan\n", r":1: weight is 'nan', not a finite number"),
        ("0 1 2\n0 2 inf\n", r":2: weight is 'inf', not a finite number"),
        ("0 1 2\n0 2 two\n", r":2: weight is 'two', not a number"),
        ("0 1 1e300\n", r"a\.txt.*must be finite as float32"),
        ("# nothing\n\n", r"it contains no edges"),
        ("0 1\n0 \xff2\n", r":2: destination is .* not an integer"),
    ],
)
def test_each_fault_is_one_error_with_its_line(write, text, message):
    with pytest.raises(GraphError, match=message):
        load_graph(write("a.txt", text.encode("latin-1")))


def test_ids_have_the_narrowest_type_that_holds_them():
    edges = Edges()
    for last in (2**32 - 1, 2**32):
        edges.add(np.array([0, last]), np.array([1, 2]), np.array([0.5, 1e39]))
        assert [part.dtype for part in edges._parts["sources"]][-1] == (np.uint32 if last < 2**32 else np.int64)
    edges.add(np.array([], np.int64), np.array([], np.int64), np.array([]))
    assert edges.count == 4
    assert edges.take("sources").tolist() == [0, 2**32 - 1, 0, 2**32]
    assert edges.take("destinations").dtype == np.uint32
    assert edges.take("weights").tolist() == [0.5, np.inf, 0.5, np.inf]
    assert [Edges().take(key).dtype for key in ("sources", "weights")] == [np.uint32, np.float32]
