"""Graph engines from Python: run a program on a graph in memory, compare engines, keep the answers.

    import onyx_harness
    result = onyx_harness.run("onyx", "pagerank", networkx_graph)
    ranks = result.by_vertex("rank")

`run` computes in this process. `compare` and `sweep` measure in isolated processes, as the command does. Importing this
module is cheap: an engine, Hydra or a table is imported when it is first used.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from harness.api import Algorithm, Device, EngineFailure, InvalidInput, LanguageError, ScheduleError, Unsupported
    from harness.campaign.errors import CampaignError
    from harness.graph import Graph, GraphError
    from harness.plugins import UnknownName
    from onyx_harness.comparing import compare, sweep
    from onyx_harness.graphs import NamedGraph, as_graph
    from onyx_harness.requests import Variant
    from onyx_harness.result import Result
    from onyx_harness.results import Results
    from onyx_harness.running import WrongAnswer, run

_HOME = {
    "harness.api": "Algorithm Device EngineFailure InvalidInput LanguageError ScheduleError Unsupported",
    "harness.campaign.errors": "CampaignError",
    "harness.graph": "Graph GraphError",
    "harness.plugins": "UnknownName",
    "onyx_harness.comparing": "compare sweep",
    "onyx_harness.graphs": "NamedGraph as_graph",
    "onyx_harness.requests": "Variant",
    "onyx_harness.result": "Result",
    "onyx_harness.results": "Results",
    "onyx_harness.running": "WrongAnswer run",
}
_LAZY = {name: module for module, names in _HOME.items() for name in names.split()}


def __getattr__(name: str) -> Any:
    if name not in _LAZY:
        raise AttributeError(f"onyx_harness has no {name!r}")
    return getattr(importlib.import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY})


__all__ = [
    "Algorithm", "CampaignError", "Device", "EngineFailure", "Graph", "GraphError", "InvalidInput", "LanguageError",
    "NamedGraph", "Result", "Results", "ScheduleError", "UnknownName", "Unsupported", "Variant", "WrongAnswer",
    "as_graph", "compare", "run", "sweep",
]  # fmt: skip
