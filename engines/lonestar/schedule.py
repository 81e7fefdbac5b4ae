"""The schedules of Kaleem et al., "Synchronization Trade-offs in GPU Implementations of Graph Algorithms" (2016)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from harness.api import option


@dataclass(frozen=True)
class LonestarSchedule:
    """How the edges of a superstep are divided into work that runs at the same time.

    Rows are the sources of edges, columns the destinations; in a graph of ratings these are users and movies.

    Online (sec. IV), with locks that are tried, in passes until no edge is left:

    - *el* (edge-locked): a thread takes an edge, tries to lock both ends, and else leaves it to the next pass.
    - *nl* (node-locked): a thread takes a column with all its edges. It needs no lock for the column, and tries to lock
      the row of each edge. Every pass scans whole columns for edges that are left.
    - *hybrid* (sec. V.B): one pass of *nl*, then *el*.

    Offline (sec. III): batches of edges without a common end, with a barrier after each.

    - *agm_e*: maximal matchings of the remaining edges, until none remains.
    - *agm_n*: the same matchings, for one block of ``nodes`` columns after the other.
    - *sgm*: columns sorted by falling degree and cut into blocks of ``nodes``; each block has matchings of its own.
    - *diag*: edges with the same difference of row and column.
    - *blkdiag*: blocks of ``block_rows`` x ``block_columns`` with the same difference of block row and block column; a
      thread takes a whole block.
    - *levels*, which the paper lacks: the level of an edge is one more than the larger last level of its ends. The
      result is exactly that of the edges one after another.

    The barrier is the end of a launch. *agm_n* and *sgm* keep a block's columns in the shared memory of a GPU; a CPU
    has them in its caches. *agm_n* skips matchings without an edge in the block.

    ``shuffle``: *el*, *hybrid* and *levels* take the edges in a random order, drawn with ``seed``, not in that of the
    CSR. None: they do, as in the paper, except for a program that fixes the order.
    """

    order: Literal["el", "nl", "hybrid", "agm_e", "agm_n", "sgm", "diag", "blkdiag", "levels"] = option(
        "el", "which edges run at the same time: locks (el, nl, hybrid) or batches with barriers (the others)"
    )
    shuffle: bool | None = option(None, "take the edges in a random order (null: the default of the order)")
    seed: int = option(0, "seed of the random order", within="[0, inf)")
    nodes: int = option(1024, "columns in a block of agm_n and sgm", within="[1, inf)")
    block_rows: int = option(2, "rows in a block of blkdiag", within="[1, inf)")
    block_columns: int = option(2, "columns in a block of blkdiag", within="[1, inf)")

    @property
    def locks(self) -> bool:
        """Whether edges that run at the same time may have a common end, which locks protect."""
        return self.order in LOCKED

    @property
    def of_sides(self) -> bool:
        """Whether the schedule distinguishes rows and columns, which must then be different vertices."""
        return self.order not in ("el", "agm_e", "levels")

    def resolved(self, *, given: bool) -> LonestarSchedule:
        """Return the schedule with every option filled in; ``given``: the program fixes the order of edges."""
        shuffles = self.order in SHUFFLED
        return replace(self, shuffle=(not given if self.shuffle is None else self.shuffle) if shuffles else None)

    def refusal(self, *, given: bool) -> str:
        """Return why the schedule cannot run a program; ``given``: the program fixes the order of edges."""
        if self.shuffle is not None and self.order not in SHUFFLED:
            return f"schedule option shuffle has no meaning for order={self.order}; leave it unset"
        if given and (self.order != "levels" or self.shuffle):
            return "the program runs edges in the order of the CSR; use order=levels, without shuffle"
        return ""


LOCKED = ("el", "nl", "hybrid")
BATCHED = ("agm_e", "agm_n", "sgm", "diag", "blkdiag", "levels")
SHUFFLED = ("el", "hybrid", "levels")
