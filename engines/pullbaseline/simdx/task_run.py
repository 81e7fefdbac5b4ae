"""The start of a run of a program with active vertices; the device decides lists, filters and directions (secs. 4,
5)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from engines.pullbaseline.simdx.cuda_plan import lists_by_degree
from engines.pullbaseline.simdx.tasks import EDGES, PULLED, SIZES, VERTICES, VOTES, WORDS

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from engines.pullbaseline.schedules import SimdxSchedule
    from engines.pullbaseline.simdx.activity import Activity
    from harness.api.cuda import CudaPlan, DeviceStore


def by_degree(degrees: NDArray[Any], schedule: SimdxSchedule) -> tuple[NDArray[np.bool_], ...]:
    """Return which vertices are in the small, the middle and the large list by the given degrees, bool[V] each."""
    warp, block = schedule.warp_degree, schedule.block_degree
    return degrees < warp, (degrees >= warp) & (degrees <= block), (degrees >= warp) & (degrees > block)


def start_tasks(active: Activity, plan: CudaPlan, store: DeviceStore, arrays: Mapping[str, Any]) -> int:
    """List the vertices that are active at the start; return their number.

    Vertices whose metadata are not the identity are active. Nothing is sent yet.
    """
    import cupy

    graph = store.graph
    vertices, metadata = graph.num_vertices, plan.named[f"vertex_{active.metadata}"]
    shape = plan.program.properties[active.metadata].shape
    width = plan.layout.dims(shape)[-1] if shape else 1
    start = arrays[metadata.name][: metadata.length].reshape(vertices, metadata.stride)[:, :width]
    heard = start != active.identity
    listed = (heard.any(axis=1) if active.quiet else cupy.ones(vertices, np.bool_)).get()
    words = np.zeros(WORDS, np.int64)
    degrees = graph.out_degrees
    lists = lists_by_degree(plan.schedule, plan.sides)
    for number, mask in enumerate(by_degree(degrees, plan.schedule)):
        found = np.flatnonzero(mask & listed).astype(np.uint32)
        arrays[f"{SIZES[number]}_active"][: len(found)].set(found)
        words[number] = len(found)
        words[PULLED + number] = store.table(lists[number]).sides[0][1]
    words[len(SIZES)] = int(degrees[listed].sum())
    words[VOTES] = active.votes and vertices > 0 and _alike(start, heard)
    words[VERTICES], words[EDGES] = vertices, graph.num_edges
    arrays["tasks"][:WORDS].set(words)
    return int(listed.sum())


def _alike(start: Any, heard: Any) -> bool:
    """Return whether, for each feature, all values except the identity are equal; ``start``, ``heard``: CuPy arrays [V,
    k]."""
    import cupy

    least = cupy.where(heard, start, np.inf).min(axis=0)
    most = cupy.where(heard, start, -np.inf).max(axis=0)
    return bool(((least == most) | ~heard.any(axis=0)).all())
