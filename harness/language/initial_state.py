"""Initial values of all properties: from the inputs, a warm state, or the program's own start."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import DTypeLike, NDArray

from harness.graph.file_maps import in_parts
from harness.language.algorithm import Inputs
from harness.language.directions import FORWARD
from harness.language.errors import InvalidInput
from harness.language.evaluation import concrete
from harness.language.program import Program, Property

if TYPE_CHECKING:
    from harness.graph import Graph

Array = NDArray[Any]
State = Mapping[str, NDArray[np.generic]]
# Inputs that have been checked, by identity and requirements: every reset of every run reads them again.
_CHECKED: WeakValueDictionary[tuple[int, str, bool], Array] = WeakValueDictionary()


def initial_values(
    program: Program, graph: Graph, features: int, inputs: Inputs, state: State, dtype: DTypeLike = np.float64
) -> dict[str, Array]:
    """Return every property as ``[V, *shape]``, ``[E, *shape]`` (CSR order) or ``[1, *shape]``, floats in ``dtype``.

    Raises InvalidInput for an input or a state that is missing or does not fit.
    """
    start = Start(program, graph, features, inputs, state)
    return {
        name: np.array(start.of(prop), np.bool_ if prop.dtype == "bool" else dtype)
        for name, prop in program.properties.items()
    }


def check_inputs(
    program: Program, graph: Graph, features: int, inputs: Inputs, made: Container[str] = ()
) -> None:  # fmt: skip
    """Check every input of a run for presence, shape, kind, NaN and sign, before any engine reads it.

    ``made``: names of inputs that do not exist yet. Raises InvalidInput that names the property, the value found and
    the requirement.
    """
    if not isinstance(inputs, Inputs):
        raise InvalidInput(f"inputs() of {program.name} returned {type(inputs).__name__}; it must return Inputs(...)")
    start = Start(program, graph, features, inputs, {})
    for prop in program.properties.values():
        if prop.role == "input" and prop.name not in made:
            start.of(prop)


def on_device(values: object) -> bool:
    """Return whether an array is in the memory of a CUDA device, as its ``__cuda_array_interface__`` shows."""
    return hasattr(values, "__cuda_array_interface__")


def note_checked(program: Program, inputs: Inputs) -> None:
    """Take the arrays of some inputs as checked, because they have rows that were; only arrays that cannot change."""
    for name, array in inputs.properties.items():
        prop = program.properties.get(name)
        if prop is not None and not array.flags.writeable:
            _CHECKED[_requirements(prop, array)] = array


class Start:
    """The initial values of single properties; returned arrays may be the caller's own and must not be written.

    Raises InvalidInput if the state names a property that does not change.
    """

    def __init__(self, program: Program, graph: Graph, features: int, inputs: Inputs, state: State) -> None:
        self.program, self.graph, self.features, self.inputs, self.state = program, graph, features, inputs, state
        known = program.properties
        for name in sorted(state):
            if name not in known or known[name].role not in ("state", "temporary"):
                raise InvalidInput(f"the state has {name!r}, which is not a changing property of {program.name}")

    def of(self, prop: Property) -> Array:
        """Return the initial values of a property. Raises InvalidInput."""
        graph = self.graph
        count = {"vertex": graph.num_vertices, "edge": graph.num_edges, "graph": 1}[prop.place]
        shape = (count, *concrete(prop.shape, self.features))
        if prop.role == "builtin":
            return np.asarray(self._builtin(prop.name), np.float64)
        if prop.role == "input" and prop.place == "graph":
            return checked_input(prop, self.inputs, graph, shape[1:])[None]
        if prop.role == "input":
            return checked_input(prop, self.inputs, graph, shape)
        if prop.name in self.state:
            given = np.asarray(self.state[prop.name])
            if given.shape != shape:
                raise InvalidInput(f"state {prop.name!r} has shape {given.shape}; the program needs {shape}")
            _check_signs("state", prop, given)
            return given
        if isinstance(prop.start, str):
            return self.of(self.program.properties[prop.start])
        # NaN makes a temporary visible that is read before it is written.
        fill_value = False if prop.dtype == "bool" else np.nan
        return np.full(shape, fill_value if prop.start is None else prop.start)

    def _builtin(self, name: str) -> Any:
        graph = self.graph
        match name:
            case "degree" | "in_degree":
                return graph.in_degrees
            case "out_degree":
                return graph.out_degrees
            case "num_vertices":
                return [graph.num_vertices]
            case "superstep":
                return [0]
        return [graph.num_edges]


def checked_input(prop: Property, inputs: Inputs, graph: Graph, shape: tuple[int, ...]) -> Array:
    """Return an input property, checked for presence, shape, kind, NaN and sign.

    A graph property has no first axis. Infinities are legal. An array on a CUDA device is checked there. Raises
    InvalidInput.
    """
    if prop.name in inputs.properties:
        given = inputs.properties[prop.name]
        array = given if on_device(given) else np.asarray(given)
    elif prop.place == "edge" and prop.name == "weight":
        array = graph.weights if graph.weights is not None else np.ones(graph.num_edges, np.float32)
    elif prop.place == "edge" and prop.name == FORWARD:
        array = _directions(graph)
    else:
        raise InvalidInput(f"input {prop.name!r} ({prop.place} property of shape {prop.shape}) was not given")
    if array.shape != shape:
        raise InvalidInput(f"input {prop.name!r} has shape {array.shape}; the program needs {shape}")
    key = _requirements(prop, array)
    if not on_device(array) and _CHECKED.get(key) is array and not array.flags.writeable:
        return array
    if array.dtype.kind not in ("b" if prop.dtype == "bool" else "fiub"):
        raise InvalidInput(f"input {prop.name!r} is {array.dtype}; the program needs {prop.dtype}")
    if array.dtype.kind == "f" and _count(array, np.isnan):
        raise InvalidInput(f"input {prop.name!r} contains NaN; remove or replace those entries")
    _check_signs("input", prop, array)
    if not on_device(array):
        _CHECKED[key] = array
    return array


def _directions(graph: Graph) -> Array:
    """Return which edges have the direction of a given edge, bool[E]. Raises InvalidInput."""
    if FORWARD not in graph.edge_data:
        raise InvalidInput(
            f"the program aggregates over out-edges, but graph {graph.name!r} has every edge in one direction only; "
            "let prepare_graph() of the algorithm return graph.both_directions()"
        )
    return graph.edge_data[FORWARD]


def _requirements(prop: Property, array: Array) -> tuple[int, str, bool]:
    return id(array), prop.dtype, prop.nonnegative


def _check_signs(what: str, prop: Property, values: Array) -> None:
    below = _count(values, lambda part: part < 0) if prop.nonnegative else 0
    if below:
        raise InvalidInput(f"{what} {prop.name!r} must be nonnegative; {below} of its values are below zero")


def _count(values: Array, test: Callable[[Array], Array]) -> int:
    """Return the number of values that pass a test; few are in memory at once if they are in a mapped file."""
    if on_device(values):
        return int(test(values).sum())
    return sum(int(np.count_nonzero(test(part))) for part in in_parts(np.atleast_1d(values)))
