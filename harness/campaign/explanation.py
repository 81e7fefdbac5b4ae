"""``onyx-harness explain engine=... algorithm=... graph=...``: describe the execution of a cell without running it."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any

import hydra
from hydra.errors import ConfigCompositionException

from harness.campaign.cell import Cell, load, resolve_cell
from harness.campaign.child_report import ChildReport
from harness.campaign.config_cache import plain
from harness.campaign.engine_checks import MalformedAnswer
from harness.campaign.errors import CampaignError
from harness.campaign.guarded_engine import GuardedEngine
from harness.campaign.job import memory_bytes
from harness.campaign.preflight import device_refusal, memory_refusal, refusal, uncounted, whole_run_refusal
from harness.campaign.problem import Problem, set_problem
from harness.campaign.resolution import fitting, hint, resolve
from harness.contract import EngineSpec, No, Phases, Yes, schedule_from_options
from harness.plugins import load_plugins


def explanation(overrides: Sequence[str]) -> str:
    """Return the program of one cell, its analysis, the schedule, missed fast paths and why, and the generated source.

    The engine generates the code that would run, for a GPU even if there is none, and nothing is run. An engine that
    cannot run the program reports why. Raises what a sweep of this cell would record as invalid_input, CampaignError
    for several cells, and CacheError if the cache cannot be written.
    """
    from harness.language.explain import explain_program

    with hydra.initialize(config_path=None, version_base="1.3"):
        try:
            config = hydra.compose("config", overrides=list(overrides))
        except ConfigCompositionException as error:
            if "sweep" in str(error).lower():
                raise CampaignError("explain takes one cell; give every key one value") from error
            raise
    settings = plain(config)
    registry = load_plugins(settings["plugins"]["block"])
    cell = resolve_cell(settings, registry)
    problem = set_problem(cell, registry, ChildReport(io.BytesIO()), Phases())
    phases = [problem, *(replace(problem, program=phase) for phase in problem.later)]
    program = "\n\n".join(explain_program(phase.program) for phase in phases)
    spec = registry.engine(cell.engine)
    refused = refusal(spec, cell)
    if refused:
        return f"{program}\n\n{cell.labels['engine']}: unsupported: {refused}"
    try:
        described = "\n\n".join(_described(spec, cell, phase) for phase in phases)
        return f"{program}\n\n{described}"
    except MalformedAnswer as error:
        raise CampaignError(f"engine {cell.engine!r}: {error}") from error


def _described(spec: EngineSpec, cell: Cell, problem: Problem) -> str:
    """Return the engine's description of the schedule that runs, or why none does. Raises MalformedAnswer."""
    schedule, changed = cell.schedule, ""
    with closing(_engine(spec, schedule)) as engine:
        answer = engine.supports(problem.program, problem.graph, problem.features, cell.device)
    refused = answer.reason if isinstance(answer, No) else whole_run_refusal(answer, cell, problem)
    found = None
    if refused:
        found = resolve(spec, cell, problem, refused)
        if found is None:
            return f"{cell.labels['engine']}: unsupported: {refused}{hint(spec, cell, problem)}"
    elif isinstance(answer, Yes) and (preferred := uncounted(answer, cell)):
        found = resolve(spec, cell, problem, preferred, stepwise=True)
    elif isinstance(answer, Yes) and (short := _short(answer, cell)):
        found = fitting(spec, cell, problem, short, lambda other: not _short(other, cell))
    if found is not None:
        schedule, changed = {**schedule, **found.resolved}, f"resolved: {found}\n"
    with closing(_engine(spec, schedule)) as engine:
        engine.generate(problem.program, problem.graph, problem.features, cell.device)
        return f"{changed}{engine.explain()}"


def _short(answer: Yes, cell: Cell) -> str:
    """Return why the memory of a plan does not fit; empty if it does, as far as the device is in this machine."""
    absent = bool(device_refusal(cell.device))
    return memory_refusal(answer, cell.device, memory_bytes(cell), cell.limits.device_bytes, absent=absent)


def _engine(spec: EngineSpec, schedule: Mapping[str, Any]) -> GuardedEngine:
    return GuardedEngine(load(spec.factory)(schedule_from_options(spec, schedule)))
