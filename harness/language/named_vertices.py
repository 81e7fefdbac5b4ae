"""Vertices that values name: ``v.at(v.root).label``, and reductions over vertices with ``at=``.

A whole number from 0 to V - 1 names the vertex with that number; any other value names none. A read at no vertex gives
the reading vertex's own value, and a reduction ignores what is sent to no vertex. So no value can reach beyond the
arrays, on any engine. An infinity is the usual value for *none*: it is the result of a minimum or a maximum over
nothing. Any other value that names none is a mistake in the program, and the float64 reference raises an error for it.
Engines do not search for such values, and truncate a number between 0 and V that is not whole.

All reads are of the values before the stage. Numbers are float32, which represents every integer up to 2^24.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.language.errors import LanguageError
from harness.language.program import Program, Stage, VertexReduce, names_vertices

Array = NDArray[Any]
MOST_VERTICES = 2**24  # float32 represents every integer up to here


def named_vertices(numbers: Array, count: int, stage: Stage) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Return the vertices that ``numbers``, float64[N], name, and which of them name one: int64[N] and bool[N].

    The vertex is 0 where none is named. ``count``: of vertices. Raises LanguageError, at the ``stage``, for a number
    that is neither a vertex nor an infinity, and if values cannot name ``count`` vertices.
    """
    if reason := too_many_vertices(count):
        raise LanguageError(f"{stage.name} names vertices by values, and {reason}", stage.line)
    with np.errstate(invalid="ignore"):
        known = (numbers >= 0) & (numbers < count) & (numbers == np.floor(numbers))
    wrong = ~known & ~np.isinf(numbers)
    if wrong.any():
        raise LanguageError(
            f"{stage.name} names the vertex {numbers[wrong][0]:.17g}; a vertex is a whole number from 0 to "
            f"{count - 1}, and an infinity names none",
            stage.line,
        )
    return np.where(known, numbers, 0).astype(np.int64), known


def too_many_vertices(count: int) -> str:
    """Return why values cannot name ``count`` vertices; empty if they can."""
    return "" if count <= MOST_VERTICES else f"float32 has a number for 2^24 vertices, not for {count}"


def named_reads(program: Program) -> str:
    """Return why changes of a program cannot be followed to the vertices that read them by number.

    Empty if no stage names vertices: the readers of a vertex are then known from the edges.
    """
    for stage in program.stages:
        if names_vertices(stage):
            what = "reduces into" if isinstance(stage, VertexReduce) else "reads from"
            return f"{stage.name} {what} vertices that values name, so that a change has no known readers to follow"
    return ""
