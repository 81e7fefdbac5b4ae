"""The built-in named graphs: data sets of packages, published graphs, files and generators."""

from __future__ import annotations

from typing import get_args

from harness.contract import GraphSpec, option
from harness.graph.catalogue.digit_images import check_digits, digits
from harness.graph.catalogue.files import check_file, file
from harness.graph.catalogue.photographs import IMAGES, check_photo, photo
from harness.graph.catalogue.publications import PUBLICATIONS, published
from harness.graph.catalogue.roads import highways
from harness.graph.catalogue.stand_ins import stand_ins
from harness.graph.catalogue.stereo_pair import check_motorcycle, motorcycle
from harness.graph.edges import Duplicates
from harness.graph.formats import FORMATS
from harness.graph.generators import (
    check_delaunay,
    check_equal_rows,
    check_grid,
    check_ratings,
    check_rmat,
    check_rmat_rows,
    check_urand_rows,
    delaunay,
    equal_rows,
    grid,
    random_ratings,
    rmat,
    rmat_rows,
    urand_rows,
)
from harness.hookspecs import hookimpl


def _spec(name: str, text: str, function: str, check: str = "", **parameters: object) -> GraphSpec:
    place = "harness.graph.catalogue:"
    return GraphSpec(name, text, place + function, parameters, check and place + check)


_SEED = option(1, "seed of the random numbers")
_NEIGHBOURS = option(4, "neighbours of a pixel", values=(4, 8))
_WEIGHT = option(0, "weights are drawn from 1 to this; 0: no weights", within="[0, 16777216]")
_PROBABILITY = "probability of this quadrant of the adjacency matrix; the four add up to 1"

_RMAT = _spec("rmat", "an R-MAT (Kronecker) random graph of 2^scale vertices", "rmat",
    "check_rmat",
    scale=option(14, "binary logarithm of the number of vertices", within="[0, 31]"),
    edge_factor=option(16, "edges drawn per vertex; fewer are stored, since parallel ones are merged",
        within="[0, inf)"),
    num_edges=option(None, "exact number of stored edges, instead of edge_factor", within="[0, inf)"),
    num_vertices=option(None, "number of vertices, above half of 2^scale; null: 2^scale", within="[1, inf)"),
    a=option(0.57, _PROBABILITY, within="[0, 1]"),
    b=option(0.19, _PROBABILITY, within="[0, 1]"),
    c=option(0.19, _PROBABILITY, within="[0, 1]"),
    d=option(0.05, _PROBABILITY, within="[0, 1]"),
    seed=_SEED,
    symmetric=option(False, "draw undirected edges, and store both directions of each"),
    permuted=option(True, "shuffle the vertex numbers; otherwise low numbers have high degrees"),
    self_loops=option(False, "keep self-loops"),
    parallel_edges=option(False, "keep parallel edges"),
    max_weight=option(0, "weights are drawn from 1 to this; 0: no weights", within="[0, inf)"))  # fmt: skip

_GRID = _spec("grid", "a road-like grid with removed edges and random lengths", "grid",
    "check_grid",
    rows=option(256, "rows of vertices", within="[1, inf)"),
    columns=option(256, "columns of vertices", within="[1, inf)"),
    removed=option(0.1, "share of the edges that is removed", within="[0, 1]"),
    diagonals=option(False, "also join diagonal neighbours"),
    shortcuts=option(0.0, "additional edges between random vertices, as a share of V", within="[0, inf)"),
    length_spread=option(0.5, "s: lengths are multiplied by a random factor from 1-s to 1+s", within="[0, 1)"),
    seed=_SEED)  # fmt: skip

BUILTIN_GRAPHS: list[GraphSpec] = [
    _spec("digits", "handwritten digits, each joined to its nearest neighbours, 10 classes", "digits",
        "check_digits",
        neighbours=option(10, "nearest images that each image is joined to", within="[1, 1796]")),
    _spec("photo", "a photograph of scikit-image: neighbouring pixels, weighted by similarity of colour", "photo",
        "check_photo",
        image=option("astronaut", "image of skimage.data", values=IMAGES),
        neighbours=_NEIGHBOURS,
        beta=option(None, "an edge has the weight exp(-beta * squared distance of colours); null: from their mean")),
    _spec("motorcycle", "the pixels of a stereo pair of images with their true disparities", "motorcycle",
        "check_motorcycle",
        shrink=option(1, "blocks of this many pixels squared become one", within="[1, 16]"),
        neighbours=_NEIGHBOURS),
    _spec("highways", "the world's highways, lengths in km", "highways"),
    _spec("file", "a graph file: MatrixMarket, SNAP, DIMACS, METIS, CSV, ratings, UAI, npz (also of SciPy)", "file",
        "check_file",
        path=option("", "path of the file; ~ is the home folder"),
        format=option(None, "format of the file; null: by its suffix", values=tuple(FORMATS)),
        duplicates=option("error", "meaning of parallel edges", values=get_args(Duplicates)),
        symmetrize=option(False, "add the reverse of every edge, for files that list each undirected edge once"),
        max_expansion=option(100.0, "largest decompressed size, as a multiple of the file's size", within="(0, inf)")),
    _RMAT,
    _spec("rmat_rows", "an R-MAT multigraph made row by row, for billions of edges; never cached", "rmat_rows",
        "check_rmat_rows",
        scale=option(14, "binary logarithm of the number of vertices", within="[0, 31]"),
        edge_factor=option(16, "expected edges for each vertex; parallel edges and self-loops are kept",
            within="[0, inf)"),
        a=option(0.57, _PROBABILITY, within="[0, 1]"),
        b=option(0.19, _PROBABILITY, within="[0, 1]"),
        c=option(0.19, _PROBABILITY, within="[0, 1]"),
        d=option(0.05, _PROBABILITY, within="[0, 1]"),
        seed=_SEED,
        permuted=option(True, "permute the vertex numbers; otherwise low numbers have high degrees"),
        max_weight=_WEIGHT),
    _spec("urand_rows", "uniform random rows, for billions of edges; never cached", "urand_rows",
        "check_urand_rows",
        num_vertices=option(65536, "number of vertices", within="[1, 2147483648]"),
        least_degree=option(16, "the smallest out-degree", within="[0, inf)"),
        most_degree=option(48, "the largest out-degree; all from the smallest on are equally likely",
            within="[0, inf)"),
        seed=_SEED,
        max_weight=_WEIGHT),
    _GRID,
    _spec("delaunay", "the Delaunay triangulation of random points, weighted by length", "delaunay",
        "check_delaunay",
        num_vertices=option(65536, "number of points", within="[3, inf)"),
        seed=_SEED,
        weighted=option(True, "the weight of an edge is its length; otherwise no weights"),
        local=option(False, "neighbours have near numbers, as in published meshes; otherwise random ones")),
    _spec("equal_rows", "all vertices have as many out-edges, to random vertices: for patterns of access",
        "equal_rows",
        "check_equal_rows",
        num_vertices=option(4096, "number of vertices", within="[2, inf)"),
        length=option(32, "out-edges of a vertex", within="[1, inf)"),
        shift=option(0, "additional edges of vertex 0: the rows of others begin behind a multiple of length by these",
            within="[0, inf)"),
        seed=_SEED),
    _spec("ratings_random", "random ratings of low rank plus noise, items of power-law popularity", "random_ratings",
        "check_ratings",
        users=option(2000, "number of users", within="[1, inf)"),
        items=option(1000, "number of items", within="[1, inf)"),
        num_ratings=option(60000, "number of ratings, at most half of users * items", within="[0, inf)"),
        rank=option(8, "number of hidden factors", within="[1, inf)"),
        noise=option(0.25, "standard deviation of the noise on a rating", within="[0, inf)"),
        exponent=option(0.8, "the i-th item is drawn with probability proportional to i^-exponent"),
        seed=_SEED),
    *(
        _spec(name, publication.help, "published", graph=option(name, "name of the publication", values=(name,)))
        for name, publication in PUBLICATIONS.items()
    ),
    *stand_ins(_RMAT, _GRID),
]  # fmt: skip


@hookimpl
def onyx_graphs() -> list[GraphSpec]:
    """Return the built-in graphs."""
    return list(BUILTIN_GRAPHS)


__all__ = [
    "BUILTIN_GRAPHS", "check_delaunay", "check_digits", "check_equal_rows", "check_file", "check_grid",
    "check_motorcycle", "check_photo", "check_ratings", "check_rmat", "check_rmat_rows", "check_urand_rows", "delaunay",
    "digits", "equal_rows", "file", "grid", "highways", "motorcycle", "onyx_graphs", "photo", "published",
    "random_ratings", "rmat", "rmat_rows", "urand_rows",
]  # fmt: skip
