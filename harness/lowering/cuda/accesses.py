"""Accesses of generated statements to arrays: noted where the statements are written, counted for lanes afterwards."""

from __future__ import annotations

from collections.abc import Container, Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from harness.lowering.cuda.layout import TeamShape
from harness.transactions import SECTOR, WARP, KernelBehaviour, Lanes, atomics, loads

Kind = Literal["load", "store", "reduce"]
How = Literal["all", "leader", "first", "chunks", "elements"]
UNROLLED = 16  # features of a walked row that a compiler keeps in registers (UNROLL of teams.cuh)


@dataclass(frozen=True)
class Access:
    """One access of every lane that runs ``block``: to row ``index`` of ``array``, whose rows lie ``stride`` values of
    ``size`` bytes apart.

    ``how``: *all* lanes of a team the one value, or its *leader* alone, or the *first* feature of a row; lanes of a
    team different runs of ``length`` features, in *chunks* of the team's width at once or in single *elements*.
    ``rows``: of a matrix, one after another, ``row_stride`` values apart.
    """

    kind: Kind
    array: str
    index: str
    block: str
    how: How = "all"
    length: int = 1
    rows: int = 1
    stride: int = 1
    row_stride: int = 0
    size: int = 4

    @property
    def stays(self) -> bool:
        """Whether it is a row that is read whole and stays in registers."""
        return 1 < self.length * self.rows <= UNROLLED

    def behaviour(self, lanes: Lanes, team: TeamShape) -> KernelBehaviour:
        """What ``lanes`` ask for, one request an instruction; stores count nothing."""
        index = lanes.indices.get(self.index)
        if index is None:  # the same everywhere, such as a value of the graph
            index = np.zeros(lanes.active.shape, np.int64)
        total = KernelBehaviour()
        for offset, held, size, times in self._instructions(team):
            addresses, active = (index * self.stride + offset) * self.size, lanes.active & held
            if self.kind == "load":
                total += KernelBehaviour(loads=loads(addresses, active, size, lanes.weights).times(times))
            elif self.kind == "reduce":
                total += KernelBehaviour(atomics=atomics(addresses, active, lanes.weights).times(times))
        return total

    def _instructions(self, team: TeamShape) -> Iterator[tuple[NDArray[np.int64], NDArray[np.bool_], int, float]]:
        """Every instruction: what lanes add to the start of their row (in values), which of them take part, the bytes
        of each, and how many instructions count alike: those that lie whole sectors further on."""
        number, member = np.divmod(np.arange(WARP), team.lanes)
        working = number < team.teams
        if self.how in ("all", "leader", "first"):
            yield np.zeros(WARP, np.int64), working & ((member == 0) | (self.how != "leader")), self.size, 1.0
            return
        chunk = team.width if self.how == "chunks" and self.size == 4 else 1
        alike: dict[tuple[bytes, bytes], tuple[NDArray[np.int64], NDArray[np.bool_], int]] = {}
        period = SECTOR // self.size
        for row in range(self.rows):
            for slot in range(0, team.slots(self.length), chunk):
                feature = team.feature(slot, member)
                active = working & (feature < self.length)
                if not active.any():
                    continue
                offset = row * self.row_stride + feature
                first = np.where(active, offset - offset[active].min() // period * period, 0)
                key = (first.tobytes(), active.tobytes())
                found = alike.get(key)
                alike[key] = (first, active, found[2] + 1 if found else 1)
        for first, active, times in alike.values():
            yield first, active, chunk * self.size, float(times)


class Accesses:
    """The accesses of a kernel, in the order in which they are noted."""

    def __init__(self) -> None:
        self._noted: dict[tuple[Access, int, str], None] = {}

    def note(self, access: Access, loop: int = 0, value: str = "") -> None:
        """Add one. ``loop``: the number of the loop that it is in, where each such loop makes it again; ``value``: what
        is accessed, under whose name the statements keep it."""
        again = access.how == "elements" and access.length * access.rows > UNROLLED
        self._noted.setdefault((access, loop if again else 0, value))

    def read_by_all(self, array: str) -> bool:
        """Whether all lanes of a team read the same value of an array."""
        return any(one.array == array and one.kind == "load" and one.how == "all" for one, _, _ in self._noted)

    def made(self, again: Container[str]) -> tuple[Access, ...]:
        """Each access as often as a compiler makes it: it reads what does not change once, however many values it is,
        but the arrays ``again`` anew for each."""
        kept = dict.fromkeys(
            (access, loop, value if access.array in again else "") for access, loop, value in self._noted
        )
        kept_rows = {(one.array, one.index, one.block) for one, _, _ in kept if one.kind == "load" and one.stays}
        return tuple(
            one for one, _, _ in kept if one.how != "first" or (one.array, one.index, one.block) not in kept_rows
        )
