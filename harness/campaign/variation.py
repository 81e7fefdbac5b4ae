"""A run on other inputs of the same shape: its answer and its time show that every run does its work.

An engine that caches a result gives a wrong answer to other inputs. An engine that caches results by their inputs takes
much longer for new inputs than for the timed ones.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.campaign.inputs_cache import read_only
from harness.campaign.measurement import answer_of
from harness.campaign.plausibility import LEAST_S, implausible
from harness.graph.adjacency import frozen
from harness.graph.slices import equal_in_slices
from harness.language.algorithm import Inputs
from harness.language.initial_state import note_checked
from harness.language.replay import StepOrders
from harness.language.results_once import with_results
from harness.language.warm import kept_properties

if TYPE_CHECKING:
    from harness.campaign.guarded_engine import GuardedEngine
    from harness.campaign.measurement import Timing
    from harness.graph import Graph
    from harness.language import Program
    from harness.language.sampled import Sample

# Supersteps after which the answer is checked; by then both sides of a bipartite graph have been updated.
CHECKED_SUPERSTEPS = 2
# Timed supersteps: 16, or fewer if they already take much longer than what counts as implausible.
_TIMED_SUPERSTEPS, _TIMED_S = 16, 25 * LEAST_S
# A slow run is repeated on yet other inputs: a pause of the system does not occur every time.
_ATTEMPTS = 5
_STEP = 1 / 64


@dataclass(frozen=True)
class Varied:
    """The answer after ``supersteps`` supersteps on other inputs; ``slow``: why the times are implausible, or "".

    ``values``: with sampled validation, those of the sample.
    ``supersteps`` None: the settled answer, with all state, of an engine that counts no supersteps. ``orders``: of the
    supersteps that gave the values, for programs with steps in place.
    """

    inputs: Inputs
    supersteps: int | None
    values: Mapping[str, NDArray[Any]]
    slow: str
    orders: tuple[StepOrders, ...] = ()


def varied_inputs(program: Program, graph: Graph, features: int, inputs: Inputs, attempt: int = 0) -> Inputs:
    """Return inputs of the same shapes with other contents: new read-only arrays for what differs.

    The rows of vertex inputs are rotated among the vertices (of each side of a bipartite graph), all by the same
    amount, so that every row stays valid. If that changes nothing, the rows of edge inputs are rotated; if that changes
    nothing either, run-time parameters are reduced by a few per cent. A program without any gets equal contents in new
    arrays. Inputs of a phase that follows another one are not rotated, because outputs of the earlier phase belong to
    the graph. ``attempt`` selects different contents. Results of stages that run once are computed from the new inputs.
    """
    results = {name for stage in program.setup for name in stage.writes}
    given = Inputs({name: one for name, one in inputs.properties.items() if name not in results}, inputs.parameters)
    found = _varied(program, graph, given, attempt)
    if results:
        complete = with_results(program, graph, features, found)
        fresh = {name: frozen(np.asarray(complete.properties[name])) for name in results}
        found = Inputs(MappingProxyType({**found.properties, **fresh}), found.parameters)
    note_checked(program, found)  # the same rows, and results of them
    return found


def _varied(program: Program, graph: Graph, inputs: Inputs, attempt: int) -> Inputs:
    """Return given inputs with other contents."""
    sides = (0, graph.num_vertices) if graph.bipartite is None else (0, graph.bipartite[0], graph.num_vertices)
    places = (("vertex", sides), ("edge", (0, graph.num_edges))) if program.earlier is None else ()
    for place, bounds in places:
        made = {
            name: _rotated(array, bounds, attempt + 1) if program.properties[name].place == place else array
            for name, array in inputs.properties.items()
        }
        moved = {name: one for name, one in made.items() if one is not inputs.properties[name]}
        if any(not equal_in_slices(one, inputs.properties[name]) for name, one in moved.items()):
            changed = {name: frozen(one) for name, one in moved.items()}
            return Inputs(MappingProxyType({**inputs.properties, **changed}), inputs.parameters)
    share = 1 - _STEP * (attempt + 1)
    return read_only(Inputs(inputs.properties, {name: value * share for name, value in inputs.parameters.items()}))


def _rotated(array: NDArray[Any], bounds: tuple[int, ...], by: int) -> NDArray[Any]:
    """Return an array whose rows between neighbouring bounds are rotated."""
    moved = np.empty_like(array)
    for low, high in itertools.pairwise(bounds):
        cut = high - by % (high - low) if high > low else high
        moved[low : low + high - cut] = array[cut:high]
        moved[low + high - cut : high] = array[low:cut]
    return moved


def varied_run(
    engine: GuardedEngine, program: Program, graph: Graph, features: int, inputs: Inputs, max_supersteps: int,
    timing: Timing, sample: Sample | None = None, *, in_order: bool = False,
) -> Varied:  # fmt: skip
    """Run on other inputs: some supersteps for their answer, in total up to 16 for the time.

    With a ``sample``, the answer of a stepwise engine is that after one superstep, at the sample only. ``in_order``:
    the answer is that of a run whose order of edges the engine reports.

    The time is implausible if, in each of five runs on different inputs, it is much longer than the timed runs' share
    for the same number of supersteps and edges. An engine that is not stepwise solves the whole problem each time.
    """
    first: Varied | None = None
    slow = ""
    for attempt in range(_ATTEMPTS):
        given = varied_inputs(program, graph, features, inputs, attempt)
        # The first run may be slow because other cells use the device.
        with engine.use.alone() if attempt else nullcontext():
            found = _run_on(engine, program, given, max_supersteps, timing, sample)
        slow, first = found.slow, first or found
        if not slow:
            break
    assert first is not None
    if not in_order or first.supersteps is None:
        return replace(first, slow=slow)
    engine.reset(first.inputs)
    orders = tuple(engine.ordered_superstep() for _ in range(first.supersteps))
    values = {name: np.array(value) for name, value in answer_of(engine, program.outputs).items()}
    return replace(first, slow=slow, values=values, orders=orders)


def _run_on(
    engine: GuardedEngine, program: Program, given: Inputs, max_supersteps: int, timing: Timing, sample: Sample | None
) -> Varied:
    """Run on some inputs; return the answer, and whether the time is much longer than expected."""
    checked = CHECKED_SUPERSTEPS if sample is None else 1
    engine.reset(given)
    steps = min(checked, max_supersteps) if engine.stepwise else max_supersteps
    seconds, statistics = engine.timed_run(steps)
    if sample is not None and engine.stepwise:
        read = {name: engine.rows(name, sample.results(name)) for name in program.outputs}
    else:
        kept = () if engine.stepwise else kept_properties(program)
        read = answer_of(engine, dict.fromkeys((*program.outputs, *kept)))
    answer = {name: np.array(value) for name, value in read.items()}
    visited, edges = list(statistics.supersteps), statistics.edges
    rest = min(max_supersteps, _timed_supersteps(timing)) - steps
    if rest > 0 and not statistics.settled:
        more, statistics = engine.timed_run(rest)
        seconds, edges = seconds + more, edges + statistics.edges
        visited += statistics.supersteps
    slow = _slow(seconds, len(visited) if engine.stepwise else None, edges, timing)
    return Varied(given, steps if engine.stepwise else None, answer, slow)


def _timed_supersteps(timing: Timing) -> int:
    """Return how many supersteps on other inputs are timed: as many as take ``_TIMED_S``, at most 16."""
    superstep_s = timing.interval.median / max(1, len(timing.statistics.supersteps))
    return _TIMED_SUPERSTEPS if superstep_s <= 0 else min(_TIMED_SUPERSTEPS, math.ceil(_TIMED_S / superstep_s))


def _slow(seconds: float, supersteps: int | None, edges: int, timing: Timing) -> str:
    """Return why a run on other inputs is implausibly slow compared with the timed ones; an empty text if it is not.

    ``supersteps`` None: a whole run.
    """
    known = timing.statistics
    share = 1.0
    if supersteps is not None:
        share = max(supersteps / max(1, len(known.supersteps)), edges / max(1, known.edges))
    expected = timing.interval.median * share
    if not implausible(seconds, expected):
        return ""
    what = "a whole run" if supersteps is None else f"{supersteps} supersteps"
    return (
        f"{what} on other inputs took {seconds:.3g} s, and {expected:.3g} s were expected from the timed runs: a "
        "result may be cached from an earlier run"
    )
