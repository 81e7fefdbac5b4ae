"""The module of a plan: its mapping as constants, the headers, the kernels, and the end of a superstep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from harness.device.compilation import MADE_OF, Compiled, compiled
from harness.device.errors import CompilationFailed
from harness.language import Program
from harness.lowering.cuda.layout import LaneGroupShape
from harness.lowering.cuda.run_extension import RunExtension
from harness.lowering.cuda.run_state import MOST_GROUPS

HEADER = """// Generated: {title}.
#define LANES {lanes}  // of a lane group, which shares a vertex or an edge
#define WIDTH {width}  // consecutive features that a lane loads at once
#define BLOCK {block}  // threads of a block
{coherent}constexpr int GROUPS = {groups};  // edge stages whose sources are tracked, at most
typedef {edge_id} EdgeId;  // a position among the edges
{extension}{includes}

"""
END = """extern "C" __global__ void end_of_superstep(Run* run, Past* past)
{{
    if (run->over()) return;
    {end}(run, past);
    settle_if_within(run);
}}
"""


def compiled_module(source: str, included: Mapping[str, str], architecture: str, program: Program) -> Compiled:
    """Return a module's machine code.

    Raises CompilationFailed, which names the lines of the program that did not compile.
    """
    try:
        return compiled(source, included, architecture)
    except CompilationFailed as error:
        stages = [stage for stage in program.stages if f"{MADE_OF} {stage.name}: " in str(error)]
        lines = "".join(f"\n{stage.name} is from {stage.line}" for stage in stages)
        raise CompilationFailed(f"{error}{lines}") from error


@cache
def headers(folder: Path) -> dict[str, str]:
    """Return the text of every header in a folder and of the toolkit's own, by name."""
    paths = [*sorted(Path(__file__).parent.glob("*.cuh")), *sorted(folder.glob("*.cuh"))]
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def module_source(
    title: str,
    kernels: Sequence[str],
    lane_group: LaneGroupShape,
    block: int,
    *,
    many_edges: bool,
    included: Mapping[str, str],
    coherent: bool = False,
    extension: RunExtension,
) -> str:
    """Return the source of a module from those of its kernels.

    ``many_edges``: positions among the edges take 64 bits. ``coherent``: other multiprocessors write rows during a
    kernel. ``extension``: what the engine adds to runs.
    """
    head = HEADER.format(
        title=title, lanes=lane_group.lanes, width=lane_group.width, block=block,
        coherent="#define COHERENT  // rows are read past the caches of multiprocessors\n" if coherent else "",
        groups=MOST_GROUPS, edge_id="long long" if many_edges else "unsigned int",
        extension=extension.declaration,
        includes="\n".join(f'#include "{name}"' for name in included),
    )  # fmt: skip
    return head + "\n".join(kernels) + "\n" + END.format(end=extension.end)
