"""The rates of devices, measured once for each device and kept in the cache.

    CACHE/rates/KEY.json   the rates and their digest

The key of a CPU has its name, cores, caches and the threads of the cell; that of a GPU has its UUID, driver, highest
clock and power limit. Files are written atomically. Everything may be deleted at any time.
"""

from __future__ import annotations

import functools
import json
import logging
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

from harness.atomic_write import write_whole
from harness.cache import cache_folder, filling_cache
from harness.campaign.cell import digest
from harness.campaign.environment import environment, memory_total
from harness.campaign.lock import file_lock
from harness.campaign.process import run_process
from harness.campaign.rates_process import LIMIT_S
from harness.contract import Device
from harness.device.cpu_rates import cache_sizes
from harness.graph.digest import text_digest
from harness.records.floor import Rates, faster

LAYOUT = 1  # incremented whenever rates are measured differently
_MODULE = "harness.campaign.rates_process"
_OF_GPU = ("uuid", "driver", "most_clock", "power_cap")
_failed: set[Path] = set()  # files of rates that this process could not measure, and does not try again
logger = logging.getLogger(__name__)


def rates_of(
    device: Device, gpu: Mapping[str, Any] | None, child_environment: Mapping[str, str], *, again: bool = False
) -> Rates | None:
    """Return the rates of a device, measured now if the cache lacks them; None if they cannot be measured.

    ``gpu``: the facts of a CUDA device. ``child_environment``: that of cells. ``again``: measure now, and keep the
    higher one of each rate. Raises CacheError if the cache cannot be written.
    """
    path = cache_folder() / "rates" / f"{_key(device, gpu)}.json"
    known = _known(path)
    nameless = device.kind == "cuda" and not (gpu and gpu.get("uuid"))
    if nameless or path in _failed or (known is not None and not again):
        return known
    with filling_cache(), file_lock(path.with_suffix(".lock")):  # other processes wait, then find them
        known = _known(path)
        if known is not None and not again:
            return known
        found = _measured(device, child_environment)
        if found is None:
            _failed.add(path)
            return known
        found = faster(known, found) if known is not None else found
        write_whole(path, json.dumps({"rates": found, "digest": text_digest(found)}))
        return found


def _key(device: Device, gpu: Mapping[str, Any] | None) -> str:
    if device.kind == "cuda":
        return digest([LAYOUT, *((gpu or {}).get(name) for name in _OF_GPU)])[:32]
    return digest([LAYOUT, *_cpu(), device.threads])[:32]


@functools.cache
def _cpu() -> tuple[object, ...]:
    """Return the name, the usable cores and the caches of the processor; reading them takes milliseconds."""
    return environment()["cpu"], environment()["usable_cores"], cache_sizes()


def _known(path: Path) -> Rates | None:
    """Return the rates in a file, or None if it is missing or damaged."""
    try:
        kept = json.loads(path.read_text(encoding="utf-8"))
        if kept["digest"] != text_digest(kept["rates"]):
            raise ValueError("it has changed since it was written")
        return msgspec.convert(kept["rates"], Rates)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        logger.warning("%s: the rates cannot be read (%s); measuring them again", path, error)
        return None


def _measured(device: Device, child_environment: Mapping[str, str]) -> Rates | None:
    """Return rates measured in another process; None, with a warning in the log, if that fails."""
    with tempfile.TemporaryDirectory(prefix="rates-") as folder:
        made, output = Path(folder) / "rates.json", Path(folder) / "output.txt"
        ending = run_process(
            _MODULE, [device.kind, str(device.index), str(device.threads), str(memory_total()), str(made)],
            output=output, environment=child_environment, time_s=LIMIT_S, memory_bytes=memory_total(),
        )  # fmt: skip
        try:
            return msgspec.json.decode(made.read_bytes(), type=Rates)
        except (OSError, msgspec.MsgspecError) as error:
            last_line = output.read_text(encoding="utf-8", errors="replace").strip().rpartition("\n")[2]
            reason = last_line or (error if made.exists() else f"exit status {ending.status}")
            logger.warning("the rates of the %s are unknown, and so are floors of times: %s", device.kind, reason)
            return None
