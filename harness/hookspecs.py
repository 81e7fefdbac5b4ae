"""Every hook that a plugin may implement.

A plugin is a module named by an entry point of the group ``onyx_harness``. It marks its functions with ``hookimpl``
(also in ``harness.api``). It returns descriptions; the modules that these name are imported only when a cell needs
them, so a plugin should be cheap to import.
"""

from __future__ import annotations

import pluggy

from harness.contract import AlgorithmSpec, EngineSpec, GraphSpec

PROJECT = "onyx_harness"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def onyx_engines() -> list[EngineSpec]:  # type: ignore[empty-body]
    """Return the engines of this plugin. A name that another plugin already uses is refused."""


@hookspec
def onyx_algorithms() -> list[AlgorithmSpec]:  # type: ignore[empty-body]
    """Return the algorithms of this plugin, each an ``Algorithm`` dataclass whose fields are its parameters."""


@hookspec
def onyx_graphs() -> list[GraphSpec]:  # type: ignore[empty-body]
    """Return the named graphs of this plugin, each a function of the listed parameters that returns a ``Graph``."""


@hookspec
def onyx_config_folders() -> list[str]:  # type: ignore[empty-body]
    """Return Hydra configuration folders, searched after the built-in one: ``pkg://package.folder`` or absolute paths.

    A file ``engine/NAME.yaml`` in such a folder is a variant that ``engine=NAME`` selects.
    """
