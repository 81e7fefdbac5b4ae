"""Vertex stages that name vertices by values: checks, and the order of their reads and writes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from harness.language.errors import LanguageError, SourceLine
from harness.language.expressions import Expression, read
from harness.language.program import EXTREMA, Extremum, Place, VertexStep, reads
from harness.language.stage_names import line_of
from harness.language.wellformed import require_float

Function = Callable[..., Any]
Write = Callable[[str, Place, Expression, SourceLine], None]


def reduction_at(
    into: str | None, reduce: str | None, at: Function | None, when: Function | None
) -> tuple[str, Extremum, Function]:
    """Return the first three arguments of a reduction at named vertices. Raises LanguageError."""
    if into is None or reduce is None or at is None or when is not None:
        raise LanguageError(
            "over_vertices() that reduces takes into=, reduce= and at=, and no guard; where() in the function chooses "
            "what is reduced"
        )
    for reducer in EXTREMA:
        if reduce == reducer:
            return into, reducer, at
    raise LanguageError(
        f"reduce={reduce!r}: a reduction at named vertices is {' or '.join(EXTREMA)}, whose result does not depend on "
        "the order of the vertices"
    )


def scalar_to_reduce(value: Expression, function: Function) -> Expression:
    """Return the value of a function that is reduced at named vertices. Raises LanguageError unless it is a scalar."""
    line = line_of(function)
    require_float(value, function.__name__, line)
    if value.shape:
        raise LanguageError(f"{function.__name__} must give a scalar to reduce, not the shape {value.shape}", line)
    return value


def read_before_written(step: VertexStep, unused: Callable[[str], str], write: Write) -> list[VertexStep]:
    """Return a step, or two steps if it writes what it reads at named vertices.

    The first of the two writes such properties to temporaries, so that all reads are of the values before the step.
    ``unused``: returns a free name; ``write``: records what is written.
    """
    again = {name for space, name in reads(step) if space == "at"} & set(step.writes)
    if not again:
        return [step]
    first, copies = [], []
    for name, value in step.values:
        own = unused(f"{name}_next") if name in again else name
        if own != name:
            write(own, "vertex", value, step.line)
            copies.append((name, read("v", own, value.shape, value.dtype)))
        first.append((own, value))
    return [VertexStep(step.name, tuple(first), step.line), VertexStep(f"{step.name}_copy", tuple(copies), step.line)]
