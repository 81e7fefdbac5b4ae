"""Memory counts of one superstep, by kernel: requests of warps, sectors and bytes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SECTOR, LINE = 32, 128  # bytes: the unit of a memory transfer, and the unit of a transaction


@dataclass(frozen=True)
class Loads:
    """Global loads: ``requests`` of whole warps, ``sectors`` of 32 bytes that they transfer, and requested ``bytes``.

    A sector counts once per request. ``bytes`` counts the bytes that at least one lane requested.
    """

    requests: float = 0.0
    sectors: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: Loads) -> Loads:
        return Loads(self.requests + other.requests, self.sectors + other.sectors, self.bytes + other.bytes)

    def times(self, factor: float) -> Loads:
        """Return the counts multiplied by ``factor``."""
        return Loads(self.requests * factor, self.sectors * factor, self.bytes * factor)

    @property
    def efficiency(self) -> float | None:
        """Global load efficiency: bytes requested over bytes transferred. None: there are no loads."""
        return self.bytes / (SECTOR * self.sectors) if self.sectors else None


@dataclass(frozen=True)
class Atomics:
    """Atomic operations on global memory, reductions included.

    ``requests`` of whole warps, ``sectors`` of 32 bytes, and ``transactions`` on lines of 128 bytes. Lanes that access
    one address are serialized, so its sector and its line count once per lane.
    """

    requests: float = 0.0
    sectors: float = 0.0
    transactions: float = 0.0

    def __add__(self, other: Atomics) -> Atomics:
        return Atomics(
            self.requests + other.requests, self.sectors + other.sectors, self.transactions + other.transactions
        )

    def times(self, factor: float) -> Atomics:
        """Return the counts multiplied by ``factor``."""
        return Atomics(self.requests * factor, self.sectors * factor, self.transactions * factor)


@dataclass(frozen=True)
class KernelBehaviour:
    """Global loads and atomic operations of one kernel in one superstep."""

    loads: Loads = Loads()
    atomics: Atomics = Atomics()

    def __add__(self, other: KernelBehaviour) -> KernelBehaviour:
        return KernelBehaviour(self.loads + other.loads, self.atomics + other.atomics)

    def times(self, factor: float) -> KernelBehaviour:
        """Return the counts multiplied by ``factor``."""
        return KernelBehaviour(self.loads.times(factor), self.atomics.times(factor))


@dataclass(frozen=True)
class Behaviour:
    """Memory counts of a superstep in which every vertex is active, by kernel in launch order.

    ``source``: the method of counting. ``share``: the fraction of blocks that the model counted; 1 for counters.
    """

    source: str
    kernels: Mapping[str, KernelBehaviour] = field(default_factory=dict)
    share: float = 1.0

    @property
    def whole(self) -> KernelBehaviour:
        """The sum over all kernels."""
        return sum(self.kernels.values(), KernelBehaviour())

    def plain(self) -> dict[str, Any]:
        """Return the form that records store."""
        return {"source": self.source, "share": self.share, **_plain(self.whole),
                "kernels": {name: _plain(kernel) for name, kernel in self.kernels.items()}}  # fmt: skip


def _plain(kernel: KernelBehaviour) -> dict[str, Any]:
    loads, atomics = asdict(kernel.loads), asdict(kernel.atomics)
    return {"load_efficiency": kernel.loads.efficiency, "loads": loads, "atomics": atomics}
