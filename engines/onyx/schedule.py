"""The schedule options of Onyx (thesis ch. 4-6) and their meaning on each device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.api import EdgeOptions, ScheduleError, option

SUPERSTEPS, NEAR_FAR, ADAPTIVE = "supersteps", "near_far", "adaptive"
WITH_SOLVER = {
    "tune": "it times plans by their supersteps; omit one of them",
    "change_driven": "the vectors of a solver change everywhere; leave it unset",
    "panel": "a run solves the systems of all features together; omit one of them",
    "share_by": "its supersteps visit all edges; leave it unset",
    "dense_share": "its supersteps visit all edges; leave it unset",
    "order": "it counts no supersteps; leave it unset",
}


@dataclass(frozen=True)
class OnyxSchedule(EdgeOptions):
    """The schedule of Onyx.

    On the CPU:

    - ``feature_aware``: a property's k features are one vector value, which is loaded, computed and stored as a whole
      (FA). If off, a scalar loop processes every feature, as in conventional frameworks (NFA).
    - ``change_driven``: only changes are propagated (CD). In push, sources that moved by more than the tolerance send
      the difference to kept accumulators. In pull, destinations of sources that moved are marked and recomputed from
      all their in-edges, which is exact and works for every message. If more than ``dense_share`` of the edges leave
      these sources, every destination is recomputed instead. The default share is where the two take equally long: it
      is estimated from the average degree, and again after every superstep that followed changes. A given share does
      not change during a run (it is doubled after such a superstep). While too much moves, supersteps of most programs
      do not track changes (:mod:`engines.onyx.cpu_tracking`; their direction in the record is *untracked*). In both
      directions a superstep in which little moves visits only flagged vertices (``harness.lowering.cpu.flags``).
      The default (None) is to follow changes, except on graphs of so few edges that visiting all of them takes less
      time than finding out which ones to visit (``engines.onyx.resolve.follows``).
    - ``fold``: consecutive stages share a kernel: edge with edge, vertex with vertex, and in pull edge with the vertex
      steps after it, whose intermediate values then stay in registers. (Vertex with the edge push after it is not
      folded on the CPU, because owners of destinations push, not owners of sources.)
    - ``direction``: *pull* gathers over in-edges. *push* scatters over out-edges, each thread into the range of
      destinations that it owns, so that no operation is atomic. *adaptive* pushes what changed while few sources have
      moved. After a superstep in which sources with at least ``dense_share`` of the edges have moved, it pulls over all
      edges into the same accumulators (:mod:`engines.onyx.cpu_adaptive`); with the share 1 it never pulls. The record
      has the direction of each superstep, and why it was chosen. Both orders of the edges are in memory. Programs
      without a form that pushes changes, and those whose edges change, are refused. The default (None) is *push* for
      change-driven extrema along paths (BFS, SSSP) with up to 3 features, *adaptive* with more, and for other extrema
      and sums of small integers (components, k-core), if edges are in memory; else *pull*.
    - ``share_by``: how ``dense_share`` of *adaptive* is chosen if it is not given: *fitted* is 0.5, and 1 along paths
      with up to 3 features; *estimated* is where a push and a pull are estimated to take equally long
      (:mod:`engines.onyx.direction_costs`). The device is probed for that once, and the figures are kept in the cache.
      The default (None) is *estimated* if *adaptive* is given, and *fitted* if it is the default.
    - ``rebuild``: in change-driven push, sums are rebuilt from all messages every ``rebuild`` supersteps, while active
      sources have nearly all edges, and before the run ends (0: never). Extrema and sums of small integers (such as the
      k-core's) have no rounding error and are not rebuilt (``harness.lowering.kept_accumulators``).

    On a CUDA device:

    - ``feature_aware``: consecutive lanes of a lane group hold consecutive features of one edge or vertex. Each lane
      loads ``vector_width`` of them at once (FA, fig. 5.1). If off, a thread loops over all features (NFA).
    - ``change_driven``: as on the CPU; for most graphs the default is to visit all edges
      (``engines.onyx.resolve.measured_choice``, which also chooses ``direction``, ``balance`` and ``persistent``).
      The device decides the frontier of every superstep: a pull whose active sources have more than ``dense_share`` of
      all edges recomputes everything. An update of edges visits the dirty rows of sources, or all rows if the dirty
      ones have more than half of the edges (or ``dense_share``, if that is more).
      Tracking pauses while nearly everything moves: supersteps then use full propagation, except for an occasional one
      that measures movement again (``tracking_policy.cuh``; in push, not with ``rebuild=0``, nor for exact sums).
    - ``rebuild``: as on the CPU; exact sums are also rebuilt while active sources have nearly all edges.
    - ``fold``: as on the CPU; a pull continues with the vertex steps if one owner has all in-edges (``balance=warp``).
    - ``direction``: a *push* adds to destinations atomically, 8 or 16 bytes at once if the GPU supports it (sm_90).
      The default (None) is chosen with ``change_driven`` for most graphs (``engines.onyx.resolve.measured_choice``),
      else it is *pull*. *adaptive* pushes what changed while few sources have moved. After a superstep in which
      sources with at least ``dense_share`` of the edges have moved, it pulls over all edges, without atomic operations
      (:mod:`engines.onyx.cuda_adaptive`). Records and refusals are as on the CPU.
    - ``share_by``: as on the CPU; *fitted*, the default, is 0.3 for extrema and 0.1 for sums, and computed for
      pulls that need not read all edges (:mod:`engines.onyx.expected_reads`). A device is probed when the first
      engine with *estimated* is prepared on it.
    - ``balance``: who reads the edges of a vertex. *warp* is the thesis's balancing. In a push, the lanes of a warp
      take the edges of 32 vertices. In a pull, lane groups of a warp own a vertex, a whole warp owns a vertex of more
      edges, and a block owns a hub. *parts* does the same, but in a push the edges of vertices of many are split into
      parts, one for a warp (:mod:`engines.onyx.cuda_parts`); it is refused in a pull. *edge* cuts the edges into equal
      tiles regardless of the degrees: a hub does not delay other warps, and a pull processes 128 features and more in
      panels of 64 (``engines.onyx.cuda_panels``). The default (None) is chosen with ``change_driven``. For other graphs
      it is *edge*, but *warp* if a thread loops over features, if matrices are summed, or if the vertices of a pull
      have few edges.
    - ``pipeline``: the next edges are searched and fetched during the computation on the present ones (fig. 5.3).
    - ``block_size``: threads of a block.

    - ``persistent``: one launch runs all supersteps of a run, by as many blocks as are resident; a global barrier
      separates steps that depend on each other (``harness.lowering.cuda.persistent``). A superstep in which little
      moves then takes a few barriers instead of many launches. Supersteps over many edges have fewer threads, because
      every step has the registers of the one that needs most. Edges must not be streamed. The default (None) is chosen
      with ``change_driven``, and false for other graphs.

    - ``bottom_up``: a pull of *adaptive* skips vertices that no message can improve, and ends a row once no later
      message can improve its vertex, as derived from the program (:mod:`harness.language.message_bounds`; BFS, SSSP,
      components). Answers are the same. The default (None) is to do so if the program allows it; other programs are
      refused if it is given, with the reason.

    On both, ``edges`` and ``window_mb`` place all arrays with an element for every edge that kernels only read
    (:class:`harness.edge_places.EdgeOptions`). The default of ``window_mb`` is 64 on a GPU from 64 features on,
    otherwise 32.

    ``pipeline``, ``balance``, ``vector_width``, ``block_size``, ``persistent`` and ``bottom_up`` do not apply on the
    CPU and are refused there unless None. ``engines.onyx.resolve`` fills in every other option that is None.

    ``order``: *supersteps* run over all active vertices. *near_far* finds the values of programs of paths (BFS, SSSP)
    in order of priority instead (:mod:`harness.lowering.near_far`). ``delta``: the width of the near list, in values;
    the default is a multiple of the mean length of an edge. Other options are refused with it, and so are programs of
    which it is not derived that no message is better than its source's value (:mod:`harness.language.priority_order`).
    *adaptive*: the one of the two that is estimated to take less time for the program, the number of features, the
    degrees of the graph and the device (:mod:`engines.onyx.order_choice`). The default (None) is *adaptive* if all
    other options have their defaults, given or not, else *supersteps*. A cell that needs supersteps, inputs that
    near-far refuses, and problems for which only the memory of supersteps fits, are run by supersteps unless *near_far*
    or *adaptive* is given; the record has this as its resolution. The record has the order, the reason and the
    estimates as ``order_reason`` and ``order_estimates``, which cannot be set.

    ``hooking``: find components by hooking and pointer jumping instead of supersteps (:mod:`engines.onyx.hooking`), for
    programs that only pass the least or largest value on, on graphs in which every edge has a reverse edge. Options of
    supersteps are refused with it.

    ``tune``: choose ``direction``, ``change_driven`` and, on a GPU, ``balance`` and ``persistent`` by timing a few
    plans on the real problem at the first reset (:mod:`engines.onyx.tuning`). If no other option is given, near-far and
    hooking are tried, too, for programs that have them; the run then counts no supersteps. After ``tune_s`` seconds no
    further plan is tried. Options that are given are kept; ``share_by`` and ``bottom_up`` only in plans of *adaptive*.
    The record has the times of the plans as ``tried``, which cannot be set.

    ``solver``: solve the linear system of a program whose superstep is x -> A x + b, by BiCGSTAB, or by conjugate
    gradients if A is symmetric (:mod:`engines.onyx.krylov_engine`). The run leaves bulk-synchronous order and counts no
    supersteps. The record has the counts of the first run after the preparation as ``solved``, which cannot be set.
    """

    feature_aware: bool = option(True, "process the features of a row together (FA), or loop over features (NFA)")
    change_driven: Literal[True, False] | None = option(
        None, "propagate only changes (CD), or all values (null: the default)"
    )
    fold: bool = option(True, "run consecutive stages in one kernel")
    direction: Literal["pull", "push", "adaptive"] | None = option(
        None, "push along out-edges or pull along in-edges; adaptive: either, by superstep (null: the default)",
        partial=("adaptive",),
    )  # fmt: skip
    rebuild: int = option(
        64, "supersteps between rebuilds of rounded sums (change-driven push); 0: never", within="[0, inf)"
    )
    dense_share: float | None = option(
        None,
        "share of the edges from which a change-driven pull recomputes all vertices, and adaptive pulls (null: chosen)",
        within="[0, 1]",
    )
    pipeline: bool | None = option(None, "GPU: search for the next edges while computing (null: the default)")
    balance: str | None = option(
        None,
        "GPU: balance by vertices in warps, by equal tiles of edges, or by parts of vertices (null: the default)",
        values=("warp", "edge", "parts"),
    )
    vector_width: int | None = option(
        None, "GPU: features that a lane loads at once (null: the default)", values=(1, 2, 4)
    )
    # Blocks are whole warps, also when halved; the tile of a larger block does not fit in its static shared memory.
    block_size: int | None = option(None, "GPU: threads of a block (null: the default)", values=(32, 64, 128, 256, 512))
    persistent: bool | None = option(None, "GPU: one launch runs all supersteps (null: the default)")

    bottom_up: bool | None = option(
        None, "GPU: pulls of adaptive read only edges that may improve a vertex (null: if the program allows it)"
    )
    share_by: str | None = option(
        None, "adaptive: dense_share by fitted constants, or estimated from a probe of the device (null: chosen)",
        values=("fitted", "estimated"),
    )  # fmt: skip

    order: str | None = option(
        None,
        "supersteps, or near_far: paths in order of priority; adaptive: by estimates (null: the default)",
        values=(SUPERSTEPS, NEAR_FAR, ADAPTIVE), instead=(SUPERSTEPS,),
    )  # fmt: skip
    delta: float | None = option(
        None, "near_far: the width of the near list, in values (null: by the mean length of an edge)", within="(0, inf)"
    )
    order_reason: str | None = option(None, "set by order: why the engine has chosen it")
    order_estimates: tuple[tuple[str, float], ...] | None = option(
        None, "set by order: the estimated seconds of a run by each order"
    )
    hooking: bool | None = option(
        None, "find components by hooking and pointer jumping, without supersteps (null: false)"
    )  # fmt: skip
    tune: bool | None = option(
        None, "choose order, direction, change_driven and, on a GPU, balance and persistent by timing (null: false)"
    )
    tune_s: float | None = option(None, "seconds after which tune tries no further plan (null: 10)", within="(0, inf)")
    tried: tuple[tuple[str, float], ...] | None = option(None, "set by tune: the seconds of each plan")
    solver: str | None = option(
        None, "CPU: solve the linear system of an affine program; auto: cg if it is symmetric (null: supersteps)",
        values=("auto", "bicgstab", "cg"),
    )  # fmt: skip
    solved: tuple[tuple[str, int], ...] | None = option(None, "set by solver and order: the work that a run did")

    GPU_ONLY: ClassVar[tuple[str, ...]] = (
        "pipeline", "balance", "vector_width", "block_size", "persistent", "bottom_up",
    )  # fmt: skip

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("change_driven", "hooking", "tune"):
            if not isinstance(getattr(self, name), bool | None):
                raise ScheduleError(f"schedule option {name} is true, false or null, not {getattr(self, name)!r}")
        if self.tried is not None:
            raise ScheduleError("schedule option tried is set by tune=true; leave it unset")
        if self.solver is not None and self.direction == "adaptive":
            raise ScheduleError("direction=adaptive has no meaning with a solver; give push or pull, or leave it unset")
        for name in WITH_SOLVER if self.solver is not None else ():
            if not (getattr(self, name) is None or getattr(self, name) is False):
                raise ScheduleError(f"schedule option {name} has no meaning with a solver; {WITH_SOLVER[name]}")
        if self.solved is not None:
            raise ScheduleError("schedule option solved is set by solver and order; leave it unset")
        if self.tune_s is not None and not self.tune:
            raise ScheduleError("schedule option tune_s has no meaning without tune=true; leave it unset")
        for name in ("order_reason", "order_estimates"):
            if getattr(self, name) is not None:
                raise ScheduleError(f"schedule option {name} is set by order; leave it unset")
        if self.delta is not None and self.order != NEAR_FAR:
            raise ScheduleError("schedule option delta has no meaning without order=near_far; leave it unset")
        if self.hooking:
            self.refuse_others("hooking=true has no supersteps", "hooking")
        if self.order == NEAR_FAR:
            self.refuse_others("order=near_far has no such supersteps", "order", "delta")
        if self.order == ADAPTIVE:
            self.refuse_others("order=adaptive may run without supersteps", "order")
