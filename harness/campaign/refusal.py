"""Why an engine cannot run a cell here, as far as its description alone tells."""

from __future__ import annotations

import importlib.util

from harness.campaign.cell import Cell
from harness.contract import EngineSpec


def refusal(spec: EngineSpec, cell: Cell) -> str:
    """The reason in a sentence; empty when nothing speaks against it."""
    missing = [module for module in spec.requires if importlib.util.find_spec(module) is None]
    if missing:
        return f"engine {spec.name!r} needs the Python module {missing[0]!r}, which is not installed"
    if cell.device.kind not in spec.devices:
        return f"engine {spec.name!r} does not run on {cell.device.kind} (it runs on: {', '.join(spec.devices)})"
    return ""
