"""The plan of a sweep: its cells, each checked and named, which of them are done, and the folders of their records."""

from __future__ import annotations

import dataclasses
import functools
import re
import shutil
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.campaign.cell import Cell, digest, folder_name, resolve_cell
from harness.campaign.environment import environment_key
from harness.campaign.errors import CampaignError
from harness.campaign.job import WORK_FOLDER, stamp, unwritable
from harness.campaign.lock import file_lock
from harness.campaign.lock_folder import LockError, lock_folder
from harness.campaign.options import count, truth
from harness.campaign.recovery import SWEEP_LOCK, clean_up
from harness.campaign.resume import SWEEP_FILE, commands_of, described, lasting
from harness.contract import GraphSpec
from harness.graph.errors import GraphError
from harness.graph.named import check_parameters
from harness.plugins import Registry, closest, load_plugins
from harness.records import RECORD_FILE, NewerRecord, Record, RecordError, read_record, write_json
from harness.records.outcome import Outcome
from harness.report.layout import Layout, LayoutError

RERUN = ("all", "failed", "none")
MORE_ROUNDS = ("always", "disturbed")
_BYTES_A_CELL = 100_000  # a record with its explanation


@dataclass(frozen=True)
class Planned:
    """A cell of a sweep with the overrides that request it and the folder of its record.

    ``on_demand``: run it only if other work disturbed a time of the first round.
    """

    cell: Cell
    key: str
    overrides: tuple[str, ...]
    folder: Path
    on_demand: bool = False

    @functools.cached_property
    def known(self) -> str:
        """The stamp of the record when it was first read."""
        return stamp(self.folder)

    def first_record(self) -> Record | None:
        """Return the record that `known` is the stamp of, or a later one; never an earlier one."""
        return self.record() if self.known else None

    def record(self) -> Record | None:
        """Return the cell's record if it is readable.

        Raises CampaignError for a record of a newer version, which a new measurement would overwrite.
        """
        path = self.folder / RECORD_FILE
        try:
            return read_record(path) if path.is_file() else None
        except NewerRecord as error:
            raise CampaignError(f"{error}, or give another folder with output=") from error
        except (RecordError, FileNotFoundError):
            return None  # such as half of a restored backup: measured again


@dataclass(frozen=True)
class Plan:
    """All cells of a sweep, in order, each once. ``identity`` is the same for every request of the same cells.

    ``command``: the arguments of the command that requested them, without those for a single command.
    """

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
    command: tuple[str, ...] = ()

    @property
    def folder(self) -> Path:
        """The folder of the sweep's records."""
        return self.output / self.identity

    def parts(self) -> list[Plan]:
        """Return the plan without the cells on demand, if it has any, and the whole plan."""
        at_first = tuple(planned for planned in self.cells if not planned.on_demand)
        return [self] if len(at_first) == len(self.cells) else [dataclasses.replace(self, cells=at_first), self]

    def due(self, record: Record | None) -> bool:
        """Return whether a cell with this record is to be run under ``rerun``.

        *all*: any cell. *failed*: cells without an acceptable record. *none*: cells without a record.
        """
        if record is None or self.rerun == "all":
            return True
        return self.rerun == "failed" and not Outcome(record["outcome"]).acceptable

    def job_overrides(self, planned: Planned, owner: str, journal: str) -> list[str]:
        """Return the overrides of one job: the cell, and its place in the sweep."""
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
    """Quote a text as a value in Hydra's grammar, since a hash such as 12e5 would be read as a number."""
    # Backslashes are literal, except before a quotation mark, where each must be doubled.
    escaped = re.sub(r"(\\*)('|$)", lambda met: met[1] * 2 + ("\\'" if met[2] else ""), text)
    return f"'{escaped}'"


def plan_sweep(configurations: Iterable[tuple[Sequence[str], Mapping[str, Any]]], command: Sequence[str] = ()) -> Plan:
    """Return the plan for resolved configurations (plain data), each with the overrides that produced it.

    ``command``: the arguments of the command.

    Every cell is checked before any runs. Raises CampaignError, UnknownName or ScheduleError for the first invalid one.
    Cells requested twice are run once. Rounds are run one after the other, each with all cells that have that many.
    """
    machine = environment_key()
    registry: Registry | None = None
    first: Mapping[str, Any] = {}
    cells: list[tuple[Cell, int, bool, tuple[str, ...]]] = []
    for overrides, config in configurations:
        if registry is None:
            registry, first = load_plugins(config["plugins"]["block"]), config
        cell = resolve_cell({**config, "round": 1}, registry)
        on_demand = _one_of("more_rounds", config["more_rounds"], MORE_ROUNDS) == "disturbed"
        cells.append((cell, count("rounds", config["rounds"]), on_demand, tuple(overrides)))
    if registry is None:
        raise CampaignError("the command requests no cell")
    interleaved = [
        (dataclasses.replace(cell, round=turn), requested, on_demand and turn > 1)
        for turn in range(1, max(rounds for _, rounds, *_ in cells) + 1)
        for cell, rounds, on_demand, requested in cells
        if turn <= rounds
    ]
    once = {cell.key(machine): (cell, requested, spare) for cell, requested, spare in reversed(interleaved)}
    identity, output = _identity(first, [cell for cell, *_ in cells]), Path(first["output"]).expanduser()
    folder = output / identity
    return Plan(
        identity=identity,
        cells=tuple(
            Planned(cell, key, requested, folder / key, on_demand)
            for key, (cell, requested, on_demand) in reversed(once.items())
        ),
        output=output,
        rerun=_one_of("rerun", first["rerun"], RERUN),
        baseline=None if first["baseline"] is None else registry.engine(str(first["baseline"])).name,
        layout=_layout(first["layout"]),
        fail_fast=truth("fail_fast", first["fail_fast"]),
        dry_run=truth("dry_run", first["dry_run"]),
        allow_unsupported=truth("allow_unsupported", first["allow_unsupported"]),
        registry=registry,
        command=tuple(lasting(command)),
    )


def in_turns(cells: Sequence[Planned]) -> list[Planned]:
    """Return cells for jobs that run at the same time: of each graph, the problems take turns.

    Engines of one problem wait for the same inputs and the same reference, which the first of them makes. Graphs and
    rounds stay one after the other.
    """
    graphs: dict[str, int] = {}
    problems: dict[str, int] = {}
    seen: Counter[str] = Counter()
    places: list[tuple[int, int, int]] = []
    for planned in cells:
        cell = planned.cell
        graph = digest([cell.round, cell.graph, cell.graph_parameters])
        problem = digest([graph, cell.algorithm, cell.parameters, cell.features])
        places.append((
            graphs.setdefault(graph, len(graphs)), seen[problem], problems.setdefault(problem, len(problems)),
        ))  # fmt: skip
        seen[problem] += 1
    return [cells[number] for number in sorted(range(len(cells)), key=places.__getitem__)]


def _identity(config: Mapping[str, Any], cells: Sequence[Cell]) -> str:
    """Return the given id, or one derived from the cells, independent of the number of rounds.

    A derived id is the algorithm and the graph, or their numbers, for readers, and a hash.
    """
    given = config["sweep"]["id"]
    if given is None:
        algorithms, graphs = {cell.algorithm for cell in cells}, {cell.graph for cell in cells}
        words = [
            names.pop() if len(names) == 1 else f"{len(names)}_{kind}"
            for names, kind in ((algorithms, "algorithms"), (graphs, "graphs"))
        ]
        return folder_name(*words, digest(sorted({digest(cell.requested()) for cell in cells}))[:11])
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
    """Check the graphs of the cells to run. Raises CampaignError for the first one that is unavailable."""
    refused: dict[str, str] = {}
    for planned in plan.cells:
        cell = planned.cell
        graph_key = digest([cell.graph, cell.graph_parameters])
        if graph_key not in refused:
            refused[graph_key] = _refusal(plan.registry.graph(cell.graph), cell.graph_parameters)
        if refused[graph_key] and plan.due(planned.record()):
            raise CampaignError(refused[graph_key])


def _refusal(graph: GraphSpec, parameters: Mapping[str, Any]) -> str:
    """Return why the graph is unavailable; empty if it is available."""
    try:
        check_parameters(graph, parameters)
    except GraphError as error:
        return str(error)
    return ""


def prepare_output(plan: Plan) -> None:
    """Create the sweep's folder and add the plan's cells to its description. Raises CampaignError if that fails.

    Cells planned by earlier commands stay planned, whether or not they have begun. A cell without a folder is replaced
    by one with the same request under another key, because its code or its machine has changed.
    """
    description = plan.folder / SWEEP_FILE
    try:
        lock_folder()  # every cell needs it
    except LockError as error:
        raise CampaignError(str(error)) from error
    try:
        (plan.folder / WORK_FOLDER).mkdir(parents=True, exist_ok=True)
        with file_lock(plan.folder / WORK_FOLDER / SWEEP_LOCK):
            clean_up(plan.folder)
            cells = {planned.key: _description(planned) for planned in plan.cells}
            requested = {cell["request"] for cell in cells.values()}
            earlier = {
                cell["cell"]: cell
                for cell in described(description)
                if cell.get("request") not in requested or (plan.folder / cell["cell"]).is_dir()
            }
            layout = plan.layout.plain() if plan.layout else None
            commands = dict.fromkeys([*commands_of(description), *([" ".join(plan.command)] if plan.command else [])])
            facts = {"sweep": plan.identity, "baseline": plan.baseline, "layout": layout, "commands": list(commands)}
            write_json(description, {**facts, "cells": list((earlier | cells).values())})
        free = shutil.disk_usage(plan.folder).free
    except OSError as error:
        raise unwritable(plan.output, error) from error
    if free < _BYTES_A_CELL * len(plan.cells):
        met = f"only {free:,} bytes are free in output folder {plan.output}, for {len(plan.cells)} cells"
        raise CampaignError(f"{met}; free some space or choose another with output=FOLDER")


def _description(planned: Planned) -> dict[str, Any]:
    """Return the cell's entry in the description of a sweep; ``request`` is independent of machine and code."""
    request = digest(planned.cell.requested())
    return {"cell": planned.key, "request": request, "overrides": lasting(planned.overrides)}
