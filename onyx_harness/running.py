"""Run a program in this process."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from harness.campaign.cell import Cell, Limits, Measure, field_defaults, label, load
from harness.campaign.errors import CampaignError
from harness.campaign.guarded_engine import GuardedEngine
from harness.campaign.inputs_cache import read_only
from harness.campaign.options import count, truth
from harness.campaign.phase_report import combined
from harness.campaign.preflight import device_refusal, memory_refusal, refusal, whole_run_refusal
from harness.campaign.problem import Problem, first_phase, inputs_of
from harness.campaign.resolution import Resolution, count_refused, fitting, hint, resolve
from harness.contract import (
    Device,
    Engine,
    EngineSpec,
    No,
    Phases,
    RunStatistics,
    Unsupported,
    Yes,
    schedule_from_options,
)
from harness.device.spinning import short_spins
from harness.device.synchronizing import synchronizing
from harness.language import MOST_FEATURES, Algorithm, InvalidInput, trace
from harness.language.errors import authored
from harness.language.program import edge_steps
from onyx_harness.arrays import LIBRARIES, as_library, host_copy, placed, require
from onyx_harness.graphs import NamedGraph, as_graph
from onyx_harness.inputs import devices_in, on_host, with_arrays
from onyx_harness.requests import AlgorithmRequest, Variant, algorithm_request, device_of, engine_request, merged, plain
from onyx_harness.result import Result


class WrongAnswer(ArithmeticError):
    """The answer is outside the program's error bound; the message says where, and by how much."""


def run(
    engine: str | Variant,
    algorithm: str | type[Algorithm] | Algorithm,
    graph: Any,
    *,
    features: int | None = None,
    device: str | Device = "cpu",
    schedule: Mapping[str, Any] | None = None,
    parameters: Mapping[str, Any] | None = None,
    inputs: Mapping[str, Any] | None = None,
    graph_options: Mapping[str, Any] | None = None,
    max_supersteps: int | None = None,
    validate: bool = False,
    array: str = "numpy",
    **more_parameters: Any,
) -> Result:
    """Run an algorithm on a graph with an engine, in this process, and return the answers.

    engine: an installed engine, a variant of a configuration file, or a `Variant`.
    algorithm: a name, or a class or an instance of `harness.api.Algorithm`, which may be defined in a notebook.
    graph: anything that `as_graph` takes; `graph_options` are its options.
    features: k, 1 to 256; None: the natural number of the algorithm on this graph, or 1 for an algorithm that has
        no such number on any graph.
    device: "cpu", "cuda", "cuda:INDEX", or a Device with its number of threads.
    schedule: options of the engine. Options that are not given may be changed if the engine refuses their defaults;
        ``record["resolution"]`` then says how.
    parameters, and all other keywords: parameters of the algorithm, such as ``alpha=0.9``.
    inputs: arrays that replace inputs of the algorithm by name, float32 or bool of shape ``[V, ...]``, or of shape
        ``[E, ...]`` in CSR order: NumPy arrays, tensors on the CPU, and others with DLPack share their memory. CuPy
        arrays and tensors on the engine's device stay there.
    max_supersteps: the limit; None: the program's own.
    validate: compare the answer with the float64 reference, which takes much longer than the run. Programs that update
        edges in place are validated by `compare` and `sweep` only. Reference and comparison are on the host.
    array: the library of the answers. "numpy": in host memory. "cupy": on the CUDA device, not copied to the host.
        "torch": on the device of the run, CPU or CUDA.

    The times are those of one run without warm-up: use `compare` to compare engines. An engine's crash ends this
    process, and its memory is not limited.

    Raises UnknownName for an unknown engine, algorithm or graph; ScheduleError for an invalid schedule; CampaignError
    for other invalid arguments; GraphError for an invalid graph; LanguageError for a program that is not well formed;
    InvalidInput for a graph, parameters or inputs that do not fit the algorithm, or inputs on another device;
    Unsupported if the engine refuses, with its reason; ImportError if the library of an array is missing; MemoryError
    if memory is too small; EngineFailure if the engine cannot continue; WrongAnswer.
    """
    phases = Phases()
    target = device_of(device)
    _check_array(array, target)
    truth("validate", validate)
    spec, options = engine_request(engine, schedule, target)
    request = algorithm_request(algorithm, merged(parameters, more_parameters), spec)
    with phases("open"):
        given = as_graph(graph, **(graph_options or {}))
    problem = _problem(request, given, features, max_supersteps, inputs, target, phases)
    steps = [step for phase in (problem.program, *problem.later) for step in edge_steps(phase)]
    for step in steps if validate else ():
        raise CampaignError(
            f"validate=True: {step.name} updates both ends of edges in place, so answers depend on their order; "
            "compare() and sweep() check it in the engine's own order"
        )
    cell = _cell(spec, options, request, problem, target, validate=validate)
    refused = refusal(spec, cell) or device_refusal(target)
    if refused:
        raise Unsupported(refused)
    solved = []
    while True:
        with _naming_phase(problem):
            with short_spins():
                solved.append(_solve(spec, cell, problem, "numpy" if problem.later else array, phases))
            if validate:
                solved[-1] = dataclasses.replace(solved[-1], validation=_validated(problem, solved[-1], phases))
        if not problem.later:
            break
        last = solved[-1]
        if problem.later[0].setup:  # stages that run once are evaluated on the host
            problem = dataclasses.replace(problem, all_inputs=on_host(problem.all_inputs or problem.inputs))
        problem = problem.after(last.answers, settled=last.statistics.settled)
    return _result(given, spec, problem, solved, array, phases)


@dataclasses.dataclass(frozen=True)
class _Solved:
    """The run of one phase: the cell under the schedule that ran, the resolved options, and the bytes needed."""

    answers: dict[str, Any]
    statistics: RunStatistics
    options: dict[str, Any]
    cell: Cell
    resolution: Resolution | None
    needed: Yes
    validation: dict[str, Any] | None = None


@contextmanager
def _naming_phase(problem: Problem) -> Iterator[None]:
    """Name the phase in the message of a refusal or of a wrong answer, if there are several."""
    try:
        yield
    except (Unsupported, WrongAnswer) as error:
        if not problem.several_phases:
            raise
        raise type(error)(f"phase {len(problem.program.phases)}: {error}") from error


def _problem(
    request: AlgorithmRequest, given: NamedGraph, features: int | None, max_supersteps: int | None,
    arrays: Mapping[str, Any] | None, device: Device, phases: Phases,
) -> Problem:  # fmt: skip
    algorithm = request.algorithm
    with phases("trace"):
        program = trace(algorithm)
    with phases("inputs"):
        with authored(f"{algorithm.name}.prepare_graph", InvalidInput):
            graph = algorithm.prepare_graph(given.graph)
        k = _features(features, algorithm, given)
        inputs = read_only(inputs_of(algorithm, program, graph, k))
        if arrays:
            inputs = with_arrays(program, graph, k, inputs, arrays, device, phases)
    limit = None if max_supersteps is None else count("max_supersteps", max_supersteps)
    return first_phase(Problem(algorithm, program, given.graph, graph, inputs, k, 0, "", {}, limit=limit))


def _features(given: int | None, algorithm: Algorithm, graph: NamedGraph) -> int:
    k = given
    if k is None:
        with authored(f"{algorithm.name}.default_features", InvalidInput):
            k = algorithm.default_features(graph.graph)
    if k is None and type(algorithm).default_features is not Algorithm.default_features:
        raise InvalidInput(
            f"algorithm {algorithm.name!r} has no natural number of features on graph {graph.graph.name!r}; set "
            "features=K"
        )
    k = 1 if k is None else count("features", plain(k))
    if k > MOST_FEATURES:
        raise CampaignError(f"features is {k}; a program has 1 to {MOST_FEATURES} on every engine")
    return k


def _cell(
    spec: EngineSpec, options: Mapping[str, Any], request: AlgorithmRequest, problem: Problem, device: Device, *,
    validate: bool,
) -> Cell:  # fmt: skip
    """Return the request as a cell, which the checks and the resolution of a schedule take."""
    schedule = dataclasses.asdict(schedule_from_options(spec, options))
    graph = problem.given.name
    return Cell(
        engine=spec.name,
        schedule=schedule,
        given=tuple(sorted(options)),
        algorithm=request.name,
        parameters=request.parameters,
        graph=graph,
        graph_parameters={},
        features=problem.features,
        max_supersteps=problem.limit if problem.later else problem.max_supersteps,
        device=device,
        validate=validate,
        measure=Measure(repetitions=1, warmup_s=0.0, accuracy=False),
        limits=Limits(),
        block=(),
        round=1,
        warm=None,
        memory="off",
        labels={
            "engine": label(spec.name, schedule, field_defaults(spec.schedule)),
            "algorithm": label(request.name, request.parameters, field_defaults(type(request.algorithm))),
            "graph": graph,
        },
        sources="",
        graph_sources="",
    )


def _resolved(spec: EngineSpec, cell: Cell, problem: Problem, refused: str = "") -> tuple[Cell, Resolution | None, Yes]:
    """Return the cell under a schedule that the engine accepts, and the engine's answer with the bytes that it needs.

    ``refused``: why the engine has refused the inputs under the schedule of the cell; empty if it has not. Raises
    Unsupported, and MemoryError if the bytes are not available.
    """
    from harness.campaign.environment import memory_total

    def answer(cell: Cell) -> Any:
        engine = GuardedEngine(load(spec.factory)(schedule_from_options(spec, cell.schedule)))
        try:
            return engine.supports(problem.program, problem.graph, problem.features, cell.device)
        finally:
            engine.close()

    def short(reply: Yes) -> str:
        reason = memory_refusal(reply, cell.device, memory_total())
        if reason and cell.device.kind == "cpu":
            has = f"the engine needs {reply.bytes_needed:,} bytes, and this machine has {memory_total():,}"
            reason = f"{has}; take a smaller graph or fewer features"
        return reason

    resolution, reply = None, answer(cell)
    refused = refused or (reply.reason if isinstance(reply, No) else whole_run_refusal(reply, cell, problem))
    if refused:
        resolution = resolve(spec, cell, problem, refused)
        if resolution is None:
            raise Unsupported(f"{cell.labels['engine']}: {refused}{hint(spec, cell, problem)}")
    elif reason := short(reply):
        resolution = fitting(spec, cell, problem, reason, lambda other: not short(other))
    if resolution is not None:
        cell = dataclasses.replace(cell, schedule={**cell.schedule, **resolution.resolved})
        reply = answer(cell)
    if reason := short(reply):
        raise MemoryError(reason)
    return cell, resolution, reply


def _check_array(array: str, device: Device) -> None:
    """Raise CampaignError or ImportError if answers of a run on a device cannot be arrays of a library."""
    if array not in LIBRARIES:
        raise CampaignError(f"array is {array!r}; it must be one of {', '.join(LIBRARIES)}")
    if array == "cupy" and device.kind == "cpu":
        raise CampaignError("array='cupy' is for device='cuda'; a run on the CPU has answers as 'numpy' or 'torch'")
    require(array, f"array={array!r}")


def _solve(spec: EngineSpec, cell: Cell, problem: Problem, array: str, phases: Phases) -> _Solved:
    """Run one phase under a schedule that the engine accepts."""
    with phases("resolve"):
        found = _resolved(spec, cell, problem)
    before = dict(phases.seconds)
    try:
        return _run_under(*found, spec, problem, array, phases)
    except _InputsRefused as error:
        refused = str(error)
    count_refused(phases, before)
    with phases("resolve"):  # not within the except clause, which keeps the arrays of the engine
        found = _resolved(spec, found[0], problem, refused)
    return _run_under(*found, spec, problem, array, phases)


class _InputsRefused(Unsupported):
    """An engine refuses the inputs of a problem; another schedule may take them."""


def _run_under(
    cell: Cell, resolution: Resolution | None, needed: Yes, spec: EngineSpec, problem: Problem, array: str,
    phases: Phases,
) -> _Solved:  # fmt: skip
    """Run one phase under the schedule of a cell; the engine is closed in any case. Raises _InputsRefused."""
    made = load(spec.factory)(schedule_from_options(spec, cell.schedule))
    stays = cell.device.kind == "cuda" and array != "numpy"
    if type(made).device_values is Engine.device_values and (stays or devices_in(problem.inputs)):
        raise Unsupported(f"engine {spec.name!r} takes and returns arrays in host memory only; give NumPy arrays")
    engine = GuardedEngine(synchronizing(made, cell.device))
    try:
        engine.prepare(problem.program, problem.graph, problem.features, cell.device, phases)
        with phases("reset"):
            try:
                engine.reset(problem.inputs)
            except Unsupported as error:
                raise _InputsRefused(str(error)) from error
        seconds, statistics = engine.timed_run(problem.max_supersteps)
        phases.seconds["solve"] = phases.seconds.get("solve", 0.0) + seconds
        with phases("device_copy" if stays else "download"):
            answers = {name: _answer(engine, spec, name, array, stays=stays) for name in problem.program.outputs}
        return _Solved(answers, statistics, dict(engine.resolved_options()), cell, resolution, needed)
    finally:
        engine.close()


def _result(
    given: NamedGraph, spec: EngineSpec, problem: Problem, solved: Sequence[_Solved], array: str, phases: Phases
) -> Result:
    """Return the result of a run of all phases; ``problem``: that of the last one."""
    last = solved[-1]
    can_settle = [phase.control.settles for phase in problem.program.phases]
    fields = combined([
        {
            "settled": one.statistics.settled if settles else None, "supersteps": one.statistics.supersteps,
            "schedule": one.options, "validation": one.validation, "resolution": one.resolution,
        }
        for one, settles in zip(solved, can_settle, strict=True)
    ])  # fmt: skip
    transfers = last.statistics.transfers if len(solved) == 1 else None
    statistics = RunStatistics(fields.get("settled", last.statistics.settled), fields["supersteps"], transfers)
    needed = Yes(max(one.needed.bytes_needed for one in solved), max(one.needed.host_bytes for one in solved))
    device = last.cell.device
    carried = {name: placed(values, array, device) for name, values in problem.carried.items()}
    return Result(
        given, {**carried, **last.answers}, statistics, phases.seconds, fields["schedule"], fields.get("validation"),
        spec, last.cell, problem, fields.get("resolution"), needed,
    )  # fmt: skip


def _answer(engine: GuardedEngine, spec: EngineSpec, name: str, array: str, *, stays: bool) -> Any:
    """Return a copy of an output as an array of a library; ``stays``: on the device. Raises Unsupported."""
    if not stays:
        return as_library(np.array(engine.values(name)), array)
    found = engine.device_values(name)
    if found is None:
        raise Unsupported(f"engine {spec.name!r} returns answers in host memory only; omit array={array!r}")
    return as_library(found, array)


def _validated(problem: Problem, solved: _Solved, phases: Phases) -> dict[str, Any]:
    """Return the comparison with the expected answer. Raises WrongAnswer."""
    from harness.language.converged import answer_at_limit, fixed_point
    from harness.language.validation import compare

    with phases("validate"):
        posed = (problem.program, problem.graph, problem.features, on_host(problem.inputs), problem.max_supersteps)
        hosted = {name: host_copy(values) for name, values in solved.answers.items()}
        expected = None
        if solved.statistics.settled and not problem.several_phases:
            expected = problem.algorithm.settled_answer(problem.graph, problem.features)
        if expected is None and problem.program.control.tolerance is not None:
            expected = fixed_point(*posed)
        if expected is None:
            expected = answer_at_limit(*posed)
        found = compare(problem.program, hosted, expected.values, expected.allowances or None)
    if not found.ok:
        raise WrongAnswer(f"{found.detail} (compared with {expected.method})")
    return {
        "ok": True, "error": float(found.error), "bound": float(found.bound), "detail": found.detail,
        "against": expected.method,
    }  # fmt: skip
