"""Generated graphs with the sizes of the thesis's graphs (Vaz 2021, table 7.1), for machines that cannot fetch those.

A symmetric R-MAT graph replaces each social network; its numbers of vertices and stored edges are those of the table. A
grid without two fifths of its edges replaces each road network; its numbers of vertices and undirected edges are those
of the table. Each is named after the graph that it replaces and matches it in size only: degrees, diameter and
numbering are those of the generator. (DelaunayN24 itself is a triangulation of random points.)
"""

from __future__ import annotations

from harness.contract import GraphSpec

SOCIAL = {  # vertices, stored edges
    "cit_patents": (3_774_768, 16_518_948),
    "hollywood_2009": (1_139_905, 56_375_710),
    "soc_live_journal1": (4_847_571, 68_475_390),
    "kron_g500_l21": (2_097_152, 91_042_010),
    "soc_orkut": (2_997_166, 106_349_208),
}
ROADS = {"road_central": (3_752, 3_752), "road_usa": (4_894, 4_893)}  # rows, columns
REMOVED = 0.4


def stand_ins(rmat: GraphSpec, grid: GraphSpec) -> list[GraphSpec]:
    """Return the specification of every stand-in, named ``like_<graph>``: variants of the two generators'."""
    social = [
        rmat.variant(
            f"like_{name}",
            f"an R-MAT graph of the size of {name}",
            scale=(vertices - 1).bit_length(),
            num_vertices=vertices,
            num_edges=edges,
            symmetric=True,
        )
        for name, (vertices, edges) in SOCIAL.items()
    ]
    roads = [
        grid.variant(
            f"like_{name}",
            f"a grid of the size of {name}, without {REMOVED:.0%} of its edges",
            rows=rows,
            columns=columns,
            removed=REMOVED,
        )
        for name, (rows, columns) in ROADS.items()
    ]
    return social + roads
