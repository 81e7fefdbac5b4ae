"""Build the graphs of a sweep ahead: ``python -m harness.campaign.graphs_ahead < REQUEST``.

Otherwise the GPU is idle whenever a sweep of concurrent jobs reaches a new graph: all jobs wait until one of them has
built it. One process builds the graphs in the order of the sweep, while cells of earlier graphs run. The lock of the
cache keeps a cell and this process from building the same graph twice. This process reports nothing: a cell builds a
graph that is missing, and reports the failure.
"""

from __future__ import annotations

import contextlib
import json
import os
import resource
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from harness.campaign.cell import Cell, digest
from harness.campaign.job import memory_bytes
from harness.campaign.parent_watch import end_with
from harness.campaign.process import python_path
from harness.graph.named import build_graph
from harness.plugins import load_plugins

_FIRST_TO_END = "1000"  # of all processes, if the machine's memory runs out
_GRACE_S = 5.0  # to remove unfinished files


def to_build(cells: Sequence[Cell], launcher: object) -> list[Cell]:
    """Return a cell for each graph to build ahead, in order; ``cells``: those that are due.

    Empty unless the launcher runs several jobs at once on this machine, all of them for GPUs, on several graphs. Other
    work would disturb times on the processor. A sequential sweep has no other work beside a timed cell.
    """
    if not _concurrent(launcher) or any(cell.device.kind == "cpu" for cell in cells):
        return []
    firsts: dict[str, Cell] = {}
    for cell in cells:
        firsts.setdefault(digest([cell.graph, cell.graph_parameters]), cell)
    return list(firsts.values()) if len(firsts) > 1 else []


def _concurrent(launcher: object) -> bool:
    """Return whether the launcher is joblib's with several workers. Others may run jobs on other machines."""
    config = getattr(launcher, "config", None)
    return config is not None and OmegaConf.select(config, "hydra.launcher.n_jobs") not in (None, 1)


@contextlib.contextmanager
def building_ahead(cells: Sequence[Cell], owner: str) -> Iterator[None]:
    """Build the graphs of the cells in another process, until the block or the owner of the sweep ends."""
    process = _start(cells, owner) if cells else None
    try:
        yield
    finally:
        if process is not None:
            _end(process)


def _start(cells: Sequence[Cell], owner: str) -> subprocess.Popen[bytes] | None:
    """Start the process; return None if the system cannot: a cell then builds its graph."""
    environment = {**os.environ, "PYTHONPATH": python_path(), "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    with contextlib.suppress(OSError), tempfile.TemporaryFile() as request:
        request.write(json.dumps({"owner": owner, "cells": [cell.plain() for cell in cells]}).encode())
        request.seek(0)
        # A session of its own: Ctrl-C reaches the sweep only, which then ends this process.
        return subprocess.Popen(
            [sys.executable, "-P", "-m", "harness.campaign.graphs_ahead"], env=environment, start_new_session=True,
            stdin=request, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
    return None


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(_GRACE_S)
    finally:
        process.kill()
        process.wait()


def main() -> None:
    """Build the graphs of the request, one after the other; continue after a failure."""
    request: dict[str, Any] = json.load(sys.stdin)
    end_with(request["owner"])
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # an exception, so that unfinished files are removed
    with contextlib.suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text(_FIRST_TO_END)
    for cell in map(Cell.from_plain, request["cells"]):
        # The limit of the cell. Where memory or disk space is short, the cell builds the graph or reports the reason.
        most = resource.getrlimit(resource.RLIMIT_DATA)[1]
        limit = memory_bytes(cell) if most == resource.RLIM_INFINITY else min(most, memory_bytes(cell))
        resource.setrlimit(resource.RLIMIT_DATA, (limit, most))
        with contextlib.suppress(Exception):
            build_graph(load_plugins(cell.block).graph(cell.graph), cell.graph_parameters)


if __name__ == "__main__":
    main()
