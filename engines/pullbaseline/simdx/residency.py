"""How many blocks of a kernel are resident at once, so that a global barrier cannot deadlock (sec. 5, eq. 1)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from harness.api import EngineFailure, blocks_of_multiprocessor, registers_of


@dataclass(frozen=True)
class Residency:
    """What a device has (multiprocessors, registers of each) and what a kernel takes (registers of a thread, threads of
    a block); ``occupancy``: the blocks that the driver finds room for on a multiprocessor, which knows shared memory
    and the other limits as well."""

    multiprocessors: int
    registers: int
    registers_of_thread: int
    threads: int
    occupancy: int

    @property
    def blocks(self) -> int:
        """``#CTA = floor(#registersPerSMX / (#registersPerThread * #threadsPerCTA)) * #SMX`` (eq. 1), and no more than
        the driver allows."""
        by_registers = self.registers // (self.registers_of_thread * self.threads)
        return min(by_registers, self.occupancy) * self.multiprocessors

    def take(self, kernel: str, wanted: int | None) -> int:
        """The blocks to launch: all, or those ``wanted``. Raises EngineFailure where not so many are resident."""
        if self.blocks < max(1, wanted or 0):
            met = f"{self.registers_of_thread} registers a thread, {self.threads} threads a block"
            raise EngineFailure(
                f"{kernel} ({met}) has {self.blocks} blocks resident at once on this device, and its global barrier "
                f"needs {wanted or 1}; give a smaller resident_blocks, or fusion=none"
            )
        return wanted or self.blocks


def residency(device: Any, function: Any, threads: int) -> Residency:
    """Of a loaded kernel without dynamic shared memory. ``device``, ``function``: CuPy's."""
    return Residency(
        multiprocessors=int(device.attributes["MultiProcessorCount"]),
        registers=int(device.attributes["MaxRegistersPerMultiprocessor"]),
        registers_of_thread=registers_of(function),
        threads=threads,
        occupancy=blocks_of_multiprocessor(function, threads),
    )
