"""The weighted inner product of Krylov plans: its weights make the matrix of a program symmetric, or it is refused.

The matrix is made from supersteps of unit vectors by the reference, in float64.
"""

from __future__ import annotations

import numpy as np
import pytest

from engines.onyx.krylov_symmetry import weights
from harness.graph import Graph
from harness.graph.generators import grid
from harness.language import Inputs, K, full, outer
from harness.language.affine import Symmetry, symmetry
from harness.language.reference import ReferenceRun
from tests.engines.programs import traced

FEATURES = 3


def averaging(message, update, *, shape=(K,), share=(), weight=(), strength=None):
    """Return a program of the state ``x``; ``strength``: the message of a sum that does not depend on it."""

    def build(p, self):
        p.edge("w", weight)
        p.graph("scale")
        p.vertex("share", share)
        p.vertex("x", shape, start=0.0)
        if strength is not None:
            p.over_edges(into="strength", reduce="sum")(strength)
        p.over_edges(into="sum", reduce="sum")(message)
        p.over_vertices(update(self))
        p.until_settled(self.tolerance, at_most=50)
        p.output("x", bound=1e-4)

    return traced(build, "averaging")


PROGRAMS = {
    "scalars without a coefficient": averaging(lambda src: src.x, lambda _: lambda v: {"x": v.share * v.sum}, shape=()),
    "scalars times a value of the edge": averaging(
        lambda src, edge: edge.w * src.x, lambda _: lambda v: {"x": v.sum / (2 + v.share) - 0.5 * v.x}, shape=()
    ),
    "rows times a value of the edge": averaging(
        lambda src, edge: edge.w * src.x, lambda self: lambda v: {"x": self.rate * v.share * v.sum + v.share}
    ),
    "rows times a row of the edge": averaging(
        lambda src, edge: edge.w * src.x, lambda _: lambda v: {"x": v.share * v.sum + 1.0}, weight=(K,)
    ),
    "divided by the sum of what sources, destinations and edges have": averaging(
        lambda src, edge: edge.w * src.x,
        lambda _: lambda v: {"x": v.sum / (1.0 + v.strength)},
        strength=lambda src, dst, edge, graph: graph.scale * (src.share + 3.0 * dst.share + 10.0 * edge.w),
    ),
    "several values of the edge times a row": averaging(
        lambda src, edge: outer(edge.w, src.x),
        lambda _: lambda v: {"x": v.share * (full((2,), 0.5) @ v.sum)},
        weight=(2,),
    ),
}


def both_ways(graph, values):
    """Return values of edges of which both directions have the same."""
    ends = np.sort(np.stack([graph.csr.row_of_edge, graph.csr.neighbours]), axis=0)
    return values[np.unique(ends, axis=1, return_inverse=True)[1].ravel()]


def posed(program, graph, **changes):
    """Return the inputs of a program, drawn: positive, the same in both directions of an edge."""
    rng = np.random.default_rng(2)
    found = {
        "share": rng.uniform(0.2, 1.5, graph.num_vertices).astype(np.float32),
        "scale": np.full(1, 1.5, np.float32).reshape(()),
    }
    shape = tuple(FEATURES if one == K else one for one in program.properties["w"].shape)
    found["w"] = both_ways(graph, rng.uniform(0.5, 2, (graph.num_edges, *shape)).astype(np.float32))
    read = {name for name, one in program.properties.items() if one.role == "input"}
    return Inputs({name: values for name, values in (found | changes).items() if name in read}, program.parameters)


def matrices(program, graph, inputs):
    """Return A of every column of the state, float64[columns, V, V], by supersteps of unit vectors."""
    run, shape = ReferenceRun(program, graph, FEATURES), (graph.num_vertices, FEATURES)

    def after(values):
        run.reset(inputs, {"x": values if program.properties["x"].shape else values[:, 0]})
        run.superstep()
        return run.values("x").reshape(graph.num_vertices, -1).copy()

    zero, columns = after(np.zeros(shape)), []
    for v in range(graph.num_vertices):
        unit = np.zeros(shape)
        unit[v] = 1.0
        columns.append(after(unit) - zero)
    return np.stack(columns, axis=1).transpose(2, 0, 1)


@pytest.fixture(scope="module")
def mesh():
    return grid(3, 5)


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_weighted_matrix_is_symmetric(name, mesh):
    program = PROGRAMS[name]
    form, inputs = symmetry(program), posed(program, mesh)
    assert isinstance(form, Symmetry), form
    found = weights(form, program, mesh, FEATURES, inputs)
    assert found.dtype == np.float32
    assert found.shape == (mesh.num_vertices, FEATURES)[: 1 + len(program.properties["x"].shape)]
    for column, matrix in enumerate(matrices(program, mesh, inputs)):
        np.fill_diagonal(matrix, 0.0)
        scaled = found.reshape(len(found), -1)[:, column, None] * matrix
        assert np.count_nonzero(matrix) == mesh.num_edges
        assert np.abs(matrix - matrix.T).max() > 0.01 * np.abs(matrix).max()
        np.testing.assert_allclose(scaled, scaled.T, rtol=1e-5)


MULTIPLIED = [name for name in PROGRAMS if "scalars times" not in name and "divided" not in name]  # by ``share``
AT = 4  # a vertex with edges; the last one has none


@pytest.fixture(scope="module")
def lonely(mesh):
    """Return the grid and a vertex without edges."""
    return Graph.from_edges(mesh.csr.row_of_edge, mesh.csr.neighbours, num_vertices=mesh.num_vertices + 1, name="one")


@pytest.mark.parametrize(
    ("at", "share", "reason"),
    [
        (AT, -0.01, "averaging multiplies the sum of a vertex by a number that is negative or not finite"),
        (-1, -0.01, "averaging multiplies the sum of a vertex by a number that is negative or not finite"),
        (AT, np.inf, "averaging multiplies the sum of a vertex by a number that is negative or not finite"),
        (AT, 0.0, "averaging multiplies the sum of a vertex that has edges by 0"),
    ],
)
@pytest.mark.parametrize("name", MULTIPLIED)
def test_a_number_of_which_no_weight_is_the_inverse_is_named(name, at, share, reason, lonely):
    program = PROGRAMS[name]
    inputs = posed(program, lonely)
    changed = inputs.properties["share"].copy()
    changed[at] = share
    assert weights(symmetry(program), program, lonely, FEATURES, posed(program, lonely, share=changed)) == reason


@pytest.mark.parametrize("name", MULTIPLIED)
def test_a_vertex_without_coefficients_may_be_multiplied_by_0(name, lonely):
    """It has weight 1, also if it has edges whose values are all 0."""
    program = PROGRAMS[name]
    inputs = posed(program, lonely)
    usual = weights(symmetry(program), program, lonely, FEATURES, inputs)
    share, weight = inputs.properties["share"].copy(), inputs.properties["w"]
    share[-1], wanted = 0.0, usual.copy()
    wanted[-1] = 1.0
    changes = {"share": share}
    if symmetry(program).coefficient is not None:
        share[AT], wanted[AT], changes["w"] = 0.0, 1.0, weight.copy()
        changes["w"][(lonely.csr.row_of_edge == AT) | (lonely.csr.neighbours == AT)] = 0.0
    found = weights(symmetry(program), program, lonely, FEATURES, posed(program, lonely, **changes))
    np.testing.assert_array_equal(found, wanted)


def test_one_feature_with_a_coefficient_is_enough_to_refuse_0(lonely):
    program = PROGRAMS["rows times a row of the edge"]
    inputs = posed(program, lonely)
    share, weight = inputs.properties["share"].copy(), inputs.properties["w"].copy()
    share[AT] = 0.0
    weight[(lonely.csr.row_of_edge == AT) | (lonely.csr.neighbours == AT), : FEATURES - 1] = 0.0
    reason = weights(symmetry(program), program, lonely, FEATURES, posed(program, lonely, share=share, w=weight))
    assert reason == "averaging multiplies the sum of a vertex that has edges by 0"


def test_of_an_outer_product_every_feature_has_all_coefficients(lonely):
    """Two values of an edge are no coefficients of two features."""
    program = averaging(
        lambda src, edge: outer(edge.w, src.x),
        lambda _: lambda v: {"x": v.share * (full((2,), 0.5) @ v.sum)},
        weight=(2,),
        share=(K,),
    )
    weight = np.array([0.0, 1.0], np.float32) * np.ones((lonely.num_edges, 1), np.float32)
    share = np.ones((lonely.num_vertices, 2), np.float32)
    share[AT, 0] = 0.0
    found = weights(symmetry(program), program, lonely, 2, Inputs({"w": weight, "share": share}))
    assert found == "averaging multiplies the sum of a vertex that has edges by 0"


@pytest.mark.parametrize("name", [name for name in PROGRAMS if "without" not in name])
def test_values_and_edges_are_the_same_in_both_directions(name, lonely):
    program = PROGRAMS[name]
    inputs = posed(program, lonely)
    weight = inputs.properties["w"].copy()
    weight[-1:] *= 1.0001
    found = weights(symmetry(program), program, lonely, FEATURES, posed(program, lonely, w=weight))
    assert found == "'w' differs between the two directions of an edge"
    one_way = Graph.from_edges([0, 1], [1, 2], num_vertices=3, name="path")
    found = weights(symmetry(program), program, one_way, FEATURES, posed(program, one_way))
    assert found == "some edges have no reverse edge"
