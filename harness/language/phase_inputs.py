"""The inputs of each phase of a program (:mod:`harness.language.phases`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.language.algorithm import Inputs
from harness.language.errors import InvalidInput
from harness.language.initial_state import check_inputs
from harness.language.program import Program
from harness.language.results_once import with_results

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.graph import Graph


def check_given(program: Program, graph: Graph, features: int, inputs: Inputs) -> None:
    """Check the given inputs of all phases, before the first one runs. Raises InvalidInput."""
    made: set[str] = set()
    for phase in program.phases:
        if phase.earlier is not None:
            made |= {name for stage in phase.setup for name in stage.writes}
        check_inputs(phase, graph, features, inputs, made)
        made |= set(phase.outputs)


def inputs_of_phase(phase: Program, inputs: Inputs) -> Inputs:
    """Return the part of some inputs that belongs to a phase."""
    properties = {name: array for name, array in inputs.properties.items() if name in phase.properties}
    return Inputs(properties, inputs.parameters)


def inputs_after(
    phase: Program, graph: Graph, features: int, inputs: Inputs, values: Mapping[str, NDArray[Any]]
) -> Inputs:
    """Return ``inputs`` with what ``phase`` adds: the outputs of the phase before, and its own results of stages that
    run once.

    ``values``: those outputs, float32 or bool in the shape of the property. Raises InvalidInput if they are NaN.
    """
    before = {} if phase.earlier is None else {name: np.asarray(values[name]) for name in phase.earlier.outputs}
    for name, array in before.items():
        if array.dtype.kind == "f" and np.isnan(array).any():
            raise InvalidInput(
                f"output {name!r} of phase {len(phase.phases) - 1} holds values that are not numbers, so that phase "
                f"{len(phase.phases)} cannot start"
            )
    found = Inputs({**inputs.properties, **before}, inputs.parameters)
    return with_results(phase, graph, features, found)


__all__ = ["check_given", "inputs_after", "inputs_of_phase"]
