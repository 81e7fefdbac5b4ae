"""Generated graphs with the sizes of the thesis's graphs (Vaz 2021, table 7.1), for machines that cannot fetch those.

A symmetric R-MAT graph replaces each social network; its numbers of vertices and stored edges are those of the table. A
grid without two fifths of its edges replaces each road network; its numbers of vertices and undirected edges are those
of the table. Each is named after the graph that it replaces and matches it in size only: degrees, diameter and
numbering are those of the generator. (DelaunayN24 itself is a triangulation of random points.)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from harness.contract import GraphSpec
from harness.graph.generators import grid, rmat

SOCIAL = {  # vertices, stored edges
    "cit_patents": (3_774_768, 16_518_948),
    "hollywood_2009": (1_139_905, 56_375_710),
    "soc_live_journal1": (4_847_571, 68_475_390),
    "kron_g500_l21": (2_097_152, 91_042_010),
    "soc_orkut": (2_997_166, 106_349_208),
}
ROADS = {"road_central": (3_752, 3_752), "road_usa": (4_894, 4_893)}  # rows, columns
REMOVED = 0.4


def stand_ins() -> list[GraphSpec]:
    """Return the specification of every stand-in, named ``like_<graph>``."""
    factory, of_rmat, of_grid = "harness.graph.catalogue:", _defaults(rmat), _defaults(grid)
    social = [
        GraphSpec(
            f"like_{name}",
            f"an R-MAT graph of the size of {name}",
            f"{factory}rmat",
            of_rmat
            | {"scale": (vertices - 1).bit_length(), "num_vertices": vertices, "num_edges": edges, "symmetric": True},
            f"{factory}check_rmat",
        )
        for name, (vertices, edges) in SOCIAL.items()
    ]
    roads = [
        GraphSpec(
            f"like_{name}",
            f"a grid of the size of {name}, without {REMOVED:.0%} of its edges",
            f"{factory}grid",
            of_grid | {"rows": rows, "columns": columns, "removed": REMOVED},
            f"{factory}check_grid",
        )
        for name, (rows, columns) in ROADS.items()
    ]
    return social + roads


def _defaults(generator: Callable[..., object]) -> dict[str, object]:
    """Return the defaults of a generator's parameters, by name."""
    return {name: parameter.default for name, parameter in inspect.signature(generator).parameters.items()}
