"""Programs with names that have a meaning in C++, in CUDA or in the kernels' templates, and names with other
letters."""

from __future__ import annotations

from harness.language import K, total

# Names of stages, in turn: keywords, functions of C and of CUDA, types, macros and variables of the templates, names
# generated for other stages, and letters that are not ASCII.
STAGES = (
    "float", "union", "main", "norm", "log", "threadIdx", "LaneGroup", "Row", "Run", "LANES", "gather", "atomicAdd",
    "end_of_superstep", "clear_got", "unrolled", "größe", "名", "printf", "INFINITE", "expf", "messages_tiles",
    "clear_template", "fused_pull", "join_mean",
)  # fmt: skip


def named(function, name):
    """Return the function under another name, as if it had been defined so."""
    function.__name__ = name
    return function


def awkward(stages):
    """Return a build function: reductions, steps and a sum over the graph; ``stages``: their four names."""

    def build(p, self):
        first, second, third, fourth = stages
        p.edge("int")
        p.vertex("float", K)
        p.vertex("x", K, start="float")
        p.vertex("x_a", start=0.5)
        p.vertex("über", K, start=1.0)
        p.vertex("edges", start=0.25)

        def reduced(src, edge):
            return edge.int * src.x

        def largest(src):
            return src.über

        def stepped(v):
            return {"über": 0.5 * v.über + 0.125 * v.got, "union": 0.25 * v.template}

        def ended(v, graph):
            kept = 0.5 * v.x_a + 0.01 * v.edges
            return {"x": 0.5 * v.x + 0.125 * v.union + 0.01 * graph.名, "x_a": kept, "edges": 0.5 * kept}

        p.over_edges(into="got", reduce="sum")(named(reduced, first))
        p.over_edges(into="template", reduce="sum")(named(largest, second))
        p.over_graph(into="名", reduce="sum")(named(lambda v, graph: total(v.über) / graph.num_vertices, "mean"))
        p.over_vertices(named(stepped, third))
        p.over_vertices(named(ended, fourth))
        p.repeat(4)
        p.output("x", bound=1e-4)

    return build


def quartets():
    """Return groups of four names that contain every name once."""
    return [tuple((STAGES * 2)[i : i + 4]) for i in range(0, len(STAGES), 4)]
