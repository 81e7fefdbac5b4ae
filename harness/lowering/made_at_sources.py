"""Messages computed once per source vertex, not once for each edge that leaves it.

A PageRank is divided by the out-degree when a superstep begins. A gather then reads one value for each edge, where the
program's message reads several of its source. SIMD-X stores the metadata of a vertex in the form in which its
neighbours read it (Liu & Huang 2019).
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

from harness.language.expressions import read, substitute
from harness.language.program import EdgeReduce, Program, Property, VertexStep, reads

if TYPE_CHECKING:
    from collections.abc import Container

    from harness.language.expressions import Expression
    from harness.language.program import Stage


def made_at_sources(program: Program) -> Program:
    """Return the program with vertex steps that compute the messages of reductions in advance.

    There is a step for every reduction whose message reads only its source, reads at least two of its properties, and
    is no larger than one of them. It precedes all reductions in a row, so that these stay together, or the reduction
    itself if an earlier one of them reduces into what it reads. The program is returned unchanged if there is no such
    reduction, or if sides alternate: only the vertices that receive messages take steps, not those that send.
    """
    if program.control.alternate:
        return program
    properties = dict(program.properties)
    stages: list[Stage] = []
    names = {stage.name for stage in program.stages}
    begin, reduced = 0, set[str]()  # where the reductions in a row begin, and what they reduce into
    for stage in program.stages:
        if not isinstance(stage, EdgeReduce):
            stages.append(stage)
            begin, reduced = len(stages), set()
            continue
        if _of_source_alone(program, stage.message):
            made, name = _unused(f"{stage.name}_sent", properties), _unused(f"{stage.name}_make", names)
            names.add(name)
            shape = stage.message.shape
            properties[made] = Property(made, "vertex", shape)
            step = VertexStep(name, ((made, substitute(stage.message, _at_vertex)),), stage.line)
            if reduced & {read for _, read in reads(stage)}:
                begin, reduced = len(stages), set()
            stages.insert(begin, step)
            begin += 1
            stage = dataclasses.replace(stage, message=read("src", made, shape, "float"))
        stages.append(stage)
        reduced.add(stage.into)
    if len(stages) == len(program.stages):
        return program
    return dataclasses.replace(program, properties=properties, stages=tuple(stages))


def _of_source_alone(program: Program, message: Expression) -> bool:
    found = set(reads(message))
    shapes = [program.properties[name].shape for _, name in found]
    return len(found) > 1 and {space for space, _ in found} == {"src"} and message.shape in shapes


def _at_vertex(node: Expression) -> Expression | None:
    if node.op != "read":
        return None
    return read("v", node.attribute[1], node.shape, node.dtype)


def _unused(name: str, taken: Container[str]) -> str:
    while name in taken:
        name += "_"
    return name
