"""The part of an engine that runs another engine: calls that the other one answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from harness.contract import Engine, Operations, RunStatistics


class Forwarding:
    """Forward runs and reads of results to :attr:`prepared`.

    A subclass derives from this class first and from :class:`~harness.contract.Engine` second. It sets ``_prepared`` in
    ``prepare`` and ``generate``, and overrides the methods that it does not only forward. Shapes, dtypes and errors are
    those of the methods of ``Engine``.
    """

    _prepared: Engine | None = None

    @property
    def prepared(self) -> Engine:
        """The engine that :meth:`prepare` or :meth:`generate` was last called on."""
        assert self._prepared is not None, "prepare() comes first"
        return self._prepared

    def narrow(self, stale: NDArray[np.bool_], senders: NDArray[np.bool_]) -> None:
        """Pass the stale vertices and the senders to the prepared engine."""
        self.prepared.narrow(stale, senders)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run the prepared engine."""
        return self.prepared.run(max_supersteps)

    def ordered_superstep(self) -> Mapping[str, NDArray[np.integer[Any]] | float]:
        """Run one superstep of the prepared engine; return its orders of edges."""
        return self.prepared.ordered_superstep()

    def values(self, name: str) -> NDArray[np.generic]:
        """Return the values of a property."""
        return self.prepared.values(name)

    def rows(self, name: str, index: NDArray[np.integer[Any]]) -> NDArray[np.generic]:
        """Return some rows of a property."""
        return self.prepared.rows(name, index)

    def device_values(self, name: str) -> Any:
        """Return the values of a property on the device."""
        return self.prepared.device_values(name)

    def operations(self, statistics: RunStatistics) -> Operations:
        """Return the operations of the latest run of the prepared engine."""
        return self.prepared.operations(statistics)
