"""Tigr style on CUDA devices: runs the plans of :mod:`engines.pushbaseline.tigr.cuda_plan`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from engines.pushbaseline.tigr.cuda_plan import plan
from harness.api import DeviceFacts
from harness.api.cuda import CUDA, CudaEngine, Tables

if TYPE_CHECKING:
    from collections.abc import Sequence

    from engines.pushbaseline.schedules import TigrSchedule
    from harness.api import Graph, GraphFacts, No, Program
    from harness.api.cuda import CudaPlan, Mapped


class TigrCudaEngine(CudaEngine):
    """Push, all virtual nodes every superstep."""

    schedule: TigrSchedule

    def plan(self, program: Program, graph: GraphFacts, features: int, device: DeviceFacts = CUDA) -> CudaPlan | No:
        """Return the plan of a program, or why it cannot run."""
        return plan(program, self.schedule, graph, features, device)

    def tables_of(self, plan: CudaPlan, graph: Graph) -> Tables:
        """Return the source of every virtual node, and the number of its part of the source's edges (both uint32)."""
        parts = -(-graph.out_degrees // self.schedule.degree_bound)
        ends = np.concatenate([[0], np.cumsum(parts)])
        heard = [plan.sides[(side + 1) % len(plan.sides)] for side in range(len(plan.sides))]
        pieces = {"nodes": [(int(ends[first]), int(ends[last])) for first, last in heard]}
        source = np.repeat(np.arange(len(parts), dtype=np.uint32), parts)
        part = (np.arange(len(source)) - np.repeat(ends[:-1], parts)).astype(np.uint32)
        return Tables({"node_source": source, "node_part": part}, pieces)

    def mappings(self) -> Sequence[Mapped]:
        """Return the access patterns of the traversals here and of those shared by thread engines."""
        from engines.pushbaseline.tigr.cuda_walks import MAPPINGS

        return MAPPINGS
