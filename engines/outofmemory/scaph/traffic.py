"""What a run of subgraphs has read."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.api.cpu import Transfers


@dataclass
class Traffic:
    """Bytes of a run. ``visited``: of the rows of active vertices, each time. ``copied``: of subgraphs that were read
    whole. ``extracted``: of rows that were read, with the gaps between them. ``subgraphs``: by kind of processing."""

    visited: int = 0
    copied: int = 0
    extracted: int = 0
    subgraphs: dict[str, int] = field(default_factory=lambda: dict.fromkeys(("high", "low", "again"), 0))

    def transfers(self) -> Transfers:
        """Return the transfers of the run."""
        return Transfers(
            self.visited, {"copied": self.copied, "extracted": self.extracted}, subgraphs=dict(self.subgraphs)
        )
