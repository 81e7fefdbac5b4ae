"""A bound on all messages of a program of paths, from the best value that any moved source holds.

In a program that only tightens (:mod:`harness.language.monotone`), a vertex already is at least as good as every
message that it was sent. Only sources that moved since then can improve it. If a message increases with its source's
value and with the inputs that it reads, none is better than the message of the best moved value and the best inputs. A
pull may skip a vertex that is at least as good as that, and may stop reading a row once it has received such a message:
no later one is better. In a breadth-first search this is the bottom-up step of Beamer et al. (2012),
*Direction-optimizing breadth-first search*, section IV.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.language.analysis import increasing, mutable
from harness.language.expressions import Expression, read, substitute, walk
from harness.language.monotone import OneWay, one_way
from harness.language.program import EdgeReduce, Program, VertexStep, reads

BEST, EXTREME = "best", "extreme"  # spaces: the best value of the moved sources, and the best value of an input
# Operations whose float32 results increase with their arguments too, feature by feature: they are rounded once.
ROUNDED_ONCE = frozenset({"read", "const", "param", "add", "sub", "mul", "min", "max"})


@dataclass(frozen=True, eq=False)
class MessageBound:
    """The bound of a program's only reduction.

    ``way``: the monotone form. ``message``: the message with the state of the source read from the space *best*, and
    inputs of sources and edges from the space *extreme*; computed in float32 it bounds every message that is computed
    in float32. ``inputs``: the names of these inputs. If the reducer is min, their least values are needed, else their
    greatest.
    """

    way: OneWay
    message: Expression
    inputs: tuple[str, ...]

    @property
    def state(self) -> str:
        """The name of the property that moves."""
        return self.way.state

    @property
    def reduction(self) -> EdgeReduce:
        """The reduction whose messages are bounded."""
        return self.way.reduction

    @property
    def minimizes(self) -> bool:
        """Whether the reducer is min."""
        return self.way.sign > 0


def message_bound(program: Program) -> MessageBound | str:
    """Return the bound of a program's messages, or the reason why there is none.

    The accumulators of vertices that are skipped, and of rows that are not read to their end, are only bounds of what
    a full reduction gives. A program with one state has no use for them but the step that tightens it.
    """
    way = one_way(program)
    if isinstance(way, str):
        return way
    if way.kind != "tightens":
        return f"{way.reduction.name} reduces by {way.reduction.reducer}, of which every message counts"
    return _refusal(program, way.state) or _bounded(program, way)


def _refusal(program: Program, state: str) -> str:
    if program.control.tolerance is not None:
        return f"{program.name} ends within a tolerance, below which movement of {state!r} is not sent"
    writers = [stage.name for stage in program.stages if isinstance(stage, VertexStep) and state in stage.writes]
    return f"{' and '.join(writers)} write {state!r}" if len(writers) > 1 else ""


def _bounded(program: Program, way: OneWay) -> MessageBound | str:
    stage, message = way.reduction, way.reduction.message
    shape = program.properties[way.state].shape
    operations = {node.op for node in walk(message)}
    if operations - ROUNDED_ONCE:
        return f"the message of {stage.name} has the operation {min(operations - ROUNDED_ONCE)}"
    if "mul" in operations and operations & {"add", "sub"}:
        return f"the message of {stage.name} multiplies and adds, which a compiler may round together"
    factors = [arg.attribute for node in walk(message) if node.op == "mul" for arg in node.args if arg.op == "const"]
    if not all(0 < factor < math.inf for factor in factors):
        return f"the message of {stage.name} multiplies by {factors[0]:g}, which need not keep the order of values"
    if message.shape != shape or len(shape) > 1:
        return f"the message of {stage.name} has another shape than {way.state!r}, or is a matrix"
    read_from = {pair for pair in reads(message) if pair[0] != "graph"}
    if {space for space, _ in read_from} - {"src", "edge"}:
        return f"the message of {stage.name} reads its destination or a reverse edge"
    names = frozenset(name for _, name in read_from)
    if not increasing(substitute(message, _as_source), names):
        return f"the message of {stage.name} does not increase with all that it reads"
    inputs = tuple(sorted(names - {way.state}))
    if any(program.properties[name].role != "input" or mutable(program, name) for name in inputs):
        return f"the message of {stage.name} reads values that are no inputs"
    return MessageBound(way, substitute(message, lambda node: _best(node, way.state)), inputs)


def _as_source(node: Expression) -> Expression | None:
    """Read a property of an edge as if it were one of its source."""
    if node.op == "read" and node.attribute[0] == "edge":
        return read("src", node.attribute[1], node.shape, node.dtype)
    return None


def _best(node: Expression, state: str) -> Expression | None:
    if node.op != "read" or node.attribute[0] == "graph":
        return None
    name = node.attribute[1]
    return read(BEST if name == state else EXTREME, name, node.shape, node.dtype)
