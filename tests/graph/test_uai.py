"""UAI Markov networks."""

import numpy as np
import pytest

from harness.graph import GraphError, load_graph
from harness.graph.formats.uai import MarkovNetwork

NETWORK = """MARKOV
3
2 3 2
4
1 0
2 0 1
2 2 1
1 0

2
 0.25 0.75
6
 1 2 3
 4 5 6
6 1 2 3 4 5 6
2 2 4
"""


def test_potentials_are_padded_oriented_and_multiplied(write):
    network = MarkovNetwork.from_graph(load_graph(write("n.uai", NETWORK), format="uai"))
    network.graph.validate()
    assert network.cardinalities.tolist() == [2, 3, 2]
    assert network.unary.tolist() == [[0.5, 3, 0], [1, 1, 1], [1, 1, 0]]
    assert network.graph.csr.row_of_edge.tolist() == [0, 1, 1, 2]
    assert network.graph.csr.neighbours.tolist() == [1, 0, 2, 1]
    first = [[1, 2, 3], [4, 5, 6], [0, 0, 0]]
    assert network.pairwise[0].tolist() == first
    assert network.pairwise[3].tolist() == first
    np.testing.assert_array_equal(network.pairwise[network.graph.reverse_edges], network.pairwise.transpose(0, 2, 1))
    csr, states = network.graph.csr, network.state_mask
    pairs = states[csr.row_of_edge][:, :, None] & states[csr.neighbours][:, None, :]
    np.testing.assert_array_equal(pairs, network.pairwise > 0)
    assert states.tolist() == [[True, True, False], [True] * 3, [True, True, False]]
    assert network.evidence == ()


def test_factors_of_one_scope_are_multiplied_whatever_their_order(write):
    text = "MARKOV\n2\n2 2\n3\n2 0 1\n2 1 0\n0\n4\n1 2 3 4\n4\n1 10 100 1000\n1 7\n"
    network = MarkovNetwork.from_graph(load_graph(write("n.uai", text), format="uai"))
    assert network.pairwise[0].tolist() == [[1, 200], [30, 4000]]


@pytest.mark.parametrize(
    ("evidence", "expected"), [("0\n", ()), ("1 1 2", ((1, 2),)), ("1\n2 0 1 2 0\n", ((0, 1), (2, 0))), ("1 0", ())]
)
def test_the_evidence_file_beside_it_is_read(write, evidence, expected):
    write("n.uai.evid", evidence)
    network = MarkovNetwork.from_graph(load_graph(write("n.uai", NETWORK), format="uai"))
    assert network.evidence == expected


def test_other_graphs_are_not_networks(write):
    with pytest.raises(GraphError, match="not a Markov network"):
        MarkovNetwork.from_graph(load_graph(write("a.txt", "0 1\n")))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("MARKOV", "BAYES", r"n\.uai:1: the network is 'BAYES'"),
        ("2 3 2", "2 0 2", r":3: a cardinality is '0'; it must be an integer in 1"),
        ("2 0 1", "3 0 1 2", r":6: factor 1 joins 3 variables; only unary and pairwise"),
        ("2 0 1", "2 0 3", r":6: a variable is '3'"),
        ("2 0 1", "2 1 1", r":6: factor 1 joins variable 1 with itself"),
        ("6\n 1 2 3", "5\n 1 2 3", r":12: the length of table 1 \(its variables have 6 joint states\) is '5'"),
        ("0.75", "nan", r":11: an entry of table 0 is 'nan'; it must be a finite number"),
        ("0.75", "-1", r":11: an entry of table 0 is '-1'"),
        ("0.75", "x", r":11: an entry of table 0 is 'x'"),
        ("2 2 4", "2 2", r"the file ends before an entry of table 3"),
        ("2 2 4", "2 2 4 4", r":16: there is more after the last table"),
        ("\n3\n", "\n999999999\n", r":2: the number of variables is '999999999'"),
        ("\n4\n", "\n999999999\n", r":4: the number of factors is '999999999'"),
    ],
)
def test_each_fault_is_one_error_with_its_line(write, old, new, message):
    with pytest.raises(GraphError, match=message):
        load_graph(write("n.uai", NETWORK.replace(old, new, 1)))


@pytest.mark.parametrize(
    ("evidence", "message"), [("1 9 0", "an observed variable is '9'"), ("1 1 5", "an observed state")]
)
def test_wrong_evidence_names_its_file(write, evidence, message):
    write("n.uai.evid", evidence)
    with pytest.raises(GraphError, match=rf"n\.uai\.evid:1: {message}"):
        load_graph(write("n.uai", NETWORK))
