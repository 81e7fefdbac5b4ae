"""Table 7.3 of the Onyx thesis (Vaz 2021), computed from the plans of the engines for CUDA devices.

``python -m tests.engines.implementation_choices`` writes ``docs/implementation-choices.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harness.lowering.cuda.engine import CudaEngine
from harness.plugins import load_plugins
from tests.engines.cuda_schedules import loaded, plan_of
from tests.engines.problems import program, small

PAGE = Path(__file__).parents[2] / "docs" / "implementation-choices.md"
TITLES = {"gunrock": "Gunrock", "tigr": "Tigr", "simdx": "SIMD-X"}  # in the thesis's order
HEAD = """# Implementation choices of the baselines

Table 7.3 of the Onyx thesis for the baseline engines, from the plans of their CUDA code under their default
schedules. `python -m tests.engines.implementation_choices` writes this page, and tests compare it with the generated
code. It describes graph-based learning algorithms. Traversals have active vertices in every style, as in the originals.

| System | Computation mode | Change-driven processing | Shared memory |
|---|---|---|---|
"""
FOOT = """
Shared memory: intermediate values of a vertex stay on the chip between consecutive steps. With it (Y), consecutive
steps are one kernel, and short rows stay in registers. Matrices are in shared memory as long as two blocks fit on a
multiprocessor (96 floats per thread: up to k = 9). Without it (N), every step is a separate kernel, and the values
between steps are in global memory. The matrices of a thread are then in its local memory, which is part of global
memory.
"""


@dataclass(frozen=True)
class Choices:
    """A row of the table; ``shared``: matrices of a thread are in shared memory."""

    direction: str
    change_driven: bool
    shared: bool


def engines() -> Iterator[tuple[str, CudaEngine]]:
    """Return the engines that treat properties as opaque, under their default schedules."""
    registry = load_plugins()
    for name, title in TITLES.items():
        spec = registry.engine(name)
        made = loaded(loaded(spec.factory).engines["cuda"])(spec.schedule())
        assert isinstance(made, CudaEngine)
        yield title, made


def choices_of(engine: CudaEngine) -> Choices:
    """Return the choices of an engine's plans of label propagation and of ALS."""
    spread, solve = (plan_of(engine, program(name), small("rmat"), 4) for name in ("label_propagation", "als_all"))
    return Choices(spread.direction, spread.change_driven, any(kernel.thread_floats for kernel in solve.kernels))


def page() -> str:
    """Return the page in Markdown."""
    letters = {True: "Y", False: "N"}
    rows = [
        f"| {title} | {made.direction.capitalize()} | {letters[made.change_driven]} | {letters[made.shared]} |\n"
        for title, made in ((title, choices_of(engine)) for title, engine in engines())
    ]
    return HEAD + "".join(rows) + FOOT


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
