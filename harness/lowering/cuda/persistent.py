"""A persistent kernel: one launch runs the supersteps of a whole run.

All its blocks are resident, and a global barrier separates steps that depend on each other (Liu & Huang 2019, sec. 5).
A superstep then costs neither launches nor work queued behind the end of a run. Steps that do not depend on each other
share a phase. A phase whose steps all have nothing to do in a superstep has no barrier.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.language.criterion import TEST_EVERY
from harness.lowering.cuda.buffers import CudaBuffer, exchanged, work
from harness.lowering.cuda.device_functions import START, Function
from harness.lowering.cuda.draft import PlanDraft
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.launches import Launch, named_apart, turned
from harness.lowering.cuda.movement import Measuring
from harness.lowering.cuda.plan import Combined
from harness.lowering.cuda.ranges import Over
from harness.lowering.cuda.run_extension import RunExtension

LOCK = 32  # words between the two counts of a barrier (barrier.cuh)
OVER = "run->over()"  # the loop tests it for all its steps
BOUNDS = {"first": "Id", "last": "Id"}
OWN = {"bounds": "const Count*", "lock": "Arrivals*", "past": "Past*"}
STRUCTURE = ("const EdgeId*", "const Id*")  # arrays that no step writes
FRONTIER = "frontiers of this superstep"  # in the place of an array: what conditions read, and some steps count
READS_FRONTIER = re.compile(r"run->sparse|\bsparse_\w+\(run")
COUNTS_FRONTIER = re.compile(r"&run->frontier\[\d+\]\[\(?run->superstep\)? & 1\]")
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
    def condition(self) -> str:
        """The condition under which the step does nothing, besides the end of the run; empty if there is none."""
        return self.launch.kernel.unless.removeprefix(OVER).removeprefix(" || ")

    @property
    def statement(self) -> str:
        """The call of the function, which an array may have the name of; block 0 runs a step of one block."""
        given = {}
        for name in self.function.parameters:
            even, odd = self.even[name], self.odd[name]
            given[name] = even if even == odd else f"odd ? {odd} : {even}"
        for place, name in enumerate(BOUNDS):
            if name in given:
                given[name] = f"{self.function.parameters[name]}(bound[{2 * self.number + place}])"
        guard = "if (blockIdx.x == 0) " if self.launch.blocks == 1 else ""
        return f"{guard}::{self.function.name}({', '.join(given.values())});"

    @property
    def touched(self) -> set[str]:
        """The arrays that the step reads or writes."""
        found = set(self.even.values()) - {*BOUNDS, "run"}
        return found | {FRONTIER} if READS_FRONTIER.search(self._text) or self.counts_frontier else found

    @property
    def written(self) -> set[str]:
        """The arrays that the step writes."""
        kinds = self.function.parameters
        found = {name for plain, name in self.even.items() if kinds[plain].endswith("*") and self._writes(plain)}
        return found - {"run"} | ({FRONTIER} if self.counts_frontier else set())

    @property
    def counts_frontier(self) -> bool:
        """Whether the step adds to a frontier of the superstep that runs it."""
        return bool(COUNTS_FRONTIER.search(self._text))

    @property
    def _text(self) -> str:
        return f"{self.condition} {self.function.definition}"

    def _writes(self, name: str) -> bool:
        kind = self.function.parameters[name]
        if kind == "Count*":  # a count of swaps, which most functions only read
            return f"++{name}[" in self.function.definition
        return not kind.startswith("const ")

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
    types = _types(steps)
    listed = ", ".join(f"{kind} {name}" for name, kind in {**types, **OWN}.items())
    definitions = "\n".join({step.function.name: step.function.definition for step in steps}.values())
    indented = "\n".join(f"        {line}" for line in body)
    loop = LOOP.format(end=extension.end, sides=sides, length=2 * len(steps), body=indented)
    start = START.replace("(BLOCK)", f"(BLOCK, {at_once} / BLOCK)") if at_once else START
    source = f"{definitions}\n{start}{name}({listed})\n{{{loop}}}\n"
    floats = max(step.launch.kernel.tile_floats for step in steps)
    of_thread = max(step.launch.kernel.thread_floats for step in steps)
    return CudaKernel(name, source, (*types, *OWN), floats, OVER, of_thread)


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


def _types(steps: Sequence[Step]) -> dict[str, str]:
    """Return the parameters of the kernel; an array that any step writes is not const."""
    types: dict[str, str] = {}
    for step in steps:
        kinds = step.function.parameters
        for plain, name in ((plain, name) for arrays in (step.even, step.odd) for plain, name in arrays.items()):
            if plain not in BOUNDS:
                known = types.setdefault(name, kinds[plain])
                types[name] = min(known, kinds[plain], key=lambda kind: kind.startswith("const "))
    return {name: f"{kind} __restrict__" if kind in STRUCTURE else kind for name, kind in types.items()}


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
        if unsure and any(step.counts_frontier for step in phase):
            lines.append("barrier.wait();")
            unsure = False
        barrier = [] if number + 1 == len(phases) else ["barrier.wait();"]
        if any(not step.condition for step in phase):
            tests = [f"if (!({step.condition})) " if step.condition else "" for step in phase]
            lines += [f"{test}{step.statement}" for test, step in zip(tests, phase, strict=True)] + barrier
            unsure = False
            continue
        unsure |= any("run->sparse" in step.condition for step in phase)
        conditions = list(dict.fromkeys(step.condition for step in phase))
        runs = {condition: f"runs_{number}_{i}" for i, condition in enumerate(conditions)}
        lines += [f"const bool {variable} = !({condition});" for condition, variable in runs.items()]
        lines += [f"if ({runs[step.condition]}) {step.statement}" for step in phase]
        lines += [f"if ({' || '.join(runs.values())}) {one}" for one in barrier]
    return lines


def _measured(superstep: str, calls: Sequence[Sequence[str]]) -> list[str]:
    """Return the statements that measure movement in the supersteps that evaluate the criterion."""
    if not calls:
        return []
    return [f"if (({superstep}) % {TEST_EVERY} == 0) {{", *(f"    {line}" for lines in calls for line in lines), "}"]
