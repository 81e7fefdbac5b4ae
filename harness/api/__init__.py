"""The one package that a plugin imports; :mod:`harness.api.cpu` and :mod:`harness.api.cuda` have the parts that
engines on these devices are made of.

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
    Operations,
    Phases,
    RunStatistics,
    ScheduleError,
    Superstep,
    Unsupported,
    Yes,
    option,
    options_of,
    schedule_text,
)
from harness.edge_places import EdgeOptions
from harness.facts import DeviceFacts, GraphFacts
from harness.hookspecs import hookimpl
from harness.per_device import PerDevice

if TYPE_CHECKING:
    from harness.device.driver import cuda_unavailable
    from harness.graph import Graph
    from harness.language import Algorithm, Inputs, InvalidInput, LanguageError, Program
    from harness.language.analysis import (
        FoldGroup,
        change_driven,
        fold_groups,
        mutable,
        unfolded,
        watched,
    )
    from harness.language.arrays import Arrays
    from harness.language.criterion import Criterion, Settling
    from harness.language.evaluation import Evaluator, concrete
    from harness.language.expressions import ELEMENTWISE, Expression, K, constant, read, substitute, walk
    from harness.language.initial_state import initial_values
    from harness.language.program import (
        EdgeReduce,
        EdgeStep,
        EdgeUpdate,
        GraphReduce,
        Property,
        Stage,
        VertexStep,
        reads,
    )
    from harness.language.reference import segment_reduce
    from harness.lowering.log_products import products_as_sums

_HOME = {
    "harness.device.driver": "cuda_unavailable",
    "harness.graph": "Graph",
    "harness.language": "Algorithm Inputs InvalidInput LanguageError Program",
    "harness.language.analysis": "FoldGroup change_driven fold_groups mutable unfolded watched",
    "harness.language.arrays": "Arrays",
    "harness.language.criterion": "Criterion Settling",
    "harness.language.evaluation": "Evaluator concrete",
    "harness.language.expressions": "ELEMENTWISE Expression K constant read substitute walk",
    "harness.language.reference": "segment_reduce",
    "harness.language.initial_state": "initial_values",
    "harness.language.program": "EdgeReduce EdgeStep EdgeUpdate GraphReduce Property Stage VertexStep reads",
    "harness.lowering.log_products": "products_as_sums",
}
_LAZY = {name: module for module, names in _HOME.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"harness.api has no {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


__all__ = [
    "ELEMENTWISE", "Algorithm", "AlgorithmSpec", "Arrays", "Criterion", "Device", "DeviceFacts", "Direction",
    "EdgeOptions", "EdgeReduce", "EdgeStep", "EdgeUpdate", "Engine", "EngineFailure", "EngineSpec", "Evaluator",
    "Expression", "FoldGroup", "Graph", "GraphFacts", "GraphReduce", "GraphSpec", "Inputs", "InvalidInput", "K",
    "LanguageError", "No", "Operations", "PerDevice", "Phases", "Program", "Property", "RunStatistics", "ScheduleError",
    "Settling", "Stage", "Superstep", "Unsupported", "VertexStep", "Yes", "change_driven", "concrete",
    "constant", "cuda_unavailable", "fold_groups", "hookimpl", "initial_values", "mutable",
    "option", "options_of", "products_as_sums", "read", "reads", "schedule_text", "segment_reduce", "substitute",
    "unfolded", "walk", "watched",
]  # fmt: skip
