"""A persistent kernel: one launch runs the supersteps of a whole run.

All its blocks are resident, and a global barrier separates steps that depend on each other (Liu & Huang 2019, sec. 5).
A superstep then costs neither launches nor work queued behind the end of a run. Steps that do not depend on each other
share a phase. A phase whose steps all have nothing to do in a superstep has no barrier.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.language.criterion import TEST_EVERY
from harness.lowering.cuda.buffers import CudaBuffer, exchanged, work
from harness.lowering.cuda.conditions import OVER, Condition
from harness.lowering.cuda.device_functions import Function
from harness.lowering.cuda.draft import PlanDraft
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.launches import Launch, named_apart, turned
from harness.lowering.cuda.movement import Measuring
from harness.lowering.cuda.names import in_ascii
from harness.lowering.cuda.parameters import Parameter, joined
from harness.lowering.cuda.plan import Combined
from harness.lowering.cuda.ranges import Over
from harness.lowering.cuda.run_extension import RunExtension

LOCK = 32  # words between the two counts of a barrier (barrier.cuh)
BOUNDS = ("first", "last")
OWN = (Parameter.of("bounds", "bounds"), Parameter.of("lock", "arrivals"), Parameter.of("past", "past"))
STRUCTURE = tuple(Parameter.of("", kind).type for kind in ("offsets", "ids"))  # of arrays that no step writes
FRONTIER = "frontiers of this superstep"  # in the place of an array: what conditions read, and some steps count
LOOP = """
    GlobalBarrier barrier(lock);
    while (!run->over()) {{
        const Count superstep = run->superstep;
        const bool odd = superstep & 1;
        const Count* const bound = bounds + superstep % {sides} * {length};
{body}
        barrier.wait([&] {{
            {end}(run, past);
            settle_if_within(run);
        }});
    }}
"""


@dataclass(frozen=True)
class Step:
    """A launch as a step of the kernel.

    ``even``, ``odd``: the arrays in even and odd supersteps, by the names of the function's parameters.
    """

    number: int
    launch: Launch
    function: Function
    even: Mapping[str, str]
    odd: Mapping[str, str]

    @property
    def condition(self) -> Condition:
        """The condition under which the step does nothing, besides the end of the run, for which the loop tests."""
        return self.launch.kernel.unless.without(OVER)

    @property
    def statement(self) -> str:
        """The call of the function, which an array may have the name of; block 0 runs a step of one block."""
        given = {}
        for one in self.function.arrays:
            even, odd = in_ascii(self.even[one.name]), in_ascii(self.odd[one.name])
            given[one.name] = even if even == odd else f"odd ? {odd} : {even}"
            if one.name in BOUNDS:
                given[one.name] = f"{one.type}(bound[{2 * self.number + BOUNDS.index(one.name)}])"
        guard = "if (blockIdx.x == 0) " if self.launch.blocks == 1 else ""
        return f"{guard}::{self.function.name}({', '.join(given.values())});"

    @property
    def touched(self) -> set[str]:
        """The arrays that the step reads or writes."""
        found = set(self.even.values()) - {*BOUNDS, "run"}
        kernel = self.launch.kernel
        frontier = self.condition.frontier or kernel.reads_frontier or kernel.counts_frontier
        return found | {FRONTIER} if frontier else found

    @property
    def written(self) -> set[str]:
        """The arrays that the step writes."""
        found = {self.even[one.name] for one in self.function.arrays if one.written}
        return found | {FRONTIER} if self.launch.kernel.counts_frontier else found

    def waits_for(self, earlier: Step) -> bool:
        """Return whether one step reads or writes what the other writes, and they are not declared apart."""
        if self.launch.apart and self.launch.apart == earlier.launch.apart:
            return False
        return bool(self.written & earlier.touched or earlier.written & self.touched)


def make_persistent(
    draft: PlanDraft, name: str, blocks: int | None = None, *, at_once: int = 0
) -> None:  # fmt: skip
    """Replace the launches of a draft, and those that measure movement, by one kernel.

    ``blocks``: of its grid; None: as many as are resident. ``at_once``: the number of threads that must fit on a
    multiprocessor, which limits the registers of each; 0: the compiler decides.
    """
    measured, count, sides = draft.measuring(), len(draft.launches), len(draft.setting.sides)
    named = tuple(named_apart([*draft.launches, *measured.launches]))
    steps, behind = named[:count], count + len(measured.ahead)
    measuring = Measuring(named[count:behind], named[behind:], measured.buffers)
    kernel = persistent_kernel(name, steps, sides, measuring, draft.ping_pong, draft.extension, at_once=at_once)
    draft.launches = []
    draft.add(kernel, Over.ALL_VERTICES, 1, tuple(sorted(turned(steps))))
    draft.combined = Combined(steps, measuring, blocks)
    draft.own(work("bounds", 2 * sides * len(named), "int64"), lock_buffer())


def lock_buffer(kernels: int = 1) -> CudaBuffer:
    """Return the counts of the barriers of some kernels."""
    return work("lock", kernels * 2 * LOCK, "uint64")


def persistent_kernel(
    name: str, launches: Sequence[Launch], sides: int, measuring: Measuring, ping_pong: Mapping[str, str],
    extension: RunExtension, *, at_once: int = 0,
) -> CudaKernel:  # fmt: skip
    """Return the kernel of a whole run whose supersteps are ``launches``.

    ``measuring``: decides whether the run has settled. ``ping_pong``: the buffers that swap. ``extension``: what the
    engine adds to runs. The argument ``bounds`` has, for each side, two words for each launch, with the measuring
    launches last: first and last + 1 of its range.
    """
    steps, ahead, behind = _steps(launches, measuring, ping_pong)
    noted = [[step.statement, "barrier.wait();"] for step in ahead]
    compared = [["barrier.wait();", step.statement] for step in behind]
    body = [*_measured(f"superstep + {sides}", noted), *_work(_phases(steps))]
    body += _measured("superstep + 1", compared)
    steps = [*steps, *ahead, *behind]
    parameters = (*_parameters(steps), *OWN)
    definitions = "\n".join({step.function.name: step.function.definition for step in steps}.values())
    indented = "\n".join(f"        {line}" for line in body)
    loop = LOOP.format(end=extension.end, sides=sides, length=2 * len(steps), body=indented)
    return CudaKernel(
        name, parameters, loop.removeprefix("\n"), max(step.launch.kernel.tile_floats for step in steps),
        thread_floats=max(step.launch.kernel.thread_floats for step in steps), before=f"{definitions}\n",
        bounds=f"BLOCK, {at_once} / BLOCK" if at_once else "BLOCK",
    )  # fmt: skip


def _steps(
    launches: Sequence[Launch], measuring: Measuring, ping_pong: Mapping[str, str]
) -> tuple[list[Step], list[Step], list[Step]]:
    """Return the steps of a superstep, and those that measure it: before and after these.

    Their numbers are those of the bounds: the superstep's launches, those before it, those after it.
    """
    count, ahead = len(launches), len(measuring.ahead)
    in_order = [*measuring.ahead, *launches, *measuring.behind]
    numbers = [*range(count, count + ahead), *range(count), *range(count + ahead, len(in_order))]
    functions = {launch.kernel.name: Function.of(launch.kernel) for launch in in_order}
    even, odd = (_buffers(in_order, parity, ping_pong) for parity in (0, 1))
    steps = [
        Step(number, launch, functions[launch.kernel.name], *arrays)
        for number, launch, *arrays in zip(numbers, in_order, even, odd, strict=True)
    ]
    return steps[ahead : ahead + count], steps[:ahead], steps[ahead + count :]


def _buffers(launches: Sequence[Launch], parity: int, ping_pong: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the arrays passed to every launch in even or odd supersteps, by the names of its kernel's arguments.

    ``launches``: in the order in which they run.
    """
    swapped = turned(launches) if parity else set()
    found = []
    for launch in launches:
        found.append({name: exchanged(name, swapped, ping_pong) for name in launch.kernel.arguments})
        swapped = swapped ^ set(launch.swaps)
    return found


def _parameters(steps: Sequence[Step]) -> list[Parameter]:
    """Return the parameters of the kernel; an array that any step writes is not const."""
    given = (
        replace(one, name=arrays[one.name], restricted=False)
        for step in steps
        for arrays in (step.even, step.odd)
        for one in step.function.arrays
        if one.name not in BOUNDS
    )
    return [replace(one, restricted=one.type in STRUCTURE) for one in joined(given).values()]


def _phases(steps: Sequence[Step]) -> list[list[Step]]:
    """Return the steps by phase: each in the first phase after all steps that it depends on."""
    levels: list[int] = []
    for i, step in enumerate(steps):
        levels.append(max((levels[j] + 1 for j in range(i) if step.waits_for(steps[j])), default=0))
    pairs = list(zip(steps, levels, strict=True))
    return [[step for step, level in pairs if level == wanted] for wanted in sorted(set(levels))]


def _work(phases: Sequence[Sequence[Step]]) -> list[str]:
    """Return the statements of the phases.

    All blocks must evaluate a condition alike. Conditions read what only the end of a superstep writes, and frontiers.
    A barrier therefore separates a phase that counts a frontier from the conditions before it, also if their steps do
    nothing. The last phase has no barrier: the end of the superstep begins with one.
    """
    lines: list[str] = []
    unsure = False  # blocks may still evaluate a condition that reads a frontier
    for number, phase in enumerate(phases):
        if unsure and any(step.launch.kernel.counts_frontier for step in phase):
            lines.append("barrier.wait();")
            unsure = False
        barrier = [] if number + 1 == len(phases) else ["barrier.wait();"]
        if any(not step.condition for step in phase):
            tests = [f"if (!({step.condition.text})) " if step.condition else "" for step in phase]
            lines += [f"{test}{step.statement}" for test, step in zip(tests, phase, strict=True)] + barrier
            unsure = False
            continue
        unsure |= any(step.condition.frontier for step in phase)
        conditions = list(dict.fromkeys(step.condition.text for step in phase))
        runs = {condition: f"runs_{number}_{i}" for i, condition in enumerate(conditions)}
        lines += [f"const bool {variable} = !({condition});" for condition, variable in runs.items()]
        lines += [f"if ({runs[step.condition.text]}) {step.statement}" for step in phase]
        lines += [f"if ({' || '.join(runs.values())}) {one}" for one in barrier]
    return lines


def _measured(superstep: str, calls: Sequence[Sequence[str]]) -> list[str]:
    """Return the statements that measure movement in the supersteps that evaluate the criterion."""
    if not calls:
        return []
    return [f"if (({superstep}) % {TEST_EVERY} == 0) {{", *(f"    {line}" for lines in calls for line in lines), "}"]
