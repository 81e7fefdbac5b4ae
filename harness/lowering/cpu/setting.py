"""The setting that all parts of planning share on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from harness.contract import Direction
from harness.facts import DeviceFacts, GraphFacts
from harness.graph.adjacency import id_dtype
from harness.language import Program
from harness.language.analysis import Delta, FoldGroup, change_driven
from harness.lowering.cpu.partition import Partition
from harness.lowering.cpu.policy import DEFAULT, CpuPolicy
from harness.lowering.kept_accumulators import KeptAccumulators
from harness.lowering.layout import Layout
from harness.lowering.setting import LoweredProgram, Setting


@dataclass(frozen=True, kw_only=True, eq=False)
class CpuSetting(Setting):
    """The setting that all kernels of a plan share on the CPU.

    ``forms``: the change-driven forms of the reductions; empty unless changes are pushed. ``policy``: the constants of
    runs.
    """

    threads: int
    forms: tuple[Delta, ...]
    policy: CpuPolicy = DEFAULT

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
        policy: CpuPolicy = DEFAULT,
    ) -> CpuSetting:
        """Lower a traced program.

        ``groups``: returns the stages of each kernel. ``changes``: only changes are propagated. ``rebuild``: supersteps
        between rebuilds of accumulators that a push of changes keeps. ``policy``: the constants of runs.
        """
        lowered = LoweredProgram.of(program)
        found = change_driven(lowered.program) if changes and direction == "push" else ()
        forms = () if isinstance(found, str) else found
        differences = any(form.kind != "monotone" for form in forms)
        keeps_sent = lowered.program.control.tolerance is not None or differences
        kept = KeptAccumulators.of(lowered.program, graph, forms, rebuild) if direction == "push" else None
        return cls(
            lowered=lowered, facts=graph, layout=Layout(features), direction=direction, feature_aware=feature_aware,
            tracking=lowered.tracking(groups(lowered.program), change_driven=changes, keeps_sent=keeps_sent),
            accumulators=kept or KeptAccumulators(), threads=device.threads, forms=forms,
            policy=policy,
        )  # fmt: skip

    @property
    def partition(self) -> Partition:
        """The cut of vertices into parts."""
        return Partition(self.threads, self.policy.parts_per_thread, self.policy.smallest_part)

    @property
    def ids(self) -> str:
        """The kind of the graph's vertex ids, as an argument of a kernel."""
        return "ids32" if id_dtype(self.facts.num_vertices).itemsize == 4 else "ids64"
