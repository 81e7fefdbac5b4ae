"""The schedules of Kaleem et al., "Synchronization Trade-offs in GPU Implementations of Graph Algorithms" (2016).

Some are of other systems: grid, wavefront, hogwild; levels and owner are ours.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

from harness.api import ScheduleError, option


@dataclass(frozen=True)
class LonestarSchedule:
    """How the edges of a superstep are divided into work that runs at the same time.

    Rows are the sources of edges, columns the destinations; in a graph of ratings these are users and movies.

    Online (sec. IV), with locks that are tried, in passes until no edge is left:

    - *el* (edge-locked): a thread takes an edge, tries to lock both ends, and else leaves it to the next pass.
    - *nl* (node-locked): a thread takes a column with all its edges. It needs no lock for the column, and tries to lock
      the row of each edge. Every pass scans whole columns for edges that are left.
    - *hybrid* (sec. V.B): one pass of *nl*, then *el*.
    - *owner*, which the paper lacks: *nl* for the columns of degree ``hub`` or more until all of their edges are done
      (on a GPU until less than half are left), and *el* for the other edges. A hub is updated by one thread, which
      reads its row from the nearest memory.
    - *wavefront* (cuMF_SGD, Xie et al. 2017): ``blocks`` block rows x twice as many block columns, each with about the
      same number of edges. A thread takes a block row, visits its blocks in a random order drawn with ``seed``, and
      tries to lock the block column of each.

    Offline (sec. III): batches of edges without a common end, with a barrier after each.

    - *agm_e*: maximal matchings of the remaining edges, until none remains.
    - *agm_n*: the same matchings, for one block of ``nodes`` columns after the other.
    - *sgm*: columns sorted by falling degree and cut into blocks of ``nodes``; each block has matchings of its own.
    - *diag*: edges with the same difference of row and column.
    - *blkdiag*: blocks of ``block_rows`` x ``block_columns`` with the same difference of block row and block column; a
      thread takes a whole block.
    - *levels*, which the paper lacks: the level of an edge is one more than the larger last level of its ends. The
      result is exactly that of the edges one after another.
    - *grid* (DSGD, Gemulla et al. 2011; FPSG, Chin et al. 2015): ``blocks`` x ``blocks`` blocks with about the same
      number of edges in each block row and column. In stratum s, block row i meets block column i + s; a thread takes a
      whole block. On the CPU there is no barrier: a block waits for the one before it in its block row and for the
      block of the stratum before in its block column, and threads take any block that is ready.

    Lossy, without locks:

    - *hogwild* (Niu et al. 2011; in batches as in cuMF_SGD): a thread takes ``batch`` edges of a random order at a time
      and locks nothing. Updates of a row may be lost, which only programs with ``conflicts="lossy"`` accept. On a GPU,
      ``writes=add`` adds changes to rows atomically, as Niu et al. do: no update is lost, but it may be computed from
      rows that have changed since. *store* overwrites rows. By default changes are added if every new value of the
      step is an old one plus or minus a change.

    *auto* takes the order of the smallest estimated time of a superstep, with the preparation divided among the
    supersteps (:mod:`.predict`). It takes a lossy order only for programs that accept one. The record has the
    ``estimates`` and their ``basis``, which cannot be set. With ``tune``, the first reset times supersteps of the three
    best-estimated orders and takes the fastest (:mod:`.trial`); after ``tune_s`` seconds it tries no further one. The
    record has the seconds ``tried`` and those of the whole trial, ``trial_s``.

    On a GPU, ``barrier`` is the end of a launch or a barrier of all resident blocks (*grid*). By default, batches that
    fill the GPU have a launch each, those of a few blocks share one with barriers, and those of one block run in it.
    Unlike in the paper, *agm_n* and *sgm* do not copy a block's columns to shared memory; caches hold them. *agm_n*
    skips matchings without an edge in the block. ``feature_aware``: the features of an edge are spread over lanes.
    ``workers``: lane groups of *hogwild*.

    ``hand_over``, of *el*, *hybrid* and *owner*: edges of a hub refuse each other its lock in every pass. Once a pass
    runs less than 1 % of its edges, a CPU gives all that are left to one thread, and a GPU gives those of each hub to
    one lane group. Long before, once a pass of *el* or *hybrid* on a GPU runs less than half of its edges, a pass
    over columns as of *nl* takes those that are left, if edges lead from one side of the graph to the other. After
    every eighth pass the list of edges is read in another order.

    ``shuffle``: *el*, *hybrid*, *owner*, *levels* and *hogwild* take the edges in a random order, drawn with ``seed``,
    not in that of the CSR. None: they do, as in the paper, except for a program that fixes the order.
    """

    order: Literal[
        "el", "nl", "hybrid", "owner", "wavefront", "agm_e", "agm_n", "sgm", "diag", "blkdiag", "levels", "grid",
        "hogwild", "auto",
    ] = option(
        "el", "which edges run at the same time: locks (el, nl, hybrid, owner, wavefront), none (hogwild), batches, or "
        "auto: the cheapest by an estimate"
    )  # fmt: skip
    shuffle: bool | None = option(None, "take the edges in a random order (null: the default of the order)")
    seed: int = option(0, "seed of the random order", within="[0, inf)")
    nodes: int = option(1024, "columns in a block of agm_n and sgm", within="[1, inf)")
    block_rows: int = option(2, "rows in a block of blkdiag", within="[1, inf)")
    block_columns: int = option(2, "columns in a block of blkdiag", within="[1, inf)")
    blocks: int | None = option(
        None,
        "block rows of grid and wavefront (null: on the CPU 16, or twice the threads; up to 1024 on a GPU)",
        within="[1, inf)",
    )
    hub: int | None = option(
        None,
        "degree from which owner takes a column (null: by the number of edges; on a GPU 1 if no column has so many)",
        within="[1, inf)",
    )
    hand_over: bool | None = option(
        None, "el, hybrid, owner: give the edges of a hub to one thread or lane group once passes run few (null: true)"
    )
    feature_aware: bool | None = option(
        None, "GPU: a lane group takes an edge; false: a thread does, as in most of the paper (null: true)"
    )
    barrier: str | None = option(
        None, "GPU: after a batch or pass: the end of a launch, or a barrier of the grid within one (null: by size)",
        values=("launch", "grid"),
    )  # fmt: skip
    workers: int | None = option(
        None,
        "GPU: lane groups of hogwild at a time (null: so few that 2 % of the updates meet; with writes=add, that an "
        "update meets 4 others on average)",
        within="[1, inf)",
    )
    writes: str | None = option(
        None, "GPU, hogwild: add changes to rows atomically, or store rows (null: add, if the step's values allow it)",
        values=("add", "store"),
    )  # fmt: skip
    estimates: tuple[tuple[str, float], ...] | None = option(
        None, "set by auto: seconds of a superstep with its share of the preparation, by order"
    )
    basis: tuple[tuple[str, float], ...] | None = option(
        None, "set by auto: figures of the device and of the graph that the estimates come from"
    )
    tune: bool | None = option(
        None, "with order=auto: time the three orders of the smallest estimates at the first reset (null: false)"
    )
    tune_s: float | None = option(None, "seconds after which tune tries no further order (null: 10)", within="(0, inf)")
    tried: tuple[tuple[str, float], ...] | None = option(
        None, "set by tune: measured seconds of a superstep with its share of the preparation, by order"
    )
    trial_s: float | None = option(None, "set by tune: seconds of the trial, with the preparation of all orders")
    batch: int = option(256, "consecutive edges that a thread of hogwild takes, at most", within="[1, inf)")

    def __post_init__(self) -> None:
        for name in ("estimates", "basis"):
            if not isinstance(getattr(self, name), tuple | None):
                raise ScheduleError(f"schedule option {name} is set by order=auto; leave it unset")
        for name in ("tried", "trial_s"):
            if getattr(self, name) is not None:
                raise ScheduleError(f"schedule option {name} is set by tune=true; leave it unset")
        if self.tune and self.order != "auto":
            raise ScheduleError(f"tune=true chooses among orders by timing them; omit it, or order={self.order}")
        if self.tune_s is not None and not self.tune:
            raise ScheduleError("schedule option tune_s has no meaning without tune=true; leave it unset")

    @property
    def ordered_by_batches(self) -> bool:
        """Whether batches fix the order: edges that run at the same time have no common end."""
        return self.order in BATCHED

    @property
    def of_sides(self) -> bool:
        """Whether the schedule distinguishes rows and columns, which must then be different vertices."""
        return self.order not in ("el", "agm_e", "levels", "hogwild", "auto")

    def resolved(self, *, given: bool, edges: int = 0) -> LonestarSchedule:
        """Return the schedule with every option filled in.

        ``given``: the program fixes the order of edges. ``edges``: their number.
        """
        shuffle = (not given if self.shuffle is None else self.shuffle) if self.order in SHUFFLED else None
        hub = (self.hub or max(LEAST_HUB, edges // HUBS)) if self.order == "owner" else None
        hand_over = self.hand_over is not False if self.order in LISTED else None
        return replace(self, shuffle=shuffle, hub=hub, hand_over=hand_over)

    def refusal(self, *, given: bool, serial: bool = True) -> str:
        """Return why the schedule cannot run a program.

        ``given``: the program fixes the order of edges. ``serial``: it accepts no lost updates.
        """
        if self.shuffle is not None and self.order not in SHUFFLED:
            return f"schedule option shuffle has no meaning for order={self.order}; leave it unset"
        if given and (self.order != "levels" or self.shuffle):
            return "the program runs edges in the order of the CSR; use order=levels, without shuffle"
        if self.hub is not None and self.order != "owner":
            return f"schedule option hub has no meaning for order={self.order}; leave it unset"
        if self.hand_over is not None and self.order not in LISTED:
            return f"schedule option hand_over has no meaning for order={self.order}; leave it unset"
        if self.writes is not None and self.order != "hogwild":
            return f"schedule option writes has no meaning for order={self.order}; leave it unset"
        if serial and self.order == "hogwild":
            return (
                "order=hogwild may lose updates of a row, and the program accepts no lost updates; use another order, "
                "or conflicts=lossy"
            )
        return ""


LOCKED = ("el", "nl", "hybrid", "owner", "wavefront")
BATCHED = ("agm_e", "agm_n", "sgm", "diag", "blkdiag", "levels", "grid")
IN_BLOCKS = ("blkdiag", "grid")  # whose units are blocks of edges
LISTED = ("el", "hybrid", "owner")  # with passes over lists of edges
SHUFFLED = ("el", "hybrid", "owner", "levels", "hogwild")
# A column with more than one of HUBS of all edges keeps a thread busy while thousands of others wait for its lock.
HUBS, LEAST_HUB = 4096, 256
