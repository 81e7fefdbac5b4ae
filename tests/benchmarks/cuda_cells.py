"""Cells of benchmarks on a CUDA device: an engine that is filled and timed there.

Times are of CUDA events on the engine's stream around a call of ``run``: launches, waiting and the look at whether the
run has settled are part of them.
"""

from __future__ import annotations

import gc
import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from engines.onyx.cuda_engine import OnyxCudaEngine
from engines.onyx.schedule import OnyxSchedule
from harness.contract import Device, No, Phases
from harness.device.compilation import compiled
from harness.device.errors import CompilationFailed
from harness.graph import Graph
from harness.language import Algorithm, Inputs, Program, trace
from harness.language.initial_state import Start
from harness.language.program import EdgeReduce, EdgeUpdate, reads
from harness.lowering.buffers import Holds
from harness.lowering.cuda.layout import DeviceLayout
from harness.lowering.cuda.modules import headers

CHUNK = 1 << 26  # values drawn at once
SAMPLE_MS = 30.0  # that a timing takes at least, with up to MOST_STEPS supersteps
MOST_STEPS = 64
ROUNDS = 5
GROUP_S = 4.0  # beyond, a group of cells takes fewer rounds, two at least; a superstep beyond it is measured once


@dataclass(frozen=True, eq=False)
class Cell:
    """An algorithm with k features under a schedule of Onyx; change_driven is off unless the options say otherwise."""

    label: str
    algorithm: Algorithm
    features: int
    options: dict[str, Any] = field(default_factory=dict)

    @property
    def program(self) -> Program:
        """The traced program."""
        return trace(self.algorithm)

    def engine(self) -> OnyxCudaEngine:
        """A new engine."""
        return OnyxCudaEngine(OnyxSchedule(**{"change_driven": False, **self.options}))


class Unsupported(Exception):
    """The engine cannot run the cell, and says why."""


def prepared(cell: Cell, graph: Graph, inputs: Inputs | None = None) -> OnyxCudaEngine:
    """The engine of a cell at the start of a run: from ``inputs``, or filled with random values on the device, for runs
    of a few supersteps whose values do not matter. Raises Unsupported, CuPy's OutOfMemoryError, CompilationFailed."""
    engine, program, drawn = cell.engine(), cell.program, inputs is None
    answer = engine.supports(program, graph, cell.features, Device("cuda"))
    if isinstance(answer, No):
        raise Unsupported(answer.reason)
    try:
        engine.prepare(program, graph, cell.features, Device("cuda"), Phases())
        if inputs is None:
            inputs = Inputs({}, endless(cell))
            memory: Any = engine.executor.memory
            memory.reset = lambda given, state: _fill(memory, given)
        engine.reset(inputs)
        if drawn:
            engine.executor.state.note(settles=0)  # a run that has settled queues supersteps that do nothing
    except BaseException:
        release([engine])
        raise
    return engine


def endless(cell: Cell) -> dict[str, float]:
    """The parameters of a cell, the tolerance such that a run has little chance to settle."""
    values = dict(cell.algorithm.parameter_values())
    return values | ({"tolerance": 0.0} if "tolerance" in values else {})


def _fill(memory: Any, inputs: Inputs) -> None:
    """What ``DeviceMemory.reset`` sets, with random values in (0.1, 1.1), on the device."""
    program, graph, layout, cupy = memory.program, memory.graph, memory.layout, memory.cupy
    values = dict(program.parameters) | dict(inputs.parameters)
    if program.parameters and "parameters" in memory.plan.named:
        numbers = np.array([values[name] for name in program.parameters], np.float32)
        memory.array(memory.plan.named["parameters"])[: len(numbers)].set(numbers)
    for buffer in memory.plan.buffers:
        if buffer.start is not None:
            memory.arrays[buffer.name].fill(buffer.start)
        if buffer.holds is not Holds.PROPERTY:
            continue
        prop, kind, size = program.properties[buffer.of], buffer.kind, buffer.length
        array = memory.array(buffer)
        if prop.role == "builtin":
            start = np.asarray(Start(program, graph, layout.features, inputs, {}).of(prop))
            array[:size].set(start.astype(np.float32).ravel())
            continue
        for first in range(0, size, CHUNK):
            last = min(size, first + CHUNK)
            drawn = cupy.random.random(last - first, dtype=cupy.float32)
            array[first:last] = drawn < 0.1 if kind is np.bool_ else drawn + np.float32(0.1)


def release(engines: Sequence[Any]) -> None:
    """Give the memory of engines back, and what the libraries keep of memory that nobody holds any more."""
    import cupy

    for engine in engines:
        if hasattr(engine, "close"):
            engine.close()
    gc.collect()  # engines and what they queue hold each other
    cupy.get_default_memory_pool().free_all_blocks()
    if "torch" in sys.modules:
        sys.modules["torch"].cuda.empty_cache()


def compile_ahead(cells: Sequence[Cell], graph: Graph) -> None:
    """Have the modules of cells on disk before they are timed, many at once; what fails will fail again, and show."""
    import cupy

    chip = f"sm_{cupy.cuda.Device().compute_capability}"

    def one(cell: Cell) -> None:
        engine = cell.engine()
        plan = engine.plan(cell.program, graph.facts, cell.features)
        if not isinstance(plan, No):
            compiled(plan.source, headers(plan.templates), chip)

    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        for future in [pool.submit(one, cell) for cell in cells]:
            error = future.exception()
            if error is not None and not isinstance(error, CompilationFailed):
                print(f"  (compiling ahead: {type(error).__name__}: {str(error).splitlines()[0]})", flush=True)


# timing ---------------------------------------------------------------------------------------------------------------
def milliseconds(work: Callable[[], Any], stream: Any = None) -> tuple[float, Any]:
    """What the device takes for what ``work`` queues on a stream (None: the current one), and what work returns."""
    import cupy

    start, stop = cupy.cuda.Event(), cupy.cuda.Event()
    stream = stream or cupy.cuda.get_current_stream()
    start.record(stream)
    result = work()
    stop.record(stream)
    stop.synchronize()
    return float(cupy.cuda.get_elapsed_time(start, stop)), result


def superstep_ms(engine: OnyxCudaEngine, steps: int) -> tuple[float, int]:
    """Milliseconds of one superstep, over ``steps``, and the edges that it visits; a run that has settled begins
    anew."""
    if engine.executor.settled:
        engine.reset(Inputs({}, {}))
    took, statistics_ = milliseconds(lambda: engine.run(steps), engine.executor.stream)
    done = max(1, len(statistics_.supersteps))
    return took / done, statistics_.edges // done


def by_hand_ms(kernels: Any, steps: int) -> float:
    """The same of what queues its supersteps on the current stream: kernels written by hand, products of libraries."""
    return milliseconds(lambda: kernels.run(steps))[0] / steps


@dataclass
class Timed:
    """The median of several rounds, in milliseconds a superstep, and edges visited and kernels launched in one.

    Cells of a group that took turns with each other have the same ``turn``.
    """

    ms: float
    edges: int
    turn: int = 0
    launches: int = 1


def side_by_side(runners: dict[str, Any]) -> dict[str, Timed]:
    """Engines and others (:func:`by_hand_ms`) in turns, round by round."""
    once: dict[str, Callable[[int], tuple[float, int]]] = {
        label: (lambda n, r=r: superstep_ms(r, n) if isinstance(r, OnyxCudaEngine) else (by_hand_ms(r, n), 0))
        for label, r in runners.items()
    }
    steps: dict[str, int] = {}
    edges: dict[str, int] = {}
    samples: dict[str, list[float]] = {label: [] for label in once}
    for label, work in once.items():
        first, edges[label] = work(1)
        if first > 1000 * GROUP_S:
            samples[label].append(first)
            continue
        again = work(1)[0] if first < 10 * SAMPLE_MS else first
        steps[label] = int(min(MOST_STEPS, max(1, SAMPLE_MS // max(again, 1e-3))))
    start = time.monotonic()
    for round_ in range(ROUNDS):
        if round_ >= 2 and time.monotonic() - start > GROUP_S:
            break
        for label, count in steps.items():
            samples[label].append(once[label](count)[0])
    return {
        label: Timed(statistics.median(taken), edges[label], launches=launches_of(runners[label]))
        for label, taken in samples.items()
    }


def launches_of(runner: Any) -> int:
    """Kernels that a superstep launches; of what is no engine of ours, one."""
    if not isinstance(runner, OnyxCudaEngine):
        return 1
    return 1 + sum(runner.executor.ranges.has_work(launch.over, 0) for launch in runner.planned.launches)


# what times are held against ------------------------------------------------------------------------------------------
def bytes_of_superstep(program: Program, graph: Graph, features: int) -> int:
    """Bytes that a superstep goes through at least: for every edge stage an id and what it reads (once) along every
    edge, for updates what they write; for every vertex its state read and written once. Rows count unpadded."""
    layout = DeviceLayout(features)

    def size(name: str) -> int:
        prop = program.properties[name]
        return int(np.prod(layout.dims(prop.shape), dtype=np.int64)) * (1 if prop.dtype == "bool" else 4)

    stages = [stage for stage in program.stages if isinstance(stage, (EdgeReduce, EdgeUpdate))]
    along = 0
    for stage in stages:
        read = {(space, name) for space, name in reads(stage) if space in ("src", "edge", "reverse")}
        along += 4 + sum(size(name) for _, name in read)
        along += size(stage.updates) if isinstance(stage, EdgeUpdate) else 0
    state = sum(size(p.name) for p in program.properties.values() if p.role == "state" and p.place == "vertex")
    return graph.num_edges * along + graph.num_vertices * (8 + 2 * state)
