"""The process under the profiler: ``python -m harness.campaign.ncu_child REQUEST``.

REQUEST is a JSON file with a list of cells. For each, the profiler counts one superstep from the start, in which every
vertex is active; a marker kernel separates it from the next.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.campaign.cell import Cell, digest, load
from harness.campaign.child_report import ChildReport
from harness.campaign.problem import Problem, set_problem
from harness.contract import Phases, schedule_from_options
from harness.device.profiler_range import counted_run
from harness.plugins import load_plugins
from harness.transactions.profiler import BOUNDARY, profile

if TYPE_CHECKING:
    from harness.transactions import Behaviour


PROFILER_LOG = "profiler.csv"


def counted(cells: Sequence[Cell], folder: Path, timeout_s: float | None = None) -> list[Behaviour]:
    """Return the hardware counters of one superstep of every cell; ``folder`` keeps the request and the profiler's log.

    Raises ProfilerError.
    """
    request = folder / "profiled.json"
    request.write_text(json.dumps([cell.plain() for cell in cells]), encoding="utf-8")
    command = [sys.executable, "-m", "harness.campaign.ncu_child", str(request)]
    return profile(command, folder / PROFILER_LOG, timeout_s)


def main(arguments: list[str]) -> int:
    """Run the cells of a request."""
    cells = [Cell.from_plain(data) for data in json.loads(Path(arguments[0]).read_text(encoding="utf-8"))]
    posed: dict[str, Problem] = {}
    with Path("/dev/null").open("wb", buffering=0) as sink:
        for cell in cells:
            problem_key = digest([cell.algorithm, cell.parameters, cell.graph, cell.graph_parameters, cell.features])
            if problem_key not in posed:
                posed = {problem_key: set_problem(cell, load_plugins(cell.block), ChildReport(sink), Phases())}
            _run_profiled(cell, posed[problem_key])
    return 0


def _run_profiled(cell: Cell, problem: Problem) -> None:
    """Run one superstep of a cell's engine, from its start."""
    spec = load_plugins(cell.block).engine(cell.engine)
    engine = load(spec.factory)(schedule_from_options(spec, cell.schedule))
    try:
        engine.prepare(problem.program, problem.graph, problem.features, cell.device, Phases())
        engine.reset(problem.inputs)
        with counted_run(BOUNDARY):
            engine.run(1)
    finally:
        engine.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
