"""Label propagation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from harness.algorithms.pictures import write_segmentation
from harness.algorithms.seeding import SEEDINGS, choose_seeds, label_accuracy, number_of_labels
from harness.contract import option
from harness.language import Algorithm, Expression, Inputs, InvalidInput, K, ProgramBuilder, Reader, normalize, where

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language.algorithm import FixedPoints, Values


class LabelPropagation(Algorithm):
    """Label propagation (Zhu & Ghahramani 2002, sec. 2.2), as in fig. 2.1(d) of Vaz 2021.

    A vertex's distribution over k labels moves by ``alpha`` towards the weighted mean of its in-neighbours'. Zhu and
    Ghahramani clamp the known labels after every step, as done here with ``clamp``. The thesis's formula does not
    clamp, and drifts to a consensus in a long run. Their step is alpha = 1 with every weight divided by its source's
    total; here weights are used unchanged, as in the thesis. The figure's P properties, each with weights of its own,
    are P such runs; here there is one. A vertex that no label has reached yet stays zero, also when normalised.

    Seeds (``seeds``: auto, labels, colour, random; ``fraction``; ``seed``) are chosen by
    :func:`harness.algorithms.seeding.choose_seeds`. A run is settled when no distribution moves by more than
    ``tolerance``.

    The bound: averages do not amplify errors, so an error of at most ``tolerance`` per superstep (from values not
    propagated, or from one superstep more or less) accumulates additively at worst. Rounding in float32 caused 4e-7 on
    the digits and on grids. Both are absolute; the bound is relative to a vertex's likeliest label.
    """

    name: ClassVar[str] = "label_propagation"

    alpha: float = option(0.85, "share of a label that is taken from the neighbours", within="(0, 1]")
    clamp: bool = option(True, "reset the seeds after every step (Zhu and Ghahramani), or not (thesis)")
    tolerance: float = option(1e-5, "largest change of a distribution in a settled run", within="[0, inf)")
    supersteps: int = option(200, "the most supersteps of a run", within="[1, inf)")
    seeds: str = option("auto", "how seeds get labels; auto: true labels, else colours, else random", values=SEEDINGS)
    fraction: float = option(0.1, "share of the vertices that are seeds", within="(0, 1]")
    seed: int = option(0, "seed of the choice of seeds")

    def build(self, p: ProgramBuilder) -> None:
        p.edge("weight")
        p.vertex("seed", K)
        p.vertex("labelled", dtype=bool)
        p.vertex("lp", K, start="seed")

        @p.over_edges(into="aggr", reduce="sum")
        def spread(src: Reader, edge: Reader) -> Expression:
            return edge.weight * src.lp

        @p.over_vertices
        def n_aggr(v: Reader) -> dict[str, Expression]:
            return {"n_aggr": normalize(v.aggr)}

        @p.over_vertices
        def prob(v: Reader) -> dict[str, Expression]:
            return {"prob": self.alpha * v.n_aggr + (1 - self.alpha) * v.lp}

        @p.over_vertices
        def settle(v: Reader) -> dict[str, Expression]:
            return {"lp": where(v.labelled & self.clamp, v.seed, normalize(v.prob))}

        p.until_settled(self.tolerance, at_most=self.supersteps)
        p.output("lp", bound=2e-5 + self.tolerance * self.supersteps)

    def fixed_points(self) -> FixedPoints:
        """Return *one* with clamped labels; without clamping any consensus is a fixed point."""
        return "one" if self.clamp else "several"

    def inputs(self, graph: Graph, features: int) -> Inputs:
        if graph.least_weight < 0:
            raise InvalidInput(f"label propagation needs weights >= 0; graph {graph.name!r} has negative ones")
        label = choose_seeds(self.seeds, graph, features, self.fraction, self.seed)
        seed = np.zeros((graph.num_vertices, features), np.float32)
        known = label >= 0
        seed[known, label[known]] = 1.0
        return Inputs({"seed": seed, "labelled": known}, self.parameter_values())

    def default_features(self, graph: Graph) -> int | None:
        return number_of_labels(graph)

    def metrics(self, graph: Graph, values: Values) -> dict[str, float]:
        """Return ``accuracy``, the share of vertices with a true label, except seeds, that got it; a zero vector is
        wrong."""
        return label_accuracy(values["lp"], self.seeds, graph, self.fraction, self.seed)

    def artefacts(self, graph: Graph, values: Values, folder: Path) -> None:
        """Write the segmented picture of a pixel graph."""
        if "height" in graph.meta and "width" in graph.meta:
            write_segmentation(graph, values["lp"].argmax(axis=1), folder / "segmentation.png")
