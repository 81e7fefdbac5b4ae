"""Estimates of the time of a superstep that pushes changes, and of one that pulls over all edges.

    push(s) = launches * c + s * E * scatter(k, hit) + (reached(s) * V * vertex + s * V * source) / stream rate
    pull    = launches * c + E * gather(k, hit) + V * (vertex + row) / stream rate

E: edges. V: vertices. s: the share of the edges whose sources moved. k: features. ``scatter`` and ``gather`` are the
seconds of an edge. For rows in the cache (a share ``hit``) they are interpolated linearly in k between measurements
with 1 and with 16 features. For other rows, each cache line adds the extra time of a row of 16 features that is not in
the cache. A pull reads each property of the source in a message once for each edge; a push reads it once for each
source. A probe of the device measures these times, the seconds ``c`` of a launch, and the stream rate. ``reached`` is
the share of the vertices that the pushed edges lead to; these are taken to be random. ``vertex`` are the bytes of the
steps of a vertex, and ``source`` the bytes that a source that moved reads and writes.

The direction changes at the share from which a push takes longer than a pull.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from engines.onyx.estimates import visited_share
from harness.api import EdgeReduce, GraphFacts, Program, change_driven, reads

SHORT, LONG = 1, 16  # features of the rows that the probe moves
FLOAT = 4  # bytes
FIGURES = "onyx-directions-1"  # the number changes whenever figures are measured differently
HALVINGS = 30  # of the interval in which the direction changes
WORKS = ("gather", "least", "add", "offer")
PULLED = {"add": "gather", "offer": "least"}  # the work of a pull that replaces that of a push
NAMES = (
    "cache", "stream", "launch",
    *(f"{work}_{row}" for work in WORKS for row in (f"near_{SHORT}", f"near_{LONG}", f"far_{LONG}")),
)  # fmt: skip


@dataclass(frozen=True)
class Costs:
    """The estimates for a program on a graph; seconds are those of one thread of a CPU, or of a whole GPU.

    ``edges``, ``vertices``: of the graph. ``gathered``, ``scattered``: seconds of an edge in a pull and in a push.
    ``fixed``: seconds of the launches. ``vertex``, ``source``, ``row``: seconds of the steps of a vertex, of a source
    that moved, and of a row that only a pull writes.

    The figures of a device: ``cache``, the bytes in which rows are near; ``stream``, bytes per second of copies;
    ``launch``, seconds of an empty kernel; ``WORK_PLACE_K``, seconds of an edge: *gather* a row into a sum, or into
    the *least*; *add* to a row, or *offer* an extremum to one (on a GPU atomically); *near* and *far* rows of K
    features.
    """

    graph: GraphFacts
    gathered: float
    scattered: float
    launches: float
    vertex: float
    source: float
    row: float

    @classmethod
    def of(cls, program: Program, features: int, graph: GraphFacts, figures: Mapping[str, float]) -> Self:
        """Return the estimates for a lowered program whose changes can be pushed."""
        forms = change_driven(program)
        assert not isinstance(forms, str), forms
        stages = [stage for stage in program.stages if isinstance(stage, EdgeReduce)]
        floats = [features ** max(1, len(stage.message.shape)) if stage.message.shape else 1 for stage in stages]
        rounds = any(form.kind != "monotone" for form in forms)
        sent = rounds or program.control.tolerance is not None
        kinds = ["offer" if form.kind == "monotone" else "add" for form in forms]
        rows = sum(floats)
        pulls = [PULLED[kind] for kind in kinds]
        counts = [len({name for space, name in reads(stage.message) if space == "src"}) for stage in stages]
        near = [_near(count, graph, figures["cache"]) for count in floats]
        moved = FLOAT * rows / figures["stream"]
        return cls(
            graph,
            sum(
                max(1, count) * _seconds(kind, hit, row, figures)
                for count, kind, hit, row in zip(counts, pulls, near, floats, strict=True)
            ),
            sum(_seconds(kind, hit, row, figures) for kind, hit, row in zip(kinds, near, floats, strict=True)),
            figures["launch"] * (3 + 2 * rounds),
            vertex=4 * moved,  # accumulator and old value read, new value written; flags and inputs
            source=(3 if sent else 1) * moved,  # the value; with kept values of what was sent, those read and written
            row=(2 if rounds else 1) * moved,  # accumulators, and sums of changes, which are cleared
        )  # fmt: skip

    @property
    def pull(self) -> float:
        """Seconds of a superstep that pulls over all edges."""
        graph = self.graph
        return self.launches + graph.num_edges * self.gathered + graph.num_vertices * (self.vertex + self.row)

    def push(self, share: float) -> float:
        """Return the seconds of a superstep that pushes the changes of sources with this share of the edges."""
        graph = self.graph
        ends = visited_share(graph, share) * self.vertex + share * self.source
        return self.launches + share * graph.num_edges * self.scattered + graph.num_vertices * ends

    @property
    def turn(self) -> float:
        """The share of the edges from which a push takes longer than a pull; 1 if none does."""
        if self.push(1.0) <= self.pull:
            return 1.0
        low, high = 0.0, 1.0
        for _ in range(HALVINGS):
            middle = (low + high) / 2
            low, high = (middle, high) if self.push(middle) <= self.pull else (low, middle)
        return high


def _near(floats: int, graph: GraphFacts, cache: float) -> float:
    """Return the share of the rows that a cache holds."""
    return min(1.0, cache / max(1, FLOAT * floats * graph.num_vertices))


def _seconds(work: str, near: float, floats: int, figures: Mapping[str, float]) -> float:
    """Return the seconds of an edge whose row has this many floats, of which the cache holds the share ``near``."""
    short, long, far = (figures[f"{work}_{row}"] for row in (f"near_{SHORT}", f"near_{LONG}", f"far_{LONG}"))
    missed = max(0.0, far - long) * max(1.0, floats / LONG)
    return short + max(0.0, long - short) * (floats - SHORT) / (LONG - SHORT) + (1 - near) * missed
