"""Kernels that measure whether a run meets its program's criterion (:mod:`harness.language.criterion`).

Before the superstep that begins a measurement, the measured properties are copied. After the superstep that ends it,
two kernels compare them and decide, on the device, whether the run has settled. They are launched only in these
supersteps, and depend on the other kernels only through the location of properties.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harness.language.criterion import Criterion
from harness.language.program import Program
from harness.lowering.cuda.buffers import CudaBuffer, work
from harness.lowering.cuda.conditions import OVER, Condition
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.launches import Launch
from harness.lowering.cuda.layout import DeviceLayout
from harness.lowering.cuda.names import in_ascii
from harness.lowering.cuda.parameters import Parameter
from harness.lowering.cuda.ranges import Over

# Of movement.cuh.
BLOCKS = 512  # of a measurement, at most
ROWS = 64  # vertices of a block, at least
NOTE = """
    const size_t begin = size_t(first) * {stride}, end = size_t(last) * {stride};
    for (size_t i = begin + thread_of_grid(); i < end; i += threads_of_grid()) {before}[i] = {now}[i];
"""
MEASURE = "    measure_movement<{norm}>({before}, {now}, last, {stride}, {width}, {tolerance}, {found});"
DECIDE = """
    bool within = true;
{tests}
    if (threadIdx.x == 0) run->within = within;
"""
TEST = "    if (!movement_is_within<{norm}>({found}, {width}, {tolerance})) within = false;"


@dataclass(frozen=True)
class Measuring:
    """The launches before a superstep that begins a measurement, and those after one that ends it.

    ``buffers``: those that only these launches use.
    """

    ahead: tuple[Launch, ...] = ()
    behind: tuple[Launch, ...] = ()
    buffers: tuple[CudaBuffer, ...] = ()

    @property
    def launches(self) -> tuple[Launch, ...]:
        """Return all launches."""
        return (*self.ahead, *self.behind)


def measuring(
    criterion: Criterion, program: Program, layout: DeviceLayout, num_vertices: int, flipped: Mapping[str, str],
    counting: Condition,
) -> Measuring:  # fmt: skip
    """Return the launches for a criterion.

    ``flipped``: the arrays with two buffers, by the name of the count of their swaps. ``counting``: supersteps in which
    all vertices that move by more than the tolerance are counted. Launches of these do nothing if that is enough; a
    kernel of a whole run measures in all supersteps. If sides alternate, a measurement may begin in another superstep.
    """
    unless = OVER | counting if criterion.sides == 1 and criterion.countable(program) else OVER
    ahead, behind, tests, founds = [], [], [], []
    buffers: list[CudaBuffer] = []
    norm = "Norm::SUM" if criterion.norm == "sum" else "Norm::RELATIVE" if criterion.relative else "Norm::ABSOLUTE"
    tolerance = f"parameters[{list(program.parameters).index(criterion.tolerance)}]"
    blocks = max(1, min(BLOCKS, -(-num_vertices // ROWS)))
    for name in criterion.properties:
        shape = program.properties[name].shape
        stride, width = layout.stride(shape), layout.dims(shape)[0] if shape else 1
        now, before, found = (in_ascii(f"{kind}_{name}") for kind in ("vertex", "before", "movement"))
        buffers += [work(before, num_vertices * stride), work(found, BLOCKS * 2 * width, start=0)]
        words = {
            "norm": norm, "tolerance": tolerance, "now": now, "before": before, "found": found,
            "stride": str(stride), "width": str(width),
        }  # fmt: skip
        whole = {"run": "run", "first": "Id", "last": "Id"}
        copied = _kernel(flipped, f"note_{name}", NOTE.format(**words), {**whole, now: "input", before: "f32"}, unless)
        ahead.append(Launch(copied, Over.ALL_VERTICES, stride))
        kinds = {**whole, before: "input", now: "input", "parameters": "input", found: "f32"}
        compared = _kernel(flipped, f"measure_{name}", MEASURE.format(**words), kinds, unless)
        behind.append(Launch(compared, Over.ALL_VERTICES, 1, blocks=blocks))
        tests.append(TEST.format(**words))
        founds.append(found)
    body = DECIDE.format(tests="\n".join(tests))
    kinds = {"run": "run", "parameters": "input", **dict.fromkeys(founds, "input")}
    behind.append(Launch(_kernel(flipped, "decide_settled", body, kinds, unless), Over.ALL_VERTICES, 1, blocks=1))
    return Measuring(tuple(ahead), tuple(behind), tuple(buffers))


def _kernel(
    flipped: Mapping[str, str], name: str, body: str, types: Mapping[str, str], unless: Condition
) -> CudaKernel:
    """Return a kernel with arguments of given kinds (``KINDS``), which selects the buffer to read of two."""
    listed, chosen = dict(types), []
    for array, flips in flipped.items():
        if array not in listed:
            continue
        kind = listed.pop(array)
        listed |= {f"even_{array}": kind, f"odd_{array}": kind, flips: "swaps"}
        chosen.append(f"    const float* const {array} = {flips}[0] & 1 ? odd_{array} : even_{array};")
    text = "\n".join([*chosen, body.strip("\n")])
    parameters = tuple(Parameter.of(argument, kind) for argument, kind in listed.items())
    return CudaKernel(in_ascii(name), parameters, f"{in_ascii(text)}\n", unless=unless)
