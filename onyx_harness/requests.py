"""The request of a call, checked against the installed plugins: engine and schedule, algorithm, graph, device."""

from __future__ import annotations

import dataclasses
import functools
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from harness.campaign.cell import field_defaults, load, parameter_defaults
from harness.campaign.errors import CampaignError
from harness.campaign.options import checked
from harness.contract import Device, EngineSpec, schedule_from_options
from harness.language.algorithm import Algorithm
from harness.plugins import Registry, UnknownName, closest, load_plugins
from harness.specifications import GraphSpec

Group = Literal["engine", "algorithm", "graph"]
_DEVICE = re.compile(r"(cpu|cuda)(?::(\d+))?")


@dataclass(frozen=True, init=False)
class Variant:
    """An engine with schedule options: ``Variant("onyx", direction="push", fold=False)``.

    ``name``: an installed engine, or a variant of a configuration file such as "onyx_unfolded". ``schedule``: options
    by name; omitted ones keep their defaults.
    """

    name: str
    schedule: Mapping[str, Any]

    def __init__(self, name: str, **schedule: Any) -> None:
        object.__setattr__(self, "name", name)
        object.__setattr__(self, "schedule", {key: plain(value) for key, value in schedule.items()})

    def __repr__(self) -> str:
        return f"Variant({', '.join([repr(self.name), *(f'{key}={value!r}' for key, value in self.schedule.items())])})"


@dataclass(frozen=True)
class AlgorithmRequest:
    """An algorithm with its parameters: the instance, and ``factory`` if a plugin registers its class, else ""."""

    algorithm: Algorithm
    name: str
    parameters: dict[str, Any]
    factory: str


@functools.cache
def installed() -> Registry:
    """Return the engines, algorithms and graphs of all plugins; they are loaded once in a process."""
    return load_plugins()


def engine_request(
    engine: str | Variant, schedule: Mapping[str, Any] | None, device: Device
) -> tuple[EngineSpec, dict[str, Any]]:
    """Return an engine and the schedule options that the call gives.

    Raises UnknownName, and ScheduleError for an unknown option or a value of the wrong type.
    """
    variant = engine if isinstance(engine, Variant) else Variant(_text("engine", engine, "a name or a Variant"))
    name, options = named("engine", variant.name, device.kind)
    spec = installed().engine(name)
    given = {key: plain(value) for key, value in {**options, **variant.schedule, **(schedule or {})}.items()}
    known = {option.name for option in dataclasses.fields(spec.schedule)}
    given = {key: value for key, value in given.items() if value is not None or key not in known}
    schedule_from_options(spec, given)
    return spec, given


def algorithm_request(
    algorithm: str | type[Algorithm] | Algorithm, parameters: Mapping[str, Any], spec: EngineSpec | None = None
) -> AlgorithmRequest:
    """Return an algorithm with checked parameters.

    ``spec``: the engine, whose options are named in the error for a parameter that is one of them. Raises UnknownName,
    and CampaignError for an unknown parameter or a value of the wrong type.
    """
    if isinstance(algorithm, Algorithm):
        if parameters:
            raise CampaignError(
                f"{type(algorithm).__name__} already has its parameters; give {next(iter(parameters))}= to the class"
            )
        values = {item.name: getattr(algorithm, item.name) for item in dataclasses.fields(algorithm)}  # type: ignore[arg-type]
        return AlgorithmRequest(algorithm, _name_of(type(algorithm)), values, _registered(type(algorithm)))
    if isinstance(algorithm, type) and issubclass(algorithm, Algorithm):
        name, made, factory = _name_of(algorithm), algorithm, _registered(algorithm)
        own: dict[str, Any] = {}
        defaults = field_defaults(made)
    else:
        text = _text("algorithm", algorithm, "a name, or a class or an instance of Algorithm")
        name, own = named("algorithm", text, "cpu")
        found = installed().algorithm(name)
        made, factory, defaults = load(found.factory), found.factory, parameter_defaults(found)
    given = {key: _parameter(value, defaults.get(key)) for key, value in {**own, **parameters}.items()}
    _refuse_options(given, defaults, spec, name)
    values = checked(f"algorithm {name!r}", "parameter", given, defaults)
    return AlgorithmRequest(made(**values), name, {**defaults, **values}, factory)


def graph_request(place: str | os.PathLike[str], options: Mapping[str, Any]) -> tuple[GraphSpec, dict[str, Any]]:
    """Return the graph of the catalogue, or the file at a path, with checked parameters.

    Raises UnknownName, and CampaignError for an unknown parameter or a value of the wrong type.
    """
    registry = installed()
    if is_path(place):
        name, own = "file", {"path": os.path.abspath(os.path.expanduser(os.fspath(place)))}
    else:
        name, own = named("graph", os.fspath(place), "cpu")
    spec = registry.graph(name)
    return spec, checked(f"graph {name!r}", "parameter", {**own, **options}, spec.parameters)


def is_path(place: str | os.PathLike[str]) -> bool:
    """Return whether a text is a path rather than the name of a graph."""
    text = os.fspath(place)
    return not isinstance(place, str) or os.sep in text or bool(Path(text).suffix) or Path(text).is_file()


def device_of(device: str | Device) -> Device:
    """Return the device that "cpu", "cuda", "cuda:1" or a Device names. Raises CampaignError."""
    if isinstance(device, Device):
        return device
    found = _DEVICE.fullmatch(device) if isinstance(device, str) else None
    if found is None or (found[1] == "cpu" and found[2]):
        raise CampaignError(f"device is {device!r}; it must be 'cpu', 'cuda', 'cuda:INDEX' or a Device")
    return Device(kind=found[1], index=int(found[2] or 0))  # type: ignore[arg-type]


def named(group: Group, name: str, device: str) -> tuple[str, dict[str, Any]]:
    """Return the installed name and the options that ``name`` stands for: itself, or those of a configuration file.

    Raises UnknownName with the closest name, and CampaignError for a file that only a sweep can compose.
    """
    table: Mapping[str, Any] = getattr(installed(), f"{group}s")
    if name in table:
        return name, {}
    files = {path.stem: path for path in _configuration_files(group)}
    if name not in files:
        known = sorted({*table, *files})
        raise UnknownName(f"there is no {group} called {name!r}{closest(name, known)} (there are: {', '.join(known)})")
    return _from_file(group, files[name], device)


def merged(parameters: Mapping[str, Any] | None, more: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an algorithm from both ways to give them. Raises CampaignError for one given twice."""
    twice = sorted({*(parameters or {})} & {*more})
    if twice:
        raise CampaignError(f"parameter {twice[0]!r} is given twice: in parameters= and as a keyword")
    return {**(parameters or {}), **more}


def plain(value: Any) -> Any:
    """Return a NumPy scalar as a Python number; other values unchanged."""
    return value.item() if isinstance(value, np.generic) else value


def _from_file(group: Group, path: Path, device: str) -> tuple[str, dict[str, Any]]:
    from omegaconf import OmegaConf
    from omegaconf.errors import OmegaConfBaseException

    config: Any = OmegaConf.merge(OmegaConf.create({"device": {"kind": device}}), OmegaConf.load(path))
    try:
        section: Any = OmegaConf.to_container(config.get(group, config), resolve=True)
    except OmegaConfBaseException as error:
        raise CampaignError(
            f"{group} {path.stem!r} depends on other settings ({error}); run it with sweep() or compare()"
        ) from error
    if "defaults" in section or "name" not in section:
        raise CampaignError(f"{group} {path.stem!r} is composed of other files; run it with sweep() or compare()")
    options = {str(key): value for key, value in section.items() if key not in ("name", "device")}
    return str(section["name"]), options


def _configuration_files(group: Group) -> Iterator[Path]:
    package = Path(sys.modules["harness"].__file__ or "").parent
    own = package / "conf" if (package / "conf").is_dir() else package.parent / "conf"
    for folder in (str(own), *installed().config_folders):
        if "://" not in folder:
            yield from sorted((Path(folder) / group).glob("*.yaml"))


def _name_of(made: type[Algorithm]) -> str:
    if not made.name:
        raise CampaignError(f"algorithm class {made.__name__} has no name; write name = 'my_algorithm' in its body")
    return made.name


def _registered(made: type[Algorithm]) -> str:
    """Return the factory under which a plugin registers a class, or ""."""
    spec = installed().algorithms.get(made.name)
    return spec.factory if spec is not None and load(spec.factory) is made else ""


def _parameter(value: Any, default: Any) -> Any:
    """Return a parameter as its class takes it: vertices for a text are written as "3 17"."""
    if isinstance(default, str) and isinstance(value, (list, tuple, np.ndarray)):
        return " ".join(str(plain(one)) for one in value)
    return plain(value)


def _refuse_options(
    given: Mapping[str, Any], defaults: Mapping[str, Any], spec: EngineSpec | None, algorithm: str
) -> None:
    """Raise CampaignError for an argument that is an option of the engine's schedule."""
    options = set() if spec is None else {option.name for option in dataclasses.fields(spec.schedule)}
    for key in given:
        if key not in defaults and key in options and spec is not None:
            raise CampaignError(
                f"{key!r} is an option of engine {spec.name!r}, not a parameter of algorithm {algorithm!r}; give it as "
                f"schedule={{{key!r}: ...}}"
            )


def _text(what: str, value: object, allowed: str) -> str:
    if not isinstance(value, str):
        raise CampaignError(f"{what} is {value!r}; it must be {allowed}")
    return value
