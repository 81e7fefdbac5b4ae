"""The one package that a plugin imports; :mod:`harness.api.cpu` has the parts that engines on the CPU are made of.

Importing it is cheap: the lowering toolkit, which loads the compiler, is imported when one of its names is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from harness.contract import (
    AlgorithmSpec,
    Device,
    Direction,
    Engine,
    EngineFailure,
    EngineSpec,
    GraphSpec,
    No,
    Phases,
    RunStatistics,
    ScheduleError,
    Superstep,
    Yes,
    option,
    options_of,
    schedule_from_options,
    schedule_text,
)
from harness.facts import DeviceFacts, GraphFacts
from harness.hookspecs import hookimpl
from harness.per_device import PerDevice

if TYPE_CHECKING:
    from harness.device.cuda import blocks_of_multiprocessor, registers_of
    from harness.device.driver import cuda_unavailable
    from harness.graph import Adjacency, Graph
    from harness.language import Algorithm, Inputs, InvalidInput, LanguageError, Program
    from harness.language.analysis import (
        FoldGroup,
        change_driven,
        fold_groups,
        mutable,
        recomputation_only,
        unfolded,
        watched,
    )
    from harness.language.arrays import Arrays
    from harness.language.criterion import TEST_EVERY, Criterion, Settling
    from harness.language.evaluation import Evaluator, concrete
    from harness.language.expressions import ELEMENTWISE, Expression, K, constant, read, substitute, walk
    from harness.language.program import (
        IDENTITY,
        EdgeReduce,
        EdgeUpdate,
        GraphReduce,
        Property,
        Stage,
        VertexStep,
        reads,
    )
    from harness.language.reference import moved, segment_reduce
    from harness.language.start import initial_values
    from harness.language.whole_numbers import whole_ranges
    from harness.lowering.cuda.change_sums import collect_change
    from harness.lowering.cuda.code import Value
    from harness.lowering.cuda.engine import CudaEngine
    from harness.lowering.cuda.kernels import CudaKernel, CudaKernelBuilder
    from harness.lowering.cuda.launches import Launch, named_apart, turned
    from harness.lowering.cuda.layout import PanelLayout, TeamShape
    from harness.lowering.cuda.movement import Measuring
    from harness.lowering.cuda.ranges import Over, Pieces, Tables, Teams, by_side
    from harness.lowering.cuda.thread_engine import ThreadEngine, combine_threads
    from harness.lowering.cuda.walks import (
        Mapped,
        Work,
        arc_range,
        look_ups,
        neighbours_of,
        rows_of,
        with_looked_up,
    )
    from harness.lowering.cuda.write_back import cuda_write_back, frontier
    from harness.lowering.edge_order import constants_by_source
    from harness.lowering.kept_accumulators import KeptAccumulators
    from harness.lowering.log_products import products_as_sums
    from harness.lowering.tracking import composed_writes, live_after
    from harness.transactions import Behaviour, Lanes, Load, Step, repeated

_HOME = {
    "harness.device.cuda": "blocks_of_multiprocessor registers_of",
    "harness.device.driver": "cuda_unavailable",
    "harness.graph": "Adjacency Graph",
    "harness.language": "Algorithm Inputs InvalidInput LanguageError Program",
    "harness.language.analysis": "FoldGroup change_driven fold_groups mutable recomputation_only unfolded watched",
    "harness.language.arrays": "Arrays",
    "harness.language.criterion": "TEST_EVERY Criterion Settling",
    "harness.language.evaluation": "Evaluator concrete",
    "harness.language.expressions": "ELEMENTWISE Expression K constant read substitute walk",
    "harness.language.reference": "moved segment_reduce",
    "harness.language.start": "initial_values",
    "harness.language.whole_numbers": "whole_ranges",
    "harness.language.program": "IDENTITY EdgeReduce EdgeUpdate GraphReduce Property Stage VertexStep reads",
    "harness.lowering.log_products": "products_as_sums",
    "harness.lowering.cuda.change_sums": "collect_change",
    "harness.lowering.cuda.code": "Value",
    "harness.lowering.cuda.engine": "CudaEngine",
    "harness.lowering.cuda.kernels": "CudaKernel CudaKernelBuilder",
    "harness.lowering.cuda.ranges": "Over Pieces Tables Teams by_side",
    "harness.lowering.cuda.thread_engine": "ThreadEngine combine_threads",
    "harness.lowering.cuda.launches": "Launch named_apart turned",
    "harness.lowering.cuda.layout": "PanelLayout TeamShape",
    "harness.lowering.cuda.movement": "Measuring",
    "harness.lowering.cuda.walks": "Mapped Work arc_range look_ups neighbours_of rows_of with_looked_up",
    "harness.lowering.cuda.write_back": "cuda_write_back frontier",
    "harness.lowering.edge_order": "constants_by_source",
    "harness.lowering.kept_accumulators": "KeptAccumulators",
    "harness.lowering.tracking": "composed_writes live_after",
    "harness.transactions": "Behaviour Lanes Load Step repeated",
}
_LAZY = {name: module for module, names in _HOME.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"harness.api has no {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


__all__ = [
    "ELEMENTWISE", "IDENTITY", "TEST_EVERY", "Adjacency", "Algorithm", "AlgorithmSpec", "Arrays", "Behaviour",
    "Criterion", "CudaEngine", "CudaKernel", "CudaKernelBuilder", "Device", "DeviceFacts", "Direction", "EdgeReduce",
    "EdgeUpdate", "Engine", "EngineFailure", "EngineSpec", "Evaluator", "Expression", "FoldGroup", "Graph",
    "GraphFacts", "GraphReduce", "GraphSpec", "Inputs", "InvalidInput", "K", "KeptAccumulators", "Lanes",
    "LanguageError", "Launch", "Load", "Mapped", "Measuring", "No", "Over", "PanelLayout", "PerDevice", "Phases",
    "Pieces", "Program", "Property", "RunStatistics", "ScheduleError", "Settling", "Stage", "Step", "Superstep",
    "Tables", "TeamShape", "Teams", "ThreadEngine", "Value", "VertexStep", "Work", "Yes", "arc_range",
    "blocks_of_multiprocessor", "by_side", "change_driven", "collect_change", "combine_threads", "composed_writes",
    "concrete", "constant", "constants_by_source", "cuda_unavailable", "cuda_write_back", "fold_groups", "frontier",
    "hookimpl", "initial_values", "live_after", "look_ups", "moved", "mutable", "named_apart", "neighbours_of",
    "option", "options_of", "products_as_sums", "read", "reads", "recomputation_only", "registers_of", "repeated",
    "rows_of", "schedule_from_options", "schedule_text", "segment_reduce", "substitute", "turned", "unfolded", "walk",
    "watched", "whole_ranges", "with_looked_up",
]  # fmt: skip
