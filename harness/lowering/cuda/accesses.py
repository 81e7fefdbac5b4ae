"""Accesses of generated statements to arrays: recorded during lowering, counted for lanes afterwards."""

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
    """One access of every lane that runs ``block``: to row ``index`` of ``array``, whose rows start ``stride`` values
    of ``size`` bytes apart.

    ``how``: *all* lanes of a team access one value, or only its *leader* does, or all access the *first* feature of a
    row; or lanes of a team access different runs of ``length`` features, in *chunks* of the team's width at once or in
    single *elements*. ``rows``: number of rows of a matrix, accessed in order, ``row_stride`` values apart.
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
        """Return whether the access is to a row that is read entirely and stays in registers."""
        return 1 < self.length * self.rows <= UNROLLED

    def behaviour(self, lanes: Lanes, team: TeamShape) -> KernelBehaviour:
        """Return the memory requests of ``lanes``, one per instruction; stores count nothing."""
        index = lanes.indices.get(self.index)
        if index is None:  # the same for all lanes, such as a value of the graph
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
        """Yield every instruction as offsets, active lanes, size and count.

        Offsets are from the start of each lane's row, in values; the size is in bytes per lane. Instructions whose
        addresses differ by whole sectors count alike and are merged; the count is their number.
        """
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
    """The accesses of a kernel, in the order in which they are recorded."""

    def __init__(self) -> None:
        self._noted: dict[tuple[Access, int, str], None] = {}

    def note(self, access: Access, loop: int = 0, value: str = "") -> None:
        """Record an access.

        ``loop``: the number of the loop that contains it, if each such loop repeats the access. ``value``: the accessed
        value, by the name under which the statements keep it.
        """
        again = access.how == "elements" and access.length * access.rows > UNROLLED
        self._noted.setdefault((access, loop if again else 0, value))

    def read_by_all(self, array: str) -> bool:
        """Return whether all lanes of a team read the same value of an array."""
        return any(one.array == array and one.kind == "load" and one.how == "all" for one, _, _ in self._noted)

    def made(self, again: Container[str]) -> tuple[Access, ...]:
        """Return each access as often as a compiler makes it.

        A compiler reads unchanged data once, even if several values use it, but reads the arrays ``again`` for each
        value.
        """
        kept = dict.fromkeys(
            (access, loop, value if access.array in again else "") for access, loop, value in self._noted
        )
        kept_rows = {(one.array, one.index, one.block) for one, _, _ in kept if one.kind == "load" and one.stays}
        return tuple(
            one for one, _, _ in kept if one.how != "first" or (one.array, one.index, one.block) not in kept_rows
        )
