from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal


@dataclass(frozen=True)
class Schedule:
    direction: Literal["push", "pull"] = field(default="push", metadata={"help": "push or pull"})
    width: int = field(default=1, metadata={"help": "a number"})


@dataclass(frozen=True)
class Damage:
    direction: Literal[
        "nothing", "record", "garbage", "truncated", "fifo", "removed", "linked", "unmade", "links", "closing", "full"
    ] = field(default="nothing", metadata={"help": "the way of damaging the work folder"})
