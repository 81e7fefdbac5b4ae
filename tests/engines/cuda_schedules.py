"""The engines and schedules under which the tests run programs on CUDA devices."""

from __future__ import annotations

import importlib
from typing import Any

from engines.onyx.cuda_tracking_policy import Pausing, TrackedRuns
from engines.pushbaseline.gunrock.cuda_engine import GunrockCudaEngine
from harness.contract import schedule_from_options
from harness.graph import Graph
from harness.language import Program
from harness.lowering.cuda.engine import CudaEngine
from harness.lowering.cuda.plan import CudaPlan
from tests.engines.problems import SPECS

ALL = {"change_driven": False}
PUSH = {**ALL, "direction": "push"}
ONYX = {
    "pull": ALL,
    "pull-single-features": {**ALL, "vector_width": 1, "pipeline": False},
    "pull-unfolded": {**ALL, "fold": False, "block_size": 128},
    "pull-loops": {**ALL, "feature_aware": False},
    "push": PUSH,
    "push-single-features": {**PUSH, "vector_width": 1, "pipeline": False},
    "push-edges": {**PUSH, "balance": "edge"},
    "push-edges-unfolded": {**PUSH, "balance": "edge", "fold": False, "vector_width": 2},
    "push-loops": {**PUSH, "feature_aware": False},
    "push-loops-edges": {**PUSH, "feature_aware": False, "balance": "edge", "block_size": 64},
    "pull-edges": {**ALL, "balance": "edge"},
    "pull-edges-loops": {**ALL, "balance": "edge", "feature_aware": False},
    "pull-edges-unfolded": {**ALL, "balance": "edge", "fold": False, "vector_width": 2, "block_size": 128},
    "changes-pull": {"balance": "warp"},
    "changes-pull-sparse": {"balance": "warp", "dense_share": 1.0},
    "changes-pull-unfolded": {"balance": "warp", "fold": False, "feature_aware": False},
    "changes-pull-edges": {"balance": "edge"},
    "changes-pull-edges-sparse": {"balance": "edge", "dense_share": 1.0},
    "changes-push": {"direction": "push", "rebuild": 0},
    "changes-push-edges": {"direction": "push", "balance": "edge", "rebuild": 2},
    "changes-push-loops": {"direction": "push", "feature_aware": False, "fold": False},
}
# Bounds and thresholds are also low enough that small graphs have several virtual nodes per vertex and fill all three
# lists.
SCHEDULES: dict[str, tuple[str, dict[str, Any]]] = {
    **{name: ("onyx", options) for name, options in ONYX.items()},
    "gunrock": ("gunrock", {"rebuild": 0}),
    "gunrock-merge-path": ("gunrock", {"balance": "merge_path", "rebuild": 2}),
    "tigr": ("tigr", {}),
    "tigr-short": ("tigr", {"degree_bound": 3}),
    "emogi": ("emogi", {}),
    "emogi-tiled": ("emogi", {"access": "tiled", "rebuild": 2}),
    "emogi-list": ("emogi", {"access": "chunk", "frontier": "list", "rebuild": 0}),
    "simdx": ("simdx", {}),
    "simdx-lists": ("simdx", {"warp_degree": 3, "block_degree": 6}),
}


def cuda_engine(schedule: str) -> CudaEngine:
    """Return the engine for CUDA devices under one of the schedules."""
    name, options = SCHEDULES[schedule]
    made = loaded(loaded(SPECS[name].factory).engines["cuda"])(schedule_from_options(SPECS[name], options))
    assert isinstance(made, CudaEngine)
    return made


def plan_of(engine: CudaEngine, program: Program, graph: Graph, features: int) -> CudaPlan:
    """Return the plan of a program that the engine supports."""
    plan = engine.plan(program, graph.facts, features)
    assert isinstance(plan, CudaPlan), plan
    return plan


def drives_changes(engine: CudaEngine) -> bool:
    """Return whether the schedule propagates only changes, which some programs have no form for."""
    return isinstance(engine, GunrockCudaEngine) or getattr(engine.schedule, "change_driven", False) in (None, True)


def pausing_of_plan(plan: CudaPlan) -> Pausing | None:
    """Return when tracking pauses in the runs of a plan; None: never."""
    return plan.extension.pausing if isinstance(plan.extension, TrackedRuns) else None


def begins_untracked(plan: CudaPlan) -> bool:
    """Return whether cold runs of a plan begin without tracking."""
    pausing = pausing_of_plan(plan)
    return pausing is not None and pausing.begins_untracked


def loaded(factory: str) -> Any:
    """Return the object named ``"package.module:Class"``."""
    module, _, attribute = factory.partition(":")
    return getattr(importlib.import_module(module), attribute)
