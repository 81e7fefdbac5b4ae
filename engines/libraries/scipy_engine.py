"""SciPy as an engine: a reduction whose message is a product with the source is a sparse matrix times dense features.

Everything else is NumPy in float32. A message that is no such product is *unsupported*: gathering messages edge by edge
in Python is not what anybody would use SciPy for.
"""

from __future__ import annotations

from typing import Any

import scipy.sparse

from engines.libraries.array_engine import ArrayEngine
from harness.api import Arrays, Device


class ScipyEngine(ArrayEngine):
    """Sparse times dense, on one thread, in float32."""

    library = "scipy.sparse"
    deterministic = True

    def open(self, device: Device) -> None:
        """NumPy's arrays."""
        self.arrays = Arrays()

    def csr(self, values: Any, columns: Any, offsets: Any, shape: tuple[int, int]) -> Any:
        """SciPy's CSR array."""
        return scipy.sparse.csr_array((values, columns, offsets), shape=shape)
