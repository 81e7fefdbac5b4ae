"""Graphs of the thesis's sizes (Vaz 2021, table 7.1) that are generated where its own cannot be fetched.

The social networks have R-MAT graphs in their places, symmetric, with as many vertices and as many stored arcs as the
table tells vertices and edges; the roads have grids with two fifths of their edges removed, which leaves as many
vertices and undirected edges. They are named after what they stand in for, and are like it in size alone: degrees,
diameters and numbering are the generators'. (DelaunayN24 is the triangulation of random points itself.)
"""

from __future__ import annotations

import inspect
from collections.abc import Callable

from harness.contract import GraphSpec
from harness.graph.generators import grid, rmat

SOCIAL = {  # vertices, arcs
    "cit_patents": (3_774_768, 16_518_948),
    "hollywood_2009": (1_139_905, 56_375_710),
    "soc_live_journal1": (4_847_571, 68_475_390),
    "kron_g500_l21": (2_097_152, 91_042_010),
    "soc_orkut": (2_997_166, 106_349_208),
}
ROADS = {"road_central": (3_752, 3_752), "road_usa": (4_894, 4_893)}  # rows, columns
REMOVED = 0.4


def stand_ins() -> list[GraphSpec]:
    """Every one by the name ``like_<graph>``."""
    factory, of_rmat, of_grid = "harness.graph.catalogue:", _defaults(rmat), _defaults(grid)
    social = [
        GraphSpec(
            f"like_{name}",
            f"an R-MAT graph of the size of {name}",
            f"{factory}rmat",
            of_rmat
            | {"scale": (vertices - 1).bit_length(), "num_vertices": vertices, "num_arcs": arcs, "symmetric": True},
            f"{factory}check_rmat",
        )
        for name, (vertices, arcs) in SOCIAL.items()
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
    """The parameters of a generator with their defaults."""
    return {name: parameter.default for name, parameter in inspect.signature(generator).parameters.items()}
