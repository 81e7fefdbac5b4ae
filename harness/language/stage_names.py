"""The names and source lines of stages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from harness.language.errors import SourceLine
from harness.language.program import Stage

Function = Callable[..., Any]


def line_of(function: Function) -> SourceLine:
    """Return the file of a function and the line of its first decorator or ``def``."""
    code = function.__code__
    return SourceLine(code.co_filename, code.co_firstlineno)


def named_apart(stages: Sequence[Stage]) -> tuple[Stage, ...]:
    """Append a number to stage names that occur before: engines identify stages by name."""
    taken = {stage.name for stage in stages}
    seen: set[str] = set()
    result: list[Stage] = []
    for stage in stages:
        name, number = stage.name, 1
        while name in seen or (number > 1 and name in taken):
            number += 1
            name = f"{stage.name}_{number}"
        seen.add(name)
        result.append(stage if name == stage.name else replace(stage, name=name))
    return tuple(result)


def name_of(function: Function) -> str:
    """Return the name of the stage: that of the function, or "stage" for a lambda."""
    name: str = function.__name__
    return name if name.isidentifier() else "stage"
