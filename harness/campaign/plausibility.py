"""Implausible times: the answer arrives late, is cached, made before the run, or is too fast for the device.

The checks detect accidents: an asynchronous framework, a cache of results, a replaced clock.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness import clock
from harness.contract import Device, RunStatistics

if TYPE_CHECKING:
    from collections.abc import Mapping

    from harness.contract import Engine
    from harness.language.sampled import Sample

    Values = Mapping[str, NDArray[Any]]

# A time is implausible if it exceeds the expected time by this factor and by this many seconds: pauses of the system
# are shorter or do not occur every time.
FACTOR, LEAST_S = 10.0, 2e-3
_FEW_READS = 3
# With a sample, larger answers are read at the sample: reading 60 MB took as long as the runs between the readings.
SAMPLED_BYTES = 16_000_000
# Without one, larger answers are read after the first repetitions only, and not compared.
WHOLE_BYTES = 64_000_000
_READS_OF_LARGE = 3
_MOST_KEPT = 3  # the first answer and two others
# Edges per second that no device reaches. A core at 5 GHz that adds 32 float32 numbers per cycle adds 1.6e11 per
# second; a GPU whose second-level cache delivers 16 TB/s reads 4e12 edges of 4 bytes.
_EDGES_PER_SECOND_OF_CORE, _EDGES_PER_SECOND_OF_GPU = 1.6e11, 4e12

# A reset that copies and converts inputs and state reaches this rate easily.
_BYTES_PER_SECOND_OF_RESET, _MORE_RESETS = 1e8, 2


@dataclass(frozen=True)
class Repetition:
    """The answer of one timed run, and the statistics that the engine reported; ``supersteps`` None: not counted."""

    number: int
    values: Values
    settled: bool
    supersteps: int | None


@dataclass
class Witness:
    """Reads the answer after every timed run: ``witness.look(statistics)``.

    ``sample``: only its part of the answer is read. ``reads``: the duration of each reading in seconds. ``differing``:
    the first answer and those that differ from it in any bit, at most two; engines need not be deterministic, so these
    are validated like the last one. Empty if none differs.
    """

    engine: Engine
    names: Sequence[str]
    sample: Sample | None = None
    reads: list[float] = field(default_factory=list)
    differing: list[Repetition] = field(default_factory=list)
    _first: dict[str, NDArray[Any]] | None = None
    _first_statistics: RunStatistics | None = None
    _large: bool = False

    def look(self, statistics: RunStatistics) -> None:
        """Read the answer of the latest timed run; store it if it differs from that of the first run."""
        if self._large and len(self.reads) >= _READS_OF_LARGE:
            return
        values, seconds = self._read()
        self.reads.append(seconds)
        if self._first is None:
            self._large = sum(array.nbytes for array in values.values()) > WHOLE_BYTES
            self._first = {} if self._large else {name: np.array(array) for name, array in values.items()}
            self._first_statistics = statistics
        elif not self._large and len(self.differing) < _MOST_KEPT and not _same(values, self._first):
            if not self.differing:
                self._keep(1, self._first, self._first_statistics)
            self._keep(len(self.reads), values, statistics)

    def _keep(self, number: int, values: Values, statistics: RunStatistics | None) -> None:
        assert statistics is not None
        kept = {name: np.array(array) for name, array in values.items()}
        steps = len(statistics.supersteps) if self.engine.stepwise else None
        self.differing.append(Repetition(number, kept, statistics.settled, steps))

    def prime(self) -> None:
        """Read the sample once: a library may compile or load kernels for the first reading."""
        if self.sample is not None:
            self._read()

    def late(self, median_s: float, run: Callable[[], RunStatistics]) -> str:
        """Return a reason if the first reading of an answer takes much longer than the run and a second reading; else
        "".

        ``run``: run the engine again from the same start. It is called if there were few readings and all took long: a
        pause of the system delays single ones. Call this right after the last :meth:`look`.
        """
        while len(self.reads) < _FEW_READS and implausible(min(self.reads), median_s):
            self.look(run())
        first = min(self.reads)
        if median_s <= 0 or not implausible(first, median_s):
            return ""  # a clock that does not advance is reported by :func:`too_fast`
        again = max(self._read()[1], self._read()[1])
        if not implausible(first, median_s + again):
            return ""
        return (
            f"reading the answer takes {first:.3g} s after a run of {median_s:.3g} s, and {again:.3g} s when it "
            "is read again: run() returns before the work is done; wait for it in run()"
        )

    @functools.cached_property
    def _rows(self) -> dict[str, NDArray[Any]]:
        """The rows to read of each property; empty: all."""
        return {} if self.sample is None else {name: self.sample.results(name) for name in self.names}

    def _read(self) -> tuple[dict[str, NDArray[Any]], float]:
        began = clock.perf_counter()
        rows = self._rows
        values = {name: self.engine.rows(name, rows[name]) if rows else self.engine.values(name) for name in self.names}
        return values, clock.perf_counter() - began


def implausible(seconds: float, expected_s: float) -> bool:
    """Return whether ``seconds`` is much more than expected."""
    return seconds > FACTOR * expected_s and seconds - expected_s > LEAST_S


def worked_before(reset_s: float, median_s: float, size: int, reset: Callable[[], object]) -> str:
    """Return a reason if setting ``size`` bytes of inputs and state takes much longer than the run itself; else "".

    ``reset_s``: the seconds of the shortest reset. ``reset``: reset the engine once more; it is called twice if that
    took long, since the first reset to new inputs may convert them.
    """
    expected = median_s + size / _BYTES_PER_SECOND_OF_RESET
    for _ in range(_MORE_RESETS):
        if not implausible(reset_s, expected):
            return ""
        began = clock.perf_counter()
        reset()
        reset_s = min(reset_s, clock.perf_counter() - began)
    if not implausible(reset_s, expected):
        return ""
    return (
        f"reset() to the start takes {reset_s:.3g} s before a run of {median_s:.3g} s, though inputs and state have "
        f"{size:,} bytes: work of the run is done outside of the timed part; move it to run()"
    )


def too_fast(seconds: float, edges: int, device: Device) -> str:
    """Return a reason if no such device can visit ``edges`` edges in ``seconds``; else an empty text."""
    if seconds <= 0:
        return f"a run took {seconds:g} s by the clock"
    most = _EDGES_PER_SECOND_OF_CORE * device.threads if device.kind == "cpu" else _EDGES_PER_SECOND_OF_GPU
    if edges <= most * seconds:
        return ""
    what = f"{device.threads} cores" if device.kind == "cpu" else "a GPU"
    return f"{edges:,} edges in {seconds:.3g} s are {edges / seconds:.2g} per second; {what} cannot exceed {most:.2g}"


def _same(one: Values, other: Values) -> bool:
    """Return whether two answers are bitwise equal."""
    return all(one[name].tobytes() == other[name].tobytes() for name in one)
