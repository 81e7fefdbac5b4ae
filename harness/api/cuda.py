"""The parts that engines on CUDA devices are made of: planning, kernels, launches, buffers."""

from __future__ import annotations

from harness.contract import Transfers
from harness.device.compilation import compiled
from harness.device.cuda import architecture, blocks_of_multiprocessor, open_device, registers_of, require_memory
from harness.device.host_memory import PinnedMemory, on_host
from harness.facts import Degrees
from harness.language.analysis import Delta, steps_folded
from harness.language.criterion import PROPAGATED_SHARE, TEST_EVERY
from harness.language.integer_ranges import integer_ranges
from harness.language.message_bounds import BEST, EXTREME, MessageBound
from harness.language.program import IDENTITY, VertexReduce
from harness.lowering.buffers import Holds
from harness.lowering.cuda.buffers import CudaBuffer, flips_of, of_structure, table, work
from harness.lowering.cuda.cached_edges import Prefixed
from harness.lowering.cuda.calls import Call, Replay, Starts, recorded
from harness.lowering.cuda.change_sums import collect_change, collect_kernel
from harness.lowering.cuda.code import Value
from harness.lowering.cuda.conditions import CHANGING, NEVER, OVER, REBUILDING, Condition, dense, sparse, when
from harness.lowering.cuda.device_functions import Function
from harness.lowering.cuda.device_store import DeviceStore
from harness.lowering.cuda.draft import PlanDraft, refusal
from harness.lowering.cuda.edge_places import Replayer
from harness.lowering.cuda.engine import CUDA, CudaEngine
from harness.lowering.cuda.executor import CudaExecutor
from harness.lowering.cuda.kernels import CudaKernel, CudaKernelBuilder, Visits
from harness.lowering.cuda.launches import Launch, named_apart, turned
from harness.lowering.cuda.layout import DeviceLayout, LaneGroupShape
from harness.lowering.cuda.loop import CudaRun, Loop, queue_ahead
from harness.lowering.cuda.named_vertices import reduce_at_named
from harness.lowering.cuda.near_far import not_near_far
from harness.lowering.cuda.parameters import Parameter, joined
from harness.lowering.cuda.persistent import lock_buffer, make_persistent
from harness.lowering.cuda.persistent_executor import PersistentExecutor, PersistentLoop
from harness.lowering.cuda.plan import CudaPlan, Thresholds
from harness.lowering.cuda.ranges import Bounds, Listed, Over, WorkList, by_side
from harness.lowering.cuda.run_extension import Observer, RunExtension, RunField, RunStart
from harness.lowering.cuda.run_state import RunState
from harness.lowering.cuda.setting import CudaSetting
from harness.lowering.cuda.streamed import Streamed, Streamer
from harness.lowering.cuda.thread_planner import ThreadPlanner, combine_threads, thread_builder, thread_setting
from harness.lowering.cuda.windows import SLACK, Windows, aligned, name_of_test, unstreamable
from harness.lowering.cuda.write_back import cuda_write_back, frontier, store_sent
from harness.lowering.edge_order import constants_by_source, places
from harness.lowering.edge_windows import windows
from harness.lowering.graph_store import Table
from harness.lowering.kept_accumulators import KeptAccumulators
from harness.lowering.made_at_sources import made_at_sources
from harness.lowering.setting import LoweredProgram
from harness.lowering.summands import summand
from harness.lowering.tracking import Tracking, composed_writes, live_after

__all__ = [
    "BEST",
    "CHANGING",
    "CUDA",
    "EXTREME",
    "IDENTITY",
    "NEVER",
    "OVER",
    "PROPAGATED_SHARE",
    "REBUILDING",
    "SLACK",
    "TEST_EVERY",
    "Bounds",
    "Call",
    "Condition",
    "CudaBuffer",
    "CudaEngine",
    "CudaExecutor",
    "CudaKernel",
    "CudaKernelBuilder",
    "CudaPlan",
    "CudaRun",
    "CudaSetting",
    "Degrees",
    "Delta",
    "DeviceLayout",
    "DeviceStore",
    "Function",
    "Holds",
    "KeptAccumulators",
    "LaneGroupShape",
    "Launch",
    "Listed",
    "Loop",
    "LoweredProgram",
    "MessageBound",
    "Observer",
    "Over",
    "Parameter",
    "PersistentExecutor",
    "PersistentLoop",
    "PinnedMemory",
    "PlanDraft",
    "Prefixed",
    "Replay",
    "Replayer",
    "RunExtension",
    "RunField",
    "RunStart",
    "RunState",
    "Starts",
    "Streamed",
    "Streamer",
    "Table",
    "ThreadPlanner",
    "Thresholds",
    "Tracking",
    "Transfers",
    "Value",
    "VertexReduce",
    "Visits",
    "Windows",
    "WorkList",
    "aligned",
    "architecture",
    "blocks_of_multiprocessor",
    "by_side",
    "collect_change",
    "collect_kernel",
    "combine_threads",
    "compiled",
    "composed_writes",
    "constants_by_source",
    "cuda_write_back",
    "dense",
    "flips_of",
    "frontier",
    "integer_ranges",
    "joined",
    "live_after",
    "lock_buffer",
    "made_at_sources",
    "make_persistent",
    "name_of_test",
    "named_apart",
    "not_near_far",
    "of_structure",
    "on_host",
    "open_device",
    "places",
    "queue_ahead",
    "recorded",
    "reduce_at_named",
    "refusal",
    "registers_of",
    "require_memory",
    "sparse",
    "steps_folded",
    "store_sent",
    "summand",
    "table",
    "thread_builder",
    "thread_setting",
    "turned",
    "unstreamable",
    "when",
    "windows",
    "work",
]  # fmt: skip
