"""A cache of composed configurations across sweeps: Hydra takes 0.12 s for each, and there may be thousands.

The cache key is a hash of everything that a composition depends on: the configuration files, the plugins' choices, and
the versions. A configuration with any other dependency, such as an environment variable, is never cached.
"""

from __future__ import annotations

import copy
import hashlib
import importlib.util
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import hydra
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_repository import CachingConfigRepository
from hydra.core.config_store import ConfigStore
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from omegaconf import DictConfig, OmegaConf

from harness import __version__
from harness.cache import cache_folder
from harness.campaign.cell import digest
from harness.campaign.errors import CampaignError
from harness.campaign.expansion import repository_of
from harness.plugins import closest
from harness.whole_files import write_whole

_MOST_BYTES = 50_000_000  # of one cache file; a larger one is discarded
# A resolver, or a reference to Hydra's own part: its value may change although no file did.
_PRESETS = ("experiment",)  # groups whose files set values of the whole configuration
_CHANGING = re.compile(r"\$\{(?:[^}]*:|hydra)")


class Compositions:
    """Composes lists of overrides to plain configurations."""

    def __init__(self, loader: ConfigLoaderImpl, master: DictConfig) -> None:
        self._loader, self._master = loader, master
        self._repository = repository_of(loader, master)
        self._parser = OverridesParser.create(config_loader=loader)
        self._begun: dict[tuple[str, ...], tuple[DictConfig, bool]] = {}
        self._kept_in = cache_folder() / "compositions" / f"{_sources(self._repository, master)}.json"
        self._kept: dict[str, dict[str, Any]] = _read(self._kept_in)
        self._new: dict[str, dict[str, Any]] = {}
        primary = self._repository.load_config("config")
        self._known = [str(key) for key in primary.config if key not in ("defaults", "hydra")] if primary else []

    def __call__(self, overrides: Sequence[str]) -> dict[str, Any]:
        """Return the configuration as resolved plain data, without Hydra's own part."""
        name = digest(list(overrides))
        if name in self._kept:
            return self._kept[name]
        parsed = self._parser.parse_overrides(list(overrides))
        values = [override for override in parsed if self._sets_a_value(override)]
        lasting, config = self._chosen([str(one.input_line) for one in parsed if one not in values])
        ConfigLoaderImpl._apply_overrides_to_config(values, config)
        made = plain(config)
        self._refuse_unread(made)
        if lasting and not any("${" in str(override.input_line) for override in values):
            self._new[name] = made
        return made

    def _chosen(self, choices: Sequence[str]) -> tuple[bool, DictConfig]:
        """Return whether the configuration composed from ``choices`` may be cached, and a copy without Hydra's part.

        Cells that differ only in values share it: setting a value takes a hundredth of the time of a composition.
        """
        name = tuple(choices)
        if name not in self._begun:
            own = _own(self._loader.load_sweep_config(self._master, list(choices)))
            self._begun[name] = own, not _CHANGING.search(OmegaConf.to_yaml(own))
        own, lasting = self._begun[name]
        config = copy.deepcopy(own)
        OmegaConf.set_struct(config, True)
        return lasting, config

    def _refuse_unread(self, config: Mapping[str, Any]) -> None:
        """Raise CampaignError for an unknown top-level key, such as a misspelt or misplaced key of a preset."""
        for key in config:
            if key in _PRESETS:
                raise CampaignError(
                    f"a file of the group {key!r} sets values under {key!r}, where nothing reads them; begin the "
                    "file with the line '# @package _global_'"
                )
            if key not in self._known and not key.startswith("_") and not self._repository.group_exists(key):
                raise CampaignError(
                    f"the configuration has no key {key!r}{closest(key, self._known)} (there are: "
                    f"{', '.join(self._known)}; a value of your own to refer to begins with an underscore)"
                )

    def _sets_a_value(self, override: Override) -> bool:
        """Return whether an override only changes an existing value, which Hydra does last in a composition."""
        key = override.key_or_group
        changes = override.is_add() or override.is_force_add() or override.is_delete() or override.package is not None
        return not (changes or key.partition(".")[0] == "hydra" or self._repository.group_exists(key))

    def keep(self) -> None:
        """Write new compositions to the cache. Raises OSError if the cache cannot be written."""
        if not self._new:
            return
        write_whole(self._kept_in, json.dumps({**_read(self._kept_in), **self._new}))


def plain(config: DictConfig) -> dict[str, Any]:
    """Return a composed configuration as resolved plain data, without Hydra's own part."""
    data = OmegaConf.to_container(_own(config), resolve=True, throw_on_missing=True)
    if not isinstance(data, dict):
        raise CampaignError("the configuration is not a mapping")
    return {str(key): value for key, value in data.items()}


def _own(config: DictConfig) -> Any:
    return OmegaConf.masked_copy(config, [str(key) for key in config if key != "hydra"])


def _read(path: Path) -> dict[str, dict[str, Any]]:
    """Read a cache file; return nothing if it is missing, damaged or too large."""
    try:
        if path.stat().st_size > _MOST_BYTES:
            return {}
        kept = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    return kept if isinstance(kept, dict) else {}


def _sources(repository: CachingConfigRepository, master: DictConfig) -> str:
    """Return a hash of everything that compositions are made from."""
    hashed = hashlib.sha256(f"{__version__} {hydra.__version__} {master.hydra.job.config_name}".encode())
    hashed.update(repr(list(master.hydra.overrides.hydra)).encode())
    for source in repository.get_sources():
        hashed.update(f"{source.provider} {source.full_path()}\n".encode())
        for path in _files(source.full_path()):
            hashed.update(str(path).encode() + path.read_bytes())
    for line in _stored(ConfigStore.instance().repo):
        hashed.update(line.encode())
    return hashed.hexdigest()[:32]


def _files(place: str) -> Iterator[Path]:
    kind, _, where = place.rpartition("://")
    if kind == "pkg" and where != "hydra.conf":  # Hydra's own are identified by its version
        package, _, folder = where.replace(".", "/").partition("/")
        found = importlib.util.find_spec(package)
        for root in (found.submodule_search_locations if found else None) or ():
            yield from sorted((Path(root) / folder).rglob("*.yaml"))
    elif kind in ("", "file"):
        yield from sorted(Path(where).rglob("*.yaml"))


def _stored(group: Mapping[str, Any], path: str = "") -> Iterator[str]:
    """Yield the configurations that were registered from Python, except Hydra's own."""
    for name, item in sorted(group.items()):
        if isinstance(item, Mapping):
            yield from () if name == "hydra" else _stored(item, f"{path}/{name}")
        else:
            yield f"{path}/{name}: {item.node!r}\n"
