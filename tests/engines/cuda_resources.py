"""Registers, shared memory and spills of every kernel: the checked-in tables, and the command that updates them.

``python -m tests.engines.cuda_resources [TABLE]`` updates all tables or one; ``git diff`` then shows the changes. Each
engine has a CSV file, ``cuda_resources/<engine>.csv``, with a row for every kernel of an algorithm under a schedule and
a column for every k and chip; plans of Onyx that push or pull by superstep have a file of their own. An entry is
*registers/shared/spills*: registers of a thread, bytes of shared memory of a block (dynamic included), bytes that a
thread spills. An empty entry means that there is no such kernel.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from harness.contract import No
from harness.device.compilation import compiled
from tests.covering import covering
from tests.engines.cuda_modules import (
    CHIPS,
    TABLES,
    Declared,
    Module,
    Schedule,
    accepted,
    algorithms,
    generated,
    pairs,
)

FOLDER = Path(__file__).parent / "cuda_resources"
HEADING = "# registers/shared bytes/spilled bytes, by "
COLUMNS = {f"k={k} {chip}": (k, chip) for chip, features in CHIPS.items() for k in features}

# Allowed growth of a kernel before a test fails: registers of a thread (warps get them in units of eight), bytes of
# shared memory of a block, and bytes that a thread spills, for kernels that already spill; others may not begin to.
# Figures are compared with those of the same version of the compiler only: others allocate registers differently.
MORE_REGISTERS, MORE_SHARED, MORE_SPILLS = 8, 1024, 32

Row = tuple[str, str, str]  # algorithm, schedule, kernel


@dataclass(frozen=True)
class Resources:
    """The resources of one kernel."""

    registers: int
    shared: int
    spills: int

    def __str__(self) -> str:
        return f"{self.registers}/{self.shared}/{self.spills}"

    @classmethod
    def parse(cls, text: str) -> Resources:
        """Parse the result of ``str``."""
        registers, shared, spills = map(int, text.split("/"))
        return cls(registers, shared, spills)

    def growth(self, now: Resources) -> str:
        """Return what has grown by more than is allowed; empty if nothing has."""
        found = []
        if now.registers > self.registers + MORE_REGISTERS:
            found.append(f"registers from {self.registers} to {now.registers}")
        if now.shared > self.shared + MORE_SHARED:
            found.append(f"shared memory from {self.shared} to {now.shared} bytes")
        if now.spills > (self.spills + MORE_SPILLS if self.spills else 0):
            found.append(f"spills from {self.spills} to {now.spills} bytes")
        return ", ".join(found)


def resources(module: Module, chip: str) -> dict[str, Resources]:
    """Return the resources of every kernel of a module on a chip, by name."""
    usage = compiled(module.source, module.headers, chip).resources()
    return {
        name: Resources(found["registers"], found["shared"] + module.shared.get(name, 0), found["spills"])
        for name, found in usage.items()
    }


def spelled(schedule: Schedule) -> str:
    """Return a schedule as text: ``name=value`` separated by spaces."""
    return " ".join(f"{name}={value}" for name, value in schedule)


def schedule_of(declared: Declared, text: str) -> Schedule:
    """Return the schedule with the given text, from the declared values."""
    words = dict(word.split("=") for word in text.split())
    values = {name: {str(value): value for value in known} for name, known in declared.options.items()}
    return tuple((name, values[name][word]) for name, word in words.items())


def path_of(table: str) -> Path:
    """Return the file of a table."""
    return FOLDER / f"{table}.csv"


def compiler() -> str:
    """Return the compiler's version."""
    from cupy.cuda import nvrtc

    return f"NVRTC {'.'.join(map(str, nvrtc.getVersion()))}"


def compiler_of(table: str) -> str:
    """Return the compiler version of a table."""
    first = path_of(table).read_text(encoding="utf-8").splitlines()[0]
    return first.removeprefix(HEADING).partition(";")[0]


def recorded(table: str) -> dict[Row, dict[str, Resources]]:
    """Return a table: for each row the entries of the columns. Empty if there is no file yet."""
    path = path_of(table)
    if not path.exists():
        return {}
    with path.open(encoding="utf-8", newline="") as file:
        rows = csv.DictReader(line for line in file if not line.startswith("#"))
        return {
            (row["algorithm"], row["schedule"], row["kernel"]): {
                column: Resources.parse(row[column]) for column in COLUMNS if row[column]
            }
            for row in rows
        }


def measured(declared: Declared) -> Iterator[tuple[Row, Mapping[str, Resources]]]:
    """Return every row of a table, compiled now."""

    def cell(algorithm: str, schedule: Schedule, column: str) -> dict[str, Resources]:
        features, chip = COLUMNS[column]
        module = generated(declared, algorithm, schedule, features)
        return {} if isinstance(module, No) else resources(module, chip)

    with ThreadPoolExecutor(2) as pool:
        for algorithm in algorithms():
            for schedule in covering(accepted(declared, algorithm), pairs):
                waiting = {column: pool.submit(cell, algorithm, schedule, column) for column in COLUMNS}
                cells = {column: future.result() for column, future in waiting.items()}
                for kernel in sorted({name for cell in cells.values() for name in cell}):
                    row = {column: cell[kernel] for column, cell in cells.items() if kernel in cell}
                    yield (algorithm, spelled(schedule), kernel), row


def renew(table: str) -> int:
    """Write a table; return the number of its rows."""
    rows = list(measured(TABLES[table]))
    FOLDER.mkdir(exist_ok=True)
    with path_of(table).open("w", encoding="utf-8", newline="") as file:
        file.write(f"{HEADING}{compiler()}; renewed by: python -m tests.engines.cuda_resources\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["algorithm", "schedule", "kernel", *COLUMNS])
        for key, cells in rows:
            writer.writerow([*key, *(cells.get(column, "") for column in COLUMNS)])
    return len(rows)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or TABLES:
        print(f"{path_of(chosen)}: {renew(chosen)} kernels")
