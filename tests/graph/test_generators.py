"""Generated graphs: reproducible, of the requested size and kind."""

import networkx as nx
import numpy as np
import pytest
import scipy.spatial

from harness.graph import GraphError
from harness.graph.generators import delaunay, equal_rows, grid, random_ratings, rmat, rmat_rows, urand_rows
from harness.graph.generators.grid import check_grid
from harness.graph.generators.ratings import check_ratings
from harness.graph.generators.rmat import check_rmat
from harness.graph.generators.sampling import distinct

SMALL = {
    "rmat": lambda seed=1: rmat(scale=8, edge_factor=8, seed=seed, max_weight=16),
    "delaunay": lambda seed=1: delaunay(num_vertices=200, seed=seed),
    "grid": lambda seed=1: grid(rows=12, columns=9, diagonals=True, shortcuts=0.05, seed=seed),
    "equal_rows": lambda seed=1: equal_rows(num_vertices=60, length=5, shift=2, seed=seed),
    "ratings": lambda seed=1: random_ratings(users=80, items=40, num_ratings=600, seed=seed),
}
HASHES = {
    "rmat": "cb9723c398c552646f3e37cebbe88016305dacf9",
    "delaunay": "2fc10e1da56a7d9fac0f1f0227da05cc3ac6186e",
    "grid": "ff9edc173f3f55f5f901efeb699b7a6cda505e6a",
    "equal_rows": "4541130e683eb9d6024bb7ed3929b31538df9743",
    "ratings": "66c519282889f932b8bbc1e36477cac92fdbfbab",
}


@pytest.mark.parametrize("name", SMALL)
def test_only_the_seed_decides(name):
    graph = SMALL[name]()
    graph.validate()
    assert graph.content_hash == SMALL[name]().content_hash == HASHES[name]
    assert graph.content_hash != SMALL[name](seed=2).content_hash


def test_the_metadata_have_the_parameters():
    drawn = {"scale": 5, "quadrants": [0.4, 0.3, 0.2, 0.1], "seed": 7}
    of_rmat = {"scale": 5, "a": 0.4, "b": 0.3, "c": 0.2, "d": 0.1, "seed": 7}
    made = [
        (rmat(**of_rmat), "rmat_5", {"generator": "rmat", **drawn}),
        (rmat(num_vertices=20, **of_rmat), "rmat_20", {"generator": "rmat", **drawn}),
        (rmat_rows(**of_rmat), "rmat_rows_5", {"generator": "rmat_rows", **drawn}),
        (urand_rows(9, 2, 3, 7), "urand_rows_9", {"generator": "urand_rows", "degrees": [2, 3], "seed": 7}),
        (delaunay(9, seed=7), "delaunay_9", {"generator": "delaunay", "seed": 7}),
        (grid(3, 4, seed=7), "grid_3x4", {"generator": "grid", "rows": 3, "columns": 4, "seed": 7}),
        (equal_rows(9, 2, 1, 7), "rows_9x2+1", {"generator": "equal_rows", "length": 2, "shift": 1, "seed": 7}),
        (equal_rows(9, 2, 0, 7), "rows_9x2", {"generator": "equal_rows", "length": 2, "shift": 0, "seed": 7}),
        (random_ratings(5, 4, 6, rank=2, noise=0.3, exponent=0.6, seed=7), "ratings_5x4",
         {"generator": "random_ratings", "rank": 2, "noise": 0.3, "exponent": 0.6, "seed": 7}),
    ]  # fmt: skip
    for graph, name, meta in made:
        assert (graph.name, graph.meta) == (name, meta)
        assert graph.directed == (meta["generator"] not in ("delaunay", "grid"))


@pytest.mark.parametrize("options", [{}, {"parallel_edges": True}, {"num_vertices": 23}, {"self_loops": True}])
def test_undirected_draws_are_the_directed_ones_in_both_directions(options):
    """An edge that is drawn in both directions is one undirected edge."""
    one, both = (rmat(scale=5, edge_factor=9, seed=3, symmetric=symmetric, **options) for symmetric in (False, True))
    pairs = [
        tuple(sorted(ends)) for ends in zip(one.csr.row_of_edge.tolist(), one.csr.neighbours.tolist(), strict=True)
    ]
    pairs = pairs if options.get("parallel_edges") else set(pairs)
    expected = sorted(end for u, v in pairs for end in {(u, v), (v, u)})
    assert list(zip(both.csr.row_of_edge.tolist(), both.csr.neighbours.tolist(), strict=True)) == expected
    assert (one.directed, both.directed) == (True, False)


@pytest.mark.parametrize("symmetric", [False, True])
@pytest.mark.parametrize("num_edges", [0, 2, 5000, 20000])
def test_rmat_has_exactly_the_requested_edges(symmetric, num_edges):
    graph = rmat(scale=9, num_edges=num_edges, symmetric=symmetric, max_weight=5)
    graph.validate()
    assert (graph.num_vertices, graph.num_edges, graph.directed) == (512, num_edges, not symmetric)
    assert not (graph.csr.row_of_edge == graph.csr.neighbours).any()
    if symmetric:
        np.testing.assert_array_equal(graph.weights, graph.weights[graph.reverse_edges])
    assert np.isin(graph.weights, [1, 2, 3, 4, 5]).all()


@pytest.mark.parametrize(("count", "keys"), [(1, 1), (50, 50), (1000, 1100), (5000, 10**6)])
def test_distinct_keys_are_those_of_the_draws_up_to_the_first_surplus(count, keys):
    def draws():
        source = np.random.default_rng(3)
        return lambda number: (keys * source.random(number) ** 3).astype(np.uint64)

    draw, chosen, seen, missing = draws(), np.random.default_rng(4), set(), count
    while missing > 0:
        seen |= set(draw(missing + missing // 8 + 16).tolist())
        missing = count - len(seen)
    dropped = chosen.choice(len(seen), size=-missing, replace=False, shuffle=False)
    np.testing.assert_array_equal(distinct(draws(), count, np.random.default_rng(4)), np.delete(sorted(seen), dropped))


def test_rmat_quadrants_have_their_probabilities():
    graph = rmat(scale=1, edge_factor=50000, permuted=False, self_loops=True, parallel_edges=True)
    share = np.bincount(2 * graph.csr.row_of_edge + graph.csr.neighbours, minlength=4) / graph.num_edges
    assert graph.num_edges == 100_000
    np.testing.assert_allclose(share, [0.57, 0.19, 0.19, 0.05], atol=0.01)


def test_the_second_quadrant_is_to_the_right_of_the_first():
    graph = rmat(
        scale=1, edge_factor=50000, permuted=False, self_loops=True, parallel_edges=True, a=0.4, b=0.3, c=0.2, d=0.1
    )
    share = np.bincount(2 * graph.csr.row_of_edge + graph.csr.neighbours, minlength=4) / graph.num_edges
    np.testing.assert_allclose(share, [0.4, 0.3, 0.2, 0.1], atol=0.01)
    assert graph.meta == {"generator": "rmat", "scale": 1, "quadrants": [0.4, 0.3, 0.2, 0.1], "seed": 1}


@pytest.mark.parametrize("permuted", [False, True])
def test_a_part_of_the_vertices_has_its_edges_of_the_whole_graph(permuted):
    """As many edges are drawn, and those of other vertices are dropped."""
    given = {"scale": 3, "edge_factor": 20.2, "self_loops": True, "parallel_edges": True, "permuted": permuted}
    whole, part = rmat(**given), rmat(num_vertices=5, **given)
    assert (whole.num_edges, part.num_vertices, part.name) == (162, 5, "rmat_5")
    expected = [(u, v) for u, v in zip(whole.csr.row_of_edge, whole.csr.neighbours, strict=True) if max(u, v) < 5]
    assert list(zip(part.csr.row_of_edge, part.csr.neighbours, strict=True)) == expected
    assert 0 < part.num_edges < whole.num_edges


def test_the_greatest_weight_occurs():
    weights = rmat(scale=6, max_weight=3).weights
    assert set(weights.tolist()) == {1.0, 2.0, 3.0}


def test_rmat_levels_are_independent():
    graph = rmat(scale=2, edge_factor=50000, permuted=False, self_loops=True, parallel_edges=True)
    share = np.zeros((4, 4))
    np.add.at(share, (graph.csr.row_of_edge, graph.csr.neighbours), 1 / graph.num_edges)
    quadrant = np.array([[0.57, 0.19], [0.19, 0.05]])
    np.testing.assert_allclose(share, np.kron(quadrant, quadrant), atol=0.005)


def test_permuting_changes_the_numbers_and_not_the_degrees():
    plain, shuffled = (
        rmat(scale=8, permuted=permuted, parallel_edges=True, self_loops=True) for permuted in (False, True)
    )
    assert plain.out_degrees.argmax() == 0
    assert shuffled.out_degrees.argmax() != 0
    assert abs(int(plain.out_degrees.max()) - int(shuffled.out_degrees.max())) < 0.2 * plain.out_degrees.max()


@pytest.mark.parametrize(("count", "length", "shift"), [(100, 32, 0), (34, 32, 1), (500, 3, 40), (2, 1, 0)])
def test_rows_have_one_length_and_begin_at_multiples_of_it(count, length, shift):
    graph = equal_rows(num_vertices=count, length=length, shift=shift)
    graph.validate()
    degrees = np.diff(graph.csr.offsets)
    assert degrees.tolist() == [length + shift, *[length] * (count - 1)]
    assert set(graph.csr.offsets[1:] % length) == {shift % length}
    for u in range(count):
        row = graph.csr.neighbours[graph.csr.offsets[u] : graph.csr.offsets[u + 1]]
        assert len(set(row.tolist()) - {u}) == degrees[u]


def test_delaunay_is_the_triangulation():
    graph = delaunay(num_vertices=300, seed=5)
    position = graph.vertex_data["position"].astype(float)
    indptr, neighbours = scipy.spatial.Delaunay(np.random.default_rng(5).random((300, 2))).vertex_neighbor_vertices
    np.testing.assert_array_equal(graph.csr.offsets, indptr)
    for v in range(300):
        row = graph.csr.neighbours[graph.csr.offsets[v] : graph.csr.offsets[v + 1]]
        assert sorted(neighbours[indptr[v] : indptr[v + 1]]) == row.tolist()
    ends = position[graph.csr.row_of_edge] - position[graph.csr.neighbours]
    np.testing.assert_allclose(graph.weights, np.hypot(*ends.T), rtol=1e-4)
    assert nx.check_planarity(nx.Graph(zip(graph.csr.row_of_edge, graph.csr.neighbours, strict=True)))[0]
    assert delaunay(num_vertices=10, weighted=False).weights is None


def test_local_numbers_of_a_triangulation_are_another_order_of_the_same_vertices():
    random, local = (delaunay(num_vertices=500, seed=5, local=local) for local in (False, True))
    edges = [
        {tuple(map(tuple, graph.vertex_data["position"][[u, v]])) for u, v in zip(*ends(graph), strict=True)}
        for graph in (random, local)
    ]
    assert edges[0] == edges[1]
    apart = [np.median(np.abs(np.subtract(*ends(graph)))) for graph in (random, local)]
    assert apart[1] < apart[0] / 10


def ends(graph):
    return graph.csr.row_of_edge.astype(np.int64), graph.csr.neighbours.astype(np.int64)


@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 7), (5, 1), (4, 6)])
@pytest.mark.parametrize("diagonals", [False, True])
def test_a_whole_grid_is_the_lattice(rows, columns, diagonals):
    graph = grid(rows=rows, columns=columns, removed=0, diagonals=diagonals, length_spread=0)
    lattice = nx.strong_product if diagonals else nx.cartesian_product
    expected = lattice(nx.path_graph(rows), nx.path_graph(columns)).to_directed()
    ends = zip(graph.csr.row_of_edge, graph.csr.neighbours, strict=True)
    assert {(divmod(int(u), columns), divmod(int(v), columns)) for u, v in ends} == set(expected.edges)
    straight = np.isin(np.abs(graph.csr.row_of_edge.astype(int) - graph.csr.neighbours), [1, columns])
    if columns > 2:
        np.testing.assert_allclose(graph.weights, np.where(straight, 1, np.sqrt(2)), rtol=1e-6)


def test_streets_are_removed_and_shortcuts_added():
    whole = grid(rows=60, columns=60, removed=0)
    less = grid(rows=60, columns=60, removed=0.25)
    more = grid(rows=60, columns=60, removed=0, shortcuts=0.5)
    assert less.num_edges / whole.num_edges == pytest.approx(0.75, abs=0.03)
    assert (more.num_edges - whole.num_edges) / 2 == pytest.approx(1800, rel=0.02)
    assert whole.weights.min() >= 0.5
    assert whole.weights.max() <= 1.5
    np.testing.assert_array_equal(more.weights, more.weights[more.reverse_edges])


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_shortcuts_join_random_vertices_by_their_distance(seed):
    """Without streets: 7 % of 5 x 5 vertices are 1.75, so two pairs; a pair of one vertex is none."""
    graph = grid(rows=5, columns=5, removed=1, shortcuts=0.07, length_spread=0, seed=seed)
    draw = np.random.default_rng(seed)
    draw.random(40)  # for the streets
    pairs = draw.integers(0, 25, size=(2, 2), dtype=np.int32).T
    expected = {(u, v): np.hypot(u // 5 - v // 5, u % 5 - v % 5) for u, v in pairs.tolist() if u != v}
    expected |= {(v, u): length for (u, v), length in expected.items()}
    ends = zip(graph.csr.row_of_edge.tolist(), graph.csr.neighbours.tolist(), strict=True)
    assert dict(zip(ends, graph.weights, strict=True)) == pytest.approx(expected)


def test_a_shortcut_along_a_street_is_the_shorter_of_both():
    graph = grid(rows=1, columns=2, removed=0, shortcuts=10, length_spread=0.5)
    lengths = np.random.default_rng(1)
    lengths.random(1)
    extra = lengths.integers(0, 2, size=(2, 20), dtype=np.int32)
    drawn = lengths.uniform(0.5, 1.5, size=1 + np.count_nonzero(extra[0] != extra[1]))
    assert graph.weights.tolist() == pytest.approx([drawn.min()] * 2)


def test_ratings_have_two_sides_steps_and_structure():
    graph = random_ratings(users=300, items=100, num_ratings=6000, rank=2, noise=0.1)
    assert (graph.bipartite, graph.num_edges) == ((300, 100), 6000)
    assert set(np.unique(graph.weights)) <= set(np.arange(1, 11) / 2)
    popularity = np.sort(graph.in_degrees[300:])[::-1]
    assert popularity[:10].sum() > 3 * popularity[-10:].sum()
    # A fit of rank 2 by alternating least squares explains most of the variance: the factors exist.
    users, items = graph.csr.row_of_edge, graph.csr.neighbours.astype(int) - 300
    target = graph.weights.astype(float) - 3
    rng = np.random.default_rng(0)
    p, q = rng.standard_normal((300, 2)), rng.standard_normal((100, 2))
    for _ in range(10):
        for side, mine, other, theirs in ((p, users, q, items), (q, items, p, users)):
            for i in range(side.shape[0]):
                chosen = mine == i
                a = other[theirs[chosen]]
                side[i] = np.linalg.solve(a.T @ a + 0.1 * np.eye(2), a.T @ target[chosen])
    left = target - np.einsum("ij,ij->i", p[users], q[items])
    assert left.var() < 0.3 * target.var()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rmat(scale=40), "scale=40"),
        (lambda: rmat(scale=32), r"scale=32; it must be 0\.\.31"),
        (lambda: rmat(scale=-1), r"scale=-1; it must be 0\.\.31"),
        (lambda: rmat(scale=3, num_edges=-1), "edge_factor=.*, num_edges=-1; they must not be negative"),
        (lambda: rmat(a=-0.1, b=0.7, c=0.3, d=0.1), "must be probabilities that add up to 1"),
        (lambda: rmat(a=0.57001, b=0.19, c=0.19, d=0.05), "must be probabilities that add up to 1"),
        (lambda: rmat(num_edges=4, symmetric=True, self_loops=True), "even number and self_loops=False"),
        (lambda: rmat(scale=3, num_vertices=9), "num_vertices=9 with scale=3; take more than half"),
        (lambda: rmat(scale=3, num_vertices=4), "num_vertices=4 with scale=3; take more than half"),
        (lambda: rmat(scale=0, num_vertices=2), "num_vertices=2 with scale=0; take more than half"),
        (lambda: rmat(a=0.9), "add up to 1"),
        (lambda: rmat(num_edges=3, symmetric=True), "even number"),
        (lambda: rmat(num_edges=3, parallel_edges=True), "counts distinct edges"),
        (lambda: rmat(edge_factor=-1), "negative"),
        (lambda: rmat(scale=2, num_edges=13), "request fewer edges"),
        (lambda: delaunay(num_vertices=2), "at least 3"),
        (lambda: equal_rows(num_vertices=34, length=32, shift=2), r"length \+ shift < num_vertices"),
        (lambda: equal_rows(length=0), "length >= 1"),
        (lambda: grid(rows=0), "must be positive"),
        (lambda: grid(removed=1.5), "removed=1.5"),
        (lambda: random_ratings(num_ratings=10**9), "at most half"),
    ],
)
def test_impossible_values_are_refused(make, message):
    with pytest.raises(GraphError, match=message):
        make()


@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        ({"rows": 2**16, "columns": 2**15 - 1}, True), ({"rows": 2**16, "columns": 2**15}, False),
        ({"columns": 0}, False), ({"removed": 1}, True), ({"removed": -0.01}, False), ({"shortcuts": -0.01}, False),
        ({"length_spread": 0.99}, True), ({"length_spread": 1}, False), ({"length_spread": -0.01}, False),
    ],
)  # fmt: skip
def test_limits_of_a_grid(changes, taken):
    given = {"rows": 3, "columns": 3, "removed": 0.0, "shortcuts": 0.0, "length_spread": 0.0, **changes}
    if taken:
        check_grid(**given)
        return
    with pytest.raises(GraphError, match="grid: "):
        check_grid(**given)


@pytest.mark.parametrize(
    ("changes", "taken"),
    [
        ({}, True), ({"num_ratings": 8}, False), ({"num_ratings": 0}, True), ({"num_ratings": -1}, False),
        ({"users": 0}, False), ({"items": 0}, False), ({"rank": 0}, False), ({"noise": 0}, True),
        ({"noise": -0.1}, False),
    ],
)  # fmt: skip
def test_at_most_half_of_all_ratings_are_made(changes, taken):
    given = {"users": 5, "items": 3, "num_ratings": 7, "rank": 1, "noise": 0.5, **changes}
    if taken:
        check_ratings(**given)
        return
    with pytest.raises(GraphError, match="num_ratings at most half of users"):
        check_ratings(**given)


@pytest.mark.parametrize(
    "parameters",
    [
        {"scale": 3, "num_vertices": 8},
        {"scale": 3, "num_vertices": 5},
        {"scale": 0, "num_vertices": 1},
        {"scale": 31, "num_vertices": 2**31},
        {"scale": 4, "num_edges": 6, "symmetric": True},
        {"a": 1, "b": 0, "c": 0, "d": 0},
        {"a": 0.5700005, "b": 0.19, "c": 0.19, "d": 0.05},
        {"edge_factor": 0},
        {"num_edges": 0},
    ],
    ids=str,
)
def test_values_at_the_limits_are_taken(parameters):
    given = {
        "scale": 5,
        "edge_factor": 4,
        "num_edges": None,
        "num_vertices": None,
        "a": 0.57,
        "b": 0.19,
        "c": 0.19,
        "d": 0.05,
        "symmetric": False,
        "self_loops": False,
        "parallel_edges": False,
    }
    assert check_rmat(**(given | parameters)) is None
