"""Seeded random graphs. Equal arguments give graphs with equal content hashes."""

from harness.graph.generators.delaunay import check_delaunay, delaunay
from harness.graph.generators.equal_rows import check_equal_rows, equal_rows
from harness.graph.generators.grid import check_grid, grid
from harness.graph.generators.ratings import check_ratings, random_ratings
from harness.graph.generators.rmat import check_rmat, rmat
from harness.graph.generators.rows import check_rmat_rows, check_urand_rows, rmat_rows, urand_rows

__all__ = [
    "check_delaunay", "check_equal_rows", "check_grid", "check_ratings", "check_rmat", "check_rmat_rows",
    "check_urand_rows", "delaunay", "equal_rows", "grid", "random_ratings", "rmat", "rmat_rows", "urand_rows",
]  # fmt: skip
