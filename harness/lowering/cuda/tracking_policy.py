"""Policies that decide, superstep by superstep, whether a run tracks changes.

The device applies a policy by the fields of the run that the policy sets at the start (``tracking_policy.cuh``): in a
superstep, either the launches that track do nothing or those that do not. Even so, each takes the time of a launch, so
an observer on the host decides which of them are queued.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from harness.lowering.cuda.run_state import RunState


class Observer(Protocol):
    """The part of a policy on the host, in one run.

    ``tracked``: the next supersteps certainly track changes, so that untracked launches need not be queued.
    """

    tracked: bool

    def update(self, news: Mapping[str, int], queued: int) -> None:
        """Take note of the state of the run after some of the ``queued`` supersteps."""


@dataclass(frozen=True)
class TrackingPolicy(ABC):
    """A policy of a plan: a frozen value.

    ``begins_untracked``: the first supersteps of a cold start do not track changes. ``explanation``: one line that
    describes the policy.
    """

    begins_untracked: bool
    explanation: ClassVar[str]

    @abstractmethod
    def start_fields(self, edges: int, visited: tuple[int, int], *, cold: bool) -> dict[str, int]:
        """Return fields of the state of a run at its start.

        ``edges``: of the graph. ``visited``: those that an untracked superstep of the first and of the last side
        visits. ``cold``: the run does not begin from a given state.
        """

    @abstractmethod
    def observer(self, state: RunState, *, everything: bool) -> Observer:
        """Return the host's part for a run; ``everything``: all sources are active at the start."""
