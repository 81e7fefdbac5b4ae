"""Tasks of belief propagation: marginals of a Markov network, disparities of a stereo pair, a denoised picture."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.algorithms.denoising import agreement, likelihood
from harness.algorithms.exact_marginals import exact_marginals
from harness.algorithms.potentials import drawn_potentials, number_of_states, scaled, unary_potentials
from harness.algorithms.stereo import bad_pixels, matching
from harness.graph.formats.uai import MarkovNetwork
from harness.language import InvalidInput

if TYPE_CHECKING:
    from harness.graph import Graph

Task: TypeAlias = Literal["network", "stereo", "picture"]
LEVELS = 8  # of a picture, by default
DISPARITIES = 16  # of a stereo pair, by default: one per pixel from shrink=4 on


def task_of(graph: Graph) -> Task:
    """Return *network* for vertex data "unary", *stereo* for "left" and "right", *picture* for "colour".

    Raises InvalidInput for other graphs.
    """
    tasks: tuple[tuple[str, Task], ...] = (("unary", "network"), ("right", "stereo"), ("colour", "picture"))
    for data, task in tasks:
        if data in graph.vertex_data:
            return task
    raise InvalidInput(
        f"graph {graph.name!r} has neither potentials nor a picture to derive them from; use a .uai file, or the "
        "graphs motorcycle or photo"
    )


def natural_features(graph: Graph) -> int:
    """Return the default k of the task: states of the network, disparities, or grey levels. Raises InvalidInput."""
    match task_of(graph):
        case "network":
            return number_of_states(graph)
        case "stereo":
            return min(DISPARITIES, int(graph.meta["range"]))
        case "picture":
            return LEVELS


def vertex_potentials(kind: str, graph: Graph, features: int, noise: float, seed: int) -> NDArray[np.float32]:
    """Return the vertex potentials, float32[V, k], *drawn* or *given* by the task. Raises InvalidInput.

    The largest potential of each vertex is 1.
    """
    if kind == "drawn":
        return drawn_potentials(graph.num_vertices, features, seed)
    match task_of(graph):
        case "network":
            return unary_potentials(graph, features)
        case "stereo":
            return scaled(matching(graph, features), "pixel {}".format)
        case "picture":
            return scaled(likelihood(graph, features, noise, seed), "pixel {}".format)


def quality(graph: Graph, belief: NDArray[Any], marginal: bool, noise: float, seed: int) -> dict[str, float]:
    """Rate ``belief`` ``[V, k]``: :func:`network_quality`, ``bad_pixels`` or ``agreement``."""
    match task_of(graph):
        case "network":
            return network_quality(graph, belief, marginal) if "pairwise" in graph.edge_data else {}
        case "stereo":
            return bad_pixels(graph, belief)
        case "picture":
            return agreement(graph, belief, noise, seed)


def network_quality(graph: Graph, belief: NDArray[Any], marginal: bool) -> dict[str, float]:
    """Rate marginals or max-marginals of a network.

    Marginals are rated if the exact ones are affordable: ``marginal_error``, the largest absolute error, and
    ``mean_marginal_error``. ``contradicted``, if any: the number of variables without marginals, because their part of
    the network allows no joint state. Max-marginals: ``log_score`` of the likeliest states, the sum of the logarithms
    of their potentials, and ``zeros``, the number of zero potentials, which the sum excludes.
    """
    network = MarkovNetwork.from_graph(graph)
    if marginal:
        exact = exact_marginals(network)
        if exact is None:
            return {}
        possible: NDArray[np.bool_] = np.asarray(exact.any(axis=1))
        off = np.abs(belief[:, : exact.shape[1]] - exact)[network.state_mask & possible[:, None]]
        errors = {"marginal_error": float(off.max()), "mean_marginal_error": float(off.mean())} if off.size else {}
        return errors if possible.all() else errors | {"contradicted": float(np.count_nonzero(~possible))}
    state = belief.argmax(axis=1)
    source, destination = graph.csr.row_of_edge, graph.csr.neighbours
    once = source < destination
    pairs = network.pairwise[once, state[source[once]], state[destination[once]]]
    met = np.concatenate([network.unary[np.arange(len(state)), state], pairs])
    return {"log_score": float(np.log(met[met > 0]).sum()), "zeros": float((met == 0).sum())}


def write_picture(graph: Graph, belief: NDArray[Any], path: Path) -> None:
    """Write a PNG of the likeliest labels, from black to white; ``meta`` gives height and width in pixels."""
    from PIL import Image  # installed with the photographs' package

    grey = belief.argmax(axis=1) * 255.0 / max(belief.shape[1] - 1, 1)
    height, width = int(graph.meta["height"]), int(graph.meta["width"])
    Image.fromarray(grey.astype(np.uint8).reshape(height, width)).save(path)
