"""Recognition of matrix factorisation by stochastic gradient descent, for engines that call a library."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from dataclasses import dataclass

from harness.algorithms.sgd_mf import RATES, SGDMatrixFactorisation
from harness.language import Program, trace
from harness.language.matching import matched
from harness.language.program import Conflicts, EdgeOrder, EdgeStep


@dataclass(frozen=True)
class RecognisedSGD:
    """A program that is ``sgd_mf`` up to names, with the options that change its text.

    ``properties`` and ``parameters`` map the names that ``sgd_mf`` uses to those of the program. ``step``: the name of
    its step in place.
    """

    bias: bool
    rates: str
    order: EdgeOrder
    conflicts: Conflicts
    step: str
    properties: Mapping[str, str]
    parameters: Mapping[str, str]


def recognised_sgd(program: Program) -> RecognisedSGD | None:
    """Return the options of ``sgd_mf`` with which it is the program, by its structure; None if it is another one."""
    step = program.stages[0]
    if len(program.stages) != 1 or not isinstance(step, EdgeStep):
        return None
    for bias, rates in itertools.product(("none", "both"), RATES):
        names = matched(_template(bias, rates), program)
        if names is not None:
            return RecognisedSGD(
                bias == "both", rates, step.order, step.conflicts, step.name, names.properties, names.parameters
            )
    return None


@functools.cache
def _template(bias: str, rates: str) -> Program:
    return trace(SGDMatrixFactorisation(bias=bias, rates=rates))
