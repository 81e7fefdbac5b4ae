"""Table 7.3 of the Onyx thesis (Vaz 2021), from what the engines for CUDA devices declare of themselves.

``python -m tests.engines.implementation_choices`` writes ``docs/implementation-choices.md``.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harness.lowering.cuda.thread_engine import ThreadEngine
from harness.plugins import load_plugins
from tests.engines.cuda_schedules import loaded

PAGE = Path(__file__).parents[2] / "docs" / "implementation-choices.md"
TITLES = {"gunrock": "Gunrock", "tigr": "Tigr", "simdx": "SIMD-X"}  # in the order of the thesis
HEAD = """# Implementation choices of the baselines

Table 7.3 of the Onyx thesis for the baseline engines, from the declarations of their CUDA code under their default
schedules. `python -m tests.engines.implementation_choices` writes this page, and tests compare it with the generated
code. It describes graph-based learning algorithms. Traversals have active vertices in every style, as in the originals.

| System | Computation mode | Change-driven processing | Shared memory |
|---|---|---|---|
"""
FOOT = """
Shared memory: intermediate values of a vertex stay on the chip between consecutive steps. With it (Y), consecutive
steps are one kernel, short rows stay in registers, and matrices are in shared memory as long as two blocks fit on a
multiprocessor (96 floats per thread: up to k = 9). Without it (N), every step is a separate kernel, the values between
steps are in global memory, and the matrices of a thread are in its local memory, which is part of global memory.
"""


def engines() -> Iterator[tuple[str, ThreadEngine]]:
    """The engines to which properties are opaque, under their default schedules."""
    registry = load_plugins()
    for name, title in TITLES.items():
        spec = registry.engine(name)
        made = loaded(loaded(spec.factory).engines["cuda"])(spec.schedule())
        assert isinstance(made, ThreadEngine)
        yield title, made


def page() -> str:
    """All of it, in Markdown."""
    told = {True: "Y", False: "N"}
    rows = [
        f"| {title} | {engine.direction.capitalize()} | {told[engine.change_driven]} | "
        f"{told[engine.scratch == 'shared']} |\n"
        for title, engine in engines()
    ]
    return HEAD + "".join(rows) + FOOT


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
