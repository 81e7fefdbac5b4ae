"""The results of stages that run once (:mod:`harness.language.once`).

They are evaluated in float64 when the inputs of a run are made, the same for every engine and outside of the timed
solve; an engine meets the results as given inputs.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from harness.language.algorithm import Inputs
from harness.language.errors import InvalidInput
from harness.language.program import Control, Program
from harness.language.reference import ReferenceRun

if TYPE_CHECKING:
    from harness.graph import Graph


def with_results(program: Program, graph: Graph, features: int, inputs: Inputs) -> Inputs:
    """Return the inputs with the results of the stages that run once, float32 or bool; given results are kept.

    Raises InvalidInput for an input that is missing or does not fit.
    """
    pending = tuple(stage for stage in program.setup if not set(stage.writes) <= inputs.properties.keys())
    computed = {name for stage in pending for name in stage.writes}
    if not computed:
        return inputs
    properties = {
        name: replace(prop, role="temporary") if name in computed else prop
        for name, prop in program.properties.items()
        if prop.role in ("input", "builtin")
    }
    before = Program(program.name, properties, pending, Control(1, settles=False), (), program.parameters)
    run = ReferenceRun(before, graph, features)
    run.reset(inputs)
    run.run_stages()
    found = {}
    for name in computed - inputs.properties.keys():
        prop = properties[name]
        values = run.values(name).astype(np.bool_ if prop.dtype == "bool" else np.float32)
        found[name] = values[0] if prop.place == "graph" else values
    return Inputs({**inputs.properties, **found}, inputs.parameters)


def refuse_changed_graph(program: Program) -> None:
    """Raise InvalidInput if a change of the graph may change what stages that run once computed."""
    if program.setup:
        raise InvalidInput(
            f"{program.setup[0].name} of {program.name} runs once, and a change of the graph may change its result; "
            "warm runs of such programs are not supported"
        )


__all__ = ["refuse_changed_graph", "with_results"]
