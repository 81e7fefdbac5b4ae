"""Recognition of programs that are a built-in algorithm in everything but names, for engines that call a library."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from harness.algorithms.bfs import BFS
from harness.algorithms.components import Components
from harness.algorithms.kcore import KCore
from harness.algorithms.pagerank import PageRank
from harness.algorithms.sssp import SSSP
from harness.language import Algorithm, Program, trace
from harness.language.expressions import walk
from harness.language.matching import matched

Kind: TypeAlias = Literal["bfs", "components", "kcore", "pagerank", "sssp"]
TEMPLATES: Final[dict[Kind, type[Algorithm]]] = {
    "bfs": BFS, "components": Components, "kcore": KCore, "pagerank": PageRank, "sssp": SSSP,
}  # fmt: skip


@dataclass(frozen=True)
class Recognised:
    """A program that is the built-in algorithm ``kind`` up to names.

    ``properties`` and ``parameters`` map the names that the built-in algorithm uses to those of the program. ``core``:
    the number of neighbours of a k-core; 0 for other kinds.
    """

    kind: Kind
    properties: Mapping[str, str]
    parameters: Mapping[str, str]
    core: int = 0


def recognised(program: Program) -> Recognised | None:
    """Return the built-in algorithm that a program is, by its structure; None if it is none of :data:`TEMPLATES`."""
    for kind in TEMPLATES:
        for core in _cores(program) if kind == "kcore" else (0,):
            names = matched(_template(kind, core), program)
            if names is not None:
                return Recognised(kind, names.properties, names.parameters, core)
    return None


@functools.cache
def _template(kind: Kind, core: int) -> Program:
    return trace(KCore(core=core) if kind == "kcore" else TEMPLATES[kind]())


def _cores(program: Program) -> list[int]:
    """Return the whole numbers in a program that may be the number of neighbours of a core."""
    roots = [expression for stage in program.stages for expression in stage.expressions()]
    constants = {node.attribute for node in walk(*roots) if node.op == "const" and node.dtype == "float"}
    return sorted(int(value) for value in constants if value >= 1 and float(value).is_integer())
