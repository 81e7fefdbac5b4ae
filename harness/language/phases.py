"""Programs of several phases: each phase runs until it ends, and its outputs are inputs of the phases after it.

:meth:`ProgramBuilder.then` ends a phase. Every phase is a program with its own stages, stopping rule and outputs.
Engines run one phase after another, and are prepared for each of them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from harness.language.declarations import Declarations
from harness.language.program import Property, Stage, reads


def declared_after(declared: Declarations, outputs: Collection[str]) -> Declarations:
    """Return the properties that the next phase finds: all inputs so far, and the ``outputs`` as inputs."""
    found = Declarations()
    for name, prop in declared.items():
        if name in outputs or name in declared.once:
            found[name] = replace(prop, role="input", start=None)
        elif prop.role == "input":
            found[name] = prop
        elif prop.role != "builtin":
            found.ended.add(name)
    return found


def needed(
    properties: Mapping[str, Property], stages: Sequence[Stage], inherited: Collection[str]
) -> dict[str, Property]:
    """Return the properties without inputs ``inherited`` from earlier phases that no stage and no start reads."""
    read = {name for stage in stages for _, name in reads(stage)}
    read |= {prop.start for prop in properties.values() if isinstance(prop.start, str)}
    return {
        name: prop for name, prop in properties.items() if prop.role != "input" or name in read or name not in inherited
    }


__all__ = ["declared_after", "needed"]
