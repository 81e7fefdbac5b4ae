"""What belief propagation is asked of a graph: a Markov network's marginals, a pair's disparities, a clean picture."""

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
LEVELS = 8  # of a picture, when k is not said
DISPARITIES = 16  # of a pair, when k is not said: one a pixel from shrink=4 on


def task_of(graph: Graph) -> Task:
    """*network* where there is vertex data "unary", *stereo* for "left" and "right", *picture* for "colour".

    Raises InvalidInput for other graphs.
    """
    tasks: tuple[tuple[str, Task], ...] = (("unary", "network"), ("right", "stereo"), ("colour", "picture"))
    for data, task in tasks:
        if data in graph.vertex_data:
            return task
    raise InvalidInput(
        f"graph {graph.name!r} has no potentials and no picture that they could be made of; use a .uai file, or the "
        "graphs motorcycle or photo"
    )


def natural_features(graph: Graph) -> int:
    """The k of the task: the states of the network, disparities, or levels. Raises InvalidInput."""
    match task_of(graph):
        case "network":
            return number_of_states(graph)
        case "stereo":
            return min(DISPARITIES, int(graph.meta["range"]))
        case "picture":
            return LEVELS


def vertex_potentials(kind: str, graph: Graph, features: int, noise: float, seed: int) -> NDArray[np.float32]:
    """Float32[V, k], the largest of each vertex at 1: *drawn*, or *given* by the task. Raises InvalidInput."""
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
    """How good ``belief`` ``[V, k]`` is: :func:`network_quality`, ``bad_pixels`` or ``agreement``."""
    match task_of(graph):
        case "network":
            return network_quality(graph, belief, marginal) if "pairwise" in graph.edge_data else {}
        case "stereo":
            return bad_pixels(graph, belief)
        case "picture":
            return agreement(graph, belief, noise, seed)


def network_quality(graph: Graph, belief: NDArray[Any], marginal: bool) -> dict[str, float]:
    """Of marginals, where exact ones are affordable: ``marginal_error``, the largest absolute error of one, and their
    ``mean_marginal_error``; and ``contradicted``, if any: how many variables have no marginals, because their part of
    the network allows no joint state. Of max-marginals: ``log_score`` of the likeliest states, the sum of the
    logarithms of the potentials they meet, and ``zeros``, how many are zero and left out of it."""
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
    source, destination = graph.csr.row_of_arc, graph.csr.neighbours
    once = source < destination
    pairs = network.pairwise[once, state[source[once]], state[destination[once]]]
    met = np.concatenate([network.unary[np.arange(len(state)), state], pairs])
    return {"log_score": float(np.log(met[met > 0]).sum()), "zeros": float((met == 0).sum())}


def write_picture(graph: Graph, belief: NDArray[Any], path: Path) -> None:
    """Write a PNG of the likeliest labels, from black to white; ``meta`` gives height and width."""
    from PIL import Image  # comes with the photographs' own package

    grey = belief.argmax(axis=1) * 255.0 / max(belief.shape[1] - 1, 1)
    height, width = int(graph.meta["height"]), int(graph.meta["width"])
    Image.fromarray(grey.astype(np.uint8).reshape(height, width)).save(path)
