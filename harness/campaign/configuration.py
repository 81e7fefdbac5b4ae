"""Setup of Hydra before it composes: configuration folders, a choice for every plugin's name, the help text."""

from __future__ import annotations

import dataclasses
import functools
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.object_type import ObjectType
from hydra.core.plugins import Plugins
from hydra.plugins.config_source import ConfigResult, ConfigSource
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf

from harness.campaign.cell import parameter_defaults
from harness.plugins import PluginWarning, Registry, load_plugins

CHOICES = "installed"  # the scheme of the configurations that plugins' names are
GROUPS = ("engine", "algorithm", "graph")
_PLAIN = (bool, int, float, str, type(None))


def configuration_folder() -> Path:
    """Return the harness's ``conf`` folder: inside the package in an installed wheel, next to it in a checkout."""
    package = Path(__file__).parents[1]
    installed = package / "conf"
    return installed if installed.is_dir() else package.parent / "conf"


def register_configuration(registry: Registry) -> None:
    """Register ``engine=NAME``, ``algorithm=NAME`` and ``graph=NAME`` for everything that the plugins provide.

    A YAML file of the same name in a configuration folder takes precedence over these choices.
    """
    for engine in registry.engines.values():
        if not dataclasses.is_dataclass(engine.schedule):
            warnings.warn(
                f"engine {engine.name!r} is left out: its schedule {engine.schedule!r} is not a dataclass",
                PluginWarning, stacklevel=2,
            )  # fmt: skip
    sweeper = {
        "_target_": "hydra_plugins.onyx_harness_sweeper.OnyxSweeper",
        "max_batch_size": None,
        "params": None,
        "linked": None,
    }
    ConfigStore.instance().store(group="hydra/sweeper", name="harness", node=sweeper)
    Choices.registry = registry
    Plugins.instance().register(Choices)
    Plugins.instance().register(_search_path(registry.config_folders))
    help_text = describe_choices(registry).replace("$", "$$")  # string.Template reads it; $ begins a name
    OmegaConf.register_new_resolver("onyx_choices", lambda: help_text, replace=True)


class Choices(ConfigSource):
    """The choices ``GROUP/NAME`` of all plugins as configurations that are made when they are composed.

    The code of an algorithm, which defines its parameters, is imported only if the algorithm is chosen.
    """

    registry: Registry | None = None  # of this process; None in a process of a launcher

    @staticmethod
    def scheme() -> str:
        return CHOICES

    def load_config(self, config_path: str) -> ConfigResult:
        group, _, name = config_path.removesuffix(".yaml").partition("/")
        node = _choice(name, _defaults(group, self._table(group).get(name)))
        return ConfigResult(self.provider, self.full_path(), node, {"package": None})

    def available(self) -> bool:
        return True

    def is_group(self, config_path: str) -> bool:
        return config_path.strip("/") in GROUPS

    def is_config(self, config_path: str) -> bool:
        group, _, name = config_path.removesuffix(".yaml").partition("/")
        return group in GROUPS and name in self._names(group)

    def list(self, config_path: str, results_filter: ObjectType | None) -> list[str]:
        group = config_path.strip("/")
        if not group:
            return [] if results_filter == ObjectType.CONFIG else list(GROUPS)
        names = self._names(group) if group in GROUPS and results_filter != ObjectType.GROUP else ()
        return sorted(names)

    def _names(self, group: str) -> set[str]:
        """Return the names of a group, and the one that the defaults choose, so that they compose without its plugin.

        The registry reports a missing plugin to a command that uses it.
        """
        table = self._table(group)
        usable = {name for name, spec in table.items() if group != "engine" or dataclasses.is_dataclass(spec.schedule)}
        return usable | {_default_choices()[group]}

    def _table(self, group: str) -> dict[str, Any]:
        if Choices.registry is None:
            Choices.registry = load_plugins()
        return _table(Choices.registry, group)


def with_every_key(text: str, registry: Registry) -> str:
    """Return a composed configuration, YAML, with the options that its variants leave out.

    Raises CampaignError for an algorithm whose code cannot be loaded.
    """
    config: Any = OmegaConf.create(text)
    for group in GROUPS:
        section = config.get(group)
        name = section.get("name") if isinstance(section, DictConfig) else None
        if name is not None:
            config[group] = OmegaConf.merge(_choice(name, _defaults(group, _table(registry, group).get(name))), section)
    return OmegaConf.to_yaml(config)


def _table(registry: Registry, group: str) -> dict[str, Any]:
    table: dict[str, Any] = getattr(registry, f"{group}s")
    return table


def _defaults(group: str, spec: Any) -> dict[str, Any]:
    """Return the defaults of all options of a specification. For an engine they are None, which means not given.

    Raises CampaignError for an algorithm whose code cannot be loaded.
    """
    if spec is None:
        return {}
    if group == "engine":
        return dict.fromkeys(item.name for item in dataclasses.fields(spec.schedule))
    return dict(spec.parameters) if group == "graph" else parameter_defaults(spec)


def describe_choices(registry: Registry, groups: Sequence[str] = GROUPS) -> str:
    """List the engines, algorithms and graphs, each with its line of help."""
    lines: list[str] = []
    for group in groups:
        table = _table(registry, group)
        lines.append(f"{group}=")
        lines += [f"  {name:<18} {table[name].help}" for name in sorted(table)] or ["  (none installed)"]
    return "\n".join(lines)


def _choice(name: str, options: dict[str, Any]) -> DictConfig:
    """Return ``{name, option: default, ...}``, open to other keys: the harness itself reports unknown keys."""
    node = OmegaConf.create({"name": name, **{key: value for key, value in options.items() if _storable(value)}})
    node._set_flag("struct", False)
    return node


@functools.cache
def _default_choices() -> dict[str, str]:
    """Return the choices of the defaults list of ``conf/config.yaml``, by group."""
    root: Any = OmegaConf.to_container(OmegaConf.create((configuration_folder() / "config.yaml").read_text()))
    return {group: name for entry in root["defaults"] if isinstance(entry, dict) for group, name in entry.items()}


def _storable(value: object) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, (list, tuple)) and all(map(_storable, value)))


def _search_path(folders: list[str]) -> type[SearchPathPlugin]:
    class HarnessSearchPath(SearchPathPlugin):
        """Add the harness's own folder first, then those of the plugins, then the names that the plugins provide."""

        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            search_path.append("onyx-harness", f"file://{configuration_folder()}")
            for folder in folders:
                search_path.append("plugin", folder if "://" in folder else f"file://{folder}")
            search_path.append("plugins", f"{CHOICES}://")

    return HarnessSearchPath
