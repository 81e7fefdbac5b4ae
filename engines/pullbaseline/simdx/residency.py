"""The number of blocks of a kernel resident at once, so that a global barrier cannot deadlock (sec. 5, eq. 1)."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from engines.pullbaseline.simdx.resolve import resolve
from harness.api import EngineFailure, ThreadEngine, blocks_of_multiprocessor, registers_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from engines.pullbaseline.schedules import SimdxSchedule
    from harness.api import Graph, Program

LOCK = 32  # words between the two counts of a barrier (barrier.cuh)


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

    def take(self, kernel: str, wanted: int | None) -> int:
        """Return the blocks to launch: all resident blocks, or ``wanted``. Raises EngineFailure if fewer are
        resident."""
        if self.blocks < max(1, wanted or 0):
            met = f"{self.registers_of_thread} registers a thread, {self.threads} threads a block"
            raise EngineFailure(
                f"{kernel} ({met}) has {self.blocks} blocks resident at once on this device, and its global barrier "
                f"needs {wanted or 1}; give a smaller resident_blocks, or fusion=none"
            )
        return wanted or self.blocks


class ResidentEngine(ThreadEngine):
    """Has kernels with a global barrier if ``fused``, launched cooperatively with the resident blocks.

    ``resident``: the residency of every such kernel, once it is loaded. ``blocks_of``: the number of blocks that it is
    launched with.
    """

    schedule: SimdxSchedule
    resolved: SimdxSchedule

    def resolve(self) -> SimdxSchedule:
        """Return the schedule with every option filled in that is known before kernels are compiled."""
        return resolve(self.schedule, self.program, self.layout.features)

    def resolved_options(self) -> Mapping[str, Any]:
        """Return the resolved options, with the blocks of fused kernels once these are loaded.

        ``resident_blocks`` is a list, in the order of the kernels, if these have different numbers of blocks.
        """
        blocks = list(self.blocks_of.values())
        found = {"resident_blocks": blocks[0] if len(set(blocks)) == 1 else blocks} if blocks else {}
        return {**super().resolved_options(), **found}

    @property
    @abstractmethod
    def fused(self) -> bool:
        """Whether one launch runs many supersteps."""

    def lower(self, program: Program, graph: Graph, features: int) -> str:
        """Plan and generate the kernels, without a device; return the module's source."""
        self.resident: dict[str, Residency] = {}
        self.blocks_of: dict[str, int] = {}
        return super().lower(program, graph, features)

    def most_blocks(self) -> int | None:
        """Return the limit on a kernel's blocks for reasons other than residency; None: no limit."""
        return None

    def lock_array(self) -> dict[str, tuple[int, type[np.generic]]]:
        """Return the counts of the barriers, in the form of :meth:`own_arrays`: two per fused kernel, ``LOCK`` words
        apart."""
        return {"lock": (2 * 2 * LOCK, np.uint64)} if self.fused else {}

    def _load(self, device: Any) -> None:
        super()._load(device)
        for kernel in self.kernels if self.fused else ():
            function = self.functions[kernel.name]
            found = Residency(
                multiprocessors=int(device.attributes["MultiProcessorCount"]),
                registers=int(device.attributes["MaxRegistersPerMultiprocessor"]),
                registers_of_thread=registers_of(function),
                threads=self.threads,
                occupancy=blocks_of_multiprocessor(function, self.threads),
            )
            self.resident[kernel.name] = found
            taken = found.take(kernel.name, self.schedule.resident_blocks)
            self.blocks_of[kernel.name] = min(taken, self.most_blocks() or taken)

    def launch_together(self, past: Any, names: Iterable[str]) -> None:
        """Queue fused kernels in order. The driver refuses a kernel whose blocks are not all resident at once."""
        arrays = {**self.memory.arrays, "run": self.state.array, "past": past}
        arguments = {kernel.name: tuple(arrays[name] for name in kernel.arguments) for kernel in self.kernels}
        for name in names:
            grid, block = (self.blocks_of[name],), (self.threads,)
            self.functions[name](grid, block, arguments[name], enable_cooperative_groups=True)

    def explain(self) -> str:
        """Explain the engine, with the blocks of fused kernels."""
        told = [f"{name}: {blocks} blocks, all resident" for name, blocks in self.blocks_of.items()]
        if self.fused and self.resolved.resident_blocks is None and not told:
            told = ["resident_blocks: as many as the device holds at once, known once the kernels are loaded"]
        return "\n".join([*told, super().explain()])
