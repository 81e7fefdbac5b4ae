"""Render the gather of a lowered program as C++ with vector extensions, by the renderer that writes CUDA C++.

A lane group becomes a vector register, and a slot of a row becomes a vector. ``vectors.hpp`` stands in for the
headers of the CUDA kernels.
"""

from __future__ import annotations

from dataclasses import dataclass

from harness.language.analysis import FoldGroup
from harness.language.program import EdgeReduce, reads
from harness.lowering.cpu.reduction_loops import RUN
from harness.lowering.cpu.setting import CpuSetting
from harness.lowering.cuda.code import Value
from harness.lowering.cuda.conditions import NEVER
from harness.lowering.cuda.kernels import CudaKernel, CudaKernelBuilder
from harness.lowering.cuda.layout import DeviceLayout, LaneGroupShape
from harness.lowering.cuda.write_back import cuda_write_back
from harness.lowering.layout import row_stride

VECTOR = 16  # floats of an AVX-512 register; compilers split longer vectors than the processor has
GATHER = """
    @kernel
    for (Id v = first; v < last; ++v) {
      @start
        const EdgeId end = in_offsets[v + 1];
        for (EdgeId e = in_offsets[v]; e < end; ++e) {
            const Id u = in_neighbours[e];
            @visit
        }
        @finish
    }
"""
SIGNATURE = [("first", "Id"), ("last", "Id"), ("edges", "EdgeId"), ("in_offsets", "offsets"), ("in_neighbours", "ids")]


class HostLayout(DeviceLayout):
    """The layout of the CPU engines, so that both kernels read the same arrays."""

    def row_stride(self, lanes: int) -> int:
        return row_stride(lanes)


class VectorKernelBuilder(CudaKernelBuilder):
    """Fill a template. A variable that differs between the lanes of a lane group has a vector type."""

    def moved(self, space: str, name: str, new: Value, block: str, *, exact: bool = False, share: float = 1.0) -> str:
        """Declare a bool variable: whether a row differs by more than the tolerance from what ``space`` holds."""
        assert new.kind == "row", "the programs of this experiment watch rows"
        assert (exact, share) == (False, 1.0), "without change tracking nothing else is compared"
        at, now = self.blocks[block], new.element("f")
        old = self.mapping.lower(self.reading(space, name)).element("f")
        margin = self.tolerance() + (f" * fabsf({now})" if self.program.control.relative else "")
        lanes = at.declare("Mask", self.mapping.fresh("lanes"), "{}", constant=False)
        at.line(f"FEATURES(f, {new.length}) {lanes} |= far({old}, {now}, {margin});")
        return at.declare("bool", self.mapping.fresh("moved"), f"any(group, {lanes})")


@dataclass(frozen=True)
class Rendered:
    """A kernel, and the macros that its source needs."""

    kernel: CudaKernel
    lanes: int

    @property
    def source(self) -> str:
        """The text of the module without ``vectors.hpp``."""
        return f'#define LANES {self.lanes}\n#include "vectors.hpp"\n\n{self.kernel.source}'


def rendered(setting: CpuSetting, group: FoldGroup, prefetched: int) -> Rendered:
    """Return the full gather of a group of edge reductions; the number of features is a power of two.

    ``prefetched``: edges from the one that is processed to the one whose source is prefetched; 0: none is.
    """
    tracking, features = setting.tracking, setting.layout.features
    lanes = min(VECTOR, features)
    builder = VectorKernelBuilder(
        tracking.name(group), setting.program, HostLayout(features), LaneGroupShape(lanes, 1), GATHER, SIGNATURE,
        feature_aware=True,
    )  # fmt: skip
    builder.bind("src", "visit", "u")
    builder.bind("dst", "start", "v")
    builder.bind("edge", "visit", "e", "csc_")
    builder.bind("v", "finish", "v")
    if prefetched:
        _prefetch(builder, group.edge_stages, prefetched)
    for stage in group.edge_stages:
        total = builder.accumulator(f"{stage.into}_total", stage.message, stage.reducer, "start")
        builder.comment("visit", stage)
        builder.accumulate(total, stage.message, stage.reducer, "visit")
        _carry(builder, total.text)
        builder.bind_value("v", stage.into, "finish", total)
    for step in group.vertex_steps:
        builder.comment("finish", step)
    written = dict.fromkeys((name for step in group.vertex_steps for name in step.writes), "next_")
    cuda_write_back(builder, tracking, group, "finish", prefix_of=written)
    return Rendered(builder.finish(unless=NEVER), lanes)


def _carry(builder: CudaKernelBuilder, total: str) -> None:
    """Sum in runs of edges, as the CPU kernels do."""
    builder.blocks["start"].line(f"Carry<decltype({total})> {total}_carry;")
    builder.blocks["visit"].line(f"if ((e & {RUN - 1}) == {RUN - 1}) {total}_carry.end_run({total});")
    builder.blocks["finish"].line(f"{total}_carry.end({total});")


def _prefetch(builder: CudaKernelBuilder, stages: tuple[EdgeReduce, ...], distance: int) -> None:
    """Prefetch the rows of a later source, as the CPU kernels do."""
    ahead = f"in_neighbours[e + {distance} < edges ? e + {distance} : edges - 1]"
    for name in dict.fromkeys(name for stage in stages for space, name in reads(stage) if space == "src"):
        shape = builder.program.properties[name].shape
        if len(shape) == 1:
            array, stride = builder.argument(f"vertex_{name}", "input"), builder.layout.stride(shape)
            row = f"{array} + (size_t){ahead} * {stride}"
            builder.blocks["visit"].line(f"prefetch<{stride}>({row});")
