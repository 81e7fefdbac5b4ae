"""The parts that engines on the CPU are made of: planning, kernels, passes, tables. Importing it loads the compiler."""

from __future__ import annotations

from harness.contract import Transfers
from harness.language.analysis import recomputation_only, steps_folded
from harness.language.edge_steps import levels
from harness.language.program import VertexReduce
from harness.lowering.buffers import Holds
from harness.lowering.cpu.batches import FIRST_EDGES, flagged_batches
from harness.lowering.cpu.buffers import CpuBuffer
from harness.lowering.cpu.change_sums import add_change_sums, change_prefix
from harness.lowering.cpu.edge_updates import plan_update
from harness.lowering.cpu.engine import CpuEngine, usable_threads
from harness.lowering.cpu.executor import CpuExecutor
from harness.lowering.cpu.flags import every_vertex, flagged_loop, raised
from harness.lowering.cpu.frontier import count_kernel
from harness.lowering.cpu.hubs import HUB_ARGUMENTS, HubRuns, Hubs, push_template, sum_hubs_in_runs
from harness.lowering.cpu.kernels import Kernel, KernelBuilder
from harness.lowering.cpu.locks import exchange_if, publish, published, try_lock, unlock
from harness.lowering.cpu.module_source import compiled as compiled_kernel
from harness.lowering.cpu.movement import Movement
from harness.lowering.cpu.parallel_for import launch
from harness.lowering.cpu.partition import owned_edges, owner_bounds
from harness.lowering.cpu.passes import plan_count, plan_graph, plan_named, plan_vertices
from harness.lowering.cpu.plan import CpuPlan, PlanDraft, Resending
from harness.lowering.cpu.policy import CpuPolicy
from harness.lowering.cpu.row_memory import atomic_add, prefetch
from harness.lowering.cpu.run import Run, Step
from harness.lowering.cpu.sent_edges import SentEdges, plan_sent_edges
from harness.lowering.cpu.setting import CpuSetting
from harness.lowering.cpu.strips import Store
from harness.lowering.cpu.tables import Owned
from harness.lowering.cpu.vertex_kernels import fill_kernel
from harness.lowering.cpu.windowed_calls import OFFSETS, Slot, WindowedCalls
from harness.lowering.cpu.write_back import write_back
from harness.lowering.edge_tables import Rows
from harness.lowering.edge_windows import windows
from harness.lowering.graph_store import Structure, Table
from harness.lowering.kept_accumulators import KeptAccumulators
from harness.lowering.refusals import unsupported
from harness.lowering.setting import LoweredProgram
from harness.lowering.tracking import composed_writes

__all__ = [
    "FIRST_EDGES",
    "HUB_ARGUMENTS",
    "OFFSETS",
    "CpuBuffer",
    "CpuEngine",
    "CpuExecutor",
    "CpuPlan",
    "CpuPolicy",
    "CpuSetting",
    "Holds",
    "HubRuns",
    "Hubs",
    "KeptAccumulators",
    "Kernel",
    "KernelBuilder",
    "LoweredProgram",
    "Movement",
    "Owned",
    "PlanDraft",
    "Resending",
    "Rows",
    "Run",
    "SentEdges",
    "Slot",
    "Step",
    "Store",
    "Structure",
    "Table",
    "Transfers",
    "VertexReduce",
    "WindowedCalls",
    "add_change_sums",
    "atomic_add",
    "change_prefix",
    "compiled_kernel",
    "composed_writes",
    "count_kernel",
    "every_vertex",
    "exchange_if",
    "fill_kernel",
    "flagged_batches",
    "flagged_loop",
    "launch",
    "levels",
    "owned_edges",
    "owner_bounds",
    "plan_count",
    "plan_graph",
    "plan_named",
    "plan_sent_edges",
    "plan_update",
    "plan_vertices",
    "prefetch",
    "publish",
    "published",
    "push_template",
    "raised",
    "recomputation_only",
    "steps_folded",
    "sum_hubs_in_runs",
    "try_lock",
    "unlock",
    "unsupported",
    "usable_threads",
    "windows",
    "write_back",
]  # fmt: skip
