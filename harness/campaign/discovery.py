"""``onyx-harness list`` and ``describe``: names, options with types, defaults and ranges, presets."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.campaign.cell import load
from harness.campaign.config_files import PRESETS, ConfigFile, config_files
from harness.campaign.config_keys import config_keys
from harness.campaign.configuration import configuration_folder
from harness.campaign.errors import CampaignError
from harness.campaign.text_table import table, wrapped
from harness.contract import AlgorithmSpec, EngineSpec, GraphSpec
from harness.options import Option, options_in
from harness.plugins import Registry, UnknownName, closest

KEYS = "key"
# The words of the commands, and the group that each means.
GROUPS = {"engines": "engine", "algorithms": "algorithm", "graphs": "graph", "presets": PRESETS, "keys": KEYS}
_KINDS = ("engine", "algorithm", "graph")
_FEW = 5  # values of an option that are listed beside its name; more follow its help


class Names:
    """The engines, algorithms, graphs and presets of a command, and the variants in configuration files."""

    def __init__(self, registry: Registry) -> None:
        self.registry = registry
        folders: list[str | Path] = [configuration_folder(), *registry.config_folders]
        self.files = {group: config_files(group, folders) for group in (*_KINDS, PRESETS)}

    def specs(self, group: str) -> Mapping[str, EngineSpec | AlgorithmSpec | GraphSpec]:
        """Return the specifications of a group by name; none for presets."""
        tables: dict[str, Mapping[str, Any]] = {
            "engine": self.registry.engines, "algorithm": self.registry.algorithms, "graph": self.registry.graphs,
        }  # fmt: skip
        return tables.get(group, {})

    def of(self, group: str) -> list[str]:
        """Return all names of a group, sorted."""
        return sorted({*self.specs(group), *self.files[group]})

    def options(self, group: str, name: str) -> tuple[Option, ...]:
        """Return the options of an engine, an algorithm or a graph, or those that a variant has values for.

        Raises CampaignError if the code of an algorithm cannot be loaded.
        """
        spec = self.specs(group).get(name) or self.specs(group).get(self.base(group, name))
        return () if spec is None else options_of(spec)

    def base(self, group: str, name: str) -> str:
        """Return the name that a variant gives options to; "" if there is none."""
        return self.files[group][name].of if name in self.files[group] else ""


def group_named(word: str) -> str:
    """Return the group that a word of the command means, singular or plural. Raises CampaignError."""
    known = {**GROUPS, **{group: group for group in _KINDS}, "preset": PRESETS}
    if word not in known:
        raise CampaignError(f"list takes {', '.join(GROUPS)}, not {word!r}{closest(word, GROUPS)}")
    return known[word]


def options_of(spec: EngineSpec | AlgorithmSpec | GraphSpec) -> tuple[Option, ...]:
    """Return the options of a specification. Raises CampaignError if the code of an algorithm cannot be loaded."""
    if isinstance(spec, GraphSpec):
        return spec.options
    described = spec.schedule if isinstance(spec, EngineSpec) else load(spec.factory)
    return options_in(described) if dataclasses.is_dataclass(described) else ()


def choices_in(arguments: Sequence[str]) -> list[str]:
    """Return the engines, algorithms, graphs and presets that a command chooses, as ``GROUP=NAME``."""
    pairs = [argument.removeprefix("+").partition("=") for argument in arguments]
    return [f"{group}={name}" for group, _, names in pairs if group in (*_KINDS, PRESETS) for name in names.split(",")]


def list_names(names: Names, groups: Sequence[str]) -> str:
    """Return the names of the groups, each with a line of help."""
    return "\n\n".join("\n".join(_listing(names, group)) for group in groups)


def _listing(names: Names, group: str) -> Iterator[str]:
    if group == KEYS:
        keys = [item for item in config_keys() if item.default != {}]
        yield from _titled("keys (KEY=VALUE)", [(item.name, _default(item), item.help.rstrip(".")) for item in keys])
        return
    if group == PRESETS:
        rows = [(name, file.summary) for name, file in names.files[group].items()]
        yield from _titled(f"presets (+{PRESETS}=NAME)", rows)
        return
    specs = names.specs(group)
    yield from _titled(f"{group}s ({group}=NAME)", [(name, _help(specs[name])) for name in sorted(specs)])
    variants = [(name, file.summary) for name, file in names.files[group].items() if name not in specs]
    if variants:
        yield from ("", *_titled(f"variants, from configuration files ({group}=NAME)", variants))


def _titled(title: str, rows: Sequence[tuple[str, ...]]) -> Iterator[str]:
    yield f"{title}:"
    yield from table(rows) if rows else ["  (none installed)"]


def _help(spec: EngineSpec | AlgorithmSpec | GraphSpec) -> str:
    if not isinstance(spec, EngineSpec):
        return spec.help
    missing = [module for module in spec.requires if importlib.util.find_spec(module) is None]
    lacks = f" [not installed: {missing[0]}]" if missing else ""
    only = "" if "cpu" in spec.devices else f" [only on {', '.join(spec.devices)}]"
    return f"{spec.help}{only}{lacks}"


def describe(names: Names, word: str) -> str:
    """Return the description of a name, or of ``GROUP=NAME``. A name of several groups has all descriptions.

    Raises UnknownName for a name that no group has, and CampaignError for an unknown group.
    """
    group, _, name = word.removeprefix("+").rpartition("=")
    groups = (*_KINDS, PRESETS) if not group else (GROUPS["presets"] if group == "preset" else group,)
    if groups[0] not in names.files:
        raise CampaignError(f"describe takes a name, or one of {', '.join(names.files)} = NAME, not {word!r}")
    keys = [] if group else [item for item in config_keys() if f"{item.name}.".startswith(f"{name}.")]
    found = ["\n".join(_keys(keys))] if keys else []
    found += [_describe(names, one, name) for one in groups if name in names.of(one)]
    if not found:
        known = sorted({*(item.name for item in config_keys()), *(known for one in groups for known in names.of(one))})
        raise UnknownName(f"nothing is called {name!r}{closest(name, known)} (onyx-harness list shows all names)")
    return "\n\n".join(found)


def _keys(keys: Sequence[Option]) -> Iterator[str]:
    """Yield the description of a key, or of a section with all its keys."""
    first, *rest = keys
    if not rest:
        yield wrapped(f"{first.name}={_default(first)}: {first.help}")
        if first.values:
            yield f"values: {', '.join(map(str, first.values))}"
        return
    yield f"{first.name}: {first.help}\n"
    yield from table([(item.name, _values(item), _default(item), item.help) for item in rest])


def _describe(names: Names, group: str, name: str) -> str:
    if group == PRESETS:
        return "\n".join(_preset(names.files[group][name]))
    specs = names.specs(group)
    if name not in specs:
        return "\n".join(_variant(names, names.files[group][name]))
    return "\n".join(_spec(names, group, specs[name]))


def _spec(names: Names, group: str, spec: EngineSpec | AlgorithmSpec | GraphSpec) -> Iterator[str]:
    yield f"{group}={spec.name}: {_help(spec)}"
    if isinstance(spec, EngineSpec):
        yield f"devices: {', '.join(spec.devices)}"
        if spec.install and any(importlib.util.find_spec(module) is None for module in spec.requires):
            yield f"install: {spec.install}"
    options = options_of(spec)
    what = "options of the schedule" if isinstance(spec, EngineSpec) else "parameters"
    if options:
        yield f"\n{what} ({group}.NAME=VALUE):"
        yield from table([(item.name, _values(item), _default(item), _option_help(item)) for item in options])
    else:
        yield f"\nno {what}"
    variants = [name for name, file in names.files[group].items() if file.of == spec.name and name != spec.name]
    if variants:
        yield f"\nvariants: {', '.join(variants)}"
    text = _documentation(spec.schedule if isinstance(spec, EngineSpec) else load(spec.factory))
    if text:
        yield f"\n{text}"


def _variant(names: Names, file: ConfigFile) -> Iterator[str]:
    yield f"{file.group}={file.name}: a variant of {file.group}={file.of}"
    yield wrapped(file.comment)
    section = file.settings.get(file.group, file.settings)
    rows = [(f"{file.group}.{key}", str(value)) for key, value in section.items() if key not in ("name", "defaults")]
    if rows:
        yield "\nsets:"
        yield from table(rows)
    if file.of in names.specs(file.group):
        yield f"\nonyx-harness describe {file.group}={file.of} shows all options."


def _preset(file: ConfigFile) -> Iterator[str]:
    yield f"+{PRESETS}={file.name}"
    yield wrapped(file.comment)
    settings = {key: value for key, value in file.settings.items() if key not in ("hydra", "defaults", "layout")}
    flat = [(key, str(value)) for key, value in _leaves(settings)]
    if file.swept:
        yield "\nsweeps:"
        yield from table([(key, str(value)) for key, value in file.swept.items()])
    if flat:
        yield "\nsets:"
        yield from table(flat)
    yield f"\nonyx-harness +{PRESETS}={file.name} dry_run=true shows its cells. Keys of the command replace these."


def _leaves(settings: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in settings.items():
        if isinstance(value, Mapping) and value:
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _documentation(described: Callable[..., Any]) -> str:
    """Return the docstring of a class or a function as plain text: without roles and double backticks."""
    own = described.__dict__.get("__doc__") if isinstance(described, type) else described.__doc__
    if not own or own.startswith(f"{getattr(described, '__name__', '')}("):  # the docstring that dataclass makes
        return ""
    return re.sub(r":\w+:`[~.]?([^`]+)`", r"\1", inspect.cleandoc(own)).replace("``", "")


def _values(item: Option) -> str:
    """Return the type of an option with its values or its range."""
    kind = item.type.removesuffix(" or null")
    usable = [_word(value) for value in item.values]
    if usable:
        return ", ".join(usable) if len(usable) <= _FEW else kind
    if kind == "bool":
        return "true, false"
    return f"{kind} in {item.within}" if item.within else kind


def _option_help(item: Option) -> str:
    many = len(item.values) > _FEW
    return f"{item.help}; one of {', '.join(map(_word, item.values))}" if many else item.help


def _default(item: Option) -> str:
    if item.default is dataclasses.MISSING:
        return "required"
    return "null" if item.default is None else '""' if item.default == "" else _word(item.default)


def _word(value: object) -> str:
    """Return a value as it is written in a command."""
    return str(value).lower() if isinstance(value, bool) else str(value)
