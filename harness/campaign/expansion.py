"""Expand a command into the override lists of its jobs, with the defaults of the configuration files in force."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hydra._internal.config_repository import CachingConfigRepository
from hydra._internal.defaults_list import create_defaults_list
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.plugins.config_source import ConfigResult
from omegaconf import DictConfig, OmegaConf

from harness.campaign.configuration import CHOICES

if TYPE_CHECKING:
    from hydra._internal.config_loader_impl import ConfigLoaderImpl
    from hydra.core.override_parser.types import Override

_PRIMARY = "config"  # the harness's conf/config.yaml
_PARAMS = "hydra.sweeper.params."
_LINKED = "hydra.sweeper.linked"

Link = Mapping[str, Mapping[str, Any]]


def repository_of(loader: ConfigLoaderImpl, master: DictConfig) -> CachingConfigRepository:
    """Return the configuration files of a command, including those of ``hydra.searchpath``.

    It reads each file once; making another one takes 0.1 s.
    """
    lines = list(master.hydra.overrides.hydra)
    return loader._parse_overrides_and_create_caching_repo(master.hydra.job.config_name, lines)[1]


class Copies(CachingConfigRepository):
    """The files of another repository as copies: a composition changes the configurations that it merges."""

    def __init__(self, files: CachingConfigRepository) -> None:
        self.delegate, self.cache = files, {}

    def load_config(self, config_path: str) -> ConfigResult | None:
        """Return a copy of a file's configuration."""
        loaded = self.delegate.load_config(config_path)
        return None if loaded is None else replace(loaded, config=copy.deepcopy(loaded.config))


def swept_presets(
    given: Sequence[Override], repository: CachingConfigRepository, params: Collection[str]
) -> list[Override]:
    """Return the swept configuration groups of a command, such as ``+experiment=a,b``, except those in ``params``."""
    swept = [one for one in given if one.is_sweep_override() and one.key_or_group not in params]
    return [one for one in swept if repository.group_exists(one.key_or_group)]


def variants(given: Sequence[Override], presets: Sequence[Override]) -> Iterator[list[str]]:
    """Yield the plain override lines of a command, once for each combination of swept presets.

    A preset has sweep parameters of its own, so each is expanded separately.
    """
    plain = [str(one.input_line) for one in given if not one.is_sweep_override()]
    swept = [[f"{one.get_key_element()}={value}" for value in one.sweep_string_iterator()] for one in presets]
    for chosen in itertools.product(*swept):
        yield [*plain, *chosen]


def parameters(master: DictConfig) -> tuple[dict[str, Any], list[Link]]:
    """Return ``hydra.sweeper.params`` and ``hydra.sweeper.linked`` of a composed configuration."""
    sweeper: Any = OmegaConf.to_container(master.hydra.sweeper, resolve=True)
    return sweeper["params"] or {}, sweeper["linked"] or []


def set_in_files(
    loader: ConfigLoaderImpl, files: CachingConfigRepository, name: str | None, lines: Sequence[str]
) -> set[str]:
    """Return the keys that the selected configuration files set in addition to ``conf/config.yaml``.

    A key is a value (``features``, ``engine.fold``) or a group that a defaults list overrides (``override /engine:
    scipy``). Such a key takes precedence over the default sweep parameters, as a key on the command line does.
    """
    parsed = OverridesParser.create(config_loader=loader).parse_overrides(list(lines))
    made = create_defaults_list(files, name, parsed, prepend_hydra=True, skip_missing=True)
    keys = {key for key, found in made.overrides.override_metadata.items() if not found.external_override}
    copies = Copies(files)
    for entry in made.defaults:
        path = entry.config_path or ""
        if path != _PRIMARY and not path.startswith("hydra/"):
            loaded = loader._load_single_config(entry, copies)
            if not str(loaded.path).startswith(CHOICES):  # the defaults of a plugin's name set nothing
                keys.update(_leaves(OmegaConf.to_container(loaded.config)))
    return keys


def _leaves(config: Any, prefix: str = "") -> Iterator[str]:
    """Yield the dotted key of every value of nested mappings."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}"


def with_defaults(
    given: Sequence[Override], defaults: Sequence[Override], linked: Sequence[Link], from_files: Collection[str] = ()
) -> tuple[list[Override], list[Link]]:
    """Return the overrides to expand and the active links.

    A key on the command line takes precedence over a default, and so does a configuration file that selects the group
    without a sweep parameter of its own. A link is active as long as none of the keys that it sets is set elsewhere.
    Those of the default comparison also need that none of their conditions is: a part of a preset has the cells of the
    whole, and ``graph=photo`` alone is the graph without the settings of the default comparison.
    """
    keys = {override.get_key_element() for override in given}
    chosen = {key for key in from_files if f"{_PARAMS}{key}" not in from_files}
    kept = [one for one in defaults if one.get_key_element() not in keys | chosen]
    parts = ("set",) if _LINKED in from_files else ("set", "when")
    links = [link for link in linked if (keys | chosen).isdisjoint(key for part in parts for key in link[part])]
    return [*kept, *given], links


def linked_overrides(overrides: Sequence[str], links: Sequence[Link]) -> list[str]:
    """Return one job's overrides with those of the active links: ``{when: {graph: photo}, set: {features: 8}}``."""
    chosen = dict(override.split("=", 1) for override in overrides if "=" in override)
    added: list[str] = []
    for link in links:
        if all(chosen.get(key) == str(value) for key, value in link["when"].items()):
            added += [f"{key}={value}" for key, value in link["set"].items()]
    return [*overrides, *added]
