"""How Onyx runs a program: its schedule options (thesis ch. 4-6) and what they mean on each device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from harness.api import ScheduleError, option


@dataclass(frozen=True)
class OnyxSchedule:
    """The schedule of Onyx.

    On the CPU:

    - ``feature_aware``: a property's k features are one vector value, loaded, computed on and stored as a whole (FA);
      off, every feature is walked in a scalar loop as conventional frameworks do (NFA).
    - ``change_driven``: only what changed is propagated (CD). In push, sources that moved by more than the tolerance
      send the difference to accumulators that are kept. In pull, destinations of sources that moved are marked and
      recomputed from all their in-edges, which is exact and works for every message; when the marks would touch more
      than ``dense_share`` of all arcs (twice that, once it is sparse), every destination is recomputed instead.
      Either way a superstep in which little moves goes over what is flagged alone (``harness.lowering.cpu.flags``),
      not over all vertices.
    - ``fold``: consecutive stages share a kernel: edge with edge, vertex with vertex, and in pull edge with the vertex
      steps after it, whose intermediate values then stay in registers. (Vertex with the edge push after it is not
      folded on the CPU: owners of destinations, not of sources, push.)
    - ``direction``: *pull* gathers over in-edges; *push* scatters over out-edges, each thread into the range of
      destinations that it owns, so nothing is atomic. *adaptive*, to switch inside a run, is a known value that is
      refused on every device: nothing switches yet.
    - ``rebuild``: in change-driven push, sums are rebuilt from all messages every ``rebuild`` supersteps, while active
      sources have nearly all arcs, and before the run ends (0: never). Extrema and sums of small whole numbers (the
      k-core's) do not round and are not rebuilt (``harness.lowering.kept_accumulators``).

    On a CUDA device:

    - ``feature_aware``: consecutive lanes of a team hold consecutive features of one edge or vertex, and
      ``vector_width`` of them a lane are loaded at once (FA, fig. 5.1); off, a thread walks all features (NFA).
    - ``change_driven``: as on the CPU. Frontiers are decided on the device, superstep by superstep: a pull whose
      active sources have more than ``dense_share`` of all arcs goes over everything. An update of edges goes over
      the dirty rows of sources, or over everything where these have more than half of the arcs (or ``dense_share``, if
      that is more). Tracking pauses while nearly everything moves: supersteps are then those of full propagation, but
      for now and then one that looks again (``pauses.cuh``; in push, not with ``rebuild=0``, nor for exact sums).
    - ``rebuild``: as on the CPU; exact sums are rebuilt too while active sources have nearly all arcs.
    - ``fold``: as on the CPU; a pull goes on with the vertex steps where one owner has all in-edges
      (``balance=warp``).
    - ``direction``: a *push* adds into destinations atomically, 8 or 16 bytes at once where the chip can (sm_90).
    - ``balance``: *warp* shares the edges of 32 vertices among the lanes of a warp (push), or lets teams of a warp
      own a vertex, and a block a hub (pull): the thesis's balancing. *edge* cuts the edges into equal tiles whatever
      the degrees: a hub can hold nobody up, and a pull takes 128 features and more in panels of 64
      (``engines.onyx.cuda_panels``).
      Left at None: *edge*, but *warp* where features are walked, matrices are added up, or a vertex that pulls has
      few edges.
    - ``pipeline``: the next edges are searched and fetched while the present ones are computed on (fig. 5.3).
    - ``block_size``: threads of a block.

    ``pipeline``, ``balance``, ``vector_width`` and ``block_size`` have no meaning on the CPU and are refused there
    unless left at None. ``engines.onyx.resolve`` fills in every other option that is None.
    """

    feature_aware: bool = option(True, "one vector value a row (FA), or scalar loops over features (NFA)")
    change_driven: bool = option(True, "propagate only what changed (CD), or everything (NCD)")
    fold: bool = option(True, "consecutive stages in one kernel")
    direction: Literal["push", "pull", "adaptive"] = option(
        "pull", "push along out-edges or pull along in-edges (adaptive: not there yet)", planned=("adaptive",)
    )
    rebuild: int = option(64, "supersteps between rebuilding sums that round (change-driven push); 0: never")
    dense_share: float | None = option(
        None, "share of arcs from which change-driven pull recomputes everything (None: 0.1 on the CPU, 0.01 on a GPU)"
    )
    pipeline: bool | None = option(None, "GPU: search for the next edges while computing (None: the default)")
    balance: str | None = option(None, "GPU: warp or edge (None: the default)")
    vector_width: int | None = option(None, "GPU: features a lane loads at once, 1, 2 or 4 (None: the default)")
    block_size: int | None = option(None, "GPU: threads a block, 32 to 512 in powers of two (None: the default)")

    GPU_ONLY: ClassVar[tuple[str, ...]] = ("pipeline", "balance", "vector_width", "block_size")
    # Blocks are whole warps, also when halved; the tile of a larger one does not fit its static shared memory.
    VALUES: ClassVar[dict[str, tuple[str | int, ...]]] = {
        "balance": ("warp", "edge"), "vector_width": (1, 2, 4), "block_size": (32, 64, 128, 256, 512),
    }  # fmt: skip

    def __post_init__(self) -> None:
        if self.direction not in ("push", "pull", "adaptive"):
            raise ScheduleError(f"direction={self.direction!r}: give push or pull")
        if self.rebuild < 0:
            raise ScheduleError(f"rebuild={self.rebuild}: give a number of supersteps, or 0 for never")
        if self.dense_share is not None and not 0.0 <= self.dense_share <= 1.0:
            raise ScheduleError(f"dense_share={self.dense_share}: a share of the arcs lies in 0..1")
        for name, known in self.VALUES.items():
            if getattr(self, name) not in (None, *known):
                raise ScheduleError(f"{name}={getattr(self, name)!r}: give one of {', '.join(map(str, known))}")

    def refusal(self) -> str:
        """Why no program runs under this schedule yet; empty where programs do."""
        if self.direction == "adaptive":
            return "direction=adaptive: switching by itself is not there yet; give push or pull"
        return ""
