"""Random ratings with a known structure: a few factors plus noise, items of power-law popularity."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.graph.errors import GraphError
from harness.graph.generators.sampling import distinct
from harness.graph.graph import Graph


def random_ratings(
    users: int = 2000,
    items: int = 1000,
    num_ratings: int = 60000,
    rank: int = 8,
    noise: float = 0.25,
    exponent: float = 0.8,
    seed: int = 1,
) -> Graph:
    """Return ratings of `items` by `users`: a bipartite graph of exactly `num_ratings` edges user -> item.

    Weights are 0.5, 1, ..., 5. The i-th most popular item is drawn with probability proportional to i**-exponent, users
    uniformly. A rating is 3 plus the product of two `rank`-dimensional Gaussian factors (a product of variance 1) plus
    Gaussian noise of standard deviation `noise`. It is rounded to a multiple of 0.5 and clipped. Raises GraphError for
    invalid parameters.
    """
    check_ratings(users, items, num_ratings, rank, noise)
    rng = np.random.default_rng(seed)
    popularity = np.cumsum(np.arange(1, items + 1, dtype=np.float64) ** -exponent)
    shuffled = rng.permutation(items).astype(np.uint64)

    def draw(count: int) -> NDArray[np.uint64]:
        item = np.searchsorted(popularity, rng.random(count) * popularity[-1])
        user = rng.integers(0, users, size=count, dtype=np.uint64)
        keys: NDArray[np.uint64] = user * np.uint64(items) + shuffled[np.minimum(item, items - 1)]
        return keys

    user, item = np.divmod(distinct(draw, num_ratings, rng), np.uint64(items))
    of_user = rng.standard_normal((users, rank)) / rank**0.25
    of_item = rng.standard_normal((items, rank)) / rank**0.25
    value = 3 + np.einsum("ij,ij->i", of_user[user], of_item[item]) + noise * rng.standard_normal(num_ratings)
    return Graph.from_edges(
        user,
        item + np.uint64(users),
        num_vertices=users + items,
        weights=np.clip(np.round(2 * value) / 2, 0.5, 5),
        name=f"ratings_{users}x{items}",
        bipartite=(users, items),
        meta={"generator": "random_ratings", "rank": rank, "noise": noise, "exponent": exponent, "seed": seed},
    )


def check_ratings(users: int, items: int, num_ratings: int, rank: int, noise: float) -> None:
    """Raise GraphError for invalid parameters of `random_ratings`."""
    if users < 1 or items < 1 or rank < 1 or noise < 0 or not 0 <= num_ratings <= users * items // 2:
        raise GraphError(
            f"ratings: users={users}, items={items}, rank={rank}, noise={noise}, num_ratings={num_ratings}; "
            "sizes must be positive and num_ratings at most half of users * items"
        )
