"""Scaph style on the CPU: subgraphs are read from a file into a few slots of memory (Zheng et al. 2020).

The operators are those of a change-driven push. The disk takes the part of the host link in the paper.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from engines.outofmemory.scaph.activity import LAST_BYTES, ActivityLog
from engines.outofmemory.scaph.asynchronous import out_of_step
from engines.outofmemory.scaph.cpu_calls import SubgraphCalls
from engines.outofmemory.scaph.cpu_queue import QueueLoop
from engines.pushbaseline.gunrock import cpu_engine as changes
from engines.pushbaseline.schedules import GunrockSchedule
from harness.api import No
from harness.api.cpu import CpuEngine, CpuExecutor, LoweredProgram, Structure, Transfers

if TYPE_CHECKING:
    from collections.abc import Mapping

    from engines.outofmemory.schedules import ScaphSchedule
    from harness.api import DeviceFacts, GraphFacts, Inputs, Program, RunStatistics
    from harness.api.cpu import CpuPlan, CpuPolicy

SLOTS = 4  # subgraphs in memory


class ScaphExecutor(CpuExecutor):
    """Run a plan whose edges are subgraphs of a file; with several rounds by a queue of those in memory."""

    def __init__(self, plan: CpuPlan, *arguments: Any) -> None:
        super().__init__(plan, *arguments)
        self.log: ActivityLog | None = None
        if plan.schedule.counters:
            self.log = ActivityLog(self.store.structure(Structure.OUT_OFFSETS), plan.windows.edge_bytes)
        if plan.schedule.repeats:
            passes = list(plan.passes)
            (advance,) = [one for one in passes if isinstance(one, changes.AdvancePass)]
            self.loop = QueueLoop(advance, passes.index(advance), self.calls, plan.windows.edges)

    def _calls(self, kernels: Mapping[Any, Any]) -> SubgraphCalls:
        plan = self.plan
        edges, row = plan.windows.edges, plan.windows.edge_bytes
        self.calls = SubgraphCalls(
            kernels, self.memory, plan.rules.threads, self.store.edges, plan.windows, plan.rules.partition,
            schedule=plan.schedule, edge_bytes=row, slot_bytes=min(edges, plan.rules.graph.num_edges) * row,
        )  # fmt: skip
        return self.calls

    def reset(self, inputs: Inputs, state: Mapping[str, Any]) -> None:
        """Set the whole state to the start of a run."""
        super().reset(inputs, state)
        self.calls.readings.reset()

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled, or for ``max_supersteps`` more supersteps if these are synchronous."""
        readings = self.calls.readings
        readings.begin()
        first = self.run_state.superstep_index
        if self.log:
            log = self.log
            log.begin()
            self.calls.note = lambda rows: log.note(self.run_state.superstep_index - first, rows)
        statistics = super().run(max_supersteps)
        data = self.log.data(len(statistics.supersteps)) if self.log else {}
        statistics.transfers = Transfers(**readings.counted(), data=data)
        return statistics


class ScaphCpuEngine(CpuEngine):
    """Push from subgraphs of a file. With several rounds the engine solves whole problems."""

    schedule: ScaphSchedule
    executor_type = ScaphExecutor

    def __init__(self, schedule: ScaphSchedule) -> None:
        super().__init__(schedule)
        self.stepwise = not schedule.repeats

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts) -> CpuPlan | No:
        """Return the plan of the schedule (:func:`plan`)."""
        return plan(program, self.schedule, graph, features, device, self.runs)


def plan(
    program: Program, schedule: ScaphSchedule, graph: GraphFacts, features: int, device: DeviceFacts, runs: CpuPolicy
) -> CpuPlan | No:
    """Return the plan of a program, or why it cannot run."""
    if schedule.advice is not None:
        return No("schedule option advice is for managed edges; leave it unset")
    for name in schedule.GPU_ONLY:
        if getattr(schedule, name) is not None:
            return No(f"schedule option {name} has no meaning on the CPU; leave it unset")
    if schedule.rule == "chosen":
        return No("rule=chosen has no meaning on the CPU, where the rate of a file is not measured; give rule=paper")
    if schedule.low == "zero_copy":
        return No("low=zero_copy has no meaning on the CPU, which has no link to a device; give low=extract")
    slots = schedule.slots or SLOTS
    resolved = replace(schedule.with_place(), counters=bool(schedule.counters), slots=slots)
    pushed = GunrockSchedule(edges=resolved.edges, window_mb=resolved.window_mb, codes=resolved.codes)
    made = changes.plan(program, pushed, graph, features, device, runs)
    if isinstance(made, No):
        return made
    lowered = LoweredProgram.of(program)
    reason = out_of_step(lowered, changes.operators(lowered.program), schedule)
    if reason:
        return No(reason)
    of_slot = min(made.windows.edges, graph.num_edges) * made.windows.edge_bytes
    logged = LAST_BYTES * graph.num_vertices if schedule.counters else 0
    windows = replace(made.windows, nbytes=slots * of_slot + logged + made.windows.room_bytes)
    return replace(made, schedule=resolved, title="ScaphCpuEngine", windows=windows)
