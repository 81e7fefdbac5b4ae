"""Groups of cells that are timed side by side on one device, each guarded, and the lines that are printed of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from harness.campaign.preflight import ran_out_of_memory
from harness.device.errors import CompilationFailed
from harness.graph import Graph
from harness.records.outcome import Outcome
from tests.benchmarks.cuda_cells import (
    Cell,
    Timed,
    Unsupported,
    bytes_of_superstep,
    compile_ahead,
    prepared,
    release,
    side_by_side,
)
from tests.benchmarks.cuda_floors import Yardsticks
from tests.benchmarks.cuda_sheet import Budget, Column, Ratio, Sheet

OUT_OF_MEMORY = Outcome.OUT_OF_MEMORY.value

Found = Timed | str  # a time, or why there is none
COLUMNS = (
    Column("graph", 17, "<"), Column("k", 4), Column(" what", 47, "<"), Column("ms/superstep", 12), Column("GB/s", 6),
    Column("floor", 6), Column("replay", 7), Column("edges/superstep", 16),
)  # fmt: skip


class DeviceLost(RuntimeError):
    """The device's context is not usable any more: nothing else can be measured in this process."""


@dataclass
class Table:
    """A line for every cell as soon as it is known."""

    sheet: Sheet
    budget: Budget
    yardsticks: Yardsticks

    def title(self, text: str) -> None:
        """A part of the table begins."""
        self.sheet.part(text, COLUMNS)

    def row(self, graph: Graph, cell: Cell, found: Found) -> None:
        """One cell."""
        start = [graph.name, str(cell.features), f" {cell.label}"]
        if isinstance(found, str):
            self.sheet.row(start, found)
            return
        rate = bytes_of_superstep(cell.program, graph, cell.features) / found.ms / 1e6
        replay = self.yardsticks.replay_ms(graph, cell.features)
        floor = self.yardsticks.floor_ms(cell, graph, found)
        shares = [f"{floor / found.ms:.0%}", f"{replay / found.ms:.0%}" if replay else "-"]
        self.sheet.row([*start, f"{found.ms:.3f}", f"{rate:.0f}", *shares, f"{found.edges:,}" if found.edges else "-"])

    def ratio(
        self, graph: Graph, features: int, words: str, slow: Found | None, fast: Found | None,
        at_least: float | None = None,
    ) -> None:  # fmt: skip
        """How many times as fast one cell is as another, where both have a time."""
        if isinstance(slow, Timed) and isinstance(fast, Timed):
            words += "" if slow.turn == fast.turn else " (too large to take turns)"
            self.sheet.ratio(Ratio(graph.name, features, words, slow.ms / fast.ms, at_least))


def best(found: Mapping[str, Found], labels: Iterable[str]) -> Found | None:
    """The shortest time of some cells; None where none has one."""
    times = [cell for cell in (found[label] for label in labels) if isinstance(cell, Timed)]
    return min(times, key=lambda timed: timed.ms, default=None)


def guarded(make: Callable[[], Any]) -> Any:
    """What ``make`` gives, or in words why it gives nothing. Raises DeviceLost."""
    found = _guarded(make)
    if found == OUT_OF_MEMORY:
        release([])  # only now: the error held what the call had taken
    return found


def _guarded(make: Callable[[], Any]) -> Any:
    import cupy

    try:
        return make()
    except Unsupported as reason:
        return f"unsupported: {reason}"
    except CompilationFailed as error:
        wrong = [line for line in str(error).splitlines() if ": error" in line] or [str(error)]
        return f"does not compile: {wrong[0]}"
    except Exception as error:
        if ran_out_of_memory(error):
            return OUT_OF_MEMORY
        if isinstance(error, (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError)):
            raise DeviceLost(str(error)) from error
        return f"error: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"


def measured(
    table: Table, graph: Graph, cells: list[Cell], others: Mapping[Cell, Callable[[], Any]] | None = None
) -> dict[str, Found]:
    """Times by label, of cells of Onyx and of kernels written by hand (``others``, made by their functions), in turns
    as far as they fit the device together; each printed."""
    compile_ahead(cells, graph)
    makers: dict[Cell, Callable[[], Any]] = {cell: (lambda c=cell: prepared(c, graph)) for cell in cells}
    makers |= dict(others or {})
    found: dict[str, Found] = {}
    held: dict[str, Any] = {}

    def time_held() -> None:
        if held:
            times = guarded(lambda: side_by_side(held))
            times = times if isinstance(times, dict) else dict.fromkeys(held, times)
            turn = 1 + max((timed.turn for timed in found.values() if isinstance(timed, Timed)), default=0)
            found.update((label, replace(t, turn=turn) if isinstance(t, Timed) else t) for label, t in times.items())
            release(list(held.values()))
            held.clear()
            release([])

    for cell, make in makers.items():
        runner = guarded(make)
        if runner == OUT_OF_MEMORY and held:
            time_held()
            runner = guarded(make)
        if isinstance(runner, str):
            found[cell.label] = runner
        else:
            held[cell.label] = runner
        del runner
    time_held()
    for cell in makers:
        table.row(graph, cell, found[cell.label])
    return found
