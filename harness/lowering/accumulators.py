"""Separate accumulators from what other stages read: such reductions go into a property of their own.

Kernels reduce edge by edge, and change tracking keeps accumulators from superstep to superstep. Therefore a property
that is reduced into must not be read by the message that it reduces, nor overwritten by another stage. A property that
is read through edges must be written by a vertex step, which records what moved.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Container

from harness.language.expressions import read
from harness.language.program import EdgeReduce, Program, Property, Stage, VertexReduce, VertexStep, reads


def separated(program: Program) -> Program:
    """Return the program in which every reduction that needs it goes into a temporary.

    A vertex step copies the temporary, after the reductions that follow. A reduction needs it if its message reads the
    property (of the previous superstep), or if another stage also writes the property. It also needs it if edge stages,
    other reductions or reads at named vertices read the property. The same program is returned if there is no such
    reduction.
    """
    properties = dict(program.properties)
    names = {stage.name for stage in program.stages}
    stages: list[Stage] = []
    copies: list[VertexStep] = []
    for stage in program.stages:
        made = {name for copy in copies for name in copy.writes}
        if not isinstance(stage, EdgeReduce | VertexReduce) or made & {name for _, name in reads(stage)}:
            stages += copies  # not earlier: consecutive reductions are folded
            copies = []
        if not isinstance(stage, EdgeReduce | VertexReduce) or not _needs_own(program, stage):
            stages.append(stage)
            continue
        own = unused(f"{stage.into}_reduced", properties)
        properties[own] = Property(own, "vertex", stage.message.shape)
        name = unused(f"{stage.name}_copy", names)
        names.add(name)
        value = read("v", own, stage.message.shape, "float")
        stages.append(dataclasses.replace(stage, into=own))
        copies.append(VertexStep(name, ((stage.into, value),), stage.line))
    stages += copies
    if len(stages) == len(program.stages):
        return program
    return dataclasses.replace(program, properties=properties, stages=tuple(stages))


def _needs_own(program: Program, stage: EdgeReduce | VertexReduce) -> bool:
    others = [other for other in program.stages if other is not stage]
    written_again = any(stage.into in other.writes for other in others)
    elsewhere = any(
        name == stage.into and (space == "at" or not isinstance(other, VertexStep))
        for other in program.stages
        for space, name in reads(other)
    )
    return written_again or elsewhere


def unused(name: str, taken: Container[str]) -> str:
    """Return a name like ``name`` that is not taken."""
    while name in taken:
        name += "_"
    return name
