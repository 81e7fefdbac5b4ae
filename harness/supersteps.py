"""One superstep of a run, as an engine reports it, and why its direction was chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

Direction = Literal["push", "pull", "dense", "untracked"]
By = Literal["given", "fitted", "estimated"]
Reason = Literal["start", "few", "many", "rebuild", "confirm"]


@dataclass(frozen=True)
class Choice:
    """Why a superstep pushed or pulled, in a run that chooses.

    ``edges``: those that leave the sources that had moved. ``reason``: they are *few* (a push) or *many* (a pull)
    compared with a share of all edges, or nothing is compared: all sources are active at the *start*; sums are due for
    a *rebuild*, or are rebuilt to *confirm* that the run has settled. ``share``: of the edges, from which a superstep
    pulls. ``by``: it was *given*, is a *fitted* constant, or was *estimated*. ``push_s``, ``pull_s``: estimated seconds
    of both directions; None: nothing is estimated.
    """

    edges: int
    reason: Reason
    share: float
    by: By
    push_s: float | None = None
    pull_s: float | None = None

    def plain(self) -> tuple[int, Reason, float, str, float | None, float | None]:
        """Return the entry of a record's field ``choices``."""
        return self.edges, self.reason, self.share, self.by, self.push_s, self.pull_s


class Noted(NamedTuple):
    """A choice that is written out when it is first read, after the run: estimates take longer than short supersteps.

    ``edges``, ``reason``: of the :class:`Choice`, which ``made`` returns for them.
    """

    edges: int
    reason: Reason
    made: Callable[[int, Reason], Choice]


@dataclass(frozen=True)
class Superstep:
    """One superstep: sources active before it, edges whose message was evaluated or tested, and its direction.

    ``noted``: why the direction was chosen; None if it was not.
    """

    active: int
    edges: int
    direction: Direction
    noted: Choice | Noted | None = field(default=None, compare=False)

    @property
    def choice(self) -> Choice | None:
        """Why the direction was chosen; None if it was not."""
        noted = self.noted
        return noted.made(noted.edges, noted.reason) if isinstance(noted, Noted) else noted


def choices_of(supersteps: Sequence[Superstep]) -> list[list[Any]]:
    """Return the ``choices`` field of a record; empty unless the direction of every superstep was chosen."""
    made = [step.choice for step in supersteps]
    return [list(one.plain()) for one in made if one is not None] if None not in made else []
