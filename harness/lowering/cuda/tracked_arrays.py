"""The arrays that change tracking keeps on a device beside the properties: flags, and sent values."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

import numpy as np

from harness.lowering.cuda.layout import DeviceLayout
from harness.lowering.cuda.memory import values_of
from harness.lowering.tracking import Tracking

if TYPE_CHECKING:
    from harness.graph import Graph


def tracked_arrays(
    tracking: Tracking, graph: Graph, layout: DeviceLayout, needed: Collection[str]
) -> dict[str, tuple[int, type[np.generic]]]:
    """Return lengths and dtypes by name of the arrays that kernels take (``needed``).

    They are flags of vertices and of edges, counts of how often buffers swapped, and the values last sent to each
    group.
    """
    found: dict[str, tuple[int, type[np.generic]]] = {}
    for name in sorted(needed):
        match name.partition("_")[0]:
            case "dirty" | "active" | "fresh" | "rows":
                found[name] = (graph.num_vertices, np.bool_)
            case "next" if name.startswith("next_dirty_"):
                found[name] = (graph.num_vertices, np.bool_)
            case "moved" | "far":
                found[name] = (graph.num_edges, np.bool_)
            case "changed":
                found[name] = (1, np.bool_)
            case "flips":
                found[name] = (1, np.int64)
    for group in tracking.propagating() if tracking.change_driven else ():
        for kept in (*tracking.sent(group), *(name for _, name in tracking.edges(group))):
            array, prop = f"sent_{tracking.name(group)}_{kept}", tracking.program.properties[kept]
            if prop.place == "vertex" or array in needed:
                found[array] = (values_of(prop, graph, layout), np.bool_ if prop.dtype == "bool" else np.float32)
    return found
