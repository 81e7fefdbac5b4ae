"""The queue of subgraphs in memory that are processed several times while others are read (Zheng et al. 2020)."""

from __future__ import annotations


class LevelQueue:
    """Subgraphs in memory, by the number of times that they have been processed since they were read.

    A subgraph enters level 1 when it has been read. Each time it is processed, it moves to the next level, and after
    ``rounds`` times it leaves. The lowest level is processed first, and in a level the subgraph that waited longest.
    """

    def __init__(self, rounds: int) -> None:
        self.rounds = rounds
        self._levels: list[list[int]] = [[] for _ in range(rounds)]

    def __len__(self) -> int:
        return sum(map(len, self._levels))

    def __contains__(self, subgraph: int) -> bool:
        return any(subgraph in level for level in self._levels)

    def enter(self, subgraph: int) -> None:
        """Add a subgraph that has been read to the first level."""
        assert subgraph not in self, f"subgraph {subgraph} is in the queue"
        self._levels[0].append(subgraph)

    def take(self) -> tuple[int, int] | None:
        """Remove the next subgraph to process; return it with its level, from 1. Return None if the queue is empty."""
        for level, waiting in enumerate(self._levels, start=1):
            if waiting:
                return waiting.pop(0), level
        return None

    def drop(self, subgraph: int, level: int) -> bool:
        """Move a subgraph that was processed at a level to the next level; return whether there is one."""
        if level < self.rounds:
            self._levels[level].append(subgraph)
        return level < self.rounds

    def wait(self, subgraph: int, level: int) -> None:
        """Put a subgraph back that was taken from a level and not processed."""
        self._levels[level - 1].append(subgraph)

    def evict(self) -> int | None:
        """Remove and return the subgraph that has been processed most often; of several, the one that waited longest.

        Return None if no subgraph has been processed.
        """
        for waiting in reversed(self._levels[1:]):
            if waiting:
                return waiting.pop(0)
        return None
