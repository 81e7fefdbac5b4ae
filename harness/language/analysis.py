"""Properties derived from a program: watched properties, linearity, the change-driven form, fold groups.

Authors of algorithms declare none of these. Where a function returns a string, it is the reason why there is no such
form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from harness.language.expressions import Expression, read, substitute, walk
from harness.language.named_vertices import named_reads
from harness.language.program import (
    SUPERSTEP,
    EdgeReduce,
    EdgeStep,
    EdgeUpdate,
    GraphReduce,
    Program,
    Stage,
    VertexReduce,
    VertexStep,
    reads,
)

Watched: TypeAlias = tuple[Literal["vertex", "edge"], str]


def mutable(program: Program, name: str) -> bool:
    """Return whether a property changes during a run."""
    return program.properties[name].role in ("state", "temporary") or name == SUPERSTEP


def watched(program: Program) -> tuple[Watched, ...]:
    """Return the changing properties that edge stages, reductions and reads at named vertices read.

    A run is settled when none of them moves any more.
    """
    found: dict[Watched, None] = {}
    for stage in program.stages:
        roots = (
            [node for node in walk(*stage.expressions()) if node.op == "at"]
            if isinstance(stage, VertexStep)
            else stage.expressions()
        )
        for space, name in (pair for root in roots for pair in reads(root)):
            if mutable(program, name) and space in ("src", "dst", "v", "at"):
                found[("vertex", name)] = None
            elif mutable(program, name) and space in ("edge", "reverse"):
                found[("edge", name)] = None
    return tuple(found)


def bulk_refusal(program: Program) -> str:
    """Return why a program cannot run on an engine whose edges all read the values from before a stage.

    Empty if it can. Such engines do not supply the number of the superstep either.
    """
    for stage in program.stages:
        if isinstance(stage, EdgeStep):
            return (
                f"{stage.name} updates both ends of an edge in place; this engine evaluates all edges on the values "
                "from before the stage"
            )
        if any(name == SUPERSTEP for _, name in reads(stage)):
            return f"{stage.name} reads the number of the superstep, which this engine does not supply"
    return ""


def factors(program: Program) -> frozenset[str]:
    """Return the changing edge properties that are factors of products."""
    products = [stage for stage in program.stages if isinstance(stage, EdgeReduce) and stage.reducer == "prod"]
    found = {name for stage in products for space, name in reads(stage.message) if space in ("edge", "reverse")}
    return frozenset(name for name in found if mutable(program, name))


def depends(expression: Expression, names: frozenset[str], spaces: frozenset[str] = frozenset({"src"})) -> bool:
    """Return whether the expression reads one of the properties ``names`` from one of the ``spaces``."""
    return any(space in spaces and name in names for space, name in reads(expression))


def linear(expression: Expression, names: frozenset[str], spaces: frozenset[str] = frozenset({"src"})) -> bool:
    """Return whether the expression is linear (homogeneous, of degree one) in the properties ``names`` read from
    ``spaces`` (default: the source)."""

    def free(node: Expression) -> bool:
        return not depends(node, names, spaces)

    def degree_one(node: Expression) -> bool:
        args = node.args
        match node.op:
            case "read":
                return not free(node)
            case "const":
                return node.dtype == "float" and node.attribute == 0.0
            case "add" | "sub" | "stack":
                return all(degree_one(arg) for arg in args)
            case "mul" | "matmul" | "dot" | "outer":
                return (free(args[0]) and degree_one(args[1])) or (degree_one(args[0]) and free(args[1]))
            case "div":
                return degree_one(args[0]) and free(args[1])
            case "neg" | "sum" | "transpose" | "index" | "full":
                return degree_one(args[0])
            case "where":
                return free(args[0]) and degree_one(args[1]) and degree_one(args[2])
            case _:
                return False

    return degree_one(expression)


def increasing(expression: Expression, names: frozenset[str]) -> bool:
    """Return whether the expression is nondecreasing in the properties ``names``, decided by its form only."""
    if not depends(expression, names):
        return True
    args = expression.args
    match expression.op:
        case "read":
            return True
        case "add" | "min" | "max" | "stack":
            return all(increasing(arg, names) for arg in args)
        case "sub":
            return increasing(args[0], names) and not depends(args[1], names)
        case "mul":
            return any(a.op == "const" and a.attribute >= 0 and increasing(b, names) for a, b in (args, args[::-1]))
        case "div":
            return args[1].op == "const" and args[1].attribute > 0 and increasing(args[0], names)
        case "where":
            return not depends(args[0], names) and all(increasing(arg, names) for arg in args[1:])
        case "sum" | "reduce_max" | "reduce_min" | "exp" | "full" | "index" | "transpose":
            return increasing(args[0], names)
        case _:
            return False


@dataclass(frozen=True, eq=False)
class Delta:
    """The change-driven form of a reduction.

    ``sources``: the source properties whose movement activates a source. ``edges``: the changing edge properties whose
    movement activates the edge, each with its space (*edge* or *reverse*). ``message``: the contribution of an active
    edge to the accumulator, which persists across supersteps. It reads new values from ``src``, ``edge`` and
    ``reverse``, and the last propagated values from ``sent``, ``sent_edge`` and ``sent_reverse``. ``kind``:

    - *linear*: the message of the difference;
    - *difference*: the difference of the messages;
    - *factor* (prod only): the new message replaces the last propagated one, which is a difference in the log domain;
    - *monotone* (min and max only): the new message.
    """

    reduction: EdgeReduce
    sources: tuple[str, ...]
    edges: tuple[tuple[str, str], ...]
    message: Expression
    kind: Literal["linear", "difference", "factor", "monotone"]


SENT = {"src": "sent", "edge": "sent_edge", "reverse": "sent_reverse"}


def change_driven(program: Program) -> tuple[Delta, ...] | str:
    """Return the change-driven forms of all reductions, or the reason why the program has none.

    Edge updates need no form: an edge is updated again if a property that it reads has moved.
    """
    deltas = []
    named = named_reads(program)
    if named:
        return named
    for stage in program.stages:
        if isinstance(stage, EdgeStep):
            return f"{stage.name} moves both ends of an edge in place each time it runs"
        if SUPERSTEP in (name for _, name in reads(stage)):
            return f"{stage.name} reads the number of the superstep, which changes in every superstep"
        if isinstance(stage, EdgeReduce):
            delta = change_driven_form(program, stage)
            if isinstance(delta, str):
                return delta
            deltas.append(delta)
    if not deltas:
        return "the program has no reduction over edges"
    return tuple(deltas)


def change_driven_form(program: Program, stage: EdgeReduce) -> Delta | str:
    """Return the change-driven form of one reduction, or the reason why it has none."""
    for space, name in reads(stage):
        if mutable(program, name) and space not in SENT:
            return recomputation_only(program, stage)
    sources, edges = source_properties(program, stage), edge_properties(program, stage)
    names = frozenset(sources) | {name for _, name in edges}
    if stage.reducer == "sum":
        if linear(stage.message, names, frozenset(SENT)):
            message = substitute(stage.message, lambda n: _moved(program, n))
            return Delta(stage, sources, edges, message, "linear")
        return Delta(stage, sources, edges, stage.message - last_sent(program, stage.message), "difference")
    if stage.reducer == "prod":
        return Delta(stage, sources, edges, stage.message, "factor")
    if edges:
        return (
            f"{stage.name} is a {stage.reducer} of an edge's changing property {edges[0][1]!r}; an earlier "
            "message of the edge may no longer be a bound, and cannot be withdrawn"
        )
    reason = _monotone(program, stage, names)
    return reason or Delta(stage, sources, edges, stage.message, "monotone")


def source_properties(program: Program, stage: EdgeReduce) -> tuple[str, ...]:
    """Return the changing properties of the source that the message reads."""
    return tuple(name for space, name in reads(stage) if space == "src" and mutable(program, name))


def edge_properties(program: Program, stage: Stage) -> tuple[tuple[str, str], ...]:
    """Return the changing properties that a stage reads from edges, each with its space: *edge* or *reverse*."""
    return tuple(
        (space, name) for space, name in reads(stage) if space in ("edge", "reverse") and mutable(program, name)
    )


def recomputation_only(program: Program, stage: EdgeReduce) -> str:
    """Return why a message can change although its source did not move; empty if it cannot."""
    for space, name in reads(stage):
        if mutable(program, name) and space not in SENT:
            owner = {"dst": "its destination's", "graph": "the graph's"}[space]
            return f"the message of {stage.name} reads {owner} changing property {name!r}, so it has no delta form"
    return f"the message of {stage.name} reads changing edges" if edge_properties(program, stage) else ""


def _sent(program: Program, node: Expression) -> Expression | None:
    if node.op == "read" and node.attribute[0] in SENT and mutable(program, node.attribute[1]):
        space, name = node.attribute
        return read(SENT[space], name, node.shape, node.dtype)
    return None


def _moved(program: Program, node: Expression) -> Expression | None:
    sent = _sent(program, node)
    return None if sent is None else node - sent


def last_sent(program: Program, message: Expression) -> Expression:
    """Return the message computed from the last propagated values."""
    return substitute(message, lambda node: _sent(program, node))


def _monotone(program: Program, stage: EdgeReduce, names: frozenset[str]) -> str:
    """Return why ``stage`` (min or max) may not push new values only; empty if it may."""
    if not increasing(stage.message, names):
        return f"the message of {stage.name} is not monotone in its source"
    for name in names:
        for step in program.stages:
            if not isinstance(step, VertexStep) and name in step.writes:
                return f"{step.name} overwrites {name!r} in each superstep, so its old value does not bound the new one"
            for written, value in step.values if isinstance(step, VertexStep) else ():
                if written == name and not _only_tightens(program, value, name, stage):
                    return f"{step.name} does not set {name!r} to {stage.reducer}(old, aggregate, constants)"
    return ""


def _only_tightens(program: Program, value: Expression, name: str, stage: EdgeReduce) -> bool:
    leaves, pending = [], [value]
    while pending:
        node = pending.pop()
        if node.op == stage.reducer:
            pending += node.args
        else:
            leaves.append(node)
    keeps_old = any(n.op == "read" and n.attribute == ("v", name) for n in leaves)
    others = [n for n in leaves if not (n.op == "read" and n.attribute[1] in (name, stage.into))]
    constants = all(not mutable(program, prop) for n in others for _, prop in reads(n))
    return keeps_old and constants


# folding --------------------------------------------------------------------------------------------------------------
GroupKind: TypeAlias = Literal["edge", "vertex", "edge+vertex", "named", "graph", "update", "step"]


@dataclass(frozen=True, eq=False)
class FoldGroup:
    """Stages that run in one kernel.

    ``kind``: the loops of the kernel. In *edge+vertex*, the owner of all in-edges of a vertex also runs the vertex
    steps, so values that only these steps read are never stored in memory. *named* is a reduction at named vertices.
    """

    kind: GroupKind
    stages: tuple[Stage, ...]

    @property
    def edge_stages(self) -> tuple[EdgeReduce, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, EdgeReduce))

    @property
    def vertex_steps(self) -> tuple[VertexStep, ...]:
        return tuple(stage for stage in self.stages if isinstance(stage, VertexStep))


_LOOP: dict[type, GroupKind] = {
    EdgeReduce: "edge", VertexStep: "vertex", VertexReduce: "named", GraphReduce: "graph", EdgeUpdate: "update",
    EdgeStep: "step",
}  # fmt: skip


def unfolded(program: Program) -> tuple[FoldGroup, ...]:
    """Return one group per stage: every stage runs in its own kernel."""
    return tuple(FoldGroup(_LOOP[type(stage)], (stage,)) for stage in program.stages)


def steps_folded(program: Program) -> tuple[FoldGroup, ...]:
    """Return one group per stage, but consecutive vertex steps in one group, as far as they may share a kernel."""
    groups: list[FoldGroup] = []
    for (stage,) in (group.stages for group in unfolded(program)):
        last = groups[-1] if groups else None
        if last is not None and last.kind == "vertex" and _joined(last, stage, "push"):
            groups[-1] = FoldGroup("vertex", (*last.stages, stage))
        else:
            groups.append(FoldGroup(_LOOP[type(stage)], (stage,)))
    return tuple(groups)


def fold_groups(program: Program, direction: Literal["push", "pull"]) -> tuple[FoldGroup, ...]:
    """Return maximal groups of consecutive stages that may share a kernel under ``direction``.

    Edge stages fold with edge stages unless a later one reads what an earlier one reduces. Vertex stages fold with
    vertex stages. In pull, edge stages fold with the vertex steps after them, since one owner holds all in-edges of a
    vertex. A step that reads at named vertices follows no edge stage in a kernel, and no property that it reads there
    is written in its kernel: other owners would read it at the same time.
    """
    groups: list[FoldGroup] = []
    for stage in program.stages:
        last = groups[-1] if groups else None
        kind = None if last is None else _joined(last, stage, direction)
        if last is not None and kind is not None:
            groups[-1] = FoldGroup(kind, (*last.stages, stage))
        else:
            groups.append(FoldGroup(_LOOP[type(stage)], (stage,)))
    return tuple(groups)


def _joined(group: FoldGroup, stage: Stage, direction: Literal["push", "pull"]) -> GroupKind | None:
    if isinstance(stage, EdgeReduce) and group.kind == "edge":
        written = {name for member in group.stages for name in member.writes}
        return None if written & {name for _, name in reads(stage)} else "edge"
    if isinstance(stage, VertexStep) and _needs_barrier(group, stage):
        return None
    if isinstance(stage, VertexStep) and group.kind in ("vertex", "edge+vertex"):
        return group.kind
    if isinstance(stage, VertexStep) and group.kind == "edge" and direction == "pull":
        return "edge+vertex"
    return None


def _needs_barrier(group: FoldGroup, step: VertexStep) -> bool:
    """Return whether a step cannot share a kernel with the stages of a group, because of reads at named vertices."""
    here, before = _read_at(step), {name for stage in group.stages for name in _read_at(stage)}
    written = {name for stage in group.stages for name in stage.writes}
    return bool(here & written or before & set(step.writes) or (here and group.kind != "vertex"))


def _read_at(stage: Stage) -> set[str]:
    return {name for space, name in reads(stage) if space == "at"}


def compose(steps: Sequence[VertexStep]) -> tuple[tuple[str, Expression], ...]:
    """Compose consecutive vertex steps into one: every written property as a function of the values before the first
    step."""
    current: dict[str, Expression] = {}

    def seen_now(node: Expression) -> Expression | None:
        if node.op == "read" and node.attribute[0] == "v":
            return current.get(node.attribute[1])
        return None

    for step in steps:
        fresh = {name: substitute(value, seen_now) for name, value in step.values}
        current.update(fresh)
    return tuple(current.items())
