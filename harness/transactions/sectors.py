"""Count loads and atomic operations of warps as the hardware does.

Measured on an H100 with kernels of known addresses, with the same result for accesses of 1, 4, 8 and 16 bytes per lane:
a load transfers each sector once, for any number of lanes. ``smsp__sass_data_bytes`` counts a byte once even if several
lanes request it. Lanes of an atomic operation that access the same address are serialized.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from harness.transactions.behaviour import LINE, SECTOR, Atomics, Loads
from harness.transactions.lanes import WARP

Addresses = NDArray[np.int64]
_NOWHERE = np.int64(np.iinfo(np.int64).max)


def loads(addresses: Addresses, active: NDArray[np.bool_], size: int, weights: NDArray[np.float64]) -> Loads:
    """Count loads of ``size`` bytes per lane, aligned to their size.

    ``addresses`` (int64, bytes) and ``active`` (bool) are [n, 32]. ``weights`` (float64[n]) is the number of requests
    that each row represents.
    """
    asked = _sorted(addresses, active)
    counts = (_different(asked // part).sum(axis=1) - (asked[:, -1] == _NOWHERE) for part in (SECTOR, 1))
    sectors, distinct = (float(weights @ count) for count in counts)
    return Loads(float(weights @ active.any(axis=1)), sectors, distinct * size)


def atomics(addresses: Addresses, active: NDArray[np.bool_], weights: NDArray[np.float64]) -> Atomics:
    """Count atomic operations at ``addresses``; see :func:`loads`."""
    asked = _sorted(addresses, active)
    fresh = _different(asked)
    place = np.arange(WARP)
    turn = place - np.maximum.accumulate(np.where(fresh, place, 0), axis=1)  # rank among lanes of one address
    nowhere = asked == _NOWHERE

    def together(part: int) -> float:
        keys = np.where(nowhere, _NOWHERE, asked // part * WARP + turn)
        keys.sort(axis=1)
        return float(weights @ (_different(keys).sum(axis=1) - nowhere.any(axis=1)))

    return Atomics(float(weights @ active.any(axis=1)), together(SECTOR), together(LINE))


def _sorted(addresses: Addresses, active: NDArray[np.bool_]) -> Addresses:
    """Sort each row in ascending order; inactive lanes come last."""
    assert addresses.shape == active.shape == (len(active), WARP)
    asked = np.where(active, addresses, _NOWHERE)
    asked.sort(axis=1)
    return asked


def _different(ascending: Addresses) -> NDArray[np.bool_]:
    """Return whether each value differs from its predecessor in the row; True for the first of a row."""
    fresh = np.ones(ascending.shape, np.bool_)
    np.not_equal(ascending[:, 1:], ascending[:, :-1], out=fresh[:, 1:])
    return fresh
