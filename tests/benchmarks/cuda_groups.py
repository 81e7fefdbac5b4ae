"""Groups of cells that are timed side by side on one device, each guarded, and the lines that are printed of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from harness.device.errors import CompilationFailed
from harness.graph import Graph
from tests.benchmarks.cuda_cells import (
    Budget,
    Ceilings,
    Cell,
    Timed,
    Unsupported,
    bytes_of_superstep,
    compile_ahead,
    prepared,
    release,
    side_by_side,
)

Found = Timed | str  # a time, or why there is none
HEADER = f"{'graph':<17} {'k':>4}  {'what':<46} {'ms/superstep':>12} {'GB/s':>6} {'ceiling':>8} {'edges/superstep':>16}"


class DeviceLost(RuntimeError):
    """The device's context is not usable any more: nothing else can be measured in this process."""


@dataclass
class Table:
    """Prints a line for every cell as soon as it is known."""

    budget: Budget
    ceilings: Ceilings

    def title(self, text: str) -> None:
        """A part of the table begins."""
        print(f"\n== {text} [{self.budget.spent:.0f} s]\n{HEADER}", flush=True)

    def row(self, graph: Graph, cell: Cell, found: Found) -> None:
        """One cell."""
        start = f"{graph.name:<17} {cell.features:>4}  {cell.label:<46}"
        if isinstance(found, str):
            print(f"{start} {found}", flush=True)
            return
        rate = bytes_of_superstep(cell.program, graph, cell.features) / found.ms / 1e6
        replay = self.ceilings.ms(graph, cell.features)
        share = f"{replay / found.ms:>7.0%}" if replay else "      -"
        edges = f"{found.edges:>16,}" if found.edges else f"{'-':>16}"
        print(f"{start} {found.ms:>12.3f} {rate:>6.0f} {share:>8} {edges}", flush=True)

    def ratio(self, graph: Graph, features: int, words: str, slow: Found | None, fast: Found | None) -> None:
        """How many times as fast one cell is as another, where both have a time."""
        if isinstance(slow, Timed) and isinstance(fast, Timed):
            print(f"{graph.name:<17} {features:>4}  -> {words}: {slow.ms / fast.ms:.2f}x", flush=True)


def guarded(make: Callable[[], Any]) -> Any:
    """What ``make`` gives, or in words why it gives nothing. Raises DeviceLost."""
    import cupy

    try:
        return make()
    except Unsupported as reason:
        return f"unsupported: {reason}"
    except (cupy.cuda.memory.OutOfMemoryError, MemoryError):
        release([])
        return "out_of_memory"
    except CompilationFailed as error:
        wrong = [line for line in str(error).splitlines() if ": error" in line] or [str(error)]
        return f"does not compile: {wrong[0]}"
    except (cupy.cuda.runtime.CUDARuntimeError, cupy.cuda.driver.CUDADriverError) as error:
        if "OUT_OF_MEMORY" in str(error) or "MemoryAllocation" in str(error):
            release([])
            return "out_of_memory"
        raise DeviceLost(str(error)) from error
    except Exception as error:  # noqa: BLE001  one cell's failure is its line in the table
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
            found.update(times if isinstance(times, dict) else dict.fromkeys(held, times))
            release(list(held.values()))
            held.clear()
            release([])

    for cell, make in makers.items():
        runner = guarded(make)
        if runner == "out_of_memory" and held:
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
