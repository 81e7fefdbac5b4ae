"""Seeded random graphs. The same arguments give the same graph, by content hash."""

from harness.graph.generators.delaunay import delaunay
from harness.graph.generators.grid import grid
from harness.graph.generators.ratings import random_ratings
from harness.graph.generators.rmat import rmat

__all__ = ["delaunay", "grid", "random_ratings", "rmat"]
