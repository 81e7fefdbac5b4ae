"""The plan of a schedule on the CPU: a pure function of program, schedule, graph facts and device facts."""

from __future__ import annotations

from dataclasses import dataclass, replace

from engines.lonestar.choice import chosen, unfit
from engines.lonestar.cpu_blocks import plan_grid, plan_wavefront
from engines.lonestar.cpu_kernels import updating
from engines.lonestar.cpu_locks import plan_locked
from engines.lonestar.cpu_lossy import plan_lossy
from engines.lonestar.orders import BatchTable
from engines.lonestar.schedule import LOCKED, LonestarSchedule
from harness.api import DeviceFacts, EdgeStep, GraphFacts, GraphReduce, No, Program, VertexStep, unfolded
from harness.api.cpu import (
    CpuPlan,
    CpuPolicy,
    CpuSetting,
    KernelBuilder,
    PlanDraft,
    Run,
    Step,
    plan_graph,
    plan_vertices,
    unsupported,
)

# Block rows, at least: with 16 x 16 blocks of 1 M to 10 M ratings, a block's rows fit the caches of a core. There are
# twice as many as threads, so that one that waits for a block finds another.
BLOCKS = 16
# lines that end up inside of loops are indented by the templates
BATCHED = """
    @part
    first = at(batches, batch)
    count = at(batches, batch + 1) - first
    for i in range(first + t * count // parts, first + (t + 1) * count // parts):
        {edge}
"""
IN_UNITS = """for j in range(at(units, i), at(units, i + 1)):
            e = at(edge_order, j)
            u = at(order_sources, j)
            v = at(order_destinations, j)
            @edge"""
EACH = """e = at(edge_order, i)
        u = at(order_sources, i)
        v = at(order_destinations, i)
        @edge"""


def plan(
    program: Program, schedule: LonestarSchedule, graph: GraphFacts, features: int, device: DeviceFacts,
    policy: CpuPolicy,
) -> CpuPlan | No:  # fmt: skip
    """Return the plan of a traced program, or the reason why the schedule cannot run it."""
    reason = refusal(program, graph, features) or unfit(program, schedule, graph)
    if reason:
        return No(reason)
    taken = chosen(program, schedule, graph, features, device)
    if isinstance(taken, No):
        return taken
    found = resolve(program, taken, graph, features, device)
    if isinstance(found, No):
        return found
    resolved = found
    setting = CpuSetting.of(program, graph, features, device, unfolded, direction="push", policy=policy)
    draft = PlanDraft(setting)
    for group in setting.tracking.groups:
        (stage,) = group.stages
        if isinstance(stage, GraphReduce):
            plan_graph(draft, stage)
        elif isinstance(stage, VertexStep):
            plan_vertices(draft, group)
        else:
            assert isinstance(stage, EdgeStep)
            PLANNED.get(resolved.order, plan_batched)(draft, stage, resolved)
    return draft.finish("LonestarCpuEngine", resolved)


def resolve(
    program: Program, schedule: LonestarSchedule, graph: GraphFacts, features: int, device: DeviceFacts
) -> LonestarSchedule | No:
    """Return the schedule with every option filled in, or the reason why it cannot run the program."""
    steps = [stage for stage in program.stages if isinstance(stage, EdgeStep)]
    given = any(step.order == "given" for step in steps)
    serial = any(step.conflicts == "serial" for step in steps)
    reason = schedule.refusal(given=given, serial=serial)
    if schedule.writes == "add":
        reason = reason or "writes=add is built on GPUs, and threads of a CPU store rows; leave it unset"
    if reason:
        return No(reason)
    resolved = schedule.resolved(given=given, edges=graph.num_edges)
    blocks = (resolved.blocks or max(BLOCKS, 2 * device.threads)) if resolved.order in ("grid", "wavefront") else None
    writes = "store" if resolved.order == "hogwild" else None
    return replace(resolved, blocks=blocks, writes=writes)


def refusal(program: Program, graph: GraphFacts, features: int) -> str:
    """Return why no schedule of this engine runs the program; empty if one may."""
    if not any(isinstance(stage, EdgeStep) for stage in program.stages):
        return "the program has no step that updates both ends of an edge; this engine is for those"
    for stage in program.stages:
        if not isinstance(stage, (EdgeStep, VertexStep, GraphReduce)):
            return f"{stage.name} is neither a step of edges in place, nor of vertices, nor a reduction over the graph"
    return unsupported(program, graph, features, change_driven=False, in_place=True)


# batches --------------------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class BatchedPass:
    """A step over all batches."""

    kernel: str

    def bound(self, run: Run) -> Step:
        """Return the step that runs the batches one after another."""

        def step() -> None:
            run.call(self.kernel, run.threads)
            run.edges += run.rules.graph.num_edges

        return step


def plan_batched(draft: PlanDraft, stage: EdgeStep, schedule: LonestarSchedule) -> None:
    """Add the kernel and the pass of a step under an offline schedule."""
    setting = draft.setting
    draft.table(BatchTable(schedule))
    units = schedule.order == "blkdiag"
    signature = [
        ("batches", "i64"), *([("units", "i64")] if units else []), ("edge_order", "i64"),
        ("order_sources", setting.ids), ("order_destinations", setting.ids),
    ]  # fmt: skip
    template = BATCHED.format(edge=IN_UNITS if units else EACH)
    builder = KernelBuilder(stage.name, setting.program, setting.layout, template, signature, batches="batches")
    draft.kernels.append(updating(draft, builder, stage, "e", "csr_"))
    draft.passes.append(BatchedPass(stage.name))


PLANNED = {**dict.fromkeys(LOCKED, plan_locked), "grid": plan_grid, "wavefront": plan_wavefront, "hogwild": plan_lossy}
