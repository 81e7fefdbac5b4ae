"""Programs that no lowering accepts on any device: the reasons, one sentence each."""

from __future__ import annotations

from harness.facts import GraphFacts
from harness.language.algorithm import MOST_FEATURES
from harness.language.analysis import bulk_refusal, mutable
from harness.language.expressions import walk
from harness.language.named_vertices import named_reads, too_many_vertices
from harness.language.program import EdgeReduce, EdgeUpdate, GraphReduce, Program, reads
from harness.lowering.layout import Layout

MAX_LANES = MOST_FEATURES


def unsupported(
    program: Program, graph: GraphFacts, features: int, *, change_driven: bool, tracks_edges: bool = False,
    in_place: bool = False,
) -> str:  # fmt: skip
    """Return why a program (its products written as sums) cannot run on a graph; empty if it can.

    ``tracks_edges``: changes of edge properties can be tracked. ``in_place``: steps that update both ends of edges can
    run, and the number of the superstep is supplied.
    """
    if not 1 <= features <= MAX_LANES:
        return f"features={features}: this engine handles 1 to {MAX_LANES}"
    if not in_place and (reason := bulk_refusal(program)):
        return reason
    named = named_reads(program)
    if named and change_driven:
        return named
    if named and (reason := too_many_vertices(graph.num_vertices)):
        return f"{program.name} names vertices by values, and {reason}"
    layout = Layout(features)
    shapes = {node.shape for stage in program.stages for node in walk(*stage.expressions())}
    longest = max(max(layout.dims(shape), default=1) for shape in shapes)
    if longest > MAX_LANES:
        return f"a value of the program has {longest} elements in a row; this engine handles 1 to {MAX_LANES}"
    if program.control.alternate and graph.bipartite is None:
        return "the program alternates sides and the graph is not bipartite"
    for stage in program.stages:
        if isinstance(stage, EdgeUpdate) and change_driven and not tracks_edges:
            return f"{stage.name} updates an edge property, whose changes are not tracked"
        if isinstance(stage, EdgeUpdate) and program.control.alternate:
            return f"{stage.name} updates edges of both sides, and the program alternates sides"
        if isinstance(stage, GraphReduce) and stage.reducer == "prod":
            return f"{stage.name} is a product over the whole graph, which is not lowered"
        if change_driven and isinstance(stage, GraphReduce):
            unheard = {name for _, name in reads(stage) if mutable(program, name)} - _propagated(program)
            if unheard:
                return f"{stage.name} reduces {min(unheard)!r}, whose movement no edge stage tracks"
        if any(space == "reverse" for space, _ in reads(stage)) and not graph.paired:
            return f"{stage.name} reads reverse edges, but some edges of the graph have none"
    return ""


def _propagated(program: Program) -> set[str]:
    """Return the properties that edge reductions read from their sources, and edge updates from either end."""
    found = {name for s in program.stages if isinstance(s, EdgeReduce) for space, name in reads(s) if space == "src"}
    updates = [stage for stage in program.stages if isinstance(stage, EdgeUpdate)]
    return found | {name for stage in updates for space, name in reads(stage) if space in ("src", "dst")}
