"""Scaph style on CUDA devices: push from the vertices that moved, over subgraphs in slots of the device (Zheng 2020).

The kernels are those of EMOGI style, launched once for each window; a window is a subgraph. Before these launches a
kernel counts the active vertices of every subgraph and their edges, and the host decides how each subgraph is read.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from engines.outofmemory.emogi.cuda_plan import FOLDER, REBUILD_SHARE, planned
from engines.outofmemory.scaph.asynchronous import out_of_step
from engines.outofmemory.scaph.cuda_packed_rows import HOLD_LATE, LATE, PLACE
from engines.outofmemory.scaph.cuda_rates import IN_PLACE
from engines.outofmemory.scaph.cuda_windows import SubgraphWindows, windows_of
from engines.outofmemory.scaph.extraction import TABLE_BYTES, groups_of
from engines.outofmemory.schedules import EmogiSchedule
from harness.api import No, unfolded
from harness.api.cuda import LoweredProgram, Thresholds, aligned, refusal, unstreamable, work

if TYPE_CHECKING:
    from engines.outofmemory.schedules import ScaphSchedule
    from harness.api import GraphFacts, Program
    from harness.api.cuda import CudaPlan

# Subgraphs in memory. PageRank took 8 % less time with 6 slots than with 4 on an R-MAT graph, whose kernels of
# subgraphs take longer than copies, and 5 % on a mesh. With packed ids 8 slots took 13 and 14 % less than 4 (H100).
SLOTS, PACKED_SLOTS = 6, 8
STAGINGS = 2  # one is packed while the other is copied
MOST_PACKED = 1 << 32  # positions in a packed subgraph take 32 bits


def plan(program: Program, schedule: ScaphSchedule, facts: GraphFacts, features: int) -> CudaPlan | No:
    """Return the plan of a program on a CUDA device, or why it cannot run."""
    lowered = LoweredProgram.of(program, masked=True)
    reason = refused(lowered.program, schedule, facts, features)
    if reason:
        return No(reason)
    reason = out_of_step(lowered, unfolded(lowered.program), schedule)
    if reason:
        return No(reason)
    slots = schedule.slots or (PACKED_SLOTS if schedule.codes == "packed" else SLOTS)
    resolved = replace(
        schedule.with_place(), access=schedule.access or "tiled", counters=bool(schedule.counters), slots=slots
    )
    push = EmogiSchedule(access=resolved.access, frontier="flags", counters=False)
    draft = planned(lowered, push, facts, features).draft
    draft.windows = SubgraphWindows(slots=slots)
    holds = extracts(resolved) and bool(resolved.repeats)
    if holds:
        draft.own(work(LATE, facts.num_vertices, "bool", start=0))
    made = draft.finish(resolved, FOLDER, Thresholds(rebuild=REBUILD_SHARE))
    if isinstance(made, No):
        return made
    if resolved.counters:
        made = replace(made, windows=replace(windows_of(made), extra_host_bytes=facts.num_vertices))
    if probes_in_place(resolved):
        return replace(made, source=made.source + IN_PLACE)
    if not (extracts(resolved) and made.windows.edges):
        return made
    if min(made.windows.edges, facts.num_edges) >= MOST_PACKED:
        return No("low=extract packs at most 2^32 - 1 edges of a subgraph; give a smaller window_mb")
    table = aligned(TABLE_BYTES * groups_of(facts.num_vertices))
    (offsets,) = (buffer for buffer in made.buffers if buffer.name == "out_offsets")
    windows = replace(
        windows_of(made), stagings=STAGINGS, staging_bytes=table + made.windows.slot_bytes, offset_bytes=offsets.nbytes,
        extra_host_bytes=facts.num_vertices,
    )  # fmt: skip
    return replace(made, windows=windows, source=made.source + PLACE + HOLD_LATE * holds)


def extracts(schedule: ScaphSchedule) -> bool:
    """Return whether the host may pack rows under a schedule."""
    return schedule.low == "extract" and schedule.values != "high"


def probes_in_place(schedule: ScaphSchedule) -> bool:
    """Return whether a schedule needs the measured rate of reads in place."""
    return schedule.rule == "chosen" and schedule.low == "zero_copy"


def omits_decisions(plan: CudaPlan) -> bool:
    """Return whether supersteps of a plan may read all active rows in place, without a decision.

    Whole subgraphs that are kept in slots, and what is counted, are known only to decisions. Kernels that read
    different arrays need them, too, because a run counts the edges of all kernels together.
    """
    schedule = plan.schedule
    if not probes_in_place(schedule) or schedule.repeats or schedule.counters or schedule.order == "zigzag":
        return False
    kernels = [kernel for kernel in plan.kernels if plan.windows.takes(kernel)]
    arrays = {frozenset(name for name, _ in plan.windows.row_bytes if name in kernel.arguments) for kernel in kernels}
    return len(arrays) == 1 and all(kernel.visits.flags for kernel in kernels)


def refused(program: Program, schedule: ScaphSchedule, facts: GraphFacts, features: int) -> str:
    """Return why a schedule cannot run a lowered program; empty if no reason is known before planning."""
    if schedule.advice is not None:
        return "schedule option advice is for managed edges; leave it unset"
    return unstreamable(program) or refusal(program, facts, features)
