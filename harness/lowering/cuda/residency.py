"""The number of blocks of a kernel resident at once, so that a global barrier cannot deadlock.

Source: Liu & Huang 2019, sec. 5, eq. 1.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harness.contract import EngineFailure
from harness.device.cuda import blocks_of_multiprocessor, registers_of


@dataclass(frozen=True)
class Residency:
    """The resources of a device and the needs of a kernel.

    ``multiprocessors``, ``registers``: of the device, and of each multiprocessor. ``registers_of_thread``, ``threads``:
    registers of a thread and threads of a block of the kernel. ``occupancy``: the driver's number of resident blocks on
    a multiprocessor, which also accounts for shared memory and the other limits.
    """

    multiprocessors: int
    registers: int
    registers_of_thread: int
    threads: int
    occupancy: int

    @property
    def blocks(self) -> int:
        """``#CTA = floor(#registersPerSMX / (#registersPerThread * #threadsPerCTA)) * #SMX`` (eq. 1), limited by the
        driver's occupancy."""
        by_registers = self.registers // (self.registers_of_thread * self.threads)
        return min(by_registers, self.occupancy) * self.multiprocessors

    def take(self, kernel: str, wanted: int | None, remedy: str) -> int:
        """Return the blocks to launch: all resident blocks, or ``wanted``.

        Raises EngineFailure, which ends with the ``remedy``, if fewer are resident.
        """
        if self.blocks < max(1, wanted or 0):
            met = f"{self.registers_of_thread} registers a thread, {self.threads} threads a block"
            raise EngineFailure(
                f"{kernel} ({met}) has {self.blocks} blocks resident at once on this device, and its global barrier "
                f"needs {wanted or 1}; {remedy}"
            )
        return wanted or self.blocks


def residency_of(function: Any, attributes: Mapping[str, int], threads: int, shared: int = 0) -> Residency:
    """Return the residency of a loaded kernel on a device with these attributes.

    A block has ``threads`` threads and ``shared`` bytes of dynamic shared memory.
    """
    return Residency(
        multiprocessors=int(attributes["MultiProcessorCount"]),
        registers=int(attributes["MaxRegistersPerMultiprocessor"]),
        registers_of_thread=registers_of(function),
        threads=threads,
        occupancy=blocks_of_multiprocessor(function, threads, shared),
    )
