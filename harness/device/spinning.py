"""How long the threads of GNU OpenMP spin at a barrier before they sleep."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

SPIN_VARIABLE = "GOMP_SPINCOUNT"
# Label propagation on the digits (k = 10, two threads, 181 supersteps) in ms, on two idle cores / with one of them
# busy: 35 / 15 with 100, 15 / 24 with 1,000, 11 / 45 with 3,000, 11 / 114 with 10,000, 11 / 1,900 to 3,200 by default.
# So 3,000 gives full speed on an idle machine and a bounded loss on a busy one.
SPIN_COUNT = "3000"


@contextmanager
def short_spins() -> Iterator[None]:
    """Set the spin count for a library that is loaded meanwhile, unless the environment sets it.

    The library reads the variable once, when it is loaded; afterwards the environment is as before.
    """
    if SPIN_VARIABLE in os.environ:
        yield
        return
    os.environ[SPIN_VARIABLE] = SPIN_COUNT
    try:
        yield
    finally:
        os.environ.pop(SPIN_VARIABLE, None)
