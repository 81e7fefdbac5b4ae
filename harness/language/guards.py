"""The guard of a sequence of stages during tracing."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.language.expressions import Expression


@dataclass
class Guard:
    """The guard of the current sequence of edge or vertex stages, and the properties that the sequence has written
    since."""

    kind: str
    condition: Expression
    written: set[str] = field(default_factory=set)
