"""A program as it is lowered for the CPU, and the facts that all parts of planning need."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.contract import Direction
from harness.facts import DeviceFacts, GraphFacts
from harness.graph.adjacency import id_dtype
from harness.language import Program
from harness.language.analysis import Delta, FoldGroup, change_driven, factors, watched
from harness.language.criterion import Criterion, propagated_share
from harness.lowering.accumulators import separated
from harness.lowering.kept_accumulators import KeptAccumulators
from harness.lowering.layout import Layout
from harness.lowering.log_products import products_as_sums
from harness.lowering.tracking import Tracking


def lowered_program(program: Program) -> Program:
    """Return a traced program with products as sums of logarithms and with accumulators of their own."""
    return separated(products_as_sums(program))


@dataclass(frozen=True, eq=False)
class Lowered:
    """A lowered program with the groups of stages that share kernels, for a graph, a device and features.

    ``forms``: the change-driven forms of the reductions; empty unless changes are pushed. ``criterion``: measured
    movement; None if it is not measured.
    """

    program: Program
    layout: Layout
    graph: GraphFacts
    threads: int
    direction: Direction
    feature_aware: bool
    tracking: Tracking
    accumulators: KeptAccumulators
    forms: tuple[Delta, ...]
    criterion: Criterion | None

    @classmethod
    def of(
        cls,
        program: Program,
        graph: GraphFacts,
        features: int,
        device: DeviceFacts,
        groups: Callable[[Program], tuple[FoldGroup, ...]],
        *,
        direction: Direction,
        feature_aware: bool = True,
        changes: bool = False,
        rebuild: int = 0,
    ) -> Lowered:
        """Lower a traced program.

        ``groups``: returns the stages of each kernel. ``changes``: only changes are propagated. ``rebuild``: supersteps
        between rebuilds of accumulators that a push of changes keeps.
        """
        lowered = lowered_program(program)
        found = change_driven(lowered) if changes and direction == "push" else ()
        forms = () if isinstance(found, str) else found
        differences = any(form.kind != "monotone" for form in forms)
        tracking = Tracking(
            lowered, groups(lowered), changes, watched(program), factors(program),
            keeps_sent=lowered.control.tolerance is not None or differences,
            propagated_share=propagated_share(program),
        )  # fmt: skip
        kept = KeptAccumulators.of(lowered, graph, forms, rebuild) if direction == "push" else KeptAccumulators()
        criterion = Criterion.of(program)
        # In the norm max, if every vertex is recomputed in every superstep, it is enough to count the vertices that
        # moved by more than the tolerance.
        measured = criterion is not None and (changes or criterion.norm == "sum")
        return cls(
            lowered, Layout(features), graph, device.threads, direction, feature_aware, tracking, kept, forms,
            criterion if measured else None,
        )  # fmt: skip

    @property
    def change_driven(self) -> bool:
        """Whether only changes are propagated."""
        return self.tracking.change_driven

    @property
    def ids(self) -> str:
        """The kind of the graph's vertex ids, as an argument of a kernel."""
        return "ids32" if id_dtype(self.graph.num_vertices).itemsize == 4 else "ids64"

    @property
    def alternates(self) -> bool:
        """Whether supersteps update the two sides of the graph in turn."""
        return self.program.control.alternate and self.graph.bipartite is not None
