"""A bulk-synchronous program's supersteps in one kernel: compute, vertex steps and sums over vertices (sec. 5).

The program has one direction, so that only the fusion around pull applies. Independent steps share a phase, and a
global barrier ends each phase. The lists of a reduction are processed in the same phase, so that a block without
further hubs continues with small vertices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from engines.pullbaseline.simdx.functions import START, Function
from harness.api.cuda import (
    TEST_EVERY,
    CudaKernel,
    Pieces,
    exchanged,
    turned,
)

if TYPE_CHECKING:
    from harness.api.cuda import Launch, Measuring

OVER = "    if (run->over()) return;\n"  # the loop tests it for all its steps
BOUNDS = {"first": "Id", "last": "Id"}
OWN = {"bounds": "const Count*", "lock": "Arrivals*", "past": "Past*"}
LOOP = """
    GlobalBarrier barrier(lock);
    while (!run->over()) {{
        const Count superstep = run->superstep;  // which block 0 increments while others still work
        const bool odd = superstep & 1;
        const Count* const bound = bounds + superstep % {sides} * {length};
{ahead}{phases}
{behind}        if (blockIdx.x == 0 && threadIdx.x == 0) {{
            end_superstep(run, past);
            settle_if_within(run);
        }}
        barrier.wait();
    }}
"""


def fused_superstep(
    launches: Sequence[Launch], sides: int, measuring: Measuring, ping_pong: Mapping[str, str]
) -> CudaKernel:
    """Return the kernel of a whole run whose supersteps are ``launches``.

    ``measuring``: decides whether the run has settled. ``ping_pong``: the buffers that swap. The argument ``bounds``
    has, for each side, two words for each launch, with the measuring launches last: first and last + 1 of its range.
    """
    steps, measured = len(launches), len(measuring.ahead)
    launches = [*launches, *measuring.launches]
    functions = {launch.kernel.name: Function.of(launch.kernel, own={}, drop=OVER) for launch in launches}
    names = [_buffers(launches, parity, ping_pong) for parity in (0, 1)]
    types: dict[str, str] = {}
    for launch, *buffers in zip(launches, *names, strict=True):
        kinds = functions[launch.kernel.name].parameters
        for plain, name in ((plain, name) for resolved in buffers for plain, name in resolved.items()):
            if plain not in BOUNDS:
                known = types.setdefault(name, kinds[plain])
                types[name] = min(known, kinds[plain], key=lambda kind: kind.startswith("const "))

    def call(i: int) -> str:
        return _call(functions[launches[i].kernel.name], launches[i], i, *(one[i] for one in names))

    phases = []
    for phase in _phases(launches[:steps], functions, names[0]):
        phases += [*(f"        {call(i)}" for i in phase), "        barrier.wait();"]
    numbers = range(steps, len(launches))
    ahead = _measured(f"superstep + {sides}", [call(i) for i in numbers[:measured]])
    behind = _measured("superstep + 1", [call(i) for i in numbers[measured:]])
    listed = ", ".join(f"{kind} {name}" for name, kind in {**types, **OWN}.items())
    definitions = "\n".join(function.definition for function in functions.values())
    body = LOOP.format(sides=sides, length=2 * len(launches), phases="\n".join(phases), ahead=ahead, behind=behind)
    source = f"{definitions}\n{START}fused_pull({listed})\n{{{body}}}\n"
    floats = max(launch.kernel.tile_floats for launch in launches)
    return CudaKernel("fused_pull", source, (*types, *OWN), floats)


def _measured(superstep: str, calls: Sequence[str]) -> str:
    """Return the statements that measure movement in the supersteps that evaluate the criterion.

    A barrier follows each statement.
    """
    if not calls:
        return ""
    lines = [line for call in calls for line in (call, "barrier.wait();")]
    body = "\n".join(f"            {line}" for line in lines)
    return f"        if (({superstep}) % {TEST_EVERY} == 0) {{\n{body}\n        }}\n"


def _call(function: Function, launch: Launch, number: int, even: dict[str, str], odd: dict[str, str]) -> str:
    """Return the statement that runs a step; block 0 runs a step of one block."""
    given = {}
    for name in function.parameters:
        given[name] = even[name] if even[name] == odd[name] else f"odd ? {odd[name]} : {even[name]}"
    for place, name in enumerate(BOUNDS):
        if name in given:
            given[name] = f"{function.parameters[name]}(bound[{2 * number + place}])"
    guard = "if (blockIdx.x == 0) " if launch.blocks == 1 else ""
    return f"{guard}{function.name}({', '.join(given.values())});"


def _buffers(launches: Sequence[Launch], parity: int, ping_pong: Mapping[str, str]) -> list[dict[str, str]]:
    """Return the arrays passed to every launch in even or odd supersteps, by the names of its kernel's arguments."""
    swapped = turned(launches) if parity else set()
    found = []
    for launch in launches:
        found.append({name: exchanged(name, swapped, ping_pong) for name in launch.kernel.arguments})
        swapped = swapped ^ set(launch.swaps)
    return found


def _phases(
    launches: Sequence[Launch], functions: dict[str, Function], even: Sequence[dict[str, str]]
) -> list[list[int]]:
    """Return the indices of the launches by phase: each in the first phase after all launches that it depends on."""
    levels: list[int] = []
    for i, launch in enumerate(launches):
        met = [levels[j] + 1 for j in range(i) if _waits(launch, launches[j], even[i], even[j], functions)]
        levels.append(max(met, default=0))
    return [[i for i, level in enumerate(levels) if level == wanted] for wanted in range(max(levels) + 1)]


def _waits(
    later: Launch, earlier: Launch, of_later: dict[str, str], of_earlier: dict[str, str], functions: dict[str, Function]
) -> bool:
    """Return whether one launch reads or writes what the other writes. Lists of one reduction have no common vertex."""
    into = [_written(launch, names, functions) for launch, names in ((later, of_later), (earlier, of_earlier))]
    if isinstance(later.over, Pieces) and isinstance(earlier.over, Pieces) and into[0] == into[1]:
        return False
    touched = [set(of_later.values()) - {*BOUNDS, "run"}, set(of_earlier.values()) - {*BOUNDS, "run"}]
    return bool(into[0] & touched[1] or into[1] & touched[0])


def _written(launch: Launch, names: dict[str, str], functions: dict[str, Function]) -> set[str]:
    kinds = functions[launch.kernel.name].parameters
    return {name for plain, name in names.items() if kinds[plain] in ("float*", "bool*")}
