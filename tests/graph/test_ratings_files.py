"""MovieLens ratings."""

import pytest

from harness.graph import GraphError, load_graph
from harness.graph.formats.header import is_header, kind_of

CSV = "userId,movieId,rating,timestamp\n7,100,4.5,964982703\n2,100,3.0,964981247\n7,50,0.5,964982224\n"


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("r.csv", CSV),
        ("r.csv.gz", CSV.replace("\n", "\r\n")),
        ("r.dat", "7::0100::4.5::964982703\n2::100::3::964981247\n7::50::0.5::964982224\n"),
        ("r.data", "7\t100\t4.5\t1\n2\t100\t3\t1\n7\t50\t0.5\t1\n"),
        ("r.csv", "user,item,rating\n7,100,4.5\n2,100,3\n7,50,0.5\n"),
    ],
)
def test_users_and_items_are_two_sides(write, name, text):
    graph = load_graph(write(name, text))
    graph.validate()
    assert graph.bipartite == (2, 2)
    assert graph.vertex_data["original_id"].tolist() == [2, 7, 50, 100]
    assert graph.csr.row_of_edge.tolist() == [0, 1, 1]
    assert graph.csr.neighbours.tolist() == [3, 2, 3]
    assert graph.weights.tolist() == [3, 0.5, 4.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("userId,movieId,rating\n1,2\n", r"r\.csv:2: 2 fields instead of 3; a rating must be: user item rating"),
        ("1,2,3,4\n1,2,,4\n", r":2: rating is '', not a number"),
        ("1,2,nan,4\n", r":1: rating is 'nan', not a finite"),
        ("1,b,3\n", r":1: item is 'b', not an integer"),
        ("1,2\n", r":1: 2 fields; a line must be"),
        ("1,2,3\n1,2,4\n", r"more than once"),
    ],
)
def test_each_fault_is_one_error_with_its_line(write, text, message):
    with pytest.raises(GraphError, match=message):
        load_graph(write("r.csv", text), format="ratings")


def test_a_csv_without_a_header_is_read_in_the_format_that_is_named(write):
    path = write("r.csv", "7,100,4.5\n2,100,3\n7,50,0.5\n")
    with pytest.raises(GraphError, match=r"r\.csv:1: a CSV file without a header.*give graph\.format=edge_list .* or"):
        load_graph(path)
    assert load_graph(path, format="ratings").bipartite == (2, 2)
    assert load_graph(path, format="edge_list").bipartite is None


@pytest.mark.parametrize(
    "header", ["src,dst,weight", "source,target,weight", "From,To,Cost", '"u","v","w"', "source;target;weight"]
)
def test_a_csv_of_edges_is_an_edge_list(write, header):
    text = f"{header}\n0,1,0.5\n2,1,1.5\n"
    if ";" in header:
        with pytest.raises(GraphError, match="separated by spaces, tabs or commas"):
            load_graph(write("e.csv", text.replace(",", ";")))
        return
    graph = load_graph(write("e.csv", text))
    assert (graph.bipartite, graph.num_vertices, graph.weights.tolist()) == (None, 3, [0.5, 1.5])
    assert list(zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), strict=True)) == [(0, 1), (2, 1)]


@pytest.mark.parametrize("header", ["movieId,userId,rating", "a,b,c", "weight,src,dst", "src,dst,weight,time"])
def test_a_header_that_names_neither_is_refused(write, header):
    row = ",".join("1" for _ in header.split(","))
    with pytest.raises(GraphError, match=r"\.csv:1: the header .* names neither .*give graph\.format="):
        load_graph(write("r.csv", f"{header}\n{row}\n"))


def test_a_header_of_edges_is_not_read_as_ratings(write):
    with pytest.raises(GraphError, match=r"names edges, not ratings; give graph\.format=edge_list"):
        load_graph(write("r.csv", "src,dst,weight\n0,1,2\n"), format="ratings")


@pytest.mark.parametrize("comments", ["", "# one\n", "# one\n# user,item,rating\n"])
def test_comments_may_precede_the_header_of_a_csv(write, comments):
    graph = load_graph(write("e.csv", f"{comments}source,target,weight\n0,1,2.5\n1,2,4\n"))
    assert (graph.bipartite, graph.weights.tolist()) == (None, [2.5, 4.0])
    ratings = load_graph(write("r.csv", f"{comments}user,item,rating\n0,1,2.5\n1,0,4\n"))
    assert (ratings.bipartite, ratings.weights.tolist()) == ((2, 2), [2.5, 4.0])


def test_ids_without_gaps_are_their_own_originals(write):
    graph = load_graph(write("r.dat", "0::1::4::9\n1::0::3::9\n1::2::5::9\n"))
    assert graph.vertex_data["original_id"].tolist() == [0, 1, 0, 1, 2]
    assert graph.csr.neighbours.tolist() == [3, 2, 4]


@pytest.mark.parametrize(
    ("header", "kind"),
    [
        ("userId,movieId,rating,timestamp", "ratings"), ("user,item,rating", "ratings"),
        ("USER_ID,Item-Id,Rating", "ratings"), ("user,item,rating,time,more", None), ("user,item", None),
        ("source,target", "edge_list"), ("src,dst,weight", "edge_list"), ("source,destination,weight,more", None),
        ("source,destination,colour", None), ("item,user,rating", None), ("target,source", None), ("source", None),
    ],
)  # fmt: skip
def test_the_names_of_the_columns_tell_the_format(header, kind):
    assert kind_of(header.split(",")) == kind


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        (["a", "b"], True), (["_a", "B2"], True), (["a"], False), ([], False), (["1", "b"], False), (["a", "2"], False),
        (["a", "b", "3"], True), (["", "b"], False),
    ],
)  # fmt: skip
def test_a_header_begins_with_two_names(fields, named):
    assert is_header(fields) is named


def test_ratings_follow_the_options_of_the_loader(write):
    path = write("r.csv", "user,item,rating\n1,2,3\n1,2,4\n5,9,1\n")
    graph = load_graph(path, duplicates="sum", symmetrize=True, name="mine")
    assert (graph.name, graph.bipartite, graph.directed) == ("mine", (2, 2), False)
    ends = list(zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), strict=True))
    assert dict(zip(ends, graph.weights.tolist(), strict=True)) == {(0, 2): 7, (2, 0): 7, (1, 3): 1, (3, 1): 1}
    assert load_graph(path, duplicates="min").weights.tolist() == [3, 1]
    assert load_graph(path, duplicates="keep").meta == {"origin": "r.csv", "format": "ratings"}
