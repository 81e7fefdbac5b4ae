"""Composition of a sweep's configurations: Hydra composes a few of them, and the others are products of their parts.

Hydra takes 0.1 s for a configuration, and a sweep may have thousands. A choice of a file without a defaults list
replaces one file and leaves the others as they are. Let the files of two groups set different top-level keys. In a
configuration with a choice in each, the keys of a group are then those of any composition with that group's choice.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.default_element import ResultDefault
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import ConfigCompositionException
from omegaconf import DictConfig, OmegaConf, flag_override
from omegaconf.errors import OmegaConfBaseException

from harness.campaign.errors import CampaignError
from harness.campaign.expansion import Copies
from harness.plugins import closest

_PRESETS = ("experiment",)  # groups whose files set values of the whole configuration


@dataclass(frozen=True)
class _Composed:
    """A configuration composed by Hydra, without Hydra's own part.

    ``plain``: its values, unresolved. ``set_by``: the top-level keys that the file of each group sets. ``separable``:
    no file was selected by an interpolation or deleted, so that replacing a file leaves the others as they are.
    """

    config: DictConfig
    plain: Mapping[str, Any]
    set_by: Mapping[str, frozenset[str]]
    separable: bool


class Compositions:
    """Composes lists of overrides to plain configurations."""

    def __init__(self, loader: ConfigLoaderImpl, master: DictConfig, files: CachingConfigRepository) -> None:
        self._loader, self._master = loader, master
        self._repository = files
        self._copies = Copies(self._repository)
        self._parser = OverridesParser.create(config_loader=loader)
        self._parsed: dict[str, Override] = {}
        self._composed: dict[tuple[str, ...], _Composed] = {}
        self._products: dict[tuple[str, ...], Mapping[str, _Composed]] = {}
        self._bases: dict[tuple[str, ...], tuple[str, ...]] = {}
        primary = self._repository.load_config("config")
        self._known = [str(key) for key in primary.config if key not in ("defaults", "hydra")] if primary else []
        self._group_exists = functools.cache(self._repository.group_exists)

    def __call__(self, overrides: Sequence[str]) -> dict[str, Any]:
        """Return the configuration as resolved plain data, without Hydra's own part. It must not be changed."""
        parsed = [self._parse(line) for line in overrides]
        values = [override for override in parsed if self._sets_a_value(override)]
        parts = self._parts([override for override in parsed if override not in values])
        made = {key: part.plain[key] for key, part in parts.items()}
        changed = {override.key_or_group.partition(".")[0] for override in values}
        refers = any(map(_refers, made.values())) or any(_refers(override.value()) for override in values)
        whole = refers or not changed <= made.keys()  # interpolations and errors may be about any key
        config = OmegaConf.create()
        OmegaConf.copy_cache(from_config=self._master, to_config=config)
        with flag_override(config, "no_deepcopy_set_nodes", True):
            for key in made if whole else changed:
                node = parts[key].config._get_node(key)
                config[key] = copy.deepcopy(node) if key in changed else node
        OmegaConf.set_struct(config, True)
        ConfigLoaderImpl._apply_overrides_to_config(values, config)
        made |= plain(config)
        self._refuse_unread(made)
        return made

    def _parse(self, line: str) -> Override:
        if line not in self._parsed:
            self._parsed[line] = self._parser.parse_override(line)
        return self._parsed[line]

    def _parts(self, choices: Sequence[Override]) -> Mapping[str, _Composed]:
        """Return for each top-level key a composition that has the value of the configuration with these choices."""
        lines = tuple(str(override.input_line) for override in choices)
        if lines not in self._products:
            parts = self._product(choices, lines)
            if parts is None:
                composed = self._compose(lines)
                parts = dict.fromkeys(composed.plain, composed)
            self._products[lines] = parts
        return self._products[lines]

    def _product(self, choices: Sequence[Override], lines: tuple[str, ...]) -> Mapping[str, _Composed] | None:
        """Return the parts of a product; None if the configuration has to be composed.

        The first configuration that differs from this one only in files without a defaults list is the base. Each
        choice of such a file is composed with the other choices of the base.
        """
        single = [number for number, override in enumerate(choices) if self._is_single_file(override)]
        others = tuple(f"{choices[n].key_or_group}=" if n in single else line for n, line in enumerate(lines))
        base = self._bases.setdefault(others, lines)
        composed = self._compose(base)
        if base == lines or not composed.separable:
            return None
        parts = dict.fromkeys(composed.plain, composed)
        seen: set[str] = set()
        for number in single:
            one = self._compose((*base[:number], lines[number], *base[number + 1 :]))
            group = choices[number].key_or_group
            keys = composed.set_by[group] | one.set_by[group]
            if keys & seen:
                return None
            seen |= keys
            for key in keys:
                parts.pop(key, None)
            parts |= {key: one for key in keys if key in one.plain}
        return parts

    def _is_single_file(self, override: Override) -> bool:
        """Return whether an override chooses a file without a defaults list, by name, for a group."""
        if override.package is not None or override.is_add() or override.is_force_add() or override.is_delete():
            return False
        group, name = override.key_or_group, override.value()
        if not isinstance(name, str) or not self._group_exists(group):
            return False
        loaded = self._repository.load_config(f"{group}/{name}")
        return loaded is not None and not loaded.defaults_list

    def _compose(self, lines: tuple[str, ...]) -> _Composed:
        """Let Hydra compose the configuration with these choices."""
        if lines not in self._composed:
            try:
                self._composed[lines] = self._compose_files(lines)
            except OmegaConfBaseException as error:
                raise ConfigCompositionException from error
        return self._composed[lines]

    def _compose_files(self, lines: tuple[str, ...]) -> _Composed:
        parsed = [self._parse(line) for line in (*self._master.hydra.overrides.hydra, *lines)]
        made = create_defaults_list(self._repository, "config", parsed, prepend_hydra=True, skip_missing=False)
        files = [entry for entry in made.defaults if not str(entry.package).startswith("hydra")]
        config = self._loader._compose_config_from_defaults_list(files, self._copies)
        config.pop("hydra", None)
        OmegaConf.set_struct(config, True)
        rest = [override for override in made.config_overrides if not override.is_hydra_override()]
        ConfigLoaderImpl._apply_overrides_to_config(rest, config)
        set_by = {entry.override_key: self._keys(entry) for entry in files if entry.override_key is not None}
        separable = not made.overrides.deletions and not any(map(self._interpolates, files))
        data: Any = OmegaConf.to_container(config)
        return _Composed(config, data, set_by, separable)

    def _keys(self, entry: ResultDefault) -> frozenset[str]:
        """Return the top-level keys that a file sets."""
        return frozenset(map(str, self._loader._load_single_config(entry, self._copies).config))

    def _interpolates(self, entry: ResultDefault) -> bool:
        """Return whether the defaults list of a file depends on the choices."""
        loaded = self._repository.load_config(str(entry.config_path))
        return loaded is not None and any("${" in str(vars(default)) for default in loaded.defaults_list or ())

    def _refuse_unread(self, config: Mapping[str, Any]) -> None:
        """Raise CampaignError for an unknown top-level key, such as a misspelt or misplaced key of a preset."""
        for key in config:
            if key in _PRESETS:
                raise CampaignError(
                    f"a file of the group {key!r} sets values under {key!r}, where nothing reads them; begin the "
                    "file with the line '# @package _global_'"
                )
            if key not in self._known and not key.startswith("_") and not self._group_exists(key):
                raise CampaignError(
                    f"the configuration has no key {key!r}{closest(key, self._known)} (there are: "
                    f"{', '.join(self._known)}; the name of an additional value begins with an underscore)"
                )

    def _sets_a_value(self, override: Override) -> bool:
        """Return whether an override only changes an existing value, which Hydra does last in a composition."""
        key = override.key_or_group
        changes = override.is_add() or override.is_force_add() or override.is_delete() or override.package is not None
        return not (changes or key.partition(".")[0] == "hydra" or self._group_exists(key))


def plain(config: DictConfig) -> dict[str, Any]:
    """Return a composed configuration as resolved plain data, without Hydra's own part."""
    own = OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"]) if "hydra" in config else config
    data = OmegaConf.to_container(own, resolve=True, throw_on_missing=True)
    if not isinstance(data, dict):
        raise CampaignError("the configuration is not a mapping")
    return {str(key): value for key, value in data.items()}


def _refers(value: Any) -> bool:
    """Return whether a value has an interpolation or a missing value in it."""
    if isinstance(value, Mapping):
        return any(map(_refers, value.values()))
    if isinstance(value, list):
        return any(map(_refers, value))
    return isinstance(value, str) and ("${" in value or value == "???")
