"""Kernels on the CPU that update both ends of edges, the arrays of locks, and the stamps that tell an order."""

from __future__ import annotations

from harness.api import EdgeStep
from harness.api.cpu import Holds, Kernel, KernelBuilder, PlanDraft, Store


def stamps_of(step: str) -> str:
    """Return the name of the array with the stamps of a step, int32[2 E]; empty while stamps are not taken."""
    return f"stamps_{step}"


def passes_of(step: str) -> str:
    """Return the name of the array with the number of passes of a step in the last superstep, int64[1]."""
    return f"passes_{step}"


def counters_of(step: str) -> str:
    """Return the name of the array with the next stamp of each vertex, int32[V]; empty while stamps are not taken."""
    return f"counters_{step}"


def lock_arrays(draft: PlanDraft, step: str, locks: int, left: int) -> None:
    """Add the arrays of passes that kernels of :func:`locked_kernel` take; ``left``: the most parts of a pass."""
    for name, dtype, length in (
        ("locks", "int32", locks), ("left", "int64", left),
        (stamps_of(step), "int32", 0), (counters_of(step), "int32", 0), (passes_of(step), "int64", 1),
    ):  # fmt: skip
        draft.array(name, Holds.WORK, "", dtype, length)


def locked_kernel(
    draft: PlanDraft, stage: EdgeStep, name: str, template: str, signature: list[tuple[str, str]],
    edge: tuple[str, str],
) -> Kernel:  # fmt: skip
    """Return a kernel that updates both ends of the edges that it locks; ``edge``: index and prefix of edge values."""
    own = [("bounds", "i64"), ("left", "i64"), ("locks", "i32"), ("stamps", "i32"), ("counters", "i32")]
    builder = KernelBuilder(name, draft.setting.program, draft.setting.layout, template, own + signature, dynamic=True)
    builder.blocks["part"].line("stamping = len(stamps) > 0")
    builder.blocks["stamp"].line("if stamping:").inner(
        ["stamps[2 * e] = counters[u]", "stamps[2 * e + 1] = counters[v]", "counters[u] += 1", "counters[v] += 1"]
    )
    return updating(draft, builder, stage, *edge)


def updating(
    draft: PlanDraft, builder: KernelBuilder, stage: EdgeStep, edge: str, prefix: str, *, ahead: str = ""
) -> Kernel:  # fmt: skip
    """Return the kernel whose block "edge" updates the vertices ``u`` and ``v``.

    ``edge``, ``prefix``: the index of values of the edge, and the prefix of their arrays. ``ahead``: the place among
    ``order_sources`` and ``order_destinations`` of a later edge, of which the values that are updated are prefetched.
    """
    builder.bind("src", "edge", "u")
    builder.bind("dst", "edge", "v")
    if ahead:
        builder.blocks["edge"].line(f"ahead = {ahead}")
        for end, name, _ in stage.values:
            ids = "order_sources" if end == "src" else "order_destinations"
            builder.prefetch(end, name, "edge", f"int64(at({ids}, ahead))")
    builder.bind("edge", "edge", edge, prefix)
    index = {"src": "u", "dst": "v"}
    stores = [Store(f"vertex_{name}", index[end], value) for end, name, value in stage.values]
    operation = builder.store_together(stores, "edge")
    if operation:
        draft.missed[f"long rows of {stage.name} are not updated in strips, which have no {operation}"] = None
    return builder.finish()
