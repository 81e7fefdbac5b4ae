"""What an engine adds to the runs of its plans: fields of their state on the device, and what these decide.

The device decides by the fields, superstep by superstep; its part is in a header of the engine. A launch that would do
nothing still takes the time of a launch, so an observer on the host may omit *optional* ones.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Protocol

from harness.contract import Direction
from harness.lowering.cuda.conditions import NEVER, Condition
from harness.lowering.cuda.run_state import RunState

EXTENSION = """struct Extension {{{fields}}};  // what the engine adds to the state of a run
"""


@dataclass(frozen=True)
class RunField:
    """A 64-bit integer in the state of a run. ``meaning``: a comment in the generated source.

    ``of_sides``: there are two of them, for the first and for the last side. The host names the second ``name_odd``.
    """

    name: str
    meaning: str
    of_sides: bool = False

    @property
    def names(self) -> tuple[str, ...]:
        """The names by which the host sets it."""
        return (self.name, f"{self.name}_odd") if self.of_sides else (self.name,)

    @property
    def declaration(self) -> str:
        """The member of a struct."""
        return f"    long long {self.name}{'[2]' if self.of_sides else ''};  // {self.meaning}"


@dataclass(frozen=True)
class RunStart:
    """What the fields of a run may depend on at its start.

    ``edges``: of the graph. ``sides``: those that supersteps update in turn. ``visited``: edges that a superstep of the
    first and of the last side visits if no changes are tracked. ``cold``: the run does not begin from a given state.
    """

    edges: int
    sides: int
    visited: tuple[int, int]
    cold: bool


class Observer(Protocol):
    """The part of an extension on the host, in one run.

    ``omits``: the optional launches of the next supersteps would certainly do nothing, and need not be queued.
    """

    omits: bool

    def fields(self) -> Mapping[str, int]:
        """Return the fields of the state that the observer sets when it begins."""

    def update(self, news: Mapping[str, int], queued: int) -> None:
        """Take note of the state of the run after some of the ``queued`` supersteps."""


@dataclass(frozen=True)
class RunExtension:
    """What an engine adds to the runs of a plan, a frozen value; by default nothing. ``added``: the fields."""

    added: ClassVar[tuple[RunField, ...]] = ()

    @property
    def dense(self) -> Direction:
        """The direction in the record of a superstep with full propagation, if the run tracks changes."""
        return "dense"

    @property
    def end(self) -> str:
        """The device function, of ``run.cuh`` or of the engine's headers, that ends a superstep."""
        return "end_superstep"

    @property
    def counting(self) -> Condition:
        """The supersteps in which every vertex steps, so that a count of those that moved replaces a measurement."""
        return NEVER

    @property
    def explanation(self) -> str:
        """One line that describes what the extension does; empty if nothing."""
        return ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the added fields, in the order in which they are stored before those of every run."""
        return tuple(name for field in self.added for name in field.names)

    @property
    def declaration(self) -> str:
        """The declaration of the base of ``struct Run``."""
        fields = "".join(f"\n{field.declaration}" for field in self.added)
        return EXTENSION.format(fields=f"{fields}\n" if fields else "")

    def start_fields(self, start: RunStart) -> Mapping[str, int]:
        """Return fields of the state of a run at its start, added ones or others; the rest of the added ones are 0."""
        return {}

    def observer(self, state: RunState, *, everything: bool) -> Observer | None:
        """Return the host's part for a run, if there is one; ``everything``: all sources are active at the start."""
        return None
