"""The state of a run at its start, as numbers: thresholds as counts of edges, and the edges of a full superstep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.lowering.cuda.plan import CudaPlan
from harness.lowering.cuda.run_extension import RunStart
from harness.lowering.cuda.run_state import RUN_FIELDS

if TYPE_CHECKING:
    from harness.graph import Graph


def start_fields(plan: CudaPlan, graph: Graph, state: Mapping[str, NDArray[np.generic]]) -> dict[str, int]:
    """Return all fields of the state of a run from a cold start, or from a given ``state``."""
    thresholds, sides, edges = plan.thresholds, len(plan.sides), graph.num_edges
    start = dict.fromkeys((*plan.extension.names, *RUN_FIELDS), 0)
    start |= {"active": graph.num_vertices, "sides": sides}
    start |= {"settles": int(plan.program.control.settles), "rebuilding": 1}
    start["rebuild"] = plan.accumulators.rebuild_every(state)
    start["dense_edges"] = int(thresholds.dense * edges)
    start["rebuild_edges"] = int(thresholds.rebuild * edges / sides) if plan.accumulators.rebuild else 0
    visited = _edges(plan, graph, 0), _edges(plan, graph, -1)
    if not plan.change_driven:
        start |= dict(zip(("always", "always_odd"), visited, strict=True))
    return {**start, **plan.extension.start_fields(RunStart(edges, sides, visited, cold=not state))}


def _edges(plan: CudaPlan, graph: Graph, side: int) -> int:
    """Return the number of edges that a superstep of a side visits if no changes are tracked."""
    groups = plan.tracking.groups
    first, last = plan.sides[side]
    offsets = graph.in_offsets
    inwards = int(offsets[last] - offsets[first])
    reductions = sum(len(group.edge_stages) for group in groups)
    updates = sum(len(group.stages) for group in groups if group.kind == "update")
    return inwards * reductions + updates * graph.num_edges
