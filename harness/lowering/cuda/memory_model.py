"""Memory transactions of a plan: its kernels run on the emulated device, which counts their requests."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from harness.contract import No
from harness.emulation.compiler import OLDEST, unavailable
from harness.emulation.counting import BlockCounts, CountingModule
from harness.emulation.device import ATTRIBUTES, emulated_cupy
from harness.language import Inputs
from harness.lowering.cuda.modules import headers, module_source
from harness.lowering.cuda.movement import Measuring
from harness.lowering.cuda.ranges import Over
from harness.transactions import Atomics, Behaviour, KernelBehaviour, Loads
from harness.transactions.sampling import SampledKernel, estimated

if TYPE_CHECKING:
    from harness.lowering.cuda.calls import Call
    from harness.lowering.cuda.executor import CudaExecutor
    from harness.lowering.cuda.plan import CudaPlan

ACCESSES = 5 << 20  # of lanes, counted in every kernel; it takes about 0.3 s
REST = 1 << 26  # accesses that the other blocks of a kernel may have to run as well; it takes about 0.3 s
LISTS = {"Id*", "EdgeId*", "unsigned long long*"}  # parameters through which kernels pass lists of work to others


def countable(plan: CudaPlan) -> CudaPlan | No:
    """Return the plan whose launches are counted, or why they cannot be.

    Work that one kernel combines is launched step by step.
    """
    reason = unavailable(OLDEST)
    if reason:
        return No(f"the memory model runs kernels on the CPU: {reason}")
    launches = plan.modelled
    whole = [launch.kernel.name for launch in launches if "past" in launch.kernel.arguments]
    if whole:
        return No(
            f"the memory model runs the blocks of a kernel one after another; those of {whole[0]}, which runs whole "
            "supersteps, wait for each other"
        )
    kernels = list({launch.kernel.name: launch.kernel for launch in launches}.values())
    source = module_source(
        f"{plan.program.name}, counted", [one.source for one in kernels], plan.lane_group, plan.threads,
        many_edges=plan.many_edges, included=headers(plan.templates), extension=plan.extension,
    )  # fmt: skip
    windows = type(plan.windows)()
    return replace(plan, launches=launches, measuring=Measuring(), combined=None, source=source, windows=windows)


def behaviour_of(executor: CudaExecutor, inputs: Inputs) -> Behaviour:
    """Return the loads and atomic operations of the first superstep, in which everything is active.

    ``executor``: of a plan that is :func:`countable`, not loaded yet. Raises EmulationError, MemoryError.
    """
    plan = executor.plan
    module = CountingModule.of(plan.source, headers(plan.templates))
    executor.functions = {name: module.get_function(name) for name in ("end_of_superstep", *_names(plan))}
    executor.attributes = ATTRIBUTES
    with emulated_cupy(CountingModule):
        try:
            executor.allocate()
            executor.reset(inputs, {})
            run = executor.run_in_progress
            executor.state.note(limit=1)
            calls = run.launcher.calls(0, run.past)[:-1]  # without the end of the superstep
            found = [_sampled(executor, call) for call in calls]
        finally:
            executor.close()
    edges = {"in_neighbours": Over.IN_EDGES, "out_neighbours": Over.OUT_EDGES}
    elements = {name: int(np.diff(executor.ranges.bounds(over, 0))[0]) for name, over in edges.items()}
    kernels: dict[str, KernelBehaviour] = {}
    for one, total in zip(found, estimated(found, elements), strict=True):
        counted = KernelBehaviour(Loads(*total[:3].tolist()), Atomics(*total[3:].tolist()))
        kernels[one.name] = kernels.get(one.name, KernelBehaviour()) + counted
    taken, whole = sum(len(one.covered) for one in found), sum(one.blocks for one in found)
    return Behaviour("model", kernels, taken / whole if whole else 1.0)


def _names(plan: CudaPlan) -> list[str]:
    return [kernel.name for kernel in plan.kernels]


def _sampled(executor: CudaExecutor, call: Call) -> SampledKernel:
    """Run and count a sample of the blocks of a launch.

    The other blocks run uncounted if that takes little, and if vertices are listed as work for other kernels. Otherwise
    the rows that a kernel reduces over edges are unknown: they become NaN, which every comparison finds to have moved.
    """
    assert call.launch is not None, "a launch of the plan"
    kernel, arguments = call.launch.kernel, call.arguments
    types = {one.name: one.type for one in kernel.parameters}
    array = next((name for name in ("in_neighbours", "out_neighbours") if name in arguments), "")
    listing = not array and not LISTS.isdisjoint(types.values())
    found: BlockCounts = call.function.counted(
        call.grid, call.threads, tuple(arguments.values()), call.shared, budget=ACCESSES,
        rest=math.inf if listing else REST, covered=arguments.get(array),
    )  # fmt: skip
    if array and not found.whole:
        for name, kind in types.items():
            if kind == "float*":
                _forget(executor, name, arguments[name])
    return SampledKernel(kernel.name, found.blocks, found.quantities, found.covered, array)


def _forget(executor: CudaExecutor, name: str, values: NDArray[np.float32]) -> None:
    """Make the rows of an array unknown; those of vertices without in-edges, which nothing is reduced into, stay."""
    plan, graph = executor.plan, executor.store.graph
    buffer = plan.named[plan.parities.get(name, name)]
    if buffer.rows == graph.num_vertices:
        values[: buffer.length].reshape(buffer.rows, buffer.stride)[graph.in_degrees > 0] = np.nan
    else:
        values.fill(np.nan)
