"""Other inputs by hand: what is rotated, within which bounds, and what changes if rotations change nothing."""

from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pytest

from harness.campaign.variation import _varied
from harness.graph import Graph
from harness.language import Inputs

V, E = 3, 5


def posed(*, edges=E, bipartite=None, earlier=None):
    """Return a graph of three vertices, and a program with inputs of vertices, of edges and of the graph."""
    sources, destinations = (
        np.arange(edges) % bipartite[0] if bipartite else np.arange(edges) % V,
        np.full(edges, V - 1),
    )
    graph = Graph.from_edges(sources, destinations, num_vertices=V, bipartite=bipartite, name="g", duplicates="keep")
    places = {"at": "vertex", "on": "vertex", "along": "edge", "ids": "edge", "scale": "graph"}
    properties = {name: SimpleNamespace(place=place) for name, place in places.items()}
    return SimpleNamespace(properties=properties, earlier=earlier), graph


def inputs_of(at, on, edges=E, along=None):
    along = np.arange(edges, dtype=np.float32) if along is None else np.asarray(along, np.float32)
    arrays = {
        "at": np.asarray(at, np.float32), "on": np.asarray(on, np.bool_), "along": along,
        "ids": np.arange(2 * edges, dtype=np.float32).reshape(edges, 2), "scale": np.array(3, np.float32),
    }  # fmt: skip
    return Inputs(arrays, {"alpha": 0.5, "beta": 8.0})


def rolled(array, by, bounds):
    return np.concatenate([np.roll(array[low:high], by, axis=0) for low, high in pairwise(bounds)])


def changed(found, given):
    return {name for name, array in found.properties.items() if array is not given.properties[name]}


@pytest.mark.parametrize("attempt", [0, 1, 3])
@pytest.mark.parametrize(("bipartite", "bounds"), [(None, (0, 3)), ((2, 1), (0, 2, 3))])
def test_inputs_of_vertices_are_rotated_together(attempt, bipartite, bounds):
    program, graph = posed(bipartite=bipartite)
    given = inputs_of([[1, 2], [3, 4], [5, 6]], [True, False, False])
    found = _varied(program, graph, given, attempt)
    by = attempt + 1
    if all(by % (high - low) == 0 for low, high in pairwise(bounds)):  # the rotation changes nothing
        assert changed(found, given) == {"along", "ids"}
        return
    assert changed(found, given) == {"at", "on"}
    for name in ("at", "on"):
        assert found.properties[name].tolist() == rolled(given.properties[name], by, bounds).tolist()
        assert not found.properties[name].flags.writeable
    assert found.parameters == given.parameters


@pytest.mark.parametrize("edges", [2, 3, 5, 9])  # fewer than vertices, as many, and more
@pytest.mark.parametrize("attempt", [0, 1])
def test_all_inputs_of_edges_are_rotated_if_those_of_vertices_stay_the_same(edges, attempt):
    """Rows of vertices are equal, so that their rotation changes nothing."""
    program, graph = posed(edges=edges)
    given = inputs_of([7, 7, 7], [True] * 3, edges)
    found = _varied(program, graph, given, attempt)
    by = attempt + 1
    if by % edges == 0:
        assert found.parameters == {"alpha": 0.5 * (1 - by / 64), "beta": 8.0 * (1 - by / 64)}
        return
    assert changed(found, given) == {"along", "ids"}
    for name in ("along", "ids"):
        assert found.properties[name].tolist() == np.roll(given.properties[name], by, axis=0).tolist()
        assert not found.properties[name].flags.writeable
    assert found.parameters == given.parameters


@pytest.mark.parametrize("attempt", [0, 4])
@pytest.mark.parametrize("later", [True, False])
def test_parameters_are_reduced_if_no_rotation_changes_anything(attempt, later):
    """Inputs of a later phase are not rotated."""
    program, graph = posed(earlier=object() if later else None)
    given = inputs_of([1, 2, 3] if later else [7, 7, 7], [True] * 3, along=[4] * E)
    given = Inputs({name: one for name, one in given.properties.items() if name != "ids"}, given.parameters)
    found = _varied(program, graph, given, attempt)
    share = 1 - (attempt + 1) / 64
    assert found.parameters == {"alpha": 0.5 * share, "beta": 8.0 * share}
    for name, array in given.properties.items():
        assert found.properties[name].tolist() == array.tolist()
        assert not np.shares_memory(found.properties[name], array)
