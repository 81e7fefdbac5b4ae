"""The bytes that a run over subgraphs has read."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field


@dataclass
class Traffic:
    """Bytes and subgraphs of a run.

    ``visited``: bytes of the rows of active vertices, each time that they are read. ``moved``: bytes by the means.
    *copied*: subgraphs that were read whole. *extracted*: active rows, with the gaps or tables that were read with
    them. *zero_copy*: sectors that a device read in place. ``subgraphs``: the number of subgraphs by kind: of *high* or
    *low* value, processed *again*, or *resident*.
    """

    visited: int = 0
    moved: Counter[str] = field(default_factory=lambda: Counter(copied=0, extracted=0))
    subgraphs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("high", "low", "again"), 0))
