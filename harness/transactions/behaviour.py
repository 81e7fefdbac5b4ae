"""What is counted of a superstep: requests of warps, sectors and bytes, by kernel."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

SECTOR, LINE = 32, 128  # bytes that memory moves at once, and that a transaction covers


@dataclass(frozen=True)
class Loads:
    """Global loads: ``requests`` of whole warps, ``sectors`` of 32 bytes that these move (each once a request), and
    ``bytes`` of them that some lane asked for."""

    requests: float = 0.0
    sectors: float = 0.0
    bytes: float = 0.0

    def __add__(self, other: Loads) -> Loads:
        return Loads(self.requests + other.requests, self.sectors + other.sectors, self.bytes + other.bytes)

    def times(self, factor: float) -> Loads:
        """So many times as much."""
        return Loads(self.requests * factor, self.sectors * factor, self.bytes * factor)

    @property
    def efficiency(self) -> float | None:
        """Global load efficiency: bytes asked for over bytes moved. None: there are no loads."""
        return self.bytes / (SECTOR * self.sectors) if self.sectors else None


@dataclass(frozen=True)
class Atomics:
    """Atomic operations on global memory, reductions among them: ``requests`` of whole warps, ``sectors`` of 32 bytes
    and ``transactions`` on lines of 128 bytes that these come to; lanes at one address take turns, so that its sector
    and its line count again for each."""

    requests: float = 0.0
    sectors: float = 0.0
    transactions: float = 0.0

    def __add__(self, other: Atomics) -> Atomics:
        return Atomics(
            self.requests + other.requests, self.sectors + other.sectors, self.transactions + other.transactions
        )

    def times(self, factor: float) -> Atomics:
        """So many times as much."""
        return Atomics(self.requests * factor, self.sectors * factor, self.transactions * factor)


@dataclass(frozen=True)
class KernelBehaviour:
    """Global loads and atomic operations of one kernel in one superstep."""

    loads: Loads = Loads()
    atomics: Atomics = Atomics()

    def __add__(self, other: KernelBehaviour) -> KernelBehaviour:
        return KernelBehaviour(self.loads + other.loads, self.atomics + other.atomics)

    def times(self, factor: float) -> KernelBehaviour:
        """So many times as much."""
        return KernelBehaviour(self.loads.times(factor), self.atomics.times(factor))


@dataclass(frozen=True)
class Behaviour:
    """A superstep in which every vertex is active, kernel by kernel in the order of their launches.

    ``source``: what counted. ``share``: of the warps (or blocks, where their warps work together), those that the model
    looked at, further steps of long loops being left out there; 1 for counters.
    """

    source: str
    kernels: Mapping[str, KernelBehaviour] = field(default_factory=dict)
    share: float = 1.0

    @property
    def whole(self) -> KernelBehaviour:
        """All kernels together."""
        return sum(self.kernels.values(), KernelBehaviour())

    def plain(self) -> dict[str, Any]:
        """The form in which records keep it."""
        return {"source": self.source, "share": self.share, **_plain(self.whole),
                "kernels": {name: _plain(kernel) for name, kernel in self.kernels.items()}}  # fmt: skip


def _plain(kernel: KernelBehaviour) -> dict[str, Any]:
    loads, atomics = asdict(kernel.loads), asdict(kernel.atomics)
    return {"load_efficiency": kernel.loads.efficiency, "loads": loads, "atomics": atomics}
