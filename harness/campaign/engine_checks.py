"""Checks of what engines return: plain values of the allowed types, or MalformedAnswer.

Its message names the field, the value found and the values allowed.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any, get_args

import numpy as np
from numpy.typing import NDArray

from harness.contract import Phases, RunStatistics, Transfers
from harness.plain_text import printable
from harness.supersteps import By, Choice, Direction, Reason, Superstep

DIRECTIONS, REASONS, WAYS = get_args(Direction), get_args(Reason), get_args(By)
# Records store counts as 64-bit integers.
MOST = 2**63 - 1
# The phases that the harness times itself.
RESERVED_PHASES = frozenset(
    (
        "open",
        "trace",
        "inputs",
        "support",
        "sample",
        "wait",
        "link",
        "context",
        "warm_up",
        "reset",
        "read",
        "check",
        "download",
        "other_inputs",
        "device_copy",
        "to_host",
        "replay",
        "resolve",
        "refused",
        "memory",
        "validate",
        "fingerprint",
        "accuracy",
    )
)
_SHOWN = 60  # characters of a value quoted in a message


class MalformedAnswer(TypeError):
    """An engine returned a value that the contract does not allow; the message names the field."""


def malformed(field: str, met: object, allowed: str) -> MalformedAnswer:
    """Return the error for a ``field`` with the value ``met`` that is not ``allowed``."""
    try:
        shown = printable(repr(met))
    except BaseException as failure:  # noqa: BLE001  __repr__ is the plugin's code
        shown = f"(its __repr__ raised {printable(type(failure).__name__)})"
    if len(shown) > _SHOWN:
        shown = shown[:_SHOWN] + "..."
    return MalformedAnswer(f"{field} is {shown} of type {printable(type(met).__name__)}; it must be {allowed}")


def checked_statistics(
    statistics: object, max_supersteps: int, *, fixed: bool = False, stepwise: bool = True
) -> RunStatistics:
    """Return the result of ``run(max_supersteps)`` as plain Python numbers.

    ``fixed``: the program runs a fixed number of supersteps. A run that has not settled must have taken all allowed
    supersteps. ``stepwise``: of the engine; the run of any other has settled and counts no supersteps. Raises
    MalformedAnswer.
    """
    if not isinstance(statistics, RunStatistics):
        raise malformed("run()", statistics, "a RunStatistics")
    settled, steps = statistics.settled, statistics.supersteps
    if not isinstance(settled, (bool, np.bool_)):
        raise malformed("run(): RunStatistics.settled", settled, "a bool")
    if not isinstance(steps, (list, tuple)):
        raise malformed("run(): RunStatistics.supersteps", steps, "a list of Superstep")
    if not stepwise:
        if not settled or len(steps):
            met = f"run(): settled is {bool(settled)} with {len(steps)} supersteps"
            raise MalformedAnswer(f"{met}; an engine that is not stepwise returns True without supersteps, or raises")
        return RunStatistics(True, transfers=checked_transfers(statistics.transfers))
    if len(steps) > max_supersteps:
        allowed = f"at most the {max_supersteps} that run() was called with"
        raise MalformedAnswer(f"run(): RunStatistics.supersteps has {len(steps)} supersteps; it must have {allowed}")
    checked = [_superstep(number, step) for number, step in enumerate(steps)]
    if len(steps) < max_supersteps and (fixed or not settled):
        why = "the program runs a fixed number of supersteps" if fixed else "the run has not settled"
        met = f"run({max_supersteps}): RunStatistics.supersteps has {len(steps)} supersteps and {why}"
        raise MalformedAnswer(f"{met}; it must have {max_supersteps}")
    return RunStatistics(bool(settled), checked, checked_transfers(statistics.transfers))


def checked_transfers(transfers: object) -> Transfers | None:
    """Return the transfers of a run as plain Python numbers. Raises MalformedAnswer."""
    if transfers is None:
        return None
    field = "run(): RunStatistics.transfers"
    if not isinstance(transfers, Transfers):
        raise malformed(field, transfers, "a Transfers, or None")
    return Transfers(
        checked_count(f"{field}.visited", transfers.visited),
        _counts(f"{field}.moved", transfers.moved, str),
        _counts(f"{field}.requests", transfers.requests, int),
        _counts(f"{field}.subgraphs", transfers.subgraphs, str),
        _seconds(f"{field}.seconds", transfers.seconds),
        _series(f"{field}.data", transfers.data),
    )


def _seconds(field: str, seconds: object) -> dict[str, float]:
    if not isinstance(seconds, Mapping) or not all(isinstance(name, str) for name in seconds):
        raise malformed(field, seconds, "a mapping of str to seconds")
    return {name: _finite(f"{field}[{name!r}]", value, "a finite number") for name, value in seconds.items()}


def _series(field: str, data: object) -> dict[str, list[int]]:
    if not isinstance(data, Mapping) or not all(isinstance(name, str) for name in data):
        raise malformed(field, data, "a mapping of str to lists of numbers")
    for name, steps in data.items():
        if not isinstance(steps, (list, tuple)):
            raise malformed(f"{field}[{name!r}]", steps, "a list of numbers")
    return {name: [checked_count(f"{field}[{name!r}]", one) for one in steps] for name, steps in data.items()}


def _counts(field: str, counts: object, key: type) -> dict[Any, int]:
    if not isinstance(counts, Mapping) or not all(isinstance(name, key) for name in counts):
        raise malformed(field, counts, f"a mapping of {key.__name__} to numbers")
    return {name: checked_count(f"{field}[{name!r}]", number) for name, number in counts.items()}


def checked_phases(phases: Phases) -> dict[str, float]:
    """Return the seconds of the phases that an engine has timed. Raises MalformedAnswer."""
    seconds: object = phases.seconds
    if not isinstance(seconds, dict):
        raise malformed("prepare(): Phases.seconds", seconds, "a dict")
    checked = {}
    for name, value in seconds.items():
        if not isinstance(name, str) or not name.isprintable() or name in RESERVED_PHASES:
            allowed = f"printable text other than the harness's own phases ({', '.join(sorted(RESERVED_PHASES))})"
            raise malformed("prepare(): the name of a phase", name, allowed)
        field = f"prepare(): Phases.seconds[{name!r}]"
        checked[name] = _finite(field, value, "a finite number of seconds, 0 or more")
        if checked[name] < 0:
            raise malformed(field, value, "a finite number of seconds, 0 or more")
    return checked


def checked_metrics(metrics: object) -> dict[str, float]:
    """Return the result of ``Algorithm.metrics`` as plain numbers. Raises MalformedAnswer."""
    if not isinstance(metrics, Mapping):
        raise malformed("metrics()", metrics, "a mapping of names to numbers")
    checked = {}
    for name, value in metrics.items():
        if not isinstance(name, str) or not name.isprintable():
            raise malformed("metrics(): a name", name, "printable text")
        if not _is_number(value):
            raise malformed(f"metrics()[{name!r}]", value, "a number")
        checked[name] = float(value)
    return checked


def _superstep(number: int, step: object) -> Superstep:
    field = f"run(): RunStatistics.supersteps[{number}]"
    if not isinstance(step, Superstep):
        raise malformed(field, step, "a Superstep")
    if not isinstance(step.direction, str) or step.direction not in DIRECTIONS:
        raise malformed(f"{field}.direction", step.direction, f"one of {', '.join(DIRECTIONS)}")
    return Superstep(
        checked_count(f"{field}.active", step.active), checked_count(f"{field}.edges", step.edges), step.direction,
        _choice(f"{field}.choice", step.choice),
    )  # fmt: skip


def _choice(field: str, choice: object) -> Choice | None:
    """Return why a direction was chosen, as plain Python values. Raises MalformedAnswer."""
    if choice is None:
        return None
    if not isinstance(choice, Choice):
        raise malformed(field, choice, "a Choice, or None")
    for name, known in (("reason", REASONS), ("by", WAYS)):
        value = getattr(choice, name)
        if not isinstance(value, str) or value not in known:
            raise malformed(f"{field}.{name}", value, f"one of {', '.join(known)}")
    seconds = (
        None if value is None else _finite(f"{field}.{name}", value, "a finite number of seconds, or None")
        for name, value in (("push_s", choice.push_s), ("pull_s", choice.pull_s))
    )
    edges = checked_count(f"{field}.edges", choice.edges)
    return Choice(edges, choice.reason, checked_share(f"{field}.share", choice.share), choice.by, *seconds)


def checked_order(field: str, order: object, edges: int) -> NDArray[Any]:
    """Return an order that has every edge once; in the engine's own array, so that equal orders stay one object.

    Raises MalformedAnswer.
    """
    if not isinstance(order, np.ndarray) or order.dtype.kind not in "iu" or order.shape != (edges,):
        raise malformed(field, order, f"an array of {edges} integers")
    plain = np.asarray(order)
    inside = plain[(plain >= 0) & (plain < edges)].astype(np.int64)
    times = np.bincount(inside, minlength=edges)
    if len(inside) < edges or (times != 1).any():
        missing, again = np.count_nonzero(times == 0), np.count_nonzero(times > 1)
        raise MalformedAnswer(f"{field} leaves out {missing} edges and has {again} more than once")
    return plain


def checked_share(field: str, value: object) -> float:
    """Return a share from 0 to 1. Raises MalformedAnswer."""
    share = _finite(field, value, "a share from 0 to 1")
    if not 0 <= share <= 1:
        raise malformed(field, value, "a share from 0 to 1")
    return share


def checked_count(field: str, value: object) -> int:
    """Return an integer from 0 to 2**63 - 1. Raises MalformedAnswer."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)) or not 0 <= value <= MOST:
        raise malformed(field, value, "an integer from 0 to 2**63 - 1")
    return int(value)


def _finite(field: str, value: object, allowed: str) -> float:
    if not _is_number(value) or not math.isfinite(value):  # type: ignore[arg-type]
        raise malformed(field, value, allowed)
    return float(value)  # type: ignore[arg-type]


def _is_number(value: object) -> bool:
    """Return whether a value is a real number that fits a float."""
    if not isinstance(value, (int, float, np.integer, np.floating)) or isinstance(value, bool):
        return False
    try:
        float(value)
    except OverflowError:
        return False
    return True


def checked_option(name: object, value: object, known: Sequence[str]) -> Any:
    """Return the value of a resolved option as JSON holds it. Raises MalformedAnswer."""
    if name not in known:
        raise malformed("resolved_options(): a name", name, f"an option of the schedule: {', '.join(known) or 'none'}")
    try:
        plain = json.loads(json.dumps(value, allow_nan=False))
    except (TypeError, ValueError):
        plain = None
    if plain is None:
        raise malformed(f"resolved_options()[{name!r}]", value, "data that JSON holds, not None")
    return plain


def checked_text(field: str, value: object) -> str:
    """Return printable text that is not empty. Raises MalformedAnswer."""
    if not isinstance(value, str) or not value:
        raise malformed(field, value, "text, not empty")
    return printable(str.__str__(value))
