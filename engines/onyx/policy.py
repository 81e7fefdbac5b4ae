"""The constants of Onyx's choices, each with the measurement that it is based on, and the choices made from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from harness.api import GraphFacts


@dataclass(frozen=True)
class Policy:
    """Thresholds and sizes. If a comment names no measurement, none is on record.

    Options: ``dense_share_cuda``: the default of ``dense_share`` on a GPU, for which visiting all edges costs far less
    per edge than following single ones; on the CPU see :func:`engines.onyx.estimates.following_share`. ``block_size``:
    threads of a block. ``dense_degree``: average degree from which segments are the default in a pull. ``hub_degree``:
    in-degree from which one owner would delay all others, so that segments are also the default.
    """

    dense_share_cuda: float = 0.01
    block_size: int = 256
    dense_degree: float = 8
    hub_degree: int = 1024

    # On the CPU. Edges from the one that is processed to the one whose source is prefetched: R-MAT scale 18, one core:
    # 1.06x at k = 8, 1.15x at k = 32 and 100, against none.
    prefetched_edges: int = 32
    far_share: float = 0.1  # of the edges, whose source's row is not in the cache; if fewer, rows are not prefetched
    # Edges, as a share of all, that a pull on the CPU may visit in a superstep that recomputes single vertices. Such a
    # superstep took as long as one of all vertices without tracking at 0.07 to 1.2 of the edges, median 0.5 (label
    # propagation, PageRank, manifold ranking, components, BFS, SSSP with 1, 4, 16 features on PGP, Luxembourg, a grid
    # and email-Enron, one thread, 25 November 2026).
    visited_share_cpu: float = 0.5
    # With direction=adaptive and share_by=fitted, on the CPU: the features from which supersteps pull, and the share of
    # the edges from which they do. Pushed and with this share, processor time of one thread: R-MAT 18, BFS k = 8 70 and
    # 40 ms, k = 32 165 and 72 ms, SSSP k = 8 98 and 53 ms, k = 32 251 and 94 ms; k = 1 17 and 25 ms, 26 and 41 ms, with
    # 0.8 15 and 28 ms (26 November 2026).
    adaptive_row_cpu: int = 4
    adaptive_share_cpu: float = 0.5
    # Edges, times an eighth of the features if there are more than 8, below which changes are not followed. Following
    # took 0.89 to 2.4 times as long as pulling everything (median 1.3) on rome99, cora and ca-GrQc, of 8,859 to 28,980
    # edges; 0.68 to 1.9 times (1.2) on bitcoin-otc and PGP, of 35,592 to 48,632; 0.09 to 1.2 times (0.8) on 4elt and
    # luxembourg_osm, of 91,756 and 239,332. (BFS, SSSP, components, PageRank, label propagation, manifold ranking,
    # k = 1 and 8, two threads, 26 November 2026.) The first number is for paths, the second for other programs. Medians
    # on R-MAT 9 to 14, grids of 50 to 256 rows and Delaunay graphs of 2,000 to 40,000 points, with up to 30,000,
    # 60,000, 131,072 and more edges: BFS and SSSP 1.67, 0.79, 0.69, 0.56; components, k-core, PageRank, HITS, label
    # propagation, manifold ranking and multimodal learning 1.29, 1.21, 1.10, 1.04 (k = 1, 4, 8 and 16, two threads, 28
    # November 2026).
    fewest_followed: tuple[int, int] = (1 << 15, 1 << 17)
    # As a part of that, if all vertices step whenever a value of the graph changes: reductions are then kept, and the
    # first such superstep gathers everything. PageRank, R-MAT 15, k = 1: 1.8 ms against 0.7 ms without tracking.
    kept_part: float = 0.25

    # Owners of vertices. In-edges, per lane group that would own a vertex, from which a block owns it: for rows, for
    # matrices (64 to 512 compared on R-MAT graphs of the sizes of social networks, k = 4, H200, 22 November 2026: the
    # fastest).
    hub_edges: tuple[int, int] = (256, 64)
    # The same from which a warp owns it; how many owners of other vertices a warp must have for that; and the share of
    # the edges that such vertices must have, at least. Label propagation, k = 4, persistent, with and without: cnr-2000
    # 8.4 and 13.6 ms, R-MAT 19 3.7 and 6.9 ms, R-MAT 21 7.9 and 10.4 ms; from 16 or 64 edges on 0.84 to 1.1 times as
    # long as from 32 (H100, 26 November 2026). Other shares were not tried.
    middle_edges: int = 32
    fewest_owners: int = 4
    middle_share: float = 0.03
    # In a graph of fewer than small_graph edges, some vertex of which has middle_edges, a warp owns vertices from so
    # many in-edges on; where the largest degree is less, it took longer. From 8 in-edges, over from 32: searches and
    # components, k = 1, 4 and 16, on Facebook, AS-Caida, cit-HepTh, email-Enron, R-MAT 10, 12 and 14 0.77 to 1.08, 0.95
    # in the mean, label propagation 0.87 to 0.97, PageRank 0.89 to 1.02; R-MAT 15, of 883,000 edges, 0.90 to 1.02;
    # R-MAT 16 and 17 0.93 to 1.04 (H100, 27 November 2026).
    fewer_middle_edges: int = 8
    small_graph: int = 1 << 20
    edges_of_lane_group: int = 8  # in-edges, on average, for each lane group that shares a vertex
    most_joined: int = 64  # floats of a lane that the lane groups of a vertex combine, at most
    # Bytes of a vertex's neighbours from which a launch is not limited to the resident blocks. Label propagation,
    # Delaunay graph of 2 M vertices, limited and not: 0.168 and 0.178 ms at k = 16, 0.304 and 0.288 ms at k = 32
    # (H200, 22 November 2026). The break-even point was not searched for.
    long_gather: int = 640
    # Consecutive vertices of an owner whose rows take a whole warp. One aggregation, grid of 24 M vertices, k = 128:
    # 14.1 ms in waves of blocks that each sweep the graph, 8.70 ms with this number (H100, 22 November 2026). Other
    # numbers are not on record.
    rounds: int = 4

    # Messages that read several properties of their source and nothing else are made once per source if all edges are
    # visited: the least average degree, without features and for each of them. A row is then stored and read for each
    # vertex, and a number less is read for each edge. PageRank, 2 to 33 million edges, made and not: degree 15.5: k = 1
    # 5.06 and 8.5 ms, k = 16 11.0 and 12.6 ms; degree 6: k = 1 1.23 and 1.82 ms, k = 4 4.15 and 5.97 ms; degree 3.6:
    # k = 1 2.35 and 1.98 ms, k = 4 9.3 and 7.0 ms (H100, 26 November 2026).
    made_degree: float = 4
    made_degree_of_feature: float = 0.125

    # Parts of vertices: the out-edges from which a vertex is split, and the edges of a part. Whole runs that push
    # tiles, and parts: R-MAT 19, k = 1, BFS 690 and 566 us, SSSP 978 and 823 us, components 796 and 782 us; R-MAT 21 of
    # flat degrees, BFS 1190 and 1092 us, with k = 4 1979 and 1875 us, SSSP 2415 and 2370 us; R-MAT 18 of steep degrees,
    # BFS 521 and 503 us, with k = 4 535 and 479 us, label propagation 760 and 696 us. Half of both sizes: 0.96 to 1.0
    # times as long on R-MAT 21 (seeds 109, 107 and 104, a Hopper GPU, 27 November 2026).
    split_degree: int = 64
    part_edges: int = 256

    # Tiles of edges.
    tile: int = 2048  # edges that a block stages at once
    fewest_edges: int = 4  # of a lane group's run of segments
    lane_run: int = 4  # edges that a single lane updates: their short rows are adjacent and are fetched together
    fetched_slots: int = 32  # floats of rows that a lane holds for edges fetched ahead
    # Of a reduction over the graph, at most. PageRank, 20 supersteps, grid of 2.25 M vertices, against 16 blocks and a
    # second kernel: k = 1: 7.31 to 1.98 ms, k = 8: 14.6 to 2.94 ms, k = 128: 90.4 to 37.5 ms (H100, 24 November 2026;
    # that vertices with out-edges are skipped has a part in it). Other numbers are not on record.
    blocks_of_reduction: int = 1024

    # Streamed edges: MB of a window on a GPU, from so many features on. The kernel of a window ends with its longest
    # row, and rows of many features take long. Feature diffusion, k = 128, R-MAT of 91 M edges, with windows of 16, 32,
    # 64 and 128 MB: 458, 349, 279 and 276 ms (H200, 27 November 2026); k = 32 takes the time of copies with 32 MB.
    wide_features: int = 64
    wide_window_mb: float = 64

    # Cold runs on a GPU (engines.onyx.resolve.measured_choice): the edges below which graphs were measured, and the
    # most features; the in-degree from which degrees differ; the edges from which a graph is large; the features of a
    # short row; edges times features from which long rows of differing degrees are cut into tiles, and launches are
    # better; the features from which sums often move in a small part of a graph of small degrees; the edges from which
    # one whose degrees differ is pushed or pulled by superstep. Fitted on cnr-2000, email-Enron, AS-Caida, cit-HepTh,
    # Facebook, DBLP, grids, Delaunay and R-MAT graphs of 0.1 to 32 million edges as stored, some of which have twice as
    # many undirected (H100, 26 November 2026), the last one on the first three and R-MAT 16, 18 and 20; the results on
    # other graphs are in docs/onyx-on-cuda.md.
    measured_edges: int = 1 << 25
    measured_features: int = 64
    skewed_degree: int = 64
    large_graph: int = 1 << 22
    short_row: int = 8
    owned_floats: int = 1 << 25
    local_features: int = 4
    adaptive_edges: int = 3 << 21
    # On graphs of small degrees: the vertices from which supersteps that visit all edges have launches, and the
    # features from which PageRank is pushed if the graph is large. Only two graphs were measured, between which both
    # lie. Over the default until then, on a grid of 3 million vertices without a fifth of its edges and on a Delaunay
    # graph of a million points: launches, k = 1, label propagation 0.92 and 1.20, manifold ranking 0.82 and 1.16,
    # multimodal learning 0.93 and 1.01, PageRank 0.82 and 1.21; PageRank pushed by tiles, k = 4 1.14 and 0.93, k = 16
    # 0.72 and 0.79, k = 64 0.58 and 0.74 (H200, 28 November 2026).
    launched_vertices: int = 1 << 21
    pushed_features: int = 16
    # Where supersteps push or pull: the length of rows from which sums have launches instead of one persistent kernel,
    # of which half as many threads are resident: sums of rows, of matrices. Launches over one kernel: multimodal
    # learning, R-MAT 18 and 20, k = 4: 0.86, 0.74, 8: 0.84, 0.68, 16: 0.84, 0.63, 32: 0.86, 0.77 (H100, 27 November
    # 2026); R-MAT 19, label propagation, k = 8, 12, 16, 32, 64: 1.16, 0.81, 0.73, 0.67, 0.67, manifold ranking from 12
    # on: 0.90, 0.84, 0.83, 0.85, feature diffusion, 16 and 64: 0.57, 0.63, shortest paths, which take minima, 16 and
    # 64: 1.19, 1.08 (H200, 28 November 2026). Matrices of one feature were not measured.
    launched_features: tuple[int, int] = (12, 4)
    # Threads of a persistent kernel that must fit on a multiprocessor: with one feature; with several; with long rows,
    # updates of edges or sums of matrices. The most for which kernels of the built-in algorithms do not spill.
    threads_at_once: tuple[int, int, int] = (1024, 768, 512)
    long_row: int = 33  # features
    # If changes are tracked: manifold ranking spilled 200 to 320 bytes with 9 to 32 features.
    long_tracked_row: int = 9

    # Shares of the edges from which tracking costs more than it saves. With pauses, change-driven runs from cold starts
    # were 0.72 to 1.10 times as fast as full propagation, without pauses 0.48 to 0.99 (H200, 22 and 23 November 2026);
    # other shares are not on record. In a push it is few_edges_share + many_edges_share / (1 + vertices per edge /
    # half_way).
    few_edges_share: float = 0.55
    many_edges_share: float = 0.4
    half_way: float = 0.05
    changing_edges_share: float = 0.5  # in a push of edges that change
    pull_share: float = 0.1  # in a pull, which switches to visiting all edges much earlier
    # On a GPU: of the edges; whole messages then cost no more than changes, for which two values are read.
    rebuild_share: float = 0.9
    rows_share: float = 0.5  # of the edges, at least, from which an edge update processes all rows
    # With direction=adaptive: of the edges, from which a superstep pulls over all of them, for extrema and for sums.
    # With the share of sums, extrema took 0.97 to 1.19 times as long, median 1.09 (BFS, SSSP, components, k = 1 to 32,
    # R-MAT 18 and 20); with that of extrema, sums took 1.00 to 1.07 times as long, and manifold ranking with k = 4 on
    # R-MAT 20 2.39 times (H100, 26 November 2026).
    adaptive_shares: tuple[float, float] = (0.3, 0.1)
    # Of a bottom-up pull: the times of an edge that it reads and of a vertex that it visits, over that of a pushed
    # edge, 36 ps. By the differences of runs that end one superstep apart, R-MAT 21 of seed 107: BFS pulls that visit
    # 1.2 and 0.4 million vertices, and read 0.9 and 0.04 million edges, took 150 and 75 us, so that a vertex takes
    # about 100 ps; an SSSP pull of 2.1 million vertices and 24 million edges took 390 us; a push of 3.4 million edges
    # 135 to 200 us (a Hopper GPU, 27 November 2026; differences varied by 30 us).
    bottom_up_costs: tuple[float, float] = (0.22, 2.75)
    # Of the default order of a run (engines.onyx.order_choice), on a GPU: seconds of its launch, of a step, of an edge,
    # and of each further feature of an edge, with all edges visited in each superstep; with changes followed, where an
    # edge is visited about once; of near-far, for each feature of an edge alike; and of hooking, of its launches, of a
    # vertex, up to hooking_vertices of them, and of a value of a vertex. Whole runs on one H100, 27 November 2026, ms,
    # by supersteps: BFS on grids without 30 % of their edges, 64^2 0.734 (93 steps), 256^2 3.14 (415), 1414^2 37.8
    # (2246), 700^2 with k = 4 14.8 (1069), with k = 16 51 (1255), R-MAT 12 0.175 (5), R-MAT 19 0.374 (7); components,
    # 700^2 14.4, R-MAT 12 0.184, R-MAT 19 0.591. Hooking: 700^2 0.36, R-MAT 10 and 12 0.05, R-MAT 14 0.085, R-MAT 15
    # 0.155, R-MAT 16 0.229, R-MAT 17 0.278, random graphs of 8,192 and 65,536 vertices 0.067 and 0.182, grid of 256^2
    # 0.113. The times of hooking are those of an H200 with R-MAT 16 to 20 (flood_vertex_s).
    visiting_s: tuple[float, float, float, float] = (0.12e-3, 6.6e-6, 3.7e-12, 1.4e-12)
    following_s: tuple[float, float, float, float] = (0.12e-3, 16.8e-6, 8.8e-12, 6.5e-12)
    # The time of each further feature where edges join near places: 1414^2 with k = 1, 4 and 16 37.4, 48.5 and 105 ms.
    following_near_feature_s: float = 0.7e-9
    # Near-far has two times of a step: one with which one block sends short lists, if a superstep visits no more than
    # so many edges on average. If edges have lengths, it visits them so many times. BFS, ms, before the last changes of
    # the kernel, with which the first two took 0.220 and 1.169: grids without 30 % of their edges, 64^2 0.276 (93 steps
    # of 121 edges), 256^2 1.21 (415 of 440), with k = 4 2.43 (415 of 1760), 700^2 5.89 (1041 of 1310), with k = 16 9.32
    # (1255), 1414^2 15.2 (2246); random graph of 65,536 vertices 0.130, with k = 4 and 16 0.193 and 0.395; R-MAT 12
    # 0.108; email-Enron with k = 4 and 16 0.228 and 0.462 (one H100, 27 November 2026). SSSP visited 1.3 times the
    # edges on these grids, 1.8 on R-MAT 12 and 14, 2.2 on the random graph.
    near_far_s: tuple[float, float, float] = (0.05e-3, 6.6e-6, 45e-12)
    near_far_short: tuple[float, int] = (3e-6, 1024)
    near_far_visits: float = 1.8
    hooking_s: tuple[float, float, float] = (0.045e-3, 2.2e-9, 0.22e-9)
    hooking_vertices: int = 1 << 17
    # Components by supersteps: of a vertex. R-MAT of one seed, us by supersteps and by hooking: 17 of 1.0 and 2.6
    # million edges, uniform, 191 and 335, 229 and 445; a = 0.57 245 and 239, 238 and 344; 19 of 4.2 and 10 million,
    # uniform, 461 and 518, 694 and 527; a = 0.57 438 and 310, 541 and 530; 20 of 8.3 and 20 million, uniform, 833 and
    # 590, 1205 and 598; a = 0.57 708 and 365, 914 and 540 (one H200, 28 November 2026). Hooking varies by 30 % from one
    # process to the next.
    flood_vertex_s: float = 0.38e-9
    # The same on a CPU: seconds of a superstep, and of a thread for an edge that features share, for each further
    # feature, and for an edge and feature where edges join near places; of near-far, the start of threads, and a thread
    # for a vertex and an edge, the latter also if what it keeps of a vertex, of near_far_bytes, is in a core's cache;
    # of hooking, its start, that of threads, and a thread for a vertex and an edge. Whole runs on two threads of an AMD
    # EPYC, 27 November 2026, supersteps and the other, ms: BFS on grids without 30 % of their edges, 128^2 4.45 and
    # 0.26, with k = 16 10.3 and 2.35, 512^2 29.2 and 7.21, with k = 4 58.4 and 12.4; R-MAT 10 0.101 and 0.016, with
    # k = 4 0.108 and 0.124, R-MAT 14 0.577 and 0.451, with k = 16 1.51 and 4.02, R-MAT 18 12.4 and 23.9, with k = 16
    # 40.7 and 157. docs/near-far.md has the times of other graphs. The start of near-far is of an Intel Xeon: 36 us
    # with k = 1 and 39 with k = 2 on a whole grid of 64^2. Hooking on two threads of an Intel Xeon, 28 November 2026,
    # us: whole grids of 64^2 82, without 30 % of their edges 128^2 257, 256^2 927, 512^2 3,572, 1024^2 14,522; R-MAT 11
    # of 25,440 edges 78, 14 of 228,068 446, 16 of 955,080 1,798, 18 of 3,938,360 6,987.
    cpu_supersteps_s: tuple[float, float, float, float] = (20e-6, 3e-9, 0.5e-9, 20e-9)
    cpu_near_far_s: tuple[float, float, float] = (5e-6, 22e-9, 2e-9)
    cpu_near_far_cached_s: tuple[float, float] = (8e-9, 1e-9)
    near_far_bytes: int = 17
    cpu_hooking_s: tuple[float, float, float, float] = (20e-6, 5e-6, 19e-9, 2.3e-9)
    # In components all vertices send at first: the edge visits of a run that follows changes, over those of a search.
    flood_visits: float = 2.7
    # Of the time of supersteps, which can be counted and limited: an order without them must be estimated to take less,
    # on a GPU.
    order_gain: float = 0.9
    order_features: tuple[int, int] = (128, 64)  # the most with which orders were compared, on a CPU and on a GPU

    # Edges that a lane group fetches at once in a pull that may end rows early. With 2, and with 4, whole runs on R-MAT
    # 21 took: BFS 1092 and 1080 us, with k = 4 1875 and 1776 us, SSSP 2370 and 1994 us (27 November 2026).
    searched_edges: int = 4
    patience: int = 2  # consecutive supersteps with so much movement before tracking pauses
    patience_with_extrema: int = 8  # if only extrema are reduced, which come in waves


DEFAULT = Policy()


def small_degrees(graph: GraphFacts, policy: Policy) -> bool:
    """Return whether all vertices have few in-edges, on average and at most."""
    return graph.average_degree < policy.dense_degree and graph.max_in_degree < policy.hub_degree


def lane_groups_of_vertex(graph: GraphFacts, lane_groups: int, policy: Policy) -> int:
    """Return the number of the ``lane_groups`` of a warp that share a vertex: a power of two, at least 1."""
    wanted, share = graph.average_degree / policy.edges_of_lane_group, 1
    while 2 * share <= lane_groups and share <= wanted:
        share *= 2
    return share


def untracked_share(graph: GraphFacts, policy: Policy, *, pulls: bool, dense_share: float, edges_change: bool) -> float:
    """Return the share of visited edges from which tracking changes takes longer than it saves.

    ``edges_change``: a reduction reads edge properties that change.
    """
    if pulls:
        return max(policy.pull_share, dense_share)
    if edges_change:
        return policy.changing_edges_share
    vertices = graph.num_vertices / max(1, graph.num_edges)
    return policy.few_edges_share + policy.many_edges_share / (1 + vertices / policy.half_way)
