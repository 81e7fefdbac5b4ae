"""A program and its derived properties as text."""

from __future__ import annotations

from harness.language.analysis import (
    Delta,
    FoldGroup,
    change_driven,
    change_driven_form,
    fold_groups,
    watched,
)
from harness.language.criterion import criterion_text
from harness.language.pretty import format_expression
from harness.language.program import EdgeReduce, Program, describe, reads


def explain_program(program: Program) -> str:
    """Describe the program, its stopping rule, its fold groups, and the change-driven form of each reduction.

    A reduction without a change-driven form is listed with the reason.
    """
    lines = [describe(program), *_settling(program)]
    for direction in ("push", "pull"):
        lines.append(f"fold groups ({direction})")
        lines += [f"  {_group(program, group)}" for group in fold_groups(program, direction)]
    return "\n".join([*lines, *_change_driven(program)])


def _settling(program: Program) -> list[str]:
    found = [f"{place} {name}" for place, name in watched(program)]
    if not program.control.settles:
        return ["watched: nothing, the number of supersteps is fixed"]
    return [f"watched: {', '.join(found) or 'nothing, so one superstep settles it'}", criterion_text(program)]


def _group(program: Program, group: FoldGroup) -> str:
    text = f"{group.kind}: {', '.join(stage.name for stage in group.stages)}"
    inner = _never_stored(program, group)
    return f"{text} (stays within: {', '.join(inner)})" if inner else text


def _never_stored(program: Program, group: FoldGroup) -> list[str]:
    """Return the temporaries that only the vertex steps of this group read: they need no memory."""
    if not group.vertex_steps:
        return []
    others = [stage for stage in program.stages if all(stage is not member for member in group.stages)]
    read_elsewhere = {name for stage in others for _, name in reads(stage)}
    written = dict.fromkeys(name for stage in group.stages for name in stage.writes)
    temporary = [name for name in written if program.properties[name].role == "temporary"]
    return [name for name in temporary if name not in read_elsewhere]


def _change_driven(program: Program) -> list[str]:
    whole = change_driven(program)
    lines = [
        "change-driven" if not isinstance(whole, str) else f"change-driven: not the whole program, because {whole}"
    ]
    for stage in program.stages:
        if isinstance(stage, EdgeReduce):
            form = change_driven_form(program, stage)
            lines.append(f"  {stage.name}: {f'no form: {form}' if isinstance(form, str) else _delta(form)}")
    return lines


def _delta(delta: Delta) -> str:
    edges = [f"{'edge' if space == 'edge' else 'edge.reverse'}.{name}" for space, name in delta.edges]
    sources = ", ".join([*(f"src.{name}" for name in delta.sources), *edges]) or "nothing, so it is reduced once"
    verb = {"linear": "adds", "difference": "adds", "factor": "replaces its factor with", "monotone": "offers"}[
        delta.kind
    ]
    return f"{delta.kind}: when {sources} has moved, the edge {verb} {format_expression(delta.message)}"
