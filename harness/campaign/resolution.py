"""The schedule that runs a cell if the requested one does not.

An engine's default schedule may refuse a program that another schedule of the engine runs. Or its plan solves the whole
problem, and the cell needs supersteps. Or the plan that it chose needs more memory than there is. Options that the user
gave are never changed. Of the other options as few as possible get another value. Where that is not enough, the refusal
names the options that would run it.
"""

from __future__ import annotations

import itertools
import types
import typing
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import MISSING, dataclass, fields, replace
from typing import Any, Literal

from harness.campaign.cell import Cell, load
from harness.campaign.preflight import whole_run_refusal
from harness.campaign.problem import Problem
from harness.contract import EngineSpec, Phases, Yes, schedule_from_options

WAIT, REFUSED = "wait", "refused"  # phases
MOST_ASKED = 200  # schedules that are tried on an engine; the built-in engines have at most 48


@dataclass(frozen=True)
class Resolution:
    """The options of a schedule that were changed, and the engine's reason against the requested schedule.

    ``requested`` and ``resolved``: the same options, with their values before and after.
    """

    requested: dict[str, Any]
    resolved: dict[str, Any]
    reason: str

    def plain(self) -> dict[str, Any]:
        """Return plain data, as a record has it."""
        return {"requested": self.requested, "resolved": self.resolved, "reason": self.reason}

    def __str__(self) -> str:
        return f"{spelled(self.resolved)} instead of {spelled(self.requested)}: {self.reason}"


def resolve(
    spec: EngineSpec, cell: Cell, problem: Problem, reason: str, *, stepwise: bool = False
) -> Resolution | None:
    """Return the nearest schedule that runs the problem and keeps every option that the user gave; None if there is
    none. ``reason``: why the schedule of the cell does not run it. ``stepwise``: by supersteps, even if the cell only
    prefers them."""
    free = [option.name for option in fields(spec.schedule) if option.name not in cell.given]
    changed = _nearest(spec, cell, problem, free, stepwise=stepwise)
    if changed is None:
        return None
    return Resolution({name: cell.schedule[name] for name in changed}, changed, reason)


def fitting(
    spec: EngineSpec, cell: Cell, problem: Problem, reason: str, fits: Callable[[Yes], bool]
) -> Resolution | None:
    """Return the schedule with a value that an option has instead of a choice of the engine, whose plan needs less
    memory; None if there is none.

    ``reason``: why the memory of the chosen plan does not fit. ``fits``: whether that of an answer does. Options that
    the user gave are kept, and so are all others: they are no choice by the problem.
    """
    free = [option.name for option in fields(spec.schedule) if option.name not in cell.given]
    for changed in _instead(spec, cell.schedule, free):
        answer = answer_of(spec, cell, problem, {**cell.schedule, **changed})
        if answer is not None and not whole_run_refusal(answer, cell, problem) and fits(answer):
            return Resolution({name: cell.schedule[name] for name in changed}, changed, reason)
    return None


def count_refused(phases: Phases, before: Mapping[str, float]) -> None:
    """Count what was done for a schedule that does not run as one phase, *refused*.

    ``before``: the seconds of the phases when it began. Waiting remains a phase of its own. The other phases are then
    those of the schedule that runs.
    """
    waited = {name: seconds for name, seconds in phases.seconds.items() if name == WAIT}
    spent = sum(seconds - before.get(name, 0.0) for name, seconds in phases.seconds.items() if name != WAIT)
    phases.seconds = {**before, **waited, REFUSED: before.get(REFUSED, 0.0) + spent}


def hint(spec: EngineSpec, cell: Cell, problem: Problem) -> str:
    """Return which options would run the problem, as the end of a refusal; empty if there are none."""
    changed = _nearest(spec, cell, problem, [option.name for option in fields(spec.schedule)])
    return f"; {spelled(changed)} would run it" if changed else ""


def spelled(options: Mapping[str, Any]) -> str:
    """Return options as they are written on a command line."""
    texts = {None: "null", True: "true", False: "false"}
    return " ".join(
        f"engine.{name}={texts[value] if value is None or isinstance(value, bool) else value}"
        for name, value in options.items()
    )


def _nearest(
    spec: EngineSpec, cell: Cell, problem: Problem, names: Collection[str], *, stepwise: bool = False
) -> dict[str, Any] | None:
    """Return the fewest options among ``names``, with values, under which the engine runs the problem."""
    changes = itertools.chain(_instead(spec, cell.schedule, names), _changes(spec, cell.schedule, names))
    for changed in itertools.islice(changes, MOST_ASKED):
        if _runs(spec, cell, problem, {**cell.schedule, **changed}, stepwise=stepwise):
            return changed
    return None


def _instead(spec: EngineSpec, schedule: Mapping[str, Any], names: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield the values that options have instead of a choice of the engine, one option at a time."""
    for option in fields(spec.schedule):
        for value in option.metadata.get("instead", ()):
            if option.name in names and value != schedule[option.name]:
                yield {option.name: value}


def _changes(spec: EngineSpec, schedule: Mapping[str, Any], names: Collection[str]) -> Iterator[dict[str, Any]]:
    """Yield sets of options with other values, small sets first, options in the order of the schedule."""
    others = {name: values for name, values in alternatives(spec, schedule).items() if name in names and values}
    for count in range(1, len(others) + 1):
        for chosen in itertools.combinations(others, count):
            for values in itertools.product(*(others[name] for name in chosen)):
                yield dict(zip(chosen, values, strict=True))


def alternatives(spec: EngineSpec, schedule: Mapping[str, Any]) -> dict[str, list[Any]]:
    """Return the other values of each option: its default, and every value of a bool or a ``Literal`` that is not
    partial."""
    hints = typing.get_type_hints(spec.schedule)
    found: dict[str, list[Any]] = {}
    for option in fields(spec.schedule):
        values = [] if option.default is MISSING else [option.default]
        values += [value for value in _closed(hints[option.name]) if value not in option.metadata.get("partial", ())]
        found[option.name] = [value for value in dict.fromkeys(values) if value != schedule[option.name]]
    return found


def _closed(hint: Any) -> tuple[Any, ...]:
    """Return all values of a type that has a fixed few of them."""
    if hint is bool:
        return (True, False)
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(value for part in typing.get_args(hint) for value in _closed(part))
    return ()


def _runs(spec: EngineSpec, cell: Cell, problem: Problem, options: Mapping[str, Any], *, stepwise: bool) -> bool:
    """Return whether the engine takes the problem under these options, as the cell requests it."""
    answer = answer_of(spec, cell, problem, options)
    if answer is None or (stepwise and not answer.stepwise):
        return False
    return not whole_run_refusal(answer, cell, problem)


def answer_of(spec: EngineSpec, cell: Cell, problem: Problem, options: Mapping[str, Any]) -> Yes | None:
    """Return the engine's answer under these options, with ``stepwise`` filled in; None if it refuses the problem, or
    fails."""
    try:
        engine = load(spec.factory)(schedule_from_options(spec, options))
        try:
            answer = engine.supports(problem.program, problem.graph, problem.features, cell.device)
            if not isinstance(answer, Yes):
                return None
            return replace(answer, stepwise=engine.stepwise) if answer.stepwise is None else answer
        finally:
            engine.close()
    except MemoryError:
        raise
    except Exception:  # noqa: BLE001  the engine's code, or options that exclude each other
        return None
