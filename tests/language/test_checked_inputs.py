"""Inputs that cannot change are checked once; others whenever a run starts."""

from __future__ import annotations

import numpy as np
import pytest

from harness.algorithms.label_propagation import LabelPropagation
from harness.graph.adjacency import frozen
from harness.graph.generators import grid
from harness.language import Inputs, InvalidInput, initial_state, trace
from harness.language.initial_state import Start, checked_input, note_checked
from harness.language.program import Property


@pytest.fixture
def posed():
    """Return a program with its graph, the inputs of a run for k = 2, and the property that they give."""
    algorithm, graph = LabelPropagation(), grid(rows=4, columns=4)
    program, inputs = trace(algorithm), algorithm.inputs(graph, 2)
    name = next(name for name, one in inputs.properties.items() if one.dtype.kind == "f")
    return program, graph, inputs, program.properties[name]


def start(posed, array):
    program, graph, inputs, prop = posed
    given = Inputs({**inputs.properties, prop.name: array}, inputs.parameters)
    return Start(program, graph, 2, given, {}).of(prop)


def test_an_input_that_cannot_change_is_checked_once(posed, monkeypatch):
    checks, check = [], initial_state._check_signs

    def counted(what, prop, values):
        checks.append(prop.name)
        check(what, prop, values)

    monkeypatch.setattr(initial_state, "_check_signs", counted)
    fixed = frozen(np.array(posed[2].properties[posed[3].name]))
    for _ in range(3):
        assert start(posed, fixed) is fixed
    assert len(checks) == 1
    start(posed, frozen(np.array(fixed)))
    assert len(checks) == 2, "another array"


def test_an_input_that_can_change_is_checked_every_time(posed):
    array = np.array(posed[2].properties[posed[3].name])
    start(posed, array)
    array[0] = np.nan
    with pytest.raises(InvalidInput, match="contains NaN"):
        start(posed, array)


def test_inputs_with_rows_of_checked_ones_are_not_checked_again(posed, monkeypatch):
    program, _, inputs, prop = posed
    monkeypatch.setattr(initial_state, "_check_signs", lambda *_: pytest.fail("checked again"))
    fixed = frozen(np.array(inputs.properties[prop.name]))
    note_checked(program, Inputs({prop.name: fixed}, {}))
    assert start(posed, fixed) is fixed
    changing = np.array(fixed)
    note_checked(program, Inputs({prop.name: changing}, {}))
    with pytest.raises(pytest.fail.Exception, match="checked again"):
        start(posed, changing)


@pytest.mark.parametrize("place", ["vertex", "edge"])
def test_a_check_for_one_property_is_none_for_a_stricter_one(place):
    """One array of no lower bound is then given for a property that is nonnegative, and for a Boolean one."""
    graph = grid(rows=2, columns=2)
    array = frozen(np.full(graph.num_vertices if place == "vertex" else graph.num_edges, -1.0, np.float32))

    def checked(**traits):
        prop = Property("x", place, (), role="input", **traits)
        return checked_input(prop, Inputs({prop.name: array}), graph, array.shape)

    assert checked() is array
    with pytest.raises(InvalidInput, match=f"must be nonnegative; {len(array)} of its values are below zero"):
        checked(nonnegative=True)
    with pytest.raises(InvalidInput, match="is float32; the program needs bool"):
        checked(dtype="bool")
    assert checked() is array
