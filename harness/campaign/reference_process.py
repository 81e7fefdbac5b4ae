"""The process that computes a reference: ``python -m harness.campaign.reference_process < REQUEST``.

It builds the problem of the cell from scratch, on its own graph and inputs, and runs no engine. The cell's supervisor
forks it from itself, a process that has imported the harness, and no engine or plugin of another distribution.
"""

from __future__ import annotations

import io
import json
import os
import resource
import subprocess
import sys
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np

from harness.cache import CacheError
from harness.campaign.cell import Cell
from harness.campaign.child_report import ChildReport
from harness.campaign.errors import CampaignError
from harness.campaign.supervisor import run_beside
from harness.contract import Phases
from harness.plain_text import describe_error
from harness.plugins import load_plugins

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.campaign.problem import Kind, Problem

_MODULE = "harness.campaign.reference_process"
_FAILED, _NO_MEMORY, _NO_ROOM = 3, 4, 5


class Referee:
    """Computes references in another process, with the environment and the working folder at construction.

    Construct it before an engine is imported, which may change both.
    """

    def __init__(self, cell: Cell) -> None:
        self._cell = cell.plain()
        self._environment = dict(os.environ)
        self._data_bytes = resource.getrlimit(resource.RLIMIT_DATA)
        self._folder = Path.cwd()

    def __call__(self, problem: Problem, kind: Kind) -> None:
        """Put the answer to ``problem`` into the cache.

        Raises CampaignError if it cannot be computed, MemoryError or CacheError if memory or disk space is
        insufficient.
        """
        request = {
            "cell": self._cell, "key": problem.key, "kind": kind, "phase": len(problem.program.phases),
            "carried": list(problem.carried), "data_bytes": self._data_bytes,
        }  # fmt: skip
        with _memory_file(json.dumps(request)) as given, _memory_file() as printed:
            _append(given, list(problem.carried.values()))
            status = run_beside(_MODULE, given.fileno(), printed.fileno())
            if status is None:
                status = self._start(given, printed)
            printed.seek(0)
            printed_text = printed.read().decode(errors="replace").strip()
        if status == 0:
            return
        sys.stderr.write(f"{printed_text}\n")
        reason = printed_text.rpartition("\n")[2]
        if status == _NO_MEMORY:
            raise MemoryError(f"the reference: {reason}")
        if status == _NO_ROOM:
            raise CacheError(reason)
        raise CampaignError(f"the reference cannot be computed: {reason or f'exit status {status}'}")

    def _start(self, given: BinaryIO, printed: BinaryIO) -> int:
        """Run the process where no supervisor can fork it, as for a cell that was not started by a sweep."""
        command = [sys.executable, "-P", "-X", "faulthandler", "-m", _MODULE]
        return subprocess.run(
            command, stdin=given, stderr=printed, env=self._environment, cwd=self._folder, check=False
        ).returncode


def _memory_file(text: str = "") -> BinaryIO:
    """Return a file in memory with a line of text."""
    file = os.fdopen(os.memfd_create("reference"), "wb+")
    if text:
        file.write(f"{text}\n".encode())
    file.seek(0)
    return file


def _append(file: BinaryIO, arrays: Sequence[NDArray[Any]]) -> None:
    """Append arrays to the line of a file in memory, and rewind it."""
    file.seek(0, os.SEEK_END)
    for array in arrays:
        np.save(file, array, allow_pickle=False)
    file.seek(0)


def main() -> int:
    """Compute the reference of the request and put it into the cache; the exit status reports the result."""
    request = json.loads(sys.stdin.buffer.readline())
    rest = io.BytesIO(sys.stdin.buffer.read())
    carried = {name: np.load(rest, allow_pickle=False) for name in request["carried"]}
    resource.setrlimit(resource.RLIMIT_DATA, tuple(request["data_bytes"]))  # of the cell
    try:
        _compute(Cell.from_plain(request["cell"]), request["key"], request["kind"], request["phase"], carried)
    except CacheError as error:
        return _fail(error, str(error), _NO_ROOM)
    except MemoryError as error:
        return _fail(error, describe_error(error), _NO_MEMORY)
    except Exception as error:  # noqa: BLE001  an algorithm's own code may fail in any way
        return _fail(error, describe_error(error), _FAILED)
    return 0


def _compute(cell: Cell, key: str, kind: Kind, phase: int, carried: Mapping[str, NDArray[Any]]) -> None:
    """Compute an answer to phase ``phase`` (from 1) of a cell; ``carried``: the outputs of the phases before it."""
    from harness.campaign.problem import set_problem
    from harness.campaign.reference import compute, compute_if_free
    from harness.campaign.warm_cell import changed_graph, changed_key

    with Path(os.devnull).open("wb", buffering=0) as nowhere:
        problem = set_problem(cell, load_plugins(cell.block), ChildReport(nowhere), Phases(), make_again=True)
    for _ in range(phase - 1):
        problem = problem.after(carried, settled=True)
    if cell.warm is not None and key != problem.key:
        graph, inputs = changed_graph(problem, cell.warm)
        problem = replace(problem, graph=graph, inputs=inputs, key=changed_key(problem, cell.warm))
    if problem.key != key:
        raise CampaignError(
            f"graph {cell.graph!r} or algorithm {cell.algorithm!r} gives a different problem each time; derive "
            "random values from a seed"
        )
    compute(problem, kind)
    if cell.validate is True and cell.warm is None and kind != "varied":
        compute_if_free(problem, "varied")  # it is needed next, and starting another process takes longer


def _fail(error: BaseException, message: str, status: int) -> int:
    traceback.print_exception(error)
    sys.stderr.write(message.replace("\n", " ") + "\n")
    return status


if __name__ == "__main__":
    sys.exit(main())
