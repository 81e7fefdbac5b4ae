"""Add sums of changes to the accumulators that they correct; :mod:`harness.lowering.cpu.change_sums` says why."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness.language.operators import where
from harness.lowering.cuda.thread_planner import thread_builder

if TYPE_CHECKING:
    from harness.language.program import EdgeReduce
    from harness.lowering.cuda.conditions import Condition
    from harness.lowering.cuda.kernels import CudaKernel, CudaKernelBuilder
    from harness.lowering.cuda.setting import CudaSetting

COLLECT = """
    @kernel
    for (Id v = first + thread_of_grid(); v < last; v += threads_of_grid()) {{
        if ({reached}) {{
            @vertex
        }}
    }}
"""


def collect_kernel(setting: CudaSetting, stage: EdgeReduce, unless: Condition) -> CudaKernel:
    """Return the kernel that adds the sums of changes to the kept accumulators of the vertices that are dirty.

    ``unless``: the condition under which it does nothing.
    """
    tracking = setting.tracking
    flags = [f"dirty_{tracking.name(reader)}" for reader in tracking.stale_groups(stage.into)]
    reached = " || ".join(f"{flag}[v]" for flag in flags) or "true"
    signature = [("first", "Id"), ("last", "Id"), *((flag, "flags") for flag in flags)]
    builder = thread_builder(setting, f"collect_{stage.into}", COLLECT.format(reached=reached), signature)
    collect_change(builder, stage, "vertex")
    return builder.finish(unless=unless)


def collect_change(builder: CudaKernelBuilder, stage: EdgeReduce, block: str) -> None:
    """Add ``change_<accumulator>`` at vertex ``v`` to the accumulator, in ``block``.

    The rounding error of the addition stays there (Fast2Sum). For k x k matrices, two of which do not fit in registers,
    zero is stored instead.
    """
    into, message = stage.into, stage.message
    builder.bind("v", block, "v")
    builder.bind("change", block, "v", "change_")
    before, change = builder.reading("v", into), builder.reading("change", into)
    after = before + change
    if len(message.shape) > 1:
        builder.store(f"vertex_{into}", "v", after, builder.mapping.kept(after), block)
        if builder.mapping.feature_aware:
            identity = builder.accumulator(f"{into}_identity", message, stage.reducer, "kernel")
            builder.store(f"change_{into}", "v", message, identity, block)
        else:
            builder.fill_identity(f"change_{into}", "v", message, stage.reducer, block)
        return
    rest = change - (after - before)
    rest = where(rest == rest, rest, 0.0)  # NaN after an infinite sum
    values = [builder.mapping.kept(value) for value in (after, rest)]
    builder.store(f"vertex_{into}", "v", after, values[0], block)
    builder.store(f"change_{into}", "v", rest, values[1], block)
