"""The rows of test_matrix.py and test_operations.py that the default tests compile: few kernels that show everything.

``python -m tests.engines.compiled_rows`` chooses them again, in minutes, and writes ``compiled_rows.txt``. Rows are
chosen greedily: by the number of new items that a row shows, divided by the length of the kernels that neither the
chosen rows nor the tests of change-driven propagation compile. Estimates by only program and schedule chose rows with
twice as many kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.contract import Device, No
from harness.graph import Graph
from harness.language import Program
from harness.lowering.cpu.canonical import canonical
from harness.per_device import PerDevice
from tests.engines.problems import CHANGE_DRIVEN, new_engine, one_number, problem, program
from tests.engines.programs import graph_for, program_named

Row = TypeVar("Row")
LIST = Path(__file__).with_name("compiled_rows.txt")
RENEW = "; choose the rows again with python -m tests.engines.compiled_rows"
ROW = 300  # characters of kernels that take as long as the rest of a row


def listed(table: str, rows: Sequence[Row], label: Callable[[Row], str]) -> list[Row]:
    """Return the rows of a table that the list has; rows that do not exist any more are passed over."""
    named = {f"{table} {label(row)}": row for row in rows}
    return [named[line] for line in LIST.read_text().splitlines() if line in named]


def kernels(engine: str, options: Mapping[str, Any], posed: Program, graph: Graph, features: int) -> dict[str, int]:
    """Return the kernels of a program under a schedule with the lengths of their sources; none if it is refused."""
    made, device = new_engine(engine, options), Device(threads=2)
    if isinstance(made.supports(posed, graph, features, device), No):
        return {}
    made.generate(posed, graph, features, device)
    planned = (made.prepared if isinstance(made, PerDevice) else made).planned
    return {source: len(source) for source in (canonical(kernel.source)[0] for kernel in planned.kernels)}


def fewest(
    rows: Sequence[Row],
    shown: Callable[[Row], Collection[Hashable]],
    compiled: Callable[[Row], Mapping[str, int]],
    known: set[str],
) -> list[Row]:
    """Choose rows that show everything and compile little; add their kernels to ``known``."""
    left = [(row, set(shown(row)), compiled(row)) for row in rows]
    chosen = []
    while left:
        row, new, made = max(
            left,
            key=lambda item: len(item[1]) / (ROW + sum(size for name, size in item[2].items() if name not in known)),
        )
        if not new:
            break
        chosen.append((row, made))
        known.update(made)
        left = [(other, rest, its) for other, found, its in left if (rest := found - new)]
    times = Counter(item for row, _ in chosen for item in set(shown(row)))
    for row, made in sorted(chosen, key=lambda pair: sum(pair[1].values()), reverse=True):
        if all(times[item] > 1 for item in shown(row)):
            chosen.remove((row, made))
            times.subtract(set(shown(row)))
    return [row for row, _ in chosen]


def main() -> None:
    """Write the list."""
    from tests.engines import test_change_driven, test_matrix, test_operations

    def of_matrix(engine: str, options: Mapping[str, Any], name: str, features: int) -> dict[str, int]:
        graph, _ = problem(name, test_matrix.GRAPHS[name][0], features)
        return kernels(engine, test_matrix.NUMBERS.get(engine, {}) | options, program(name), graph, features)

    known: set[str] = set()
    for strategy, name in test_change_driven.of_strategies():
        engine, options = CHANGE_DRIVEN[strategy]
        known.update(of_matrix(engine, options, name, one_number(engine, name)))
    rows = list({test_matrix.label(row): row for row in test_matrix.EVERY}.values())
    lines = [
        f"matrix {test_matrix.label(row)}"
        for row in fewest(rows, test_matrix.shown, lambda row: of_matrix(*row), known)
    ]
    operations = list(dict.fromkeys(row for row in test_operations.turns() if test_operations.compiles(row)))
    lines += [
        f"operations {test_operations.label(row)}"
        for row in fewest(
            operations,
            test_operations.shown,
            lambda row: kernels(*test_operations.SCHEDULES[row[0]], program_named(row[1]), graph_for(row[1]), row[2]),
            known,
        )
    ]
    LIST.write_text("".join(f"{line}\n" for line in lines))


if __name__ == "__main__":
    main()
