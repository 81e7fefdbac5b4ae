"""Measure the rates of a device: ``python -m harness.campaign.rates_process KIND INDEX THREADS MEMORY FILE``.

FILE receives the rates as JSON. A process of its own: the parent of a sweep uses no device, and a cell's memory is
limited and recorded. It takes its turn on the device.
"""

from __future__ import annotations

import json
import os
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Literal, cast

from harness.contract import Device

LIMIT_S = 30.0  # for its turn, too
_HELD = ExitStack()  # of the device, until this process ends and with it its context there


def main(arguments: list[str]) -> None:
    """Measure and write the rates."""
    from harness.campaign.device_use import memory_parts_for, take_memory_parts
    from harness.campaign.lock import device_lock

    kind, index, threads, memory, file = arguments
    device = Device(cast(Literal["cpu", "cuda"], kind), int(index), int(threads))
    if kind == "cuda":
        from harness.device.cuda import architecture
        from harness.device.cuda_rates import MEMORY, cuda_rates

        architecture(device.index)  # raises DeviceUnavailable
        take_memory_parts(device, memory_parts_for(MEMORY, device), _HELD)
        _HELD.enter_context(device_lock(device, "the rates of the device", LIMIT_S))
        found = cuda_rates(device.index)
    else:
        from harness.device.cpu_rates import cpu_rates

        _HELD.enter_context(device_lock(device, "the rates of the device", LIMIT_S))
        found = cpu_rates(device.threads, int(memory)) or {}
    Path(file).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # a driver's or a library's threads could delay the end
