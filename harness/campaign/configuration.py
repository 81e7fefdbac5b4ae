"""Setup of Hydra before it composes: configuration folders, a choice for every plugin's name, the help text."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hydra.core.config_search_path import ConfigSearchPath
from hydra.core.config_store import ConfigStore
from hydra.core.plugins import Plugins
from hydra.plugins.search_path_plugin import SearchPathPlugin
from omegaconf import DictConfig, OmegaConf

from harness.plugins import PluginWarning, Registry

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
    store = ConfigStore.instance()
    for engine in registry.engines.values():
        if not dataclasses.is_dataclass(engine.schedule):
            warnings.warn(
                f"engine {engine.name!r} is left out: its schedule {engine.schedule!r} is not a dataclass",
                PluginWarning, stacklevel=2,
            )  # fmt: skip
            continue
        # null means not given, so that a configuration shows which options the user has set
        options = dict.fromkeys(item.name for item in dataclasses.fields(engine.schedule))
        store.store(group="engine", name=engine.name, node=_choice(engine.name, options))
    for algorithm in registry.algorithms.values():
        # An algorithm's parameters are known only to its class, which is not imported here.
        store.store(group="algorithm", name=algorithm.name, node=_choice(algorithm.name, {}))
    for graph in registry.graphs.values():
        store.store(group="graph", name=graph.name, node=_choice(graph.name, dict(graph.parameters)))
    _hold_places(store, registry)
    sweeper = {
        "_target_": "hydra_plugins.onyx_harness_sweeper.OnyxSweeper",
        "max_batch_size": None,
        "params": None,
        "linked": None,
    }
    store.store(group="hydra/sweeper", name="harness", node=sweeper)
    Plugins.instance().register(_search_path(registry.config_folders))
    help_text = describe_choices(registry).replace("$", "$$")  # string.Template reads it; $ begins a name
    OmegaConf.register_new_resolver("onyx_choices", lambda: help_text, replace=True)


def describe_choices(registry: Registry, groups: Sequence[str] = GROUPS) -> str:
    """List the engines, algorithms and graphs, each with its line of help."""
    lines: list[str] = []
    for group in groups:
        table: dict[str, Any] = getattr(registry, f"{group}s")
        lines.append(f"{group}=")
        lines += [f"  {name:<18} {table[name].help}" for name in sorted(table)] or ["  (none installed)"]
    return "\n".join(lines)


def _choice(name: str, options: dict[str, Any]) -> DictConfig:
    """Return ``{name, option: default, ...}``, open to other keys: the harness itself reports unknown keys."""
    node = OmegaConf.create({"name": name, **{key: value for key, value in options.items() if _storable(value)}})
    node._set_flag("struct", False)
    return node


def _hold_places(store: ConfigStore, registry: Registry) -> None:
    """Let the configuration compose even if a plugin that its defaults name is blocked or broken.

    The registry reports the missing plugin to a command that uses it.
    """
    root: Any = OmegaConf.to_container(OmegaConf.create((configuration_folder() / "config.yaml").read_text()))
    chosen = {group: name for entry in root["defaults"] if isinstance(entry, dict) for group, name in entry.items()}
    for group, table in (("engine", registry.engines), ("algorithm", registry.algorithms), ("graph", registry.graphs)):
        if group in chosen and chosen[group] not in table:
            store.store(group=group, name=chosen[group], node=_choice(chosen[group], {}))


def _storable(value: object) -> bool:
    return isinstance(value, _PLAIN) or (isinstance(value, (list, tuple)) and all(map(_storable, value)))


def _search_path(folders: list[str]) -> type[SearchPathPlugin]:
    class HarnessSearchPath(SearchPathPlugin):
        """Add the harness's own folder first, then those of the plugins."""

        def manipulate_search_path(self, search_path: ConfigSearchPath) -> None:
            search_path.append("onyx-harness", f"file://{configuration_folder()}")
            for folder in folders:
                search_path.append("plugin", folder if "://" in folder else f"file://{folder}")

    return HarnessSearchPath
