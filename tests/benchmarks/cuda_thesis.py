"""The thesis's tables 7.2 and 7.4 on a CUDA device, in one command of at most ten minutes:
``python -m tests.benchmarks.cuda_thesis --markdown docs/thesis-tables-measured.md``.

What ``onyx-harness +experiment=thesis_tables scale=stand_ins`` measures, in one process in the place of 800: the graph
and the inputs are on the device once for all engines (:mod:`tests.benchmarks.cuda_shared`), and answers are checked by
other processes meanwhile (:mod:`tests.benchmarks.cuda_checks`). Milliseconds are of whole runs of at most 20
supersteps, between events on the engine's stream: medians of three rounds (fewer of long runs, ``ROUNDS_OF_LONG``), in
which the engines of a group (a graph, an algorithm, k) take turns as far as they fit the device together, after a run
that warms up and whose first and last superstep are held against float64 at vertices of all degrees (the first and the
second, where a run takes more than ``SLOW_MS``). Compiling, preprocessing and uploading do not count. What did not fit
the time is listed. ``--only GRAPH ...`` measures some graphs, ``--algorithms ALS`` one algorithm, ``--features 4`` one
k, ``--scale-down 64`` smaller graphs.
"""

from __future__ import annotations

import argparse
import gc
import time
from dataclasses import dataclass, field, replace
from pathlib import Path

from harness.graph import Graph
from tests.benchmarks.cuda_cells import release
from tests.benchmarks.cuda_checks import Checker
from tests.benchmarks.cuda_graphs import DelaunayMaker, rmat_graph, road_grid
from tests.benchmarks.cuda_groups import DeviceLost, guarded
from tests.benchmarks.cuda_sheet import Budget, Sheet, device_facts
from tests.benchmarks.thesis_groups import Group
from tests.benchmarks.thesis_pages import Tables
from tests.benchmarks.thesis_plan import ORDER, Preset, Size, preset, sizes
from tests.benchmarks.thesis_problems import Bench, compile_modules

TITLE = "The thesis's tables 7.2 and 7.4, measured"
INTRODUCTION = (
    "Written by the command below, not by hand; [what is measured](thesis-tables.md). Graphs are stand-ins of the "
    "thesis's sizes. Times are milliseconds of whole runs (in brackets of a superstep), medians of three rounds, of "
    "two where a run takes more than 30 ms (¹: one, of runs of more than 80 ms, or as the time was up). A cell has a "
    "time only if its answer was found right."
)
LAST_S = 8.0  # kept for the last checks
FEWER_POINTS = 4  # times, of the mesh that is taken where the large one is not ready
WAIT = 0.3  # of the time left at the end, for a triangulation that is not ready
WORKERS = 8


@dataclass
class Meshes:
    """Triangulations that other processes make: the one wanted, and a smaller one in case that takes too long."""

    size: Size | None
    makers: list[DelaunayMaker] = field(default_factory=list)

    def start(self) -> None:
        """Begin, which takes a processor some time."""
        if self.size is not None:
            self.makers = [DelaunayMaker(points) for points in (self.size.vertices, self.size.vertices // FEWER_POINTS)]

    @property
    def ready(self) -> bool:
        """Whether the one wanted is there."""
        return not self.makers or self.makers[0].ready

    def graph(self, size: Size, seconds: float) -> Graph | None:
        """The mesh; where it is not ready in some seconds, a smaller one under a name that says so; else None."""
        until = time.monotonic() + seconds
        while not self.makers[0].ready and time.monotonic() < until:
            time.sleep(0.2)
        if self.makers[0].ready:
            return self.makers[0].graph(size.name)
        fewer = self.makers[1]
        return fewer.graph(f"delaunay of {fewer.vertices:,} points") if fewer.ready else None

    def stop(self) -> None:
        """End what is still under way."""
        for maker in self.makers:
            maker.stop()


def made(size: Size) -> Graph:
    """A graph of the host, generated on the device."""
    if size.rows:
        return road_grid(size.columns, rows=size.rows, name=size.name)
    scale = (size.vertices - 1).bit_length()
    return rmat_graph(scale, size.arcs, vertices=size.vertices, name=size.name)


def is_mesh(size: Size) -> bool:
    """Whether a graph is a triangulation."""
    return "delaunay" in size.name


def measure(bench: Bench, meshes: Meshes, wanted: list[Size], features: tuple[int, ...]) -> None:
    """Graph after graph; a mesh as soon as it is ready, at the end in any case. What was left out follows, but for
    a mesh's."""
    left = list(wanted)
    compiled = False
    while left:
        ready = [size for size in left if not is_mesh(size) or meshes.ready]
        size = ready[0] if ready else left[0]
        share = size.work / sum(one.work for one in left)
        left.remove(size)
        wait = WAIT * (bench.end - time.monotonic())
        graph = guarded(lambda s=size, w=wait: meshes.graph(s, w) if is_mesh(s) else made(s))
        found = "the triangulation was not ready" if graph is None else graph
        if not isinstance(found, str):
            bench.sheet.graph(repr(graph))
            found = guarded(lambda g=graph: bench.begin(g, features)) or found
        if isinstance(found, str):
            bench.budget.leave_out(size.name, f"all of it: {found}")
            continue
        bench.tables.graphs.append(graph.name)
        if not compiled:
            compile_modules(bench, features)
            compiled = True
        now = time.monotonic()
        measure_graph(bench, features, now + share * (bench.end - now) if left else bench.end)
        bench.done_with_graph()
    for size in wanted:  # once more those that the share of a graph did not allow
        if not is_mesh(size) and bench.tables.left_out(size.name) and time.monotonic() < bench.end:
            found = guarded(lambda s=size: bench.begin(made(s), features))
            if not isinstance(found, str):
                measure_graph(bench, features, bench.end)
            bench.done_with_graph()


def measure_graph(bench: Bench, features: tuple[int, ...], deadline: float) -> None:
    """All groups of a graph: fewer features first, and what takes longest last."""
    for k in features:
        for name in ORDER:
            if name in bench.preset.algorithms:
                Group(bench, name, k, deadline).measure()
                bench.write()


def note_left_out(tables: Tables, budget: Budget) -> None:
    """Have the cells that the time did not allow listed at the end."""
    for at in tables.left_out():
        budget.leave_out(f"{at.graph}, k = {at.features}", f"{at.algorithm} by {at.engine}")


def run(given: argparse.Namespace, sheet: Sheet, chosen: Preset) -> None:
    """Measure, and close the page whatever happens."""
    started = time.monotonic()
    wanted = [size for size in sizes(chosen.graphs, given.scale_down) if not given.only or size.name in given.only]
    meshes = Meshes(next((size for size in wanted if is_mesh(size)), None))
    meshes.start()
    budget = Budget(given.seconds)
    engines = [column.label for column in chosen.columns]
    ours = sum(column.spec.name == "onyx" for column in chosen.columns)
    tables = Tables(engines, tuple(chosen.algorithms), chosen.supersteps, ours)
    checker = Checker(WORKERS)
    bench = Bench(chosen, sheet, budget, tables, checker, end=started + given.seconds - LAST_S)
    note = ""
    for column in chosen.columns:
        column.engine()  # loads its libraries
    gc.freeze()
    gc.disable()  # it would run at any time; what is to be freed is told (release)
    try:
        measure(bench, meshes, wanted, tuple(given.features or chosen.features))
    except DeviceLost as error:
        note = f"the device is lost, the rest is left out: {error}"
    finally:
        meshes.stop()
        bench.settle(until=started + given.seconds)
        checker.close()
        bench.write()
        note_left_out(tables, budget)
        sheet.close(budget.left_out, note)


def main() -> None:
    """Read the arguments, describe the device, measure."""
    chosen = preset()
    parser = argparse.ArgumentParser(prog="python -m tests.benchmarks.cuda_thesis", description=__doc__)
    parser.add_argument("--seconds", type=float, default=580.0, help="for everything (default 580)")
    parser.add_argument("--only", nargs="+", choices=chosen.graphs, default=[], help="these graphs alone")
    parser.add_argument("--algorithms", nargs="+", choices=ORDER, default=[], help="these alone")
    parser.add_argument("--features", nargs="+", type=int, default=[], help="these numbers of features (default 4 8)")
    parser.add_argument("--scale-down", type=int, default=1, metavar="N", help="graphs N times smaller")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="also write a page (docs/thesis-tables-measured.md)"
    )
    given = parser.parse_args()
    if given.algorithms:
        chosen = replace(chosen, algorithms={name: chosen.algorithms[name] for name in given.algorithms})
    command = [*parser.prog.split(), "--seconds", f"{given.seconds:g}"]
    command += ["--only", *given.only] if given.only else []
    command += ["--algorithms", *given.algorithms] if given.algorithms else []
    command += ["--features", *map(str, given.features)] if given.features else []
    command += ["--scale-down", str(given.scale_down)] if given.scale_down != 1 else []
    sheet = Sheet(command, given.markdown, TITLE, INTRODUCTION)
    sheet.describe(**device_facts())
    release([])
    run(given, sheet, chosen)


if __name__ == "__main__":
    main()
