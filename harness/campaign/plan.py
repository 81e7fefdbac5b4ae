"""The plan of a sweep: its cells, each checked and named, which of them are done, and where their records belong."""

from __future__ import annotations

import dataclasses
import functools
import re
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.campaign.cell import Cell, digest, resolve_cell
from harness.campaign.continuation import SWEEP_FILE, described, lasting
from harness.campaign.environment import environment_key
from harness.campaign.errors import CampaignError
from harness.campaign.job import WORK_FOLDER, stamp, unwritable
from harness.campaign.leftovers import SWEEP_LOCK, clear_leftovers
from harness.campaign.lock import file_lock
from harness.campaign.lock_folder import LockError, lock_folder
from harness.campaign.options import count, truth
from harness.contract import GraphSpec
from harness.graph.errors import GraphError
from harness.graph.named import check_parameters
from harness.plugins import Registry, closest, load_plugins
from harness.records import RECORD_FILE, NewerRecord, Record, RecordError, read_record, write_json
from harness.records.outcome import Outcome
from harness.report.layout import Layout, LayoutError

RERUN = ("all", "failed", "none")
_BYTES_A_CELL = 100_000  # a record with its explanation


@dataclass(frozen=True)
class Planned:
    """A cell of a sweep with the overrides that ask for it and the folder that its record belongs in."""

    cell: Cell
    key: str
    overrides: tuple[str, ...]
    folder: Path

    @functools.cached_property
    def known(self) -> str:
        """What the record was when it was first looked at."""
        return stamp(self.folder)

    def first_record(self) -> Record | None:
        """The record that `known` is the stamp of, or a later one; never an earlier one."""
        return self.record() if self.known else None

    def record(self) -> Record | None:
        """The record that the cell has, if it can be read; CampaignError for one of a version still to come, which
        measuring anew would overwrite."""
        path = self.folder / RECORD_FILE
        try:
            return read_record(path) if path.is_file() else None
        except NewerRecord as error:
            raise CampaignError(f"{error}, or give another folder with output=") from error
        except (RecordError, FileNotFoundError):
            return None  # half of a restored backup, say: measured anew


@dataclass(frozen=True)
class Plan:
    """All cells of a sweep, in order, each once. ``identity`` is the same whenever the same cells are asked for."""

    identity: str
    cells: tuple[Planned, ...]
    output: Path
    rerun: str
    baseline: str | None
    layout: Layout | None
    fail_fast: bool
    dry_run: bool
    allow_unsupported: bool
    registry: Registry

    @property
    def folder(self) -> Path:
        """Where the records of the sweep are."""
        return self.output / self.identity

    def wanted(self, record: Record | None) -> bool:
        """Whether a cell with this record is to be run: any, one without an ok record, or without one, as ``rerun``
        says."""
        if record is None or self.rerun == "all":
            return True
        return self.rerun == "failed" and not Outcome(record["outcome"]).acceptable

    def job_overrides(self, planned: Planned, owner: str, journal: str) -> list[str]:
        """What Hydra is told for one job: the cell, and its place in the sweep."""
        place = {
            "id": self.identity,
            "cell": planned.key,
            "known": planned.known,
            "directory": str(Path.cwd()),
            "owner": owner,
            "journal": journal,
        }
        return [
            *planned.overrides,
            f"round={planned.cell.round}",
            *(f"sweep.{name}={quoted(value)}" for name, value in place.items()),
        ]


def quoted(text: str) -> str:
    """A text as a value in Hydra's grammar: quoted, since a hash such as 12e5 would be read as a number."""
    # Backslashes are themselves, but before a quotation mark each wants another.
    escaped = re.sub(r"(\\*)('|$)", lambda met: met[1] * 2 + ("\\'" if met[2] else ""), text)
    return f"'{escaped}'"


def plan_sweep(configurations: Iterable[tuple[Sequence[str], Mapping[str, Any]]]) -> Plan:
    """The plan for resolved configurations (plain data), each with the overrides that made it.

    Every cell is checked before any runs; raises CampaignError, UnknownName or ScheduleError for the first that cannot
    be meant. Cells asked for twice are run once. The rounds come one after the other, each with all cells that have so
    many.
    """
    machine = environment_key()
    registry: Registry | None = None
    first: Mapping[str, Any] = {}
    cells: list[tuple[Cell, int, tuple[str, ...]]] = []
    for overrides, config in configurations:
        if registry is None:
            registry, first = load_plugins(config["plugins"]["block"]), config
        cell = resolve_cell({**config, "round": 1}, registry)
        cells.append((cell, count("rounds", config["rounds"]), tuple(overrides)))
    if registry is None:
        raise CampaignError("the command asks for no cell at all")
    interleaved = [
        (dataclasses.replace(cell, round=turn), requested)
        for turn in range(1, max(rounds for _, rounds, _ in cells) + 1)
        for cell, rounds, requested in cells
        if turn <= rounds
    ]
    once = {cell.key(machine): (cell, requested) for cell, requested in reversed(interleaved)}
    identity, output = _identity(first, [cell for cell, *_ in cells]), Path(first["output"]).expanduser()
    folder = output / identity
    return Plan(
        identity=identity,
        cells=tuple(Planned(cell, key, requested, folder / key) for key, (cell, requested) in reversed(once.items())),
        output=output,
        rerun=_one_of("rerun", first["rerun"], RERUN),
        baseline=None if first["baseline"] is None else registry.engine(str(first["baseline"])).name,
        layout=_layout(first["layout"]),
        fail_fast=truth("fail_fast", first["fail_fast"]),
        dry_run=truth("dry_run", first["dry_run"]),
        allow_unsupported=truth("allow_unsupported", first["allow_unsupported"]),
        registry=registry,
    )


def _identity(config: Mapping[str, Any], cells: Sequence[Cell]) -> str:
    """The id that was given, or one that stands for the cells, in however many rounds."""
    given = config["sweep"]["id"]
    if given is None:
        # A letter first, or sweep.id=12e4 would be a number.
        return "s" + digest(sorted({digest(cell.asked()) for cell in cells}))[:11]
    if not re.fullmatch(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,63}", str(given)):
        raise CampaignError(f"sweep.id is {given!r}; it must be letters, digits, '_', '-' and '.', 64 at most")
    return str(given)


def _layout(given: Any) -> Layout | None:
    try:
        return None if given is None else Layout.from_plain(given)
    except LayoutError as error:
        raise CampaignError(str(error)) from error


def _one_of(key: str, value: Any, choices: Sequence[str]) -> str:
    if value not in choices:
        raise CampaignError(f"{key} is {value!r}{closest(str(value), choices)} (there are: {', '.join(choices)})")
    return str(value)


def refuse_graphs(plan: Plan) -> None:
    """Check the graphs of the cells that are to be run. Raises CampaignError for the first that cannot be had."""
    refused: dict[str, str] = {}
    for planned in plan.cells:
        cell = planned.cell
        asked = digest([cell.graph, cell.graph_parameters])
        if asked not in refused:
            refused[asked] = _refusal(plan.registry.graph(cell.graph), cell.graph_parameters)
        if refused[asked] and plan.wanted(planned.record()):
            raise CampaignError(refused[asked])


def _refusal(graph: GraphSpec, parameters: Mapping[str, Any]) -> str:
    """Return why the graph cannot be had; empty where nothing speaks against it."""
    try:
        check_parameters(graph, parameters)
    except GraphError as error:
        return str(error)
    return ""


def prepare_output(plan: Plan) -> None:
    """Make the sweep's folder and add the plan's cells to its description; CampaignError when that cannot be done.

    The cells that earlier commands planned stay planned, whether or not they have begun. A cell without a folder gives
    way to one that asks for the same under another key, because its code or its machine has changed.
    """
    description = plan.folder / SWEEP_FILE
    try:
        lock_folder()  # every cell needs it
    except LockError as error:
        raise CampaignError(str(error)) from error
    try:
        (plan.folder / WORK_FOLDER).mkdir(parents=True, exist_ok=True)
        with file_lock(plan.folder / WORK_FOLDER / SWEEP_LOCK):
            clear_leftovers(plan.folder)
            cells = {planned.key: _description(planned) for planned in plan.cells}
            requested = {cell["request"] for cell in cells.values()}
            earlier = {
                cell["cell"]: cell
                for cell in described(description)
                if cell.get("request") not in requested or (plan.folder / cell["cell"]).is_dir()
            }
            layout = plan.layout.plain() if plan.layout else None
            told = {"sweep": plan.identity, "baseline": plan.baseline, "layout": layout}
            write_json(description, {**told, "cells": list((earlier | cells).values())})
        free = shutil.disk_usage(plan.folder).free
    except OSError as error:
        raise unwritable(plan.output, error) from error
    if free < _BYTES_A_CELL * len(plan.cells):
        met = f"only {free:,} bytes are free in output folder {plan.output}, for {len(plan.cells)} cells"
        raise CampaignError(f"{met}; make room there or choose another with output=FOLDER")


def _description(planned: Planned) -> dict[str, Any]:
    """Return the cell as the description of a sweep lists it; ``request`` is the same on any machine, for any code."""
    request = digest(planned.cell.asked())
    return {"cell": planned.key, "request": request, "overrides": lasting(planned.overrides)}
