"""The engines for the CPU and their schedules."""

from __future__ import annotations

import importlib
import itertools
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from harness.contract import Engine, EngineSpec, schedule_from_options
from harness.plugins import load_plugins

EXAMPLE = Path(__file__).parents[1] / "thirdparty"


@dataclass(frozen=True)
class Run:
    """An engine with options."""

    engine: str
    options: dict[str, object] = field(default_factory=dict)

    @property
    def leaves_out(self) -> bool:
        """Return whether changes within the tolerance are not propagated."""
        return self.engine == "gunrock" or bool(self.options.get("change_driven", False))

    @property
    def keeps_sums(self) -> bool:
        """Return whether differences are added to sums that are kept from superstep to superstep."""
        return self.leaves_out and self.options.get("direction", "push") == "push"

    @property
    def label(self) -> str:
        return " ".join([self.engine, *(f"{name}={value}" for name, value in self.options.items())])


def onyx(whole: bool) -> Iterator[Run]:
    """Return all 16 combinations of the four switches, or half of them that cover every combination of any three."""
    for push, driven, fold, aware in itertools.product((False, True), repeat=4):
        if whole or aware == (push ^ driven ^ fold ^ True):
            direction = "push" if push else "pull"
            yield Run("onyx", {"direction": direction, "change_driven": driven, "fold": fold, "feature_aware": aware})


OTHERS = (
    Run("gunrock"), Run("gunrock", {"rebuild": 8}), Run("tigr"), Run("simdx"),
    Run("simdx", {"warp_degree": 4, "block_degree": 64}), Run("scipy"), Run("torch"), Run("example", {"blocks": 3}),
)  # fmt: skip


def all_runs(whole: bool = False) -> list[Run]:
    return [*onyx(whole), *OTHERS]


def installed() -> dict[str, EngineSpec]:
    """Return the engines by name: those of the plugins, and the example."""
    if str(EXAMPLE) not in sys.path:
        sys.path.append(str(EXAMPLE))
    example = {spec.name: spec for spec in importlib.import_module("onyx_example").onyx_engines()}
    return example | load_plugins().engines


def made(run: Run, specs: dict[str, EngineSpec]) -> Engine | str:
    """Return the engine, or the reason why it is unavailable."""
    spec = specs[run.engine]
    missing = [name for name in spec.requires if importlib.util.find_spec(name) is None]
    if missing:
        return f"{', '.join(missing)} is not installed"
    module, name = spec.factory.split(":")
    return getattr(importlib.import_module(module), name)(schedule_from_options(spec, run.options))
