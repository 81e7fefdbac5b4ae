"""The module of a plan: its mapping as constants, the headers, the kernels, and the end of a superstep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.layout import TeamShape

HEADER = """// Generated: {title}.
#define LANES {lanes}  // of a team, which shares a vertex or an edge
#define WIDTH {width}  // consecutive features that a lane loads at once
#define BLOCK {block}  // threads of a block
typedef {arc} Arc;  // a position among the edges
{includes}

"""
END = """extern "C" __global__ void end_of_superstep(
    Run* run, Past* past, Count first, Count edges_even, Count edges_odd, Count sides, Count settles)
{
    if (run->over()) return;
    end_superstep(run, past, first, run->superstep % sides ? edges_odd : edges_even, sides, settles);
}
"""


@cache
def headers(folder: Path) -> dict[str, str]:
    """The text of every header in a folder and of the toolkit's own, by name."""
    paths = [*sorted(Path(__file__).parent.glob("*.cuh")), *sorted(folder.glob("*.cuh"))]
    return {path.name: path.read_text(encoding="utf-8") for path in paths}


def module_source(
    title: str,
    kernels: Sequence[CudaKernel],
    team: TeamShape,
    block: int,
    *,
    many_arcs: bool,
    included: Mapping[str, str],
) -> str:
    """The source of a module. ``many_arcs``: positions among the edges take 64 bits."""
    head = HEADER.format(
        title=title, lanes=team.lanes, width=team.width, block=block,
        arc="long long" if many_arcs else "unsigned int",
        includes="\n".join(f'#include "{name}"' for name in included),
    )  # fmt: skip
    return head + "\n".join(kernel.source for kernel in kernels) + "\n" + END
