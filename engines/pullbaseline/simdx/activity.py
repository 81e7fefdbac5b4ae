"""Which programs have active vertices (sec. 3): decided by what the traced program is.

SIMD-X computes from active vertices alone where a vertex that nothing reaches stays as it is, and ends when none is
active: BFS, SSSP, k-core, connected components. Other programs (PageRank, belief propagation, ...) are bulk-synchronous
(BSP): every vertex hears all its neighbours in every superstep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.api import (
    EdgeReduce,
    FoldGroup,
    VertexStep,
    change_driven,
    composed_writes,
    live_after,
    mutable,
    reads,
    whole_ranges,
)

if TYPE_CHECKING:
    from harness.api import Expression, Program

IDENTITY = {"sum": 0.0, "min": float("inf"), "max": float("-inf")}


@dataclass(frozen=True, eq=False)
class Activity:
    """A program with active vertices.

    ``reduction``: its only edge stage, combined by an atomic operation where it pushes; ``metadata``: the property that
    a message reads from its source, and whose change makes a vertex active; ``message``: what an active vertex sends,
    which reads the metadata from ``src`` and, of sums, what was sent before from ``sent``; ``writes``: what the vertex
    steps write in the end, in terms of what they read first. ``quiet``: a vertex whose metadata are the reducer's
    identity sends nothing. ``votes``: while all metadata that are not, are equal at the start, so are all messages to a
    vertex that has had none before (vote, sec. 3.2); any one of them decides.
    """

    reduction: EdgeReduce
    metadata: str
    message: Expression
    writes: tuple[tuple[str, Expression], ...]
    quiet: bool
    votes: bool

    @property
    def identity(self) -> float:
        """The identity of the reducer."""
        return IDENTITY[self.reduction.reducer]

    @property
    def adds(self) -> bool:
        """Whether messages add up, so that what is sent is the difference to what was sent before."""
        return self.reduction.reducer == "sum"


def activity(program: Program) -> Activity | str:
    """The program's activity, or the reason why it is bulk-synchronous."""
    control = program.control
    if not control.settles or control.tolerance is not None:
        return "it does not run until nothing changes at all"
    if control.alternate:
        return "it alternates the sides of the graph"
    first, *steps = program.stages
    if not isinstance(first, EdgeReduce) or not steps or not all(isinstance(step, VertexStep) for step in steps):
        return "its superstep is not one reduction over edges and the vertices' steps after it"
    if len(first.message.shape) > 1 or first.into in program.outputs or program.properties[first.into].role == "state":
        return f"{first.into!r} is a matrix, or is kept"
    forms = change_driven(program)
    if isinstance(forms, str):
        return forms
    (form,) = forms
    if len(form.sources) != 1 or form.edges:
        return f"the messages of {first.name} depend on several changing properties"
    (metadata,) = form.sources
    last = FoldGroup("vertex", tuple(steps))
    writes = composed_writes(program, last, live_after(program, last.stages))
    if form.kind != "monotone" and not _whole(program, metadata, first.message):
        return f"the differences of {metadata!r} that {first.name} sends are rounded when they are added up"
    again = [name for name, value in writes if not _once(program, value, name, first.into)]
    if again:
        return f"a step that changes {again[0]!r} may change it again though nothing has reached the vertex"
    votes = form.kind == "monotone" and _votes(first, metadata, dict(writes))
    quiet = form.kind != "monotone" or _quiet(first.message, metadata)
    return Activity(first, metadata, form.message, tuple(writes), quiet, votes)


def _is(node: Expression, space: str, name: str) -> bool:
    return node.op == "read" and node.attribute == (space, name)


def _once(program: Program, value: Expression, name: str, into: str) -> bool:
    """Whether a step is idempotent: built of min, max and choices between the old value and what has reached the
    vertex, which make it ``max(a, min(old, b))`` as a function of the old value."""
    if _is(value, "v", name):
        return True
    if all(read == ("v", into) or not mutable(program, read[1]) for read in reads(value)):
        return True
    if value.op in ("min", "max"):
        return all(_once(program, arg, name, into) for arg in value.args)
    if value.op != "where":
        return False
    condition, *chosen = value.args
    unmoved = all(read == ("v", into) or not mutable(program, read[1]) for read in reads(condition))
    return unmoved and all(_once(program, arg, name, into) for arg in chosen)


def _whole(program: Program, metadata: str, message: Expression) -> bool:
    """Whether what is sent are small whole numbers, whose sums float32 holds exactly: the message is the metadata, and
    those are at most 1 in magnitude."""
    found = whole_ranges(program).get(metadata)
    return _is(message, "src", metadata) and found is not None and found[0] >= -1 and found[1] <= 1


def _quiet(message: Expression, metadata: str) -> bool:
    """Whether the message is the identity, an infinity, where the metadata are."""
    if _is(message, "src", metadata):
        return True
    if message.op == "add":
        one, other = message.args
        return any(_quiet(a, metadata) and not _heard(b, metadata) for a, b in ((one, other), (other, one)))
    return message.op == "sub" and _quiet(message.args[0], metadata) and not _heard(message.args[1], metadata)


def _heard(node: Expression, metadata: str) -> bool:
    return ("src", metadata) in set(reads(node))


def _votes(reduction: EdgeReduce, metadata: str, writes: dict[str, Expression]) -> bool:
    """Whether a level's messages are all the same: the metadata and a constant that takes them away from the start, and
    the step takes the best."""
    step, message = writes[metadata], reduction.message
    best = {"v": {metadata, reduction.into}}
    takes = step.op == reduction.reducer and all(
        arg.op == "read" and arg.attribute[1] in best.get(arg.attribute[0], ()) for arg in step.args
    )
    if not takes or {name for _, name in reads(step)} != best["v"]:
        return False
    if message.op != "add":
        return _is(message, "src", metadata)
    for one, other in (message.args, message.args[::-1]):
        if _is(one, "src", metadata) and other.op == "const":
            return bool(other.attribute >= 0 if reduction.reducer == "min" else other.attribute <= 0)
    return False
