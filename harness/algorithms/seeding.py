"""Seeds of label propagation: the vertices labelled at the start, and their labels; the same for every engine."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.language import InvalidInput

if TYPE_CHECKING:
    from harness.graph import Graph

SEEDINGS = ("auto", "labels", "colour", "random")


def number_of_labels(graph: Graph) -> int | None:
    """Return the number of different true labels of the graph (0 .. n-1), or None without labels."""
    if graph.labels is None or not len(graph.labels) or int(graph.labels.max()) < 0:
        return None
    return int(graph.labels.max()) + 1


def resolve_seeding(seeding: str, graph: Graph, features: int) -> str:
    """Resolve ``auto``: true labels if their number is k, otherwise colours if present, otherwise random.

    Raises InvalidInput if the graph cannot be seeded in the requested way.
    """
    if seeding not in SEEDINGS:
        raise InvalidInput(f"seeds={seeding!r} is not known; it is one of {', '.join(SEEDINGS)}")
    labels = number_of_labels(graph)
    if seeding == "auto":
        if labels == features:
            return "labels"
        return "colour" if "colour" in graph.vertex_data else "random"
    if seeding == "labels" and labels is None:
        raise InvalidInput(f"seeds=labels: graph {graph.name!r} has no true labels; use seeds=random or seeds=colour")
    if seeding == "labels" and labels != features:
        raise InvalidInput(
            f"seeds=labels: graph {graph.name!r} has {labels} labels but features={features}; set features={labels}"
        )
    if seeding == "colour" and "colour" not in graph.vertex_data:
        raise InvalidInput(f"seeds=colour: graph {graph.name!r} has no colours; use a pixel graph or seeds=random")
    return seeding


def choose_seeds(seeding: str, graph: Graph, features: int, fraction: float, seed: int) -> NDArray[np.int64]:
    """Return the label of every seed vertex, -1 elsewhere; int64[V].

    *labels*: a ``fraction`` of the vertices of every true class, at least one of each. *colour* and *random*: a
    ``fraction`` of all vertices, at least k if the graph has that many. *colour* assigns the label of the nearest of k
    colours (k-means++ over the seeds' own colours; a colour may end up without seeds). *random* assigns every label
    once and the rest uniformly at random.

    Raises InvalidInput if ``fraction`` is outside (0, 1] or the graph cannot be seeded in the requested way.
    """
    if not 0.0 < fraction <= 1.0:
        raise InvalidInput(f"fraction={fraction}: the share of seed vertices lies in (0, 1]")
    generator = np.random.default_rng(seed)
    seeding = resolve_seeding(seeding, graph, features)
    chosen = np.full(graph.num_vertices, -1, np.int64)
    if seeding == "labels":
        labels = np.asarray(graph.labels)
        for label in range(features):
            members = np.flatnonzero(labels == label)
            count = min(len(members), max(1, round(fraction * len(members))))
            chosen[generator.choice(members, count, replace=False)] = label
        return chosen
    count = min(graph.num_vertices, max(features, round(fraction * graph.num_vertices)))
    seeds = generator.choice(graph.num_vertices, count, replace=False)
    if seeding == "colour":
        chosen[seeds] = _palette_labels(np.asarray(graph.vertex_data["colour"])[seeds], features, generator)
    else:
        chosen[seeds] = np.concatenate(
            [np.arange(min(features, count)), generator.integers(0, features, max(0, count - features))]
        )
    return chosen


def label_accuracy(scores: NDArray[Any], seeding: str, graph: Graph, fraction: float, seed: int) -> dict[str, float]:
    """Return ``accuracy``: the share of vertices with a true label, except seeds, whose label has the highest score.

    ``scores``: ``[V, k]``. The seeds are those of :func:`choose_seeds` with the same arguments. A vertex with only zero
    scores is wrong. Empty if seeds are not true labels, or if no vertex remains.
    """
    features = scores.shape[1]
    if resolve_seeding(seeding, graph, features) != "labels":
        return {}
    truth = np.asarray(graph.labels)
    rated = (truth >= 0) & (choose_seeds(seeding, graph, features, fraction, seed) < 0)
    if not rated.any():
        return {}
    found = np.where(scores.any(axis=1), scores.argmax(axis=1), -1)
    return {"accuracy": float((found == truth)[rated].mean())}


def _palette_labels(colours: NDArray[Any], count: int, generator: np.random.Generator) -> NDArray[np.int64]:
    """Cluster colours ``[n, channels]`` into ``count`` groups, some of which may be empty."""
    from scipy.cluster.vq import kmeans2

    points = colours.reshape(len(colours), -1).astype(np.float64)
    if count >= len(np.unique(points, axis=0)):
        return np.unique(points, axis=0, return_inverse=True)[1].reshape(-1).astype(np.int64) % count
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "One of the clusters is empty", UserWarning)
        _, labels = kmeans2(points, count, minit="++", seed=generator)  # named rng from SciPy 1.15 on
    return np.asarray(labels, np.int64)
