"""Every hook that a plugin may implement.

A plugin is a module named by an entry point of the group ``onyx_harness``. It marks its functions with ``hookimpl``
(also in ``harness.api``) and stays light: what it returns are descriptions, and what they name is imported only when a
cell needs it.
"""

from __future__ import annotations

import pluggy

from harness.contract import AlgorithmSpec, EngineSpec, GraphSpec

PROJECT = "onyx_harness"

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


@hookspec
def onyx_engines() -> list[EngineSpec]:  # type: ignore[empty-body]
    """The engines of this plugin; a name that another plugin has already taken is refused."""


@hookspec
def onyx_algorithms() -> list[AlgorithmSpec]:  # type: ignore[empty-body]
    """The algorithms of this plugin, each an ``Algorithm`` dataclass whose fields are its parameters."""


@hookspec
def onyx_graphs() -> list[GraphSpec]:  # type: ignore[empty-body]
    """The named graphs of this plugin, each a function that takes the listed parameters and returns a ``Graph``."""


@hookspec
def onyx_config_folders() -> list[str]:  # type: ignore[empty-body]
    """Folders of Hydra configuration to search after ours: ``pkg://package.folder`` or an absolute path.

    A file ``engine/NAME.yaml`` in such a folder is a variant that ``engine=NAME`` selects.
    """
