"""The plan of a sweep: its cells, each checked and named, which of them are done, and where their records belong."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omegaconf import DictConfig, OmegaConf

from harness.campaign.cell import Cell, digest, resolve_cell
from harness.campaign.environment import environment_key
from harness.campaign.errors import CampaignError
from harness.plugins import Registry, closest, load_plugins
from harness.records import RECORD_FILE, Record, RecordError, read_record, write_json
from harness.records.outcome import Outcome

if TYPE_CHECKING:
    from hydra.core.override_parser.types import Override

RERUN = ("all", "failed", "none")


@dataclass(frozen=True)
class Planned:
    """A cell of a sweep with the overrides that ask for it and the folder that its record belongs in."""

    cell: Cell
    key: str
    overrides: tuple[str, ...]
    folder: Path


@dataclass(frozen=True)
class Plan:
    """All cells of a sweep, in order, each once. ``identity`` is the same whenever the same cells are asked for."""

    identity: str
    cells: tuple[Planned, ...]
    output: Path
    rerun: str
    baseline: str | None

    def record(self, planned: Planned) -> Record | None:
        """The record that a cell of this sweep already has, if it can be read."""
        path = planned.folder / RECORD_FILE
        try:
            return read_record(path) if path.is_file() else None
        except RecordError:
            return None  # of another version of the harness, or half of a restored backup: measured anew

    def unfinished(self) -> list[Planned]:
        """The cells to run: all of them, those without an ok record, or those without any, as ``rerun`` says."""
        return [planned for planned in self.cells if self._wanted(self.record(planned))]

    def _wanted(self, record: Record | None) -> bool:
        if record is None or self.rerun == "all":
            return True
        return self.rerun == "failed" and not Outcome(record["outcome"]).acceptable

    def job_overrides(self, planned: Planned, number: int, total: int) -> list[str]:
        """What Hydra is told for one job: the cell, and its place in the sweep."""
        # Quoted, since a hash such as 12e5 would be read as a number.
        place = [f"sweep.id='{self.identity}'", f"sweep.cell='{planned.key}'"]
        place += [f"sweep.number={number}", f"sweep.total={total}"]
        return [*planned.overrides, *place]


def plan_sweep(compositions: Iterable[tuple[Sequence[str], DictConfig]]) -> Plan:
    """The plan for composed configurations, each with the overrides that made it.

    Every cell is checked before any runs; raises CampaignError, UnknownName or ScheduleError for the first that cannot
    be meant. Cells asked for twice are run once.
    """
    machine = environment_key()
    registry: Registry | None = None
    first: Mapping[str, Any] = {}
    cells: dict[str, tuple[Cell, tuple[str, ...]]] = {}
    for overrides, composed in compositions:
        config = plain(composed)
        if registry is None:
            registry, first = load_plugins(config["plugins"]["block"]), config
        cell = resolve_cell(config, registry)
        cells.setdefault(cell.key(machine), (cell, tuple(overrides)))
    if not cells:
        raise CampaignError("the command asks for no cell at all")
    if first["rerun"] not in RERUN:
        hint = closest(str(first["rerun"]), RERUN)
        raise CampaignError(f"rerun is {first['rerun']!r}{hint} (there are: {', '.join(RERUN)})")
    identity = digest(sorted(digest(cell.asked()) for cell, _ in cells.values()))[:12]
    output = Path(first["output"]).expanduser()
    folder = output / identity
    planned = (Planned(cell, key, overrides, folder / key) for key, (cell, overrides) in cells.items())
    return Plan(identity, tuple(planned), output, first["rerun"], first["baseline"])


def plain(config: DictConfig) -> dict[str, Any]:
    """A composed configuration as resolved plain data, without Hydra's own part."""
    with_hydra = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])
    data = OmegaConf.to_container(with_hydra, resolve=True, throw_on_missing=True)
    if not isinstance(data, dict):
        raise CampaignError("the configuration is no mapping")
    return {str(key): value for key, value in data.items()}


def prepare_output(plan: Plan) -> None:
    """Make the sweep's folder and describe the sweep in it; CampaignError when that cannot be done."""
    try:
        plan.output.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=plan.output) as probe:
            probe.write(b"\0" * 4096)
            probe.flush()
            os.fsync(probe.fileno())
        cells = [{"cell": planned.key, "overrides": list(planned.overrides)} for planned in plan.cells]
        write_json(
            plan.output / plan.identity / "sweep.json",
            {"sweep": plan.identity, "baseline": plan.baseline, "cells": cells},
        )
    except OSError as error:
        met = f"output folder {plan.output} cannot be written ({error.strerror or error})"
        raise CampaignError(f"{met}; choose another with output=FOLDER") from error


def with_defaults(
    given: Sequence[Override], defaults: Sequence[Override], linked: Sequence[Mapping[str, Mapping[str, Any]]]
) -> tuple[list[Override], list[Mapping[str, Mapping[str, Any]]]]:
    """The overrides to expand, and the links that stay in force.

    A default gives way to a key given on the command line; a link is in force as long as none of its keys is given.
    """
    keys = {override.get_key_element() for override in given}
    kept = [override for override in defaults if override.get_key_element() not in keys]
    links = [link for link in linked if not keys & {*link["when"], *link["set"]}]
    return [*kept, *given], links


def linked_overrides(overrides: Sequence[str], links: Sequence[Mapping[str, Mapping[str, Any]]]) -> list[str]:
    """One job's overrides with what the links add: ``{when: {graph: photo}, set: {features: 8}}``."""
    chosen = dict(override.split("=", 1) for override in overrides if "=" in override)
    added: list[str] = []
    for link in links:
        if all(chosen.get(key) == str(value) for key, value in link["when"].items()):
            added += [f"{key}={value}" for key, value in link["set"].items()]
    return [*overrides, *added]
