"""Which programs have active vertices (sec. 3), decided from the traced program.

SIMD-X computes only from active vertices if a vertex that no message reaches keeps its value, and ends when none is
active: BFS, SSSP, k-core, connected components. Other programs (PageRank, belief propagation, ...) are bulk-synchronous
(BSP): every vertex receives messages from all neighbours in every superstep.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.api import (
    EdgeReduce,
    FoldGroup,
    VertexStep,
    change_driven,
    mutable,
    reads,
)
from harness.api.cuda import (
    composed_writes,
    integer_ranges,
    live_after,
)

if TYPE_CHECKING:
    from harness.api import Expression, Program

IDENTITY = {"sum": 0.0, "min": float("inf"), "max": float("-inf")}


@dataclass(frozen=True, eq=False)
class Activity:
    """A program with active vertices.

    ``reduction``: its only edge stage, combined by an atomic operation in a push. ``metadata``: the property that a
    message reads from its source, and whose change makes a vertex active. ``message``: what an active vertex sends; it
    reads the metadata from ``src`` and, for sums, the value sent before from ``sent``. ``writes``: the final writes of
    the vertex steps, in terms of the values that they read first. ``quiet``: a vertex whose metadata are the reducer's
    identity sends nothing. ``votes``: if all metadata other than the identity are equal at the start, so are all
    messages to a vertex that has received none before. Any one of them then decides (vote, sec. 3.2).
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
        """True if messages are summed: the difference to the value sent before is then sent."""
        return self.reduction.reducer == "sum"


def activity(program: Program) -> Activity | str:
    """Return the program's activity, or the reason why it is bulk-synchronous."""
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
    """Return whether a step is idempotent.

    It must consist of min, max and choices between the old value and the reduced messages. As a function of the old
    value it is then ``max(a, min(old, b))``.
    """
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
    """Return whether the values sent are small integers, whose sums are exact in float32.

    The message must be the metadata, which must be at most 1 in magnitude.
    """
    found = integer_ranges(program).get(metadata)
    return _is(message, "src", metadata) and found is not None and found[0] >= -1 and found[1] <= 1


def _quiet(message: Expression, metadata: str) -> bool:
    """Return whether the message is the identity, an infinity, if the metadata are."""
    if _is(message, "src", metadata):
        return True
    if message.op == "add":
        one, other = message.args
        return any(_quiet(a, metadata) and not _heard(b, metadata) for a, b in ((one, other), (other, one)))
    return message.op == "sub" and _quiet(message.args[0], metadata) and not _heard(message.args[1], metadata)


def _heard(node: Expression, metadata: str) -> bool:
    return ("src", metadata) in set(reads(node))


def _votes(reduction: EdgeReduce, metadata: str, writes: dict[str, Expression]) -> bool:
    """Return whether all messages of a level are equal, and the step takes the best.

    The message must be the metadata plus a constant that moves it away from the start.
    """
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
