"""Files that let isolated processes run what was defined in this one: configurations and a small plugin.

A comparison is a command of the harness. Each variant of an engine, the algorithm and the graph become configuration
files in Hydra's form, so that values of any kind need no quoting. Graphs in memory and classes that no plugin registers
are registered by a generated plugin.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from harness.atomic_write import write_whole
from harness.campaign.cell import digest
from harness.campaign.errors import CampaignError
from harness.contract import AlgorithmSpec, Device, GraphSpec
from harness.language.algorithm import Algorithm
from harness.plain_text import one_line
from onyx_harness.class_files import importable, keep_class
from onyx_harness.graphs import as_graph
from onyx_harness.kept import keep_graph
from onyx_harness.requests import AlgorithmRequest, Variant, engine_request, graph_request, installed

_PLUGIN = '''"""Generated: registers what a Python process compares, for the isolated processes of the cells."""

from harness.api import AlgorithmSpec, GraphSpec, hookimpl


@hookimpl
def onyx_{group}s():
    return [{spec!r}]
'''
_CLASS = '''"""Generated: an algorithm class of a Python process that other processes cannot import."""

from onyx_harness.class_files import kept_class

made = kept_class({fingerprint!r})
'''


class Settings:
    """The configuration of a comparison, in ``folder``; files with equal content have equal names.

    A folder may serve several comparisons: each finds only the plugins that it has registered itself.
    """

    def __init__(self, folder: Path) -> None:
        self.configuration = folder / "conf"
        self._plugins = folder.absolute() / "plugins"
        self._registered: list[str] = []  # folders

    def engine(self, engine: str | Variant, device: Device) -> str:
        """Return the choice for ``engine=``. Raises UnknownName or ScheduleError."""
        spec, options = engine_request(engine, None, device)
        return engine if isinstance(engine, str) else self._choice("engine", spec.name, options)

    def algorithm(self, request: AlgorithmRequest) -> str:
        """Return the choice for ``algorithm=``; a class that no other process can import is written to the cache.

        Raises CampaignError for the name of an installed algorithm and for a class that cannot be serialised, and
        CacheError.
        """
        if not request.factory:
            made = type(request.algorithm)
            if request.name in installed().algorithms:
                raise CampaignError(
                    f"{made.__name__} is called {request.name!r}, as an installed algorithm is; give it another name"
                )
            factory = importable(made) or self._by_value(made)
            text = one_line((made.__doc__ or made.__name__).strip().partition("\n")[0])
            self._register("algorithm", AlgorithmSpec(request.name, text, factory))
        return self._choice("algorithm", request.name, request.parameters)

    def graph(self, graph: Any, options: Mapping[str, Any]) -> str:
        """Return the choice for ``graph=``; a graph in memory is written to the cache and registered by its name.

        Raises UnknownName, CampaignError, GraphError or CacheError.
        """
        if isinstance(graph, (str, os.PathLike)) and "name" not in options:
            spec, parameters = graph_request(graph, options)
            return self._choice("graph", spec.name, parameters)
        given = as_graph(graph, **options).graph
        name = re.sub(r"[^\w .'()-]", "_", given.name) or "graph"
        name = f"{name} (in memory)" if name in installed().graphs else name
        kept = keep_graph(given)
        self._register("graph", GraphSpec(name, "a graph in memory", "onyx_harness.kept:kept_graph", kept))
        return self._choice("graph", name, {"content": kept["content"]})  # other graphs may have the same name

    def python_path(self) -> str:
        """Return the PYTHONPATH with which another process imports what this one does."""
        standard = {sysconfig.get_path("stdlib"), sysconfig.get_path("platstdlib")}
        folders = [str(Path(entry or ".").absolute()) for entry in sys.path]
        return os.pathsep.join([*self._registered, *(one for one in folders if one not in standard)])

    def _choice(self, group: str, name: str, options: Mapping[str, Any]) -> str:
        """Write ``GROUP/NAME_DIGEST.yaml`` and return its stem."""
        literal = {
            key: value.replace("${", "\\${") if isinstance(value, str) else value
            for key, value in {"name": name, **options}.items()
        }
        text = OmegaConf.to_yaml(OmegaConf.create(literal))
        stem = f"{re.sub(r'[^a-zA-Z0-9_]', '_', name)}_{digest([name, dict(options)])[:8]}"
        write_whole(self.configuration / group / f"{stem}.yaml", text)
        return stem

    def _by_value(self, made: type[Algorithm]) -> str:
        """Write a module that loads a class from the cache; return its factory. Other code has another module."""
        fingerprint = keep_class(made)
        module = f"onyx_harness_class_{fingerprint}"
        write_whole(self._folder(module) / f"{module}.py", _CLASS.format(fingerprint=fingerprint))
        return f"{module}:made"

    def _register(self, group: str, spec: AlgorithmSpec | GraphSpec) -> None:
        """Write a plugin that offers ``spec``; it is installed for every process with its folder on the path."""
        module = f"onyx_harness_session_{digest(repr(spec))[:12]}"
        folder = self._folder(module)
        write_whole(folder / f"{module}.py", _PLUGIN.format(group=group, spec=spec))
        described = folder / f"{module}-0.dist-info"
        write_whole(described / "METADATA", f"Metadata-Version: 2.1\nName: {module}\nVersion: 0\n")
        write_whole(described / "entry_points.txt", f"[onyx_harness]\n{module} = {module}\n")

    def _folder(self, module: str) -> Path:
        """Return the folder of a module, which :meth:`python_path` has from now on."""
        folder = self._plugins / module
        self._registered.append(str(folder))
        return folder
