"""How far a program is from settled at given values: for answers that are one of several fixed points."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.language.algorithm import Inputs
from harness.language.program import Program
from harness.language.reference import ReferenceRun
from harness.language.validation import Comparison, compare

if TYPE_CHECKING:
    from harness.graph import Graph


def residual(
    program: Program, graph: Graph, features: int, inputs: Inputs, state: Mapping[str, NDArray[np.generic]]
) -> Comparison:
    """Hold a settled answer against what float64 makes of it in one superstep (of each side, where sides alternate).

    ``state``: all properties that live from superstep to superstep. The difference is held to the program's bound.
    """
    run = ReferenceRun(program, graph, features)
    run.reset(inputs, state)
    run.run(2 if program.control.alternate else 1)
    answer = {name: np.asarray(state[name], np.float64) for name in program.outputs}
    return compare(program, answer, {name: run.values(name) for name in program.outputs})
