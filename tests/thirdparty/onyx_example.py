"""A plugin with one engine; fast to import, because it is imported at every start."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.api import EngineSpec, hookimpl


@dataclass(frozen=True)
class ExampleSchedule:
    """The options of the example engine."""

    blocks: int = field(default=1, metadata={"help": "how many blocks of destinations to go through"})


@hookimpl
def onyx_engines() -> list[EngineSpec]:
    """Return one engine."""
    return [
        EngineSpec(
            "example", "NumPy, a block of destinations at a time", ExampleSchedule, "onyx_example_engine:ExampleEngine"
        )
    ]


@hookimpl
def onyx_config_folders() -> list[str]:
    """Return a variant of the engine, as a file."""
    return ["pkg://onyx_example_conf"]
