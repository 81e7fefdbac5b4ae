"""A cell of a sweep: a resolved configuration, checked against the registered plugins."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import os
import re
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, cast, get_args

from harness.campaign.answers import NONE, checked_save
from harness.campaign.errors import CampaignError
from harness.campaign.options import checked, count, positive
from harness.campaign.sources import source_hash
from harness.contract import AlgorithmSpec, Device, schedule_from_options
from harness.edge_places import AUTO
from harness.graph.changes import Change
from harness.import_watch import import_watch
from harness.language.algorithm import MOST_FEATURES
from harness.plain_text import describe_error, message_of
from harness.plugins import Registry, closest

DEVICE_KINDS = ("cpu", "cuda")
CHANGES = get_args(Change)
MEMORY = ("off", "model", "counters")  # transactions: none, modelled, modelled and measured


@dataclass(frozen=True)
class Measure:
    """How a cell is timed: a warm-up run, cut short after ``warmup_s`` seconds (0: none), then ``repetitions`` timed
    runs.

    Timing ends once the interval of the median is narrower than ``width``, relative to the median, or the runs have
    taken ``budget_s`` seconds. If six runs would take more than ``cap_s`` seconds, one run is timed, and no verdict is
    shown. ``accuracy``: also measure the time to equal accuracy.
    """

    repetitions: int = 7
    warmup_s: float = 0.1
    budget_s: float = 0.5
    width: float = 0.05
    cap_s: float = 60.0
    accuracy: bool = True


@dataclass(frozen=True)
class Warm:
    """How the graph changes before a warm run: a share of its edges, see :func:`harness.graph.changes.change_graph`."""

    change: float
    kind: str = "mixed"
    seed: int = 0


@dataclass(frozen=True)
class Limits:
    """The limits of a cell.

    ``time_s``: wall-clock seconds. ``wait_s``: additional seconds of waiting for the device. ``memory_gb``: resident
    memory in GB without pages of mapped files (None: four fifths of the memory of the machine or the container).
    ``device_memory_gb``: memory held on a GPU (None: all of it).
    """

    time_s: float = 600.0
    wait_s: float = 3600.0
    memory_gb: float | None = None
    device_memory_gb: float | None = None

    @property
    def device_bytes(self) -> int | None:
        """``device_memory_gb`` in bytes."""
        return None if self.device_memory_gb is None else int(self.device_memory_gb * 1e9)


@dataclass(frozen=True)
class Cell:
    """One (engine + schedule, algorithm, graph, features, device); ``schedule`` has every option, by name.

    ``given``: the names of the options that the user set, sorted; resolution does not change them. ``features`` and
    ``max_supersteps`` are None if algorithm and graph determine them. ``memory``: one of ``MEMORY``. ``labels`` names
    engine, algorithm and graph with the options that differ from their defaults. ``sources`` and ``graph_sources`` are
    hashes of code. ``save``: one of ``answers.SAVED``. ``key`` is a hash of the request, the code and the machine: two
    cells with the same key would measure the same thing.
    """

    engine: str
    schedule: dict[str, Any]
    given: tuple[str, ...]
    algorithm: str
    parameters: dict[str, Any]
    graph: str
    graph_parameters: dict[str, Any]
    features: int | None
    max_supersteps: int | None
    device: Device
    validate: bool | Literal["sampled"]
    measure: Measure
    limits: Limits
    block: tuple[str, ...]
    round: int
    warm: Warm | None
    memory: str
    labels: dict[str, str] = field(compare=False)
    sources: str = field(compare=False)
    graph_sources: str = field(compare=False)
    save: str = NONE

    @property
    def title(self) -> str:
        """Graph, algorithm, features and engine in a line."""
        k = "auto" if self.features is None else str(self.features)
        return f"{self.labels['graph']} · {self.labels['algorithm']} · k={k} · {self.labels['engine']}"

    def requested(self) -> dict[str, Any]:
        """Return the request as plain data: everything that determines the result and its time, without limits and
        labels."""
        data = dataclasses.asdict(self)
        for name in ("limits", "labels", "sources", "graph_sources", "block"):
            del data[name]
        if self.device.memory is None:
            del data["device"]["memory"]
        if self.warm is None:
            del data["warm"]
        if self.memory == "off":
            del data["memory"]
        if self.save == NONE:
            del data["save"]
        return data

    def key(self, environment: str) -> str:
        """Return the name of the cell's folder; ``environment`` identifies the machine.

        It is engine, algorithm, graph and features, for readers, and a hash, which alone distinguishes cells.
        """
        files = [_stamp(value) for value in self.graph_parameters.values() if isinstance(value, str)]
        found = digest([self.requested(), self.sources, self.graph_sources, environment, files])[:16]
        k = "auto" if self.features is None else self.features
        return folder_name(self.engine, self.algorithm, self.graph, f"k{k}", found)

    def plain(self) -> dict[str, Any]:
        """Return every field as plain data; `Cell.from_plain` reads it in another process."""
        return dataclasses.asdict(self)

    @classmethod
    def from_plain(cls, data: Mapping[str, Any]) -> Cell:
        """Rebuild the cell from `plain`."""
        warm = None if data["warm"] is None else Warm(**data["warm"])
        parts = {"device": Device(**data["device"]), "measure": Measure(**data["measure"]), "warm": warm}
        return cls(
            **{
                **data,
                **parts,
                "limits": Limits(**data["limits"]),
                "block": tuple(data["block"]),
                "given": tuple(data["given"]),
            }
        )


def digest(data: Any) -> str:
    """Return the SHA-256 of plain data in its canonical JSON form."""
    return hashlib.sha256(json.dumps(data, sort_keys=True, default=str).encode()).hexdigest()


def resolve_cell(config: Mapping[str, Any], registry: Registry) -> Cell:
    """Return the cell that a resolved configuration (plain data) describes.

    Raises CampaignError, UnknownName or ScheduleError naming the key, its value and the closest valid name.
    """
    engine, options = _named(config, "engine")
    algorithm, parameters = _named(config, "algorithm")
    graph, graph_parameters = _named(config, "graph")
    engine_spec, algorithm_spec, graph_spec = (
        registry.engine(engine),
        registry.algorithm(algorithm),
        registry.graph(graph),
    )
    known = {option.name for option in dataclasses.fields(engine_spec.schedule)}
    options = {name: value for name, value in options.items() if value is not None or name not in known}
    schedule = schedule_from_options(engine_spec, options)
    defaults = parameter_defaults(algorithm_spec)
    parameters = checked(f"algorithm {algorithm!r}", "parameter", parameters, defaults)
    graph_parameters = checked(f"graph {graph!r}", "parameter", graph_parameters, graph_spec.parameters)
    labels = {
        "engine": label(engine, dataclasses.asdict(schedule), field_defaults(engine_spec.schedule)),
        "algorithm": label(algorithm, parameters, defaults),
        "graph": graph_label(graph, graph_parameters, graph_spec.parameters),
    }
    warm, device, limits = _warm(config["warm"]), _device(config["device"]), _limits(config["limits"])
    if device.kind == "cuda" and getattr(schedule, "panel", None) == AUTO:  # the limit decides what runs
        device = dataclasses.replace(device, memory=limits.device_bytes)
    if warm is not None:
        labels["graph"] += f" after {warm.kind}, change={warm.change:g}, seed={warm.seed}"
    return Cell(
        engine=engine,
        schedule=dataclasses.asdict(schedule),
        given=tuple(sorted(options)),
        algorithm=algorithm,
        parameters=parameters,
        graph=graph,
        graph_parameters=graph_parameters,
        features=_features(config["features"]),
        max_supersteps=None if config["max_supersteps"] is None else count("max_supersteps", config["max_supersteps"]),
        device=device,
        validate=_validate(config["validate"], warm),
        measure=_measure(config["measure"]),
        limits=limits,
        block=tuple(config["plugins"]["block"]),
        round=count("round", config.get("round", 1)),
        warm=warm,
        memory=_memory(config["memory"], device),
        save=checked_save(config["save"]),
        labels=labels,
        sources=source_hash([engine_spec.factory, algorithm_spec.factory]),
        graph_sources=source_hash([graph_spec.factory]),
    )


def _features(value: Any) -> int | None:
    """Return the number of features, None for auto. Raises CampaignError."""
    if value == "auto":
        return None
    features = count("features", value, "auto")
    if features > MOST_FEATURES:
        raise CampaignError(f"features is {features}; a program has 1 to {MOST_FEATURES} on every engine")
    return features


def _validate(value: Any, warm: Warm | None) -> bool | Literal["sampled"]:
    if value == "sampled" and warm is not None:
        raise CampaignError(
            "validate=sampled: a warm run is compared with a whole reference; set validate to true or false"
        )
    if value != "sampled" and not isinstance(value, bool):
        raise CampaignError(f"validate is {value!r}; it must be true, false or sampled")
    return cast('bool | Literal["sampled"]', value)


def parameter_defaults(spec: AlgorithmSpec) -> dict[str, Any]:
    """Return an algorithm's parameters and their defaults (``dataclasses.MISSING`` for required ones)."""
    return field_defaults(load(spec.factory))


def folder_name(*words: str) -> str:
    """Return a file name of words: letters, digits and underscores, at most 20 of a word, joined by hyphens."""
    return "-".join(re.sub(r"[^A-Za-z0-9_]", "", word)[:20] for word in words)


def load(factory: str) -> Any:
    """Import the object that ``package.module:name`` names. Raises CampaignError if that fails."""
    module, _, name = factory.partition(":")
    watch = nullcontext() if module in sys.modules else import_watch(f"module {module!r}, which a plugin names,")
    try:
        with watch:
            return getattr(importlib.import_module(module), name)
    except MemoryError:
        raise
    except (Exception, SystemExit) as error:
        met = message_of(error) if isinstance(error, (ImportError, AttributeError)) else describe_error(error)
        raise CampaignError(f"{factory!r}, which a plugin names, cannot be loaded: {met}") from error


def label(name: str, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Return ``name (option=value, ...)`` with the options that differ from their defaults."""
    changed = [f"{key}={value}" for key, value in values.items() if key not in defaults or defaults[key] != value]
    return f"{name} ({', '.join(changed)})" if changed else name


def graph_label(name: str, values: Mapping[str, Any], defaults: Mapping[str, Any]) -> str:
    """Return the label of a graph; one with a path is called by its file's name."""
    path = values.get("path")
    if not isinstance(path, str) or not path:
        return label(name, values, defaults)
    return label(Path(path).name, {key: value for key, value in values.items() if key != "path"}, defaults)


def _named(config: Mapping[str, Any], group: str) -> tuple[str, dict[str, Any]]:
    section = config.get(group)
    if not isinstance(section, Mapping) or not isinstance(section.get("name"), str):
        raise CampaignError(f"the configuration has no {group}.name; choose one with {group}=NAME")
    return cast(str, section["name"]), {key: value for key, value in section.items() if key != "name"}


def field_defaults(described: type) -> dict[str, Any]:
    """Return the fields of a dataclass and their defaults (``dataclasses.MISSING`` for required ones)."""

    def default(item: dataclasses.Field[Any]) -> Any:
        return item.default if item.default_factory is dataclasses.MISSING else item.default_factory()

    return {item.name: default(item) for item in dataclasses.fields(described)}


def _device(section: Mapping[str, Any]) -> Device:
    given = checked("device", "setting", section, {"kind": "cpu", "index": 0, "threads": None})
    kind = given.get("kind", "cpu")
    if kind not in DEVICE_KINDS:
        hint = closest(str(kind), DEVICE_KINDS)
        raise CampaignError(f"device.kind is {kind!r}{hint} (there are: {', '.join(DEVICE_KINDS)})")
    usable = len(os.sched_getaffinity(0))
    threads = usable if given.get("threads") is None else count("device.threads", given["threads"])
    if threads > usable:
        raise CampaignError(
            f"device.threads is {threads}, but this process may use {usable} cores; set at most {usable}"
        )
    index = count("device.index", given.get("index", 0), least=0)
    return Device(kind=kind, index=index, threads=threads)


def _measure(section: Mapping[str, Any]) -> Measure:
    given = checked("measure", "setting", section, dataclasses.asdict(Measure()))
    measure = Measure(**given)
    count("measure.repetitions", measure.repetitions)
    if measure.warmup_s != 0:  # 0: no run beforehand
        positive("measure.warmup_s", measure.warmup_s)
    positive("measure.budget_s", measure.budget_s)
    positive("measure.width", measure.width)
    positive("measure.cap_s", measure.cap_s)
    return measure


def _warm(section: Mapping[str, Any]) -> Warm | None:
    """Return the requested change, or None. Raises CampaignError."""
    given = checked("warm", "setting", section, {"change": None, "kind": "mixed", "seed": 0})
    if given.get("change") is None:
        return None
    warm = Warm(**{**given, "change": positive("warm.change", given["change"])})
    if warm.change > 1:
        raise CampaignError(f"warm.change is {warm.change:g}; it is a share of the edges, at most 1")
    if warm.kind not in CHANGES:
        hint = closest(warm.kind, CHANGES)
        raise CampaignError(f"warm.kind is {warm.kind!r}{hint} (there are: {', '.join(CHANGES)})")
    count("warm.seed", warm.seed, least=0)
    return warm


def _memory(requested: Any, device: Device) -> str:
    """Return how memory transactions are counted. Raises CampaignError."""
    if requested not in MEMORY:
        raise CampaignError(
            f"memory is {requested!r}{closest(str(requested), MEMORY)} (there are: {', '.join(MEMORY)})"
        )
    if requested == "counters" and device.kind != "cuda":
        raise CampaignError(
            "memory=counters reads a GPU's counters: set device=cuda, or use memory=model on any device"
        )
    return str(requested)


def _limits(section: Mapping[str, Any]) -> Limits:
    limits = Limits(**checked("limits", "setting", section, dataclasses.asdict(Limits())))
    positive("limits.time_s", limits.time_s)
    positive("limits.wait_s", limits.wait_s)
    for name in ("memory_gb", "device_memory_gb"):
        if getattr(limits, name) is not None:
            positive(f"limits.{name}", getattr(limits, name))
    return limits


def _stamp(value: str) -> list[Any]:
    """Return a file's path, size and modification time, so that a changed file changes the cell; other text
    unchanged."""
    path = Path(value).expanduser() if value.startswith("~/") else Path(value)
    if len(value) > os.pathconf("/", "PC_PATH_MAX") or "\0" in value or not path.is_file():
        return [value]
    status = path.stat()
    return [str(path.absolute()), status.st_size, status.st_mtime_ns]
