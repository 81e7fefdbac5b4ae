"""Conditions on the state of a run (``run.cuh``), under which a kernel does nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Condition:
    """A condition on ``run`` that holds if any of the ``terms`` does; without terms it never holds.

    ``terms``: expressions of C++. ``frontier``: one of them reads how many edges leave the active sources of this
    superstep.
    """

    terms: tuple[str, ...] = ()
    frontier: bool = False

    def __or__(self, other: Condition) -> Condition:
        return Condition((*self.terms, *other.terms), self.frontier or other.frontier)

    def __bool__(self) -> bool:
        return bool(self.terms)

    @property
    def text(self) -> str:
        """The expression in C++."""
        return " || ".join(self.terms) or "false"

    def without(self, known: Condition) -> Condition:
        """Return the condition where ``known``, which reads no frontier, does not hold."""
        return Condition(tuple(term for term in self.terms if term not in known.terms), self.frontier)


def when(term: str) -> Condition:
    """Return the condition that an expression of C++ holds, which reads no frontier."""
    return Condition((term,))


def sparse(number: int) -> Condition:
    """Return the condition that few edges leave the active sources of edge stage ``number``."""
    return Condition((f"run->sparse({number})",), frontier=True)


def dense(number: int) -> Condition:
    """Return the condition that many edges do."""
    return Condition((f"!run->sparse({number})",), frontier=True)


NEVER = Condition()
OVER = when("run->over()")
REBUILDING = when("run->rebuilding")  # the superstep rebuilds accumulators from whole messages
CHANGING = when("!run->rebuilding")  # the superstep propagates changes
