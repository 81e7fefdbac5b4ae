"""Belief propagation against enumeration, a plain loop, and sums over a hub."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from harness.algorithms.belief_propagation import BeliefPropagation
from harness.graph import Graph, GraphError, load_graph
from harness.graph.generators.grid import lattice_edges
from harness.language import InvalidInput, trace
from harness.language.analysis import change_driven, watched
from harness.language.reference import ReferenceRun
from harness.language.validation import relative_error
from tests.algorithms.answers import answer, data
from tests.algorithms.networks import enumerated, network, networks, plain_propagation

RULES = ("sum", "max")


def beliefs(graph, supersteps=None, **options):
    algorithm = BeliefPropagation(potentials="edge", **options)
    return answer(algorithm, graph, graph.vertex_data["unary"].shape[1], supersteps)


# networks without loops -----------------------------------------------------------------------------------------------
@given(networks(), st.sampled_from(RULES), st.booleans())
@settings(max_examples=150)
def test_without_loops_beliefs_are_the_exact_marginals(graph, rule, wider):
    exact = enumerated(graph, rule)
    assume(exact is not None)
    k = exact.shape[1]
    belief, settled = answer(BeliefPropagation(potentials="edge", rule=rule), graph, k + wider)
    assert settled
    np.testing.assert_allclose(belief[:, :k], exact, atol=1e-5)
    assert not belief[:, k:].any()


@given(networks(), st.sampled_from(RULES))
@settings(max_examples=20)
def test_damping_leaves_the_fixed_point_where_it_is(graph, rule):
    """Damped messages approach zero only as fast as damping allows. The rest of an impossible state must be
    negligible beside the least likely possible state: with six variables and five edges of 1e-12 each, 1e-132. The
    expected answer therefore takes 200 supersteps (0.2^200 = 1e-140), which do not stop at the tolerance."""
    exact = enumerated(graph, rule)
    assume(exact is not None)
    assert beliefs(graph, rule=rule, damping=0.2, tolerance=1e-9, supersteps=200)[1]
    belief, _ = beliefs(graph, rule=rule, damping=0.2, tolerance=0.0, supersteps=200)
    np.testing.assert_allclose(belief, exact, atol=1e-5)


@given(st.integers(2, 9), st.integers(0, 2**32 - 1))
@settings(max_examples=30)
def test_the_likeliest_states_of_a_tree_are_its_most_probable_joint_state(count, seed):
    rng = np.random.default_rng(seed)  # continuous potentials: no ties
    parents = [int(rng.integers(0, v)) for v in range(1, count)]
    pairs = {(u, v): rng.uniform(0.1, 1.0, (2, 2)) for v, u in enumerate(parents, 1)}
    unary = rng.uniform(0.1, 1.0, (count, 2))
    graph = network(unary, pairs)
    belief, _ = beliefs(graph, rule="max")
    assert np.array_equal(belief.argmax(axis=1), enumerated(graph, "max").argmax(axis=1))
    states = np.array(list(np.ndindex(*(2,) * count)))
    weight = np.prod([unary[v, states[:, v]] for v in range(count)], axis=0)
    weight *= np.prod([table[states[:, u], states[:, v]] for (u, v), table in pairs.items()], axis=0)
    assert belief.argmax(axis=1).tolist() == states[weight.argmax()].tolist()


def test_a_shared_potential_is_the_same_table_on_every_edge():
    k, smoothness, truncation = 4, 0.7, 2.0
    rng = np.random.default_rng(3)
    unary = rng.uniform(0.1, 1.0, (6, k))
    label = np.arange(k)
    table = np.exp(-smoothness * np.minimum(abs(label[:, None] - label), truncation))
    pairs = dict.fromkeys([(0, 1), (0, 2), (2, 3), (2, 4)], table)  # vertex 5 is isolated
    u, v = np.array(list(pairs)).T
    loops = np.array([1, 5])
    plain = Graph.from_edges(  # edges in one direction, and loops, to which a shared potential contributes nothing
        np.concatenate([u, loops]), np.concatenate([v, loops]), num_vertices=6, name="shared",
        vertex_data={"unary": unary},
    )  # fmt: skip
    belief, _ = answer(BeliefPropagation(smoothness=smoothness, truncation=truncation), plain, k)
    np.testing.assert_allclose(belief, enumerated(network(unary, pairs)), atol=1e-6)


# networks with loops --------------------------------------------------------------------------------------------------
def grid_network(rows, columns, k, seed, attraction):
    rng = np.random.default_rng(seed)
    u, v = lattice_edges(rows, columns, diagonals=False)
    pairs = {(int(a), int(b)): np.exp(attraction * rng.normal(size=(k, k))) for a, b in zip(u, v, strict=True)}
    return network(rng.uniform(0.2, 1.0, (rows * columns, k)), pairs, name="grid")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("damping", "supersteps"), [(0.0, 1), (0.0, 12), (0.5, 12)])
def test_on_grids_every_superstep_is_that_of_a_plain_loop(rule, damping, supersteps):
    graph = grid_network(4, 5, 3, seed=1, attraction=0.5)
    met, _ = beliefs(graph, supersteps, rule=rule, damping=damping, tolerance=0.0)
    options = {"rule": rule, "damping": damping, "supersteps": supersteps}
    expected = plain_propagation(graph, graph.edge_data["pairwise"], graph.vertex_data["unary"], **options)
    np.testing.assert_allclose(met, expected, atol=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_parallel_edges_are_separate_factors(rule):
    """Two parallel edges between 0 and 1, three between 1 and 2, each with another table."""
    rng = np.random.default_rng(6)
    u, v = np.array([0, 0, 1, 1, 1, 2]), np.array([1, 1, 2, 2, 2, 3])
    tables = rng.uniform(0.2, 1.0, (6, 3, 3))
    graph = Graph.from_edges(
        np.concatenate([u, v]), np.concatenate([v, u]), num_vertices=4, name="parallel", directed=False,
        duplicates="keep", vertex_data={"unary": rng.uniform(0.2, 1.0, (4, 3))},
        edge_data={"pairwise": np.concatenate([tables, tables.transpose(0, 2, 1)])},
    )  # fmt: skip
    assert graph.num_edges == 12
    met, _ = beliefs(graph, 9, rule=rule, tolerance=0.0)
    options = {"rule": rule, "damping": 0.0, "supersteps": 9}
    expected = plain_propagation(graph, graph.edge_data["pairwise"], graph.vertex_data["unary"], **options)
    np.testing.assert_allclose(met, expected, atol=1e-5)
    merged = network(graph.vertex_data["unary"], {
        (0, 1): tables[0] * tables[1], (1, 2): tables[2] * tables[3] * tables[4], (2, 3): tables[5],
    })  # fmt: skip
    once, _ = beliefs(merged, rule=rule)
    np.testing.assert_allclose(once, enumerated(merged, rule), atol=1e-5)  # one factor per pair, and no loop: exact
    assert np.abs(met - once).max() > 1e-3


def test_a_shared_potential_counts_once_for_every_parallel_edge():
    """A pair of reverse edges counts once."""
    unary = np.random.default_rng(7).uniform(0.2, 1.0, (3, 2))
    graph = Graph.from_edges(
        [0, 0, 1, 1], [1, 1, 0, 2], num_vertices=3, name="parallel", duplicates="keep", vertex_data={"unary": unary}
    )
    algorithm = BeliefPropagation(smoothness=0.5, tolerance=0.0)
    prepared = algorithm.prepare_graph(graph)
    assert prepared.num_edges == 6  # 0 - 1 twice, 1 - 2 once
    table = algorithm.inputs(prepared, 2).properties["psi"].astype(np.float64)
    met, _ = answer(algorithm, graph, 2, 9)
    expected = plain_propagation(prepared, [table] * 6, unary, rule="sum", damping=0.0, supersteps=9)
    np.testing.assert_allclose(met, expected, atol=1e-5)


UAI = ("DBN_11", "Grids_11", "Grids_15", "ObjectDetection_11", "Segmentation_11", "pdb2fdn")


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("name", UAI)
def test_on_published_networks_every_superstep_is_that_of_a_plain_loop(name, rule):
    graph = load_graph(data("uai") / f"{name}.uai")
    met, _ = beliefs(graph, 8, rule=rule, damping=0.3, tolerance=0.0)
    options = {"rule": rule, "damping": 0.3, "supersteps": 8}
    expected = plain_propagation(graph, graph.edge_data["pairwise"], graph.vertex_data["unary"], **options)
    np.testing.assert_allclose(met, expected, atol=2e-5)


def test_a_triangle_weighs_its_evidence_twice_as_loopy_propagation_does():
    """Closed form: around the triangle a message multiplies log-odds; the belief is wrong by a known factor."""
    same = np.array([[2.0, 1.0], [1.0, 2.0]])
    graph = network([[3.0, 1.0], [1, 1], [1, 1]], {(0, 1): same, (1, 2): same, (0, 2): same})
    belief, settled = beliefs(graph, tolerance=1e-12)
    exact = enumerated(graph)
    assert settled
    assert belief[0, 0] > exact[0, 0] + 0.01  # overconfident
    assert (belief.argmax(axis=1) == 0).all()


# numbers near the ends of their range ---------------------------------------------------------------------------------
def star(leaves, hub, leaf_potentials, table):
    """Return a hub, vertex 0, with many leaves."""
    count = leaves + 1
    u, v = np.zeros(leaves, np.int64), np.arange(1, count)
    unary = np.concatenate([[hub], leaf_potentials])
    return Graph.from_edges(
        np.concatenate([u, v]), np.concatenate([v, u]), num_vertices=count, name="star", directed=False,
        vertex_data={"unary": unary},
        edge_data={"pairwise": np.concatenate([np.tile(table, (leaves, 1, 1)), np.tile(table.T, (leaves, 1, 1))])},
    )  # fmt: skip


def hub_belief(hub, leaf_potentials, table):
    """Return the hub's belief, exact to rounding: logarithms of the leaves' messages, added without error."""
    said = np.asarray(leaf_potentials, np.float32).astype(np.float64) @ table.T
    with np.errstate(divide="ignore"):
        log = np.array([math.fsum(column) for column in np.log(said).T]) + np.log(hub)
    weight = np.exp(log - log.max())
    return weight / weight.sum()


LEAVES = 100_000


def balanced_leaves(rng):
    """Return potentials of 10^5 leaves that nearly cancel at the hub."""
    lean = rng.uniform(0.2, 1.0, (LEAVES // 2, 1))
    one = np.concatenate([lean, np.ones_like(lean)], axis=1)
    potentials = np.concatenate([one, one[:, ::-1]])
    potentials[:3] = [[1.0, 0.5]] * 3
    return potentials


@pytest.mark.parametrize("stored_in_float32", [False, True])
def test_a_hub_of_a_hundred_thousand_neighbours(stored_in_float32):
    table = np.array([[1.0, 0.25], [0.25, 1.0]])
    leaves = balanced_leaves(np.random.default_rng(0))
    graph = star(LEAVES, [1.0, 1.0], leaves, table)
    exact = hub_belief([1.0, 1.0], leaves, table)
    assert 0.05 < exact.min() < 0.5  # a wrong digit would be visible
    algorithm = BeliefPropagation(potentials="edge")
    inputs, run = algorithm.inputs(graph, 2), ReferenceRun(trace(algorithm), graph, 2)
    run.reset(inputs)
    for _ in range(4):
        run.run(1)
        if stored_in_float32:
            run.reset(inputs, {"msg": run.values("msg").astype(np.float32)})
    run.run(1)
    limit = 1e-4 if stored_in_float32 else 1e-6
    assert relative_error(run.values("belief")[:1], exact[None])[0] < limit


@pytest.mark.parametrize("rule", RULES)
def test_evidence_at_a_hub_outweighs_whatever_its_neighbours_say(rule):
    table = np.array([[1.0, 0.1, 0.1], [0.1, 1.0, 0.1], [0.1, 0.1, 1.0]])
    leaves = np.tile([1.0, 0.01, 0.01], (2000, 1))
    graph = star(2000, [0.0, 1e-20, 1.0], leaves, table)  # all states that the leaves send are excluded
    belief, settled = beliefs(graph, rule=rule)
    assert settled
    np.testing.assert_allclose(belief[0], [0, 1e-20, 1], atol=1e-12)
    said = table[2] * leaves[0]
    np.testing.assert_allclose(belief[1:], np.tile(said / said.sum(), (2000, 1)), atol=1e-6)


@pytest.mark.parametrize("rule", RULES)
def test_near_zero_potentials_are_weighed_against_each_other(rule):
    least = 1e-30
    stay = np.array([[1.0, least], [least, 1.0]])
    chain = {(v, v + 1): stay for v in range(6)}
    unary = np.ones((7, 2))
    unary[0] = [1.0, least]
    unary[3] = [least, 1.0]
    unary[5] = [least, 1.0]
    unary[6] = [1.0, 0.0]
    graph = network(unary, chain)
    belief, settled = beliefs(graph, rule=rule)
    assert settled
    np.testing.assert_allclose(belief, enumerated(graph, rule), rtol=1e-5, atol=1e-7)


def test_potentials_below_the_range_of_float32_stay_possible():
    graph = network([[1e-60, 1.0], [1.0, 1.0]], {(0, 1): np.array([[1.0, 1.0], [0.0, 1.0]])}, evidence=[-1, 0])
    belief, _ = beliefs(graph)
    np.testing.assert_allclose(belief, [[1.0, 0.0], [1.0, 0.0]])


def test_contradicting_evidence_leaves_no_belief():
    graph = network(np.ones((2, 2)), {(0, 1): np.eye(2)}, evidence=[0, 1])
    belief, settled = beliefs(graph)
    assert settled
    assert not belief.any()


def test_a_network_of_tables_is_run_as_it_is_given():
    """A shared table has no effect from a vertex to itself; a table of its own has, and is refused there."""
    loop = Graph.from_edges([0, 0, 1], [0, 1, 0], name="loop", vertex_data={"unary": np.ones((2, 2))})
    tables = {"pairwise": np.ones((3, 2, 2))}
    loop = Graph(loop.csr, name="loop", directed=False, vertex_data=loop.vertex_data, edge_data=tables)
    algorithm = BeliefPropagation(potentials="edge")
    assert algorithm.prepare_graph(loop) is loop
    with pytest.raises(InvalidInput, match="an edge from variable 0 to itself; make that a unary potential"):
        algorithm.inputs(loop, 2)
    shared = BeliefPropagation().prepare_graph(Graph.from_edges([0, 0, 1, 2], [0, 1, 2, 2], name="loops"))
    ends = set(zip(shared.csr.row_of_edge.tolist(), shared.csr.neighbours.tolist(), strict=True))
    assert ends == {(0, 1), (1, 0), (1, 2), (2, 1)}


# settling -------------------------------------------------------------------------------------------------------------
def test_messages_are_watched():
    program = trace(BeliefPropagation())
    assert ("edge", "msg") in watched(program)
    (form,) = change_driven(program)
    assert (form.kind, form.sources, form.edges) == ("factor", (), (("edge", "msg"),))


def test_a_run_continues_while_only_messages_change():
    """Messages from the two ends of a chain meet in the middle and cancel: in one superstep no belief changes."""
    same = np.array([[3.0, 1.0], [1.0, 3.0]])
    unary = np.ones((7, 2))
    unary[0], unary[6] = [4.0, 1.0], [1.0, 4.0]
    graph = network(unary, {(v, v + 1): same for v in range(6)})
    algorithm = BeliefPropagation(potentials="edge")
    run = ReferenceRun(trace(algorithm), graph, 2)
    run.reset(algorithm.inputs(graph, 2))
    still, before, settled = [], run.values("belief"), False
    while not settled:
        settled = run.run(1).settled
        still.append(np.allclose(before, run.values("belief"), atol=1e-12))
        before = run.values("belief")
    assert any(still[: still.index(False, 4)][2:])  # a superstep without movement, and beliefs that move after it
    np.testing.assert_allclose(before, enumerated(graph), atol=1e-6)


# bad input ------------------------------------------------------------------------------------------------------------
def changed(**changes):
    """Return a pair of variables of two states with some of its data replaced."""
    graph = network(np.ones((2, 2)), {(0, 1): np.array([[1.0, 2.0], [3.0, 4.0]])}, name="pair")
    vertex = {key: changes.get(key, value) for key, value in graph.vertex_data.items()}
    pairwise = changes.get("pairwise", graph.edge_data["pairwise"])
    edge = {} if pairwise is None else {"pairwise": pairwise}
    return Graph(graph.csr, name="pair", directed=False, vertex_data=vertex, edge_data=edge)


TABLE = np.array([[1.0, 2.0], [3.0, 4.0]])


@pytest.mark.parametrize(
    ("changes", "options", "words"),
    [
        ({"unary": np.array([[1.0, 1], [0, 0]])}, {}, "variable 1 has potentials that are all zero"),
        ({"unary": np.array([[0.0, 1], [1, 1]]), "evidence": np.array([0, -1])}, {}, "evidence .* variable 0 has pot"),
        ({"unary": np.ones(2)}, {}, r"unary potentials of shape \(2,\); give every variable a row of its states"),
        ({"unary": np.ones((2, 0))}, {}, r"unary potentials of shape \(2, 0\); give every variable a row"),
        ({"unary": np.ones((2, 2, 1))}, {}, r"unary potentials of shape \(2, 2, 1\)"),
        ({"unary": np.array([[1, 1], [1, np.nan]])}, {}, "variable 1 has the potential nan"),
        ({"unary": np.array([[1, 1], [-0.5, 1]])}, {}, "variable 1 has the potential -0.5"),
        ({"evidence": np.array([-1, -2])}, {}, "variable 1 .* is observed in state -2; it has the states 0 to 1"),
        ({"pairwise": np.ones((2, 1, 1))}, {}, "pairwise potentials of 1 states and unary ones of 2; pad"),
        ({"pairwise": None}, {}, "has no potentials on its edges; set potentials=shared"),
        ({"pairwise": np.zeros((2, 2, 2))}, {}, "'pair': edge 0 -> 1 has potentials that are all zero"),
        ({"pairwise": np.ones((2, 2, 3))}, {}, r"pairwise potentials of shape \(2, 3\); make them square"),
        ({"pairwise": np.ones((2, 3, 3))}, {}, "pairwise potentials of 3 states and unary ones of 2; pad"),
        ({"pairwise": np.stack([TABLE, TABLE])}, {}, "edge 1 -> 0 are not the transpose of those of 0 -> 1"),
        ({"pairwise": -np.ones((2, 2, 2))}, {}, "edge 0 -> 1 has the potential -1; potentials are finite and >= 0"),
        ({"unary": np.array([[1, np.inf], [1, 1]])}, {}, "variable 0 has the potential inf"),
        ({"evidence": np.array([-1, 2])}, {}, "variable 1 .* is observed in state 2; it has the states 0 to 1"),
        ({"evidence": np.array([1, -1]), "cardinality": np.array([1, 2])}, {}, "variable 0 .* observed in state 1"),
        ({}, {"potentials": "shared"}, "has potentials on its edges; set potentials=edge"),
        ({}, {"damping": 1.0}, r"damping=1.0: give a number in \[0, 1\)"),
        ({"pairwise": None}, {"potentials": "shared", "smoothness": -1.0}, "smoothness=-1.0: give a number"),
        ({"pairwise": None}, {"potentials": "shared", "truncation": 0.0}, "truncation=0.0: give a number"),
    ],
)  # fmt: skip
def test_other_graphs_than_networks_are_refused(changes, options, words):
    with pytest.raises(InvalidInput, match=words):
        algorithm = BeliefPropagation(**{"potentials": "edge", **options})
        algorithm.inputs(algorithm.prepare_graph(changed(**changes)), 2)


def test_fewer_features_than_states_are_refused():
    with pytest.raises(InvalidInput, match="variables of 2 states but features=1; set features=2"):
        BeliefPropagation(potentials="edge").inputs(changed(), 1)


def test_a_graph_without_potentials_on_its_edges_is_refused():
    with pytest.raises(InvalidInput, match="'pair' has no potentials on its edges; set potentials=shared"):
        BeliefPropagation(potentials="edge").inputs(changed(pairwise=None), 2)


def test_potentials_of_only_one_direction_are_refused():
    edge = Graph.from_edges(
        [0], [1], name="edge", vertex_data={"unary": np.ones((2, 2))}, edge_data={"pairwise": np.ones((1, 2, 2))}
    )
    with pytest.raises(InvalidInput, match="'edge': an edge has no reverse edge with its transposed potentials"):
        BeliefPropagation(potentials="edge").inputs(edge, 2)


def test_a_variable_joined_with_itself_is_refused():
    loop = Graph.from_edges(
        [0], [0], name="loop", vertex_data={"unary": np.ones((1, 2))}, edge_data={"pairwise": np.ones((1, 2, 2))}
    )
    with pytest.raises(InvalidInput, match="has an edge from variable 0 to itself"):
        BeliefPropagation(potentials="edge").inputs(loop, 2)


def test_a_graph_of_nothing_that_could_be_inferred_is_refused():
    plain = Graph.from_edges([0, 1], [1, 0], name="plain")
    for ask in (lambda a: a.inputs(plain, 2), lambda a: a.default_features(plain)):
        with pytest.raises(InvalidInput, match="'plain' has neither potentials nor a picture"):
            ask(BeliefPropagation())


@pytest.mark.parametrize(("option", "value"), [("rule", "mean"), ("potentials", "vertex")])
def test_unknown_choices_are_refused(option, value):
    with pytest.raises(InvalidInput, match=f"{option}='{value}': give one of"):
        trace(BeliefPropagation(**{option: value}))


def test_factors_of_three_variables_are_refused_by_name(tmp_path):
    path = tmp_path / "three.uai"
    path.write_text("MARKOV\n3\n2 2 2\n1\n3 0 1 2\n8\n1 1 1 1 1 1 1 1\n")
    with pytest.raises(GraphError, match="factor 0 joins 3 variables"):
        load_graph(path)
