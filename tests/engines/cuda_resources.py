"""Registers, shared memory and spills of every kernel: the checked-in tables, and what makes them anew.

``python -m tests.engines.cuda_resources`` does (with the name of an engine after it, that one alone); ``git diff`` then
shows what has changed. A table is a CSV file for each engine, ``cuda_resources/<engine>.csv``: a row for every kernel
of an algorithm under a schedule, a column for every k and chip, in it *registers/shared/spills*: registers of a thread,
bytes of shared memory of a block (those that a launch adds included), bytes that a thread spills. Empty: there is no
such kernel.
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
from tests.engines.covering import covering
from tests.engines.cuda_modules import (
    CHIPS,
    DECLARED,
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

# What a kernel may grow by before a test fails: registers of a thread (warps get them by eights), bytes of
# shared memory of a block, and bytes that a thread spills, of kernels that spill already; no other may begin to.
# Another version of the compiler is held to spills alone: what spilled nothing may spill no more than that.
MORE_REGISTERS, MORE_SHARED, MORE_SPILLS = 8, 1024, 32

Row = tuple[str, str, str]  # algorithm, schedule, kernel


@dataclass(frozen=True)
class Resources:
    """What one kernel takes."""

    registers: int
    shared: int
    spills: int

    def __str__(self) -> str:
        return f"{self.registers}/{self.shared}/{self.spills}"

    @classmethod
    def parse(cls, text: str) -> Resources:
        """The inverse of ``str``."""
        registers, shared, spills = map(int, text.split("/"))
        return cls(registers, shared, spills)

    def growth(self, now: Resources, *, same_compiler: bool = True) -> str:
        """What has grown by more than it may; empty when nothing has."""
        if not same_compiler:
            return f"spills from 0 to {now.spills} bytes" if not self.spills and now.spills > MORE_SPILLS else ""
        found = []
        if now.registers > self.registers + MORE_REGISTERS:
            found.append(f"registers from {self.registers} to {now.registers}")
        if now.shared > self.shared + MORE_SHARED:
            found.append(f"shared memory from {self.shared} to {now.shared} bytes")
        if now.spills > (self.spills + MORE_SPILLS if self.spills else 0):
            found.append(f"spills from {self.spills} to {now.spills} bytes")
        return ", ".join(found)


def resources(module: Module, chip: str) -> dict[str, Resources]:
    """What every kernel of a module takes on a chip, by name."""
    told = compiled(module.source, module.headers, chip).resources()
    return {
        name: Resources(found["registers"], found["shared"] + module.shared.get(name, 0), found["spills"])
        for name, found in told.items()
    }


def spelled(schedule: Schedule) -> str:
    """A schedule as text: ``name=value`` with spaces between."""
    return " ".join(f"{name}={value}" for name, value in schedule)


def schedule_of(declared: Declared, text: str) -> Schedule:
    """The schedule that was spelled so, from the declared values."""
    words = dict(word.split("=") for word in text.split())
    values = {name: {str(value): value for value in known} for name, known in declared.options.items()}
    return tuple((name, values[name][word]) for name, word in words.items())


def path_of(engine: str) -> Path:
    """The file of an engine's table."""
    return FOLDER / f"{engine}.csv"


def compiler() -> str:
    """The compiler's version."""
    from cupy.cuda import nvrtc

    return f"NVRTC {'.'.join(map(str, nvrtc.getVersion()))}"


def compiler_of(engine: str) -> str:
    """The version of the compiler that an engine's table was made with."""
    first = path_of(engine).read_text(encoding="utf-8").splitlines()[0]
    return first.removeprefix(HEADING).partition(";")[0]


def same_line(one: str, other: str) -> bool:
    """Whether two versions of the compiler differ in the minor number at most."""
    return one.partition(".")[0] == other.partition(".")[0]


def recorded(engine: str) -> dict[Row, dict[str, Resources]]:
    """An engine's table: by row, what is in each column. Empty where there is no table yet."""
    path = path_of(engine)
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
    """Every row of an engine's table, compiled now."""

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


def renew(engine: str) -> int:
    """Write an engine's table; the number of its rows."""
    rows = list(measured(DECLARED[engine]))
    FOLDER.mkdir(exist_ok=True)
    with path_of(engine).open("w", encoding="utf-8", newline="") as file:
        file.write(f"{HEADING}{compiler()}; renewed by: python -m tests.engines.cuda_resources\n")
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["algorithm", "schedule", "kernel", *COLUMNS])
        for key, cells in rows:
            table.writerow([*key, *(cells.get(column, "") for column in COLUMNS)])
    return len(rows)


if __name__ == "__main__":
    for chosen in sys.argv[1:] or DECLARED:
        print(f"{path_of(chosen)}: {renew(chosen)} kernels")
