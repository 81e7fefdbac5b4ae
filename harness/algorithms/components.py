"""Connected components."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from harness.algorithms.exact_solvers import WEAK_COMPONENTS, hops, least_members
from harness.contract import option
from harness.language import Algorithm, Answer, Expression, Inputs, InvalidInput, ProgramBuilder, Reader, minimum

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language.algorithm import Values

EXACT = 2**24  # float32 represents every integer up to here
MOST = 2**30  # the number of float32 values from 1 up, rounded down to a power of two


def vertex_labels(count: int) -> NDArray[np.float32]:
    """Return a label for every vertex, ``[count]``, all different and increasing with the vertex number.

    Up to 2^24 vertices the label is the vertex number, which float32 represents exactly. In larger graphs it is the
    i-th float32 number from 1 up. Raises InvalidInput for more than 2^30 vertices.
    """
    if count > MOST:
        raise InvalidInput(f"{count} vertices: float32 has different labels for 2^30; split the graph")
    if count <= EXACT:
        return np.arange(count, dtype=np.float32)
    return (np.arange(count, dtype=np.uint32) + np.float32(1).view(np.uint32)).view(np.float32)


class Components(Algorithm):
    """Connected components: every vertex gets the least label in its component.

    label_v = min(label_v, min_u label_u) over the neighbours u, until nothing moves (min-label propagation, without the
    pointer jumping of some engines' own versions). On a directed graph the components are the weak ones: the program
    runs on the graph with all reverse edges added. Labels are those of :func:`vertex_labels`: the least vertex number
    of the component, up to 2^24 vertices. There is one label per vertex for any number of features.

    The bound is 0: labels are copied without arithmetic.
    """

    name: ClassVar[str] = "components"
    rated_when_settled: ClassVar[bool] = True

    supersteps: int = option(1_000_000, "the most supersteps of a run", within="[1, inf)")

    def build(self, p: ProgramBuilder) -> None:
        p.vertex("own")
        p.vertex("label", start="own")

        @p.over_edges(into="least", reduce="min")
        def tell(src: Reader) -> Expression:
            return src.label

        @p.over_vertices
        def settle(v: Reader) -> dict[str, Expression]:
            return {"label": minimum(v.label, v.least)}

        p.until_settled(at_most=self.supersteps)
        p.output("label", bound=0.0)

    def prepare_graph(self, graph: Graph) -> Graph:
        """Add the reverse of every edge."""
        return graph.with_reverse_edges()

    def inputs(self, graph: Graph, features: int) -> Inputs:
        return Inputs({"own": vertex_labels(graph.num_vertices)}, self.parameter_values())

    def default_features(self, graph: Graph) -> int | None:
        return 1

    def settled_answer(self, graph: Graph, features: int) -> Answer:
        """Compute the components by graph traversal, in SciPy."""
        least = least_members(graph)
        label = vertex_labels(graph.num_vertices)[least].astype(np.float64)
        return Answer({"label": label}, WEAK_COMPONENTS, least_supersteps=hops(graph, np.unique(least)))

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """Return ``components``, their number, and ``largest``, the share of the vertices in the largest one."""
        sizes: NDArray[Any] = np.unique(values["label"], return_counts=True)[1]
        return {"components": float(len(sizes)), "largest": float(sizes.max(initial=0)) / max(graph.num_vertices, 1)}
