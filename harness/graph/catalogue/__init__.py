"""The built-in named graphs: data sets of packages, published graphs, files and generators."""

from __future__ import annotations

from harness.contract import GraphSpec
from harness.graph.catalogue.digit_images import check_digits, digits
from harness.graph.catalogue.files import check_file, file
from harness.graph.catalogue.photographs import check_photo, photo
from harness.graph.catalogue.publications import PUBLICATIONS, published
from harness.graph.catalogue.roads import highways
from harness.graph.catalogue.stand_ins import stand_ins
from harness.graph.catalogue.stereo_pair import check_motorcycle, motorcycle
from harness.graph.generators import (
    check_delaunay,
    check_grid,
    check_ratings,
    check_rmat,
    delaunay,
    grid,
    random_ratings,
    rmat,
)
from harness.hookspecs import hookimpl


def _spec(name: str, text: str, function: str, check: str = "", **parameters: object) -> GraphSpec:
    place = "harness.graph.catalogue:"
    return GraphSpec(name, text, place + function, parameters, check and place + check)


BUILTIN_GRAPHS: list[GraphSpec] = [
    _spec("digits", "handwritten digits, each joined to its nearest neighbours, 10 classes", "digits",
        "check_digits", neighbours=10),
    _spec(
        "photo", "a photograph of scikit-image: neighbouring pixels, weighted by similarity of colour", "photo",
        "check_photo", image="astronaut", neighbours=4, beta=None,
    ),
    _spec("motorcycle", "the pixels of a stereo pair of images with their true disparities", "motorcycle",
        "check_motorcycle", shrink=1, neighbours=4),
    _spec("highways", "the world's highways, lengths in km", "highways"),
    _spec("file", "a graph file: MatrixMarket, SNAP, DIMACS, METIS, CSV, ratings, UAI, npz (also of SciPy)", "file",
        "check_file", path="", format=None, duplicates="error", symmetrize=False, max_expansion=100.0),
    _spec("rmat", "an R-MAT (Kronecker) random graph of 2^scale vertices", "rmat",
        "check_rmat", scale=14, edge_factor=16, num_edges=None, num_vertices=None, a=0.57, b=0.19, c=0.19, d=0.05,
        seed=1, symmetric=False, permuted=True, self_loops=False, parallel_edges=False, max_weight=0),
    _spec("delaunay", "the Delaunay triangulation of random points, weighted by length", "delaunay",
        "check_delaunay", num_vertices=65536, seed=1, weighted=True),
    _spec("grid", "a road-like grid with removed edges and random lengths", "grid",
        "check_grid", rows=256, columns=256, removed=0.1, diagonals=False, shortcuts=0.0, length_spread=0.5, seed=1),
    _spec("ratings_random", "random ratings of low rank plus noise, items of power-law popularity", "random_ratings",
        "check_ratings", users=2000, items=1000, num_ratings=60000, rank=8, noise=0.25, exponent=0.8, seed=1),
    *(_spec(name, publication.help, "published", graph=name) for name, publication in PUBLICATIONS.items()),
    *stand_ins(),
]  # fmt: skip


@hookimpl
def onyx_graphs() -> list[GraphSpec]:
    """Return the built-in graphs."""
    return list(BUILTIN_GRAPHS)


__all__ = [
    "BUILTIN_GRAPHS", "check_delaunay", "check_digits", "check_file", "check_grid", "check_motorcycle", "check_photo",
    "check_ratings", "check_rmat", "delaunay", "digits", "file", "grid", "highways", "motorcycle", "onyx_graphs",
    "photo", "published", "random_ratings", "rmat",
]  # fmt: skip
