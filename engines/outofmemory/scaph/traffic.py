"""What a run of subgraphs has read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Traffic:
    """Bytes of a run. ``visited``: of the rows of active vertices, each time. ``moved``: by the means: *copied*, of
    subgraphs that were read whole; *extracted*, of the rows that were read, with what was read besides them;
    *zero_copy*, of the sectors that a device read in place. ``subgraphs``: by kind of processing."""

    visited: int = 0
    moved: Counter[str] = field(default_factory=lambda: Counter(copied=0, extracted=0))
    subgraphs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("high", "low", "again"), 0))
