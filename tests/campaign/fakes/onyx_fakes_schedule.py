from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Schedule:
    direction: str = field(default="push", metadata={"help": "push or pull"})
    width: int = field(default=1, metadata={"help": "a number"})
