"""Engines that each break one promise, and one that keeps all of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.api import EngineSpec, hookimpl, option

BROKEN = [
    "WrongColumn", "Float64", "Padded", "SaysYesThenFails", "Unsettled", "Vague", "RefusesAll", "Fickle",
    "Remembers", "KeepsParameters", "IgnoresState", "StartsAgain", "IgnoresLimit", "Lenient", "WritesInputs",
    "Views", "Silent", "Random", "LeaksStarted", "LeaksMemory", "Undead",
    "Litters", "Shouts", "ClosesOthers", "DiesWithoutMemory", "HidesMemory", "WrongAfterwards",
]  # fmt: skip


@dataclass(frozen=True)
class Schedule:
    """A schedule with one option that is validated."""

    blocks: int = option(1, "how many blocks")


class AnyOption:
    """Not a dataclass; it accepts any option."""

    def __init__(self, **options):
        self.options = options


@dataclass(frozen=True, init=False)
class ExtraOptions:
    """A dataclass that accepts options it does not have."""

    blocks: int = option(1, "how many blocks")

    def __init__(self, blocks=1, **others):
        object.__setattr__(self, "blocks", blocks)


@dataclass(frozen=True)
class AnyWord:
    """An option whose value is not validated."""

    direction: str = option("pull", "push or pull")


SCHEDULES = {"any_option": AnyOption, "extra_options": ExtraOptions, "any_word": AnyWord}


def name_of(cls: str) -> str:
    """Convert ``WrongColumn`` to ``wrong_column``."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", cls).lower()


@hookimpl
def onyx_engines() -> list[EngineSpec]:
    """Return all engines of the module."""
    classes = {"right": "Right", "honest_noise": "HonestNoise", **{name_of(cls): cls for cls in BROKEN}}
    specs = [
        EngineSpec(name, f"a fake: {cls}", Schedule, f"onyx_suspects_engines:{cls}") for name, cls in classes.items()
    ]
    specs += [
        EngineSpec(name, "a fake", schedule, "onyx_suspects_engines:Right") for name, schedule in SCHEDULES.items()
    ]
    on_a_device = EngineSpec("on_a_device", "a fake", Schedule, "onyx_suspects_engines:Right", devices=("cuda",))
    return [*specs, on_a_device]
