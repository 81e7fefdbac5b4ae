"""Aggregation over out-edges, as reductions on a graph that stores every edge in both directions.

An engine reduces over in-edges only. A program that also reduces over out-edges runs on
:meth:`harness.graph.Graph.both_directions`: it has every edge (u, v), and (v, u) with the same weight and data. The
edge input ``forward`` distinguishes them. A reduction over in-edges takes the forward edges. A reduction over out-edges
takes the others, whose destination is the source u of the given edge, so ``src`` and ``dst`` of its message change
places. Every engine then runs the program, at the cost of examining twice the edges in each reduction.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final, Literal, TypeAlias

from harness.graph.graph import FORWARD
from harness.language.errors import LanguageError
from harness.language.expressions import Expression, read, substitute, walk
from harness.language.operators import where
from harness.language.program import BUILTIN_VERTEX, IDENTITY, EdgeReduce, EdgeStep, EdgeUpdate, Stage

Along: TypeAlias = Literal["in", "out"]
ALONG: Final[tuple[Along, ...]] = ("in", "out")
_OTHER_END: Final = {"src": "dst", "dst": "src"}


def on_both_directions(stages: Sequence[Stage], outward: Collection[int], out_name: str) -> list[Stage]:
    """Return the stages for the graph of both directions; ``outward``: positions of the reductions over out-edges.

    ``out_name``: one of these, or one of another phase. Raises LanguageError for a stage or a value that has another
    meaning on that graph.
    """
    for stage in stages:
        _check(stage, out_name)
    return [_directed(s, at in outward) if isinstance(s, EdgeReduce) else s for at, s in enumerate(stages)]


def _directed(stage: EdgeReduce, outward: bool) -> EdgeReduce:
    """Restrict a reduction to the edges of its direction; messages of other edges are the reducer's identity."""
    message = substitute(stage.message, _at_other_end) if outward else stage.message
    taken, nothing = read("edge", FORWARD, (), "bool"), IDENTITY[stage.reducer]
    taken = ~taken if outward else taken
    if message.op == "where" and message.args[2].op == "const" and message.args[2].attribute == nothing:
        taken, message = taken & message.args[0], message.args[1]  # a guard
    return EdgeReduce(stage.name, stage.into, stage.reducer, where(taken, message, nothing), stage.line, stage.initial)


def _at_other_end(node: Expression) -> Expression | None:
    if node.op == "read" and node.attribute[0] in _OTHER_END:
        space, name = node.attribute
        return Expression(
            "read", shape=node.shape, dtype=node.dtype, attribute=(_OTHER_END[space], name), where=node.where
        )
    return None


def _check(stage: Stage, out_name: str) -> None:
    if isinstance(stage, EdgeUpdate | EdgeStep):
        kind = "edges" if isinstance(stage, EdgeUpdate) else "both ends of edges"
        raise LanguageError(
            f"{stage.name} updates {kind}, but {out_name} aggregates over out-edges: the program then runs on a graph "
            "with every edge in both directions, on which updates are not supported",
            stage.line,
        )
    for node in walk(*stage.expressions()):
        space, name = node.attribute if node.op == "read" else ("", node.attribute if node.op == "at" else "")
        if space == "reverse":
            reason = "pairs an edge with its copy"
        elif name in BUILTIN_VERTEX and space != "graph":
            reason = 'counts every edge twice; aggregate a degree: reduce="sum" of 1.0, along="in" or along="out"'
        elif (space, name) == ("graph", "num_edges"):
            reason = "counts every edge twice; give the number as a field of the algorithm"
        else:
            continue
        shown = "edge.reverse" if space == "reverse" else f"{space or 'v.at()'}.{name}"
        raise LanguageError(
            f"{out_name} aggregates over out-edges, on a graph with every edge in both directions; there {shown} "
            f"{reason}",
            node.where,
        )


__all__ = ["ALONG", "FORWARD", "Along", "on_both_directions"]
