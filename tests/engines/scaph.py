"""Shared parts of the tests of the Scaph style: the bytes that a device copies whole, from the choices of the CPU.

A device copies the first subgraphs of a superstep before it has chosen them, if all were copied in the two supersteps
before (or in the only one, of a run that begins with all vertices) and the order is that of their numbers. Those that
are not chosen then have been copied in vain. The CPU reads no subgraph before it is chosen.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from engines.outofmemory.scaph.reading import Choice, Readings
from harness.lowering.edge_windows import windows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from harness.contract import Transfers

    Choices = Mapping[tuple[str, int], tuple[Choice, int]]  # with the bytes of whole copies, by kernel and first vertex

AHEAD = 4  # subgraphs that are copied ahead to the six slots of the default


def choices_of(run: Callable[[], object], monkeypatch) -> Choices:
    """Return what an engine chooses while the function ``run`` runs it."""
    found, choose = {}, Readings.choose

    def noted(readings, subgraph, *arguments, **named):
        choice = choose(readings, subgraph, *arguments, **named)
        found[subgraph] = choice, named["stored"]
        return choice

    with monkeypatch.context() as patched:
        patched.setattr(Readings, "choose", noted)
        run()
    return found


def sweeps(choices: Choices, count: int) -> bool:
    """Return whether a superstep copied all subgraphs, of which there are ``count``."""
    return len(choices) == count and all(choice.means == "copied" for choice, _ in choices.values())


def copied_in_vain(before: Choices, now: Choices, swept: int, options: Mapping[str, object]) -> int:
    """Return the bytes that a superstep copies ahead, and does not read.

    ``before``, ``now``: the choices of the superstep before and of this one. ``swept``: supersteps in a row that copied
    all subgraphs.
    """
    if swept < 2 or options.get("order", "index") != "index":
        return 0
    ahead = sorted(before, key=lambda subgraph: subgraph[1])[:AHEAD]
    return sum(before[one][1] for one in ahead if one not in now or now[one][0].means != "copied")


def check_values_on_both(engines, inputs, supersteps, options, monkeypatch) -> list[tuple[Transfers, int]]:
    """Compare what an engine on a device counts in each superstep with an engine on the CPU.

    Return the counts of the CPU, and the bytes that the device copied in vain, for each superstep.
    """
    on_cpu, on_device = engines
    for engine in engines:
        engine.reset(inputs)
    offsets = on_device.executor.store.graph.csr.offsets
    count = len(windows(offsets, 0, len(offsets) - 1, on_device.planned.windows.edges))
    found, before, swept = [], {}, 0
    for superstep in range(supersteps):
        taken = []
        now = choices_of(lambda taken=taken: taken.append(on_cpu.run(1)), monkeypatch)
        cpu, cuda = taken[0].transfers, on_device.run(1).transfers
        # A copy in vain may be used later while it is in its slot: these runs copy nothing after one.
        assert not cpu.moved["copied"] or not any(vain for _, vain in found)
        found.append((cpu, copied_in_vain(before, now, swept, options)))
        assert (cuda.visited, cuda.subgraphs) == (cpu.visited, cpu.subgraphs)
        assert cuda.moved["copied"] == cpu.moved["copied"] + found[-1][1]
        assert cuda.data == cpu.data
        everything = superstep == 0 and taken[0].edges == on_device.executor.store.graph.num_edges
        before = {} if taken[0].settled else now  # nothing is copied once the run has settled
        swept = swept + 1 + everything if sweeps(before, count) else 0
    return found
