"""The link that edges outside of a device's memory cross: its rates, and the bytes that one run moves over it.

On a GPU the link is that to the host, on the CPU the file of the edges.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.campaign.gpu import opened_gpu
from harness.contract import Device, Transfers
from harness.device.errors import CompilationFailed
from harness.device.link_rates import link_rates
from harness.edge_places import Place
from harness.graph.file_maps import file_map

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.records.transfers import Link

OUTSIDE = frozenset(one.value for one in (Place.MAPPED, Place.STREAMED, Place.MANAGED))
SENT, RECEIVED = 197, 198  # NVML_FI_DEV_PCIE_COUNT_TX_BYTES, ..._RX_BYTES
_WRAP = 1 << 32
_PERIOD_S = 0.01  # between two looks at the counters
_MOST_GAP_S = 0.06  # a link of PCIe 5, 64 GB/s at most, moves 2^32 bytes in 67 ms
_MOST_READ, _BLOCK = 1 << 28, 1 << 25  # bytes of a file that a sample reads, and of one read
_SAMPLES = 3
logger = logging.getLogger(__name__)


def is_crossed(options: Mapping[str, Any]) -> bool:
    """Return whether edges are outside of the device's memory under the resolved options of an engine."""
    return options.get("edges") in OUTSIDE


def link_of(device: Device, graph: Graph, reset: Callable[[], object], run: Callable[[], object]) -> Link | None:
    """Return the link of a cell whose edges cross it; None if its rates cannot be measured.

    ``reset`` and ``run``: on a GPU, begin one more run and run it to its end; only bytes of the latter count. The
    device must not be used by others meanwhile.
    """
    if device.kind == "cpu":
        read = file_rate(graph)
        return None if read is None else {"copy": None, "in_place": {}, "read": read, "run_bytes": None}
    try:
        rates = link_rates(device.index)
    except (MemoryError, CompilationFailed) as error:
        logger.warning("the rates of the host link are unknown, and claims about them: %s", error)
        return None
    reset()
    moved = bytes_over_link(device.index, run)
    return {"copy": rates["copy"], "in_place": rates["in_place"], "read": None, "run_bytes": moved}


def bytes_over_link(index: int, work: Callable[[], object]) -> int | None:
    """Run some work; return the bytes over the host link of a GPU meanwhile, in the direction with more of them.

    The GPU counts those of all processes, with the headers of packets and the commands of the driver. None: it does not
    count them, or its counters may have wrapped more than once between two looks at them. ``work``: must have finished
    on the device when it returns.
    """
    with opened_gpu(index) as opened:
        gained = None if opened is None else _Gained(*opened)
        ended = threading.Event()

        def watch() -> None:
            while gained is not None and not ended.wait(_PERIOD_S):
                gained.look()

        watcher = threading.Thread(target=watch, daemon=True)
        watcher.start()
        try:
            work()
        finally:
            ended.set()
            watcher.join()
        if gained is None:
            return None
        gained.look()
        return max(gained.bytes) if gained.known else None


class _Gained:
    """What a GPU's counters of bytes sent and received have gained. They may have 32 bits, also in values of 64.

    ``known``: the GPU counts, and its counters have not had time to wrap twice.
    """

    def __init__(self, nvml: Any, gpu: Any) -> None:
        self.nvml, self.gpu = nvml, gpu
        self.bytes, self.known = [0, 0], True
        self._last, self._at = self._read(), time.perf_counter()

    def look(self) -> None:
        """Add what the counters have gained since the last look."""
        if not self.known:
            return
        found, now = self._read(), time.perf_counter()
        for i, (old, new) in enumerate(zip(self._last, found, strict=True)):
            self.bytes[i] += (new - old) % _WRAP
        self.known = self.known and now - self._at <= _MOST_GAP_S
        self._last, self._at = found, now

    def _read(self) -> list[int]:
        found = self.nvml.nvmlDeviceGetFieldValues(self.gpu, [SENT, RECEIVED])
        self.known = self.known and not any(one.nvmlReturn for one in found)
        narrow = self.nvml.NVML_VALUE_TYPE_UNSIGNED_INT
        return [int(one.value.uiVal if one.valueType == narrow else one.value.ullVal) for one in found]


def with_pages(transfers: Transfers | None, options: Mapping[str, Any], link: Link | None) -> Transfers | None:
    """Return the transfers of a run over managed edges with the bytes of the pages that were moved.

    They are those that the GPU counts over its link (Min et al. 2020, fig. 10). Other transfers are returned as they
    are.
    """
    counted = None if link is None else link["run_bytes"]
    if transfers is None or counted is None or options.get("edges") != Place.MANAGED.value:
        return transfers
    return replace(transfers, moved={"pages": counted})


def file_rate(graph: Graph) -> float | None:
    """Return the bytes a second at which the file of a graph's neighbours is read in order, as ``dd`` reads one.

    The fastest of some samples of at most 256 MB, in blocks of 32 MB. Pages that the system has cached are read from
    its cache, as runs read them. None: the neighbours are in no file.
    """
    found = file_map(graph.csr.neighbours)
    if found is None or not found.nbytes:
        return None
    size, best = min(found.nbytes, _MOST_READ), 0.0
    room = memoryview(bytearray(min(size, _BLOCK)))
    descriptor = os.open(found.path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        for _ in range(_SAMPLES):
            began, done = time.perf_counter(), 0
            while done < size:
                count = os.preadv(descriptor, [room[: size - done]], found.offset + done)
                if not count:
                    return None  # the file has been truncated
                done += count
            best = max(best, size / (time.perf_counter() - began))
    finally:
        os.close(descriptor)
    return best
