"""Messages that are computed once per source, when it moves, and not once for each of its edges.

A gather then reads one row for each edge, where the message of PageRank reads two properties of its source and divides.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.api import EdgeReduce, Expression, FoldGroup, Program, Property, read, reads, substitute

FEWEST_EDGES = 2  # per vertex, on average; with fewer, a row more is written for each vertex than is saved


@dataclass(frozen=True)
class ReadyMessages:
    """The messages of a group that its sources make.

    ``program``: with a property for each. ``stages``: the edge stages of the group, which read it. ``made``: each
    property with the message, in terms of the vertex.
    """

    program: Program
    stages: tuple[EdgeReduce, ...]
    made: Mapping[str, Expression]

    @classmethod
    def of(cls, program: Program, group: FoldGroup, average_degree: float) -> ReadyMessages:
        """Return the messages that read only their source, do more than read it, and are no matrices."""
        properties, stages, made = dict(program.properties), [], {}
        for stage in group.edge_stages:
            if average_degree < FEWEST_EDGES or not _worthwhile(stage.message):
                stages.append(stage)
                continue
            name = f"{stage.name}_ready"
            while name in properties:
                name += "_"
            shape = stage.message.shape
            properties[name] = Property(name, "vertex", shape)
            made[name] = substitute(stage.message, _at_vertex)
            stages.append(replace(stage, message=read("src", name, shape, "float")))
        return cls(replace(program, properties=properties), tuple(stages), made)

    def after(self, writes: Sequence[tuple[str, Expression]]) -> dict[str, Expression]:
        """Return each property after the vertex steps that write ``writes``, in terms of the values before them."""
        written = dict(writes)

        def now(node: Expression) -> Expression | None:
            return written.get(node.attribute[1]) if node.op == "read" else None

        return {name: substitute(message, now) for name, message in self.made.items()}


def _worthwhile(message: Expression) -> bool:
    return message.op != "read" and len(message.shape) < 2 and {space for space, _ in reads(message)} == {"src"}


def _at_vertex(node: Expression) -> Expression | None:
    return read("v", node.attribute[1], node.shape, node.dtype) if node.op == "read" else None
