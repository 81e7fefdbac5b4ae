"""The end of tracing: check the recorded stages as a whole, and make the program of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NoReturn

from harness.language.criterion import Criterion
from harness.language.errors import LanguageError, SourceLine
from harness.language.evaluation import Evaluator
from harness.language.expressions import Expression, walk
from harness.language.program import Control, EdgeStep, Output, Program, Property, Stage
from harness.language.stage_names import named_apart
from harness.language.wellformed import check_edge_step, check_named, check_sides, check_without


def assembled(
    name: str, properties: Mapping[str, Property], stages: tuple[Sequence[Stage], Sequence[Stage]], control: Control,
    results: Sequence[tuple[str, Expression, float]], parameters: Mapping[str, float], earlier: Program | None,
    line: SourceLine | None,
) -> Program:  # fmt: skip
    """Return a phase of a program. Raises LanguageError if it is not well formed.

    ``stages``: those that run once, and those of every superstep. ``results``: name, bound and floor of every output.
    ``parameters``: values of all run-time parameters. ``line``: the source line for what has none of its own.
    """
    setup, every = stages
    for stage in every:
        check_without(stage, every)
        if isinstance(stage, EdgeStep):
            check_edge_step(stage, properties, control)
        if control.alternate:
            check_sides(stage, properties)
        check_named(stage, every, control)
    number = Evaluator(_no_read, parameters, 1)
    outputs = tuple(Output(output, float(number(bound)[0]), floor) for output, bound, floor in results)
    used = {node.attribute for stage in [*setup, *every] for node in walk(*stage.expressions()) if node.op == "param"}
    used |= {control.tolerance}
    program = Program(
        name,
        dict(properties),
        named_apart(every),
        control,
        outputs,
        {parameter: value for parameter, value in parameters.items() if parameter in used},
        named_apart(setup),
        earlier,
    )
    if control.norm == "sum" and Criterion.of(program) is None:
        raise LanguageError(
            "norm='sum' measures float scalars and vectors of vertices; here an edge stage or a reduction "
            "over the graph reads changing edges, bools or matrices",
            line,
        )
    return program


def _no_read(space: str, name: str) -> NoReturn:
    raise AssertionError(f"a bound that reads {space}.{name} is rejected when it is declared")
