"""Stages that run once, before the first superstep: their results are inputs of the run.

They read inputs, built-in values and each other's results. :mod:`harness.language.results_once` evaluates them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from harness.language.declarations import Declarations
from harness.language.directions import FORWARD, on_both_directions
from harness.language.errors import LanguageError
from harness.language.program import EdgeReduce, GraphReduce, Stage, VertexReduce, VertexStep, reads


class Once:
    """The decorators of stages of a program builder, for stages that run once."""

    def __init__(self, recorder: Any) -> None:
        self.over_edges = recorder.over_edges
        self.over_vertices = recorder.over_vertices
        self.over_graph = recorder.over_graph


Recorded: TypeAlias = tuple[list[Stage], list[int]]  # stages, and the positions of the reductions over out-edges


def separated(
    once: Recorded, every: Recorded, properties: Declarations, over_out_edges: str
) -> tuple[list[Stage], list[Stage]]:
    """Return the stages that run once and those of every superstep, checked and in their final form.

    ``over_out_edges``: the name of a stage of any phase that reduces over out-edges; empty if there is none. Raises
    LanguageError for a stage that cannot be where it is.
    """
    setup, stages = once[0], every[0]
    outward = [*once[1], *(len(setup) + at for at in every[1])]
    if over_out_edges:
        properties.declare(FORWARD, "edge", (), bool, None)
        both = on_both_directions([*setup, *stages], outward, over_out_edges)
        setup, stages = both[: len(setup)], both[len(setup) :]
    become_inputs(setup, stages, properties)
    return setup, stages


def become_inputs(setup: Sequence[Stage], stages: Sequence[Stage], properties: Declarations) -> None:
    """Turn what the stages of ``setup`` write into inputs of the other ``stages``.

    Raises LanguageError, at the stage, for a kind of stage that cannot run once and for a value that does not exist
    before the run. Raises it also for a property that another stage writes too.
    """
    written: set[str] = set()
    later = {name for stage in stages for name in stage.writes}
    for stage in setup:
        if not isinstance(stage, EdgeReduce | VertexStep | VertexReduce | GraphReduce):
            raise LanguageError(
                f"{stage.name} updates edges, which is not supported in a stage that runs once", stage.line
            )
        for _, name in reads(stage):
            if name not in written and properties[name].role not in ("input", "builtin"):
                raise LanguageError(
                    f"{stage.name} runs once, before the first superstep, where {name!r} has no value; it reads inputs "
                    "and the results of stages that run once before it",
                    stage.line,
                )
        again = sorted({name for name in stage.writes if name in later or properties[name].role == "state"})
        if again:
            raise LanguageError(
                f"{stage.name} runs once and writes {again[0]!r}, which is a state or is written by another stage; "
                "write a new property",
                stage.line,
            )
        written |= set(stage.writes)
    for name in written:
        properties[name] = replace(properties[name], role="input")


__all__ = ["Once", "separated"]
