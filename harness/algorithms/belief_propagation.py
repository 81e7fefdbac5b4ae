"""Belief propagation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from harness.algorithms.pairwise_tasks import natural_features, quality, task_of, vertex_potentials, write_picture
from harness.algorithms.potentials import DRAWN_STATES, pairwise_potentials
from harness.contract import option
from harness.language import (
    Algorithm,
    Expression,
    Inputs,
    K,
    ProgramBuilder,
    Reader,
    max_product,
    normalize,
)
from harness.language.readers import EdgeReader

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language.algorithm import FixedPoints, Values


class BeliefPropagation(Algorithm):
    """Loopy belief propagation on pairwise Markov networks (Pearl 1988; Yedidia, Freeman & Weiss 2003, sec. 3).

    Fig. 2.1(a) of Vaz 2021, after Kang, Horng & Faloutsos 2010. With a potential phi(v) on every vertex and
    psi(u, v) on every edge, the message from u to v is

        msg(u, v)[y] = sum_x psi(u, v)[x, y] phi(u)[x] prod_{w in N(u), w != v} msg(w, u)[x], scaled to sum 1,

    and belief(v) = phi(v) prod_u msg(u, v), scaled to sum 1. ``rule=max`` replaces the sum by the maximum: beliefs are
    then max-marginals, and on a tree the likeliest states of the vertices are the most probable joint state. All
    messages are updated simultaneously, from the product of those of the previous superstep; they start equal for all k
    states. phi is a factor of that product, so that evidence or a near-zero potential is applied before scaling. At a
    hub of 10^5 neighbours the remaining states may be e^-10^4 times less likely than those that evidence excludes. If
    no state is possible, the belief is zero.

    The formulas are Yedidia's. The figure divides instead, msg(u, v) = (belief(u) o msg(v, u)^-1) psi(u, v). This is
    equal up to a scale while no message is zero, but 0/0 under hard evidence. The figure's beliefs use the messages of
    the same superstep, these use the previous ones: the same values one superstep later.

    ``damping`` is the share of the old message in the new one (Murphy, Weiss & Jordan 1999, "momentum"); fixed points
    do not depend on it. Undamped, max-product on frustrated grids does not settle and amplifies rounding to a different
    answer; damping=0.5 removes most of that. Under damping, the weight of an excluded state only decays, by that
    share per superstep. A run may settle before such a state is less likely than what potentials near zero leave;
    tolerance=0 continues. A run is settled when no message moves by more than ``tolerance``, and neither does the
    product of any vertex's messages, scaled to a largest entry of 1: a belief may be constant while messages change.

    ``potentials=edge``: a k x k table on every edge, its transpose on the reverse edge, as in .uai files. ``shared``:
    exp(-smoothness * min(|x - y|, truncation)) on every edge, k x k numbers in total (truncation=1: Potts); weights are
    not used. The graph's vertex data define phi (:mod:`harness.algorithms.pairwise_tasks`): a network's "unary" with
    "cardinality" (states beyond it are impossible) and "evidence"; a stereo pair's costs of disparities; or a
    photograph's grey levels with added ``noise`` (drawn with ``seed``). ``vertices=drawn``: on any graph, random
    numbers from 0.1 to 1 instead, k = 4 by default. Potentials are scaled to a largest of 1, per vertex or table, and
    positive ones are kept above 1e-37. Every edge is a factor, parallel ones too: each has its own messages (the i-th
    edge u -> v is the reverse of the i-th v -> u). Two edges between the same vertices form a loop, on which beliefs
    are approximate. To get a single factor, multiply the tables (the reader of .uai files does so).

    The bound: a hub's product of 10^5 messages in float32 may be off by 1e-4; settling early adds a few tolerances.
    Messages stored in float32 caused 2e-7 on pictures and settled networks. Max-product passes the errors of winning
    states on undiminished, to all neighbours: 8e-6 on pictures, 1e-4 on a frustrated grid of 33 states. No bound holds
    if messages never settle: rounding then determines the answer (of the .uai files tried, Grids_11 and Grids_15).
    """

    name: ClassVar[str] = "belief_propagation"

    rule: str = option("sum", "sum-product or max-product", values=("sum", "max"))
    potentials: str = option(
        "shared", "truncated linear potentials on all edges, or the graph's own", values=("shared", "edge")
    )
    vertices: str = option("given", "potentials from the graph's vertex data, or drawn", values=("given", "drawn"))
    damping: float = option(0.0, "share of the old message in the new one", within="[0, 1)")
    smoothness: float = option(1.0, "factor of the distance of two states, for shared potentials", within="[0, inf)")
    truncation: float = option(
        2.0, "largest distance of two states, for shared potentials; 1: Potts", within="(0, inf)"
    )
    noise: float = option(1.0, "standard deviation of the noise on a photograph, in grey levels")
    tolerance: float = option(1e-5, "largest change of a message in a settled run", within="[0, inf)")
    supersteps: int = option(100, "the most supersteps of a run", within="[1, inf)")
    seed: int = option(0, "seed of the noise and of drawn potentials")

    def build(self, p: ProgramBuilder) -> None:
        p.vertex("phi", K, nonnegative=True)
        (p.edge if self.potentials == "edge" else p.graph)("psi", (K, K))
        p.edge("msg", K, start=1.0, nonnegative=True)
        p.vertex("belief", K, start="phi")

        @p.over_edges(into="aggr", reduce="prod", initial="phi")
        def gather(edge: Reader) -> Expression:
            return edge.msg

        @p.over_vertices
        def believe(v: Reader) -> dict[str, Expression]:
            return {"belief": normalize(v.aggr)}

        @p.over_edges(updates="msg")
        def message(src: Reader, edge: EdgeReader, graph: Reader) -> Expression:
            others = src.aggr.without(edge.reverse.msg)
            psi = edge.psi if self.potentials == "edge" else graph.psi
            said = others @ psi if self.rule == "sum" else max_product(others, psi)
            return (1 - self.damping) * normalize(said) + self.damping * normalize(edge.msg)

        p.until_settled(self.tolerance, at_most=self.supersteps)
        p.output("belief", bound=(1e-4 if self.rule == "sum" else 1e-3) + 10 * self.tolerance)

    def fixed_points(self) -> FixedPoints:
        return "several"

    def prepare_graph(self, graph: Graph) -> Graph:
        """Add reverse edges and remove self-loops, which have no effect under a shared potential."""
        if self.potentials == "edge":
            return graph
        if graph.has_self_loops:
            graph = graph.select_edges(graph.csr.row_of_edge != graph.csr.neighbours)
        return graph.with_reverse_edges()

    def inputs(self, graph: Graph, features: int) -> Inputs:
        phi = vertex_potentials(self.vertices, graph, features, self.noise, self.seed)
        psi = pairwise_potentials(self.potentials, graph, features, self.smoothness, self.truncation)
        return Inputs({"phi": phi, "psi": psi}, self.parameter_values())

    def default_features(self, graph: Graph) -> int | None:
        return DRAWN_STATES if self.vertices == "drawn" else natural_features(graph)

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """Return ``marginal_error`` or ``log_score`` of a network, ``bad_pixels`` of a stereo pair, ``agreement`` of a
        picture."""
        if self.vertices == "drawn":
            return {}
        return quality(graph, values["belief"], self.rule == "sum", self.noise, self.seed)

    def artefacts(self, graph: Graph, values: Values, folder: Path) -> None:
        """Write the disparities or the denoised picture, from black to white."""
        if self.vertices != "drawn" and task_of(graph) != "network":
            write_picture(graph, values["belief"], folder / "labels.png")
