"""The draft of a plan: launches and buffers as an engine's planning adds them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.contract import No
from harness.edge_places import Place, Placement
from harness.facts import GraphFacts
from harness.language.program import Program
from harness.lowering.buffers import Holds, second
from harness.lowering.cuda.buffers import CudaBuffer, of_program, of_structure, of_tracking
from harness.lowering.cuda.edge_places import PLACES
from harness.lowering.cuda.kernels import CudaKernel
from harness.lowering.cuda.launches import Launch, Most, named_apart
from harness.lowering.cuda.modules import headers, module_source
from harness.lowering.cuda.movement import Measuring, measuring
from harness.lowering.cuda.names import parameter_names
from harness.lowering.cuda.plan import Combined, CudaPlan, Thresholds, shared_bytes
from harness.lowering.cuda.prefix import Prefix
from harness.lowering.cuda.ranges import Range
from harness.lowering.cuda.run_extension import RunExtension
from harness.lowering.cuda.run_state import MOST_GROUPS
from harness.lowering.cuda.setting import CudaSetting
from harness.lowering.cuda.windows import Windows
from harness.lowering.edge_tables import Places, Reverse
from harness.lowering.packed_sizes import refusal as unpackable
from harness.lowering.refusals import unsupported

MOST_SHARED = 220 * 1024  # bytes of shared memory that a block may have on sm_80 and later, minus what kernels declare
OF_LAUNCH = {"first", "last", "run", "past"}  # arguments that are no buffers of the plan
MOST_LOCAL = 4096  # floats of a thread's own matrices, with features in a loop


class PlanDraft:
    """The launches and buffers that planning has added so far; :meth:`finish` makes the plan.

    It lives within one call of an engine's plan function. ``most``: the default limit on the blocks of a launch.
    ``extension``: what the engine adds to runs.
    """

    def __init__(self, setting: CudaSetting) -> None:
        self.setting = setting
        self.most: Most = "some"
        self.launches: list[Launch] = []
        self.combined: Combined | None = None
        self.extension = RunExtension()
        self.windows = Windows()  # the slots and buffers of streamed edges
        self._owned: dict[str, CudaBuffer] = {}
        self._doubled: set[str] = set()
        self._starts: dict[str, float] = {}

    def add(
        self, kernel: CudaKernel, over: Range, lanes: float | None = None, swaps: tuple[str, ...] = (), *,
        blocks: int = 0, most: Most | None = None, apart: str = "",
    ) -> None:  # fmt: skip
        """Add a launch, by default with a lane group for each item of work and of :attr:`most` blocks."""
        lanes = self.setting.lane_group.lanes if lanes is None else lanes
        self.launches.append(Launch(kernel, over, lanes, swaps, blocks, most or self.most, apart=apart))

    def own(self, *buffers: CudaBuffer) -> None:
        """Add buffers that are allocated even if no kernel takes them."""
        self._owned |= {buffer.name: buffer for buffer in buffers}

    def double(self, array: str) -> None:
        """Give the array of a property a second buffer."""
        self._doubled.add(array)

    @property
    def ping_pong(self) -> dict[str, str]:
        """The arrays with two buffers and these, both ways."""
        pairs = [(array, second(array)) for array in sorted(self._doubled)]
        return dict(pairs) | {other: array for array, other in pairs}

    def begin_with(self, array: str, value: float) -> None:
        """Fill a buffer with a number at the start of every run."""
        self._starts[array] = value

    def measuring(self) -> Measuring:
        """Return the launches that measure movement, and add their buffers."""
        setting, criterion = self.setting, self.setting.measured
        if criterion is None:
            return Measuring()
        made = measuring(
            criterion, setting.program, setting.layout, setting.facts.num_vertices, setting.flipped,
            self.extension.counting,
        )  # fmt: skip
        self.own(*made.buffers)
        return made

    def finish(
        self, schedule: Any, templates: Path, thresholds: Thresholds | None = None, *,
        change_driven: bool | None = None,
    ) -> CudaPlan | No:  # fmt: skip
        """Return the plan, or why the program does not fit a device.

        ``schedule``: with every option filled in, the place of the edge arrays too. ``templates``: the folder of the
        engine's headers.
        ``change_driven``: whether runs propagate changes; by default whether these are tracked.
        """
        setting, placement = self.setting, Placement.of(schedule)
        launches, measured = self._named_apart(Measuring() if self.combined else self.measuring())
        kernels = tuple({one.kernel.name: one.kernel for one in (*launches, *measured.launches)}.values())
        buffers = self._buffers(kernels, launches)
        windows = self.windows.over(placement, setting.facts, kernels, buffers)
        prefix = Prefix.of(placement.cache_bytes, setting.facts, buffers)
        refused = self._refusal(kernels, buffers, placement.place) or self._uncached(placement, prefix, launches)
        if placement.window_bytes:
            refused = refused or windows.refusal(setting.program, setting.facts, launches)
        if windows.packed:
            refused = refused or unpackable(setting.facts)
        if refused:
            return No(refused)
        threads = self._threads(kernels)
        tracking = setting.tracking
        return CudaPlan(
            schedule=schedule,
            fingerprint=setting.program.fingerprint,
            groups=tuple(tuple(stage.name for stage in group.stages) for group in tracking.groups),
            facts=setting.facts,
            layout=setting.layout,
            lane_group=setting.lane_group,
            threads=threads,
            direction=setting.direction,
            change_driven=tracking.change_driven if change_driven is None else change_driven,
            launches=launches,
            measuring=measured,
            combined=self.combined,
            place=placement.place,
            windows=windows,
            prefix=prefix,
            advice=placement.advice,
            buffers=buffers,
            sides=setting.sides,
            many_edges=setting.many_edges,
            thresholds=thresholds or Thresholds(),
            extension=self.extension,
            accumulators=setting.accumulators,
            criterion=setting.lowered.criterion,
            templates=templates,
            source=self._source(kernels, threads, templates, windows),
            program=setting.program,
            tracking=tracking,
        )

    def _named_apart(self, measured: Measuring) -> tuple[tuple[Launch, ...], Measuring]:
        count, ahead = len(self.launches), len(measured.ahead)
        named = named_apart([*self.launches, *measured.launches])
        launches, rest = named[:count], named[count:]
        return tuple(launches), replace(measured, ahead=tuple(rest[:ahead]), behind=tuple(rest[ahead:]))

    def _source(self, kernels: Sequence[CudaKernel], threads: int, templates: Path, windows: Windows) -> str:
        setting = self.setting
        title = f"{setting.program.name}, k = {setting.layout.features}"
        included = headers(templates)
        return module_source(
            title, [*(one.source for one in kernels), *windows.tests(kernels), windows.source], setting.lane_group,
            threads,
            many_edges=setting.many_edges, included=included, coherent=setting.coherent,
            extension=self.extension,
        )  # fmt: skip

    def _threads(self, kernels: Sequence[CudaKernel]) -> int:
        """Return the threads of a block: so few that two blocks' matrices fit in the shared memory."""
        lane_group, block, floats = self.setting.lane_group, self.setting.block, _tile_floats(kernels)
        while lane_group.lanes > 1 and block > 32 and shared_bytes(lane_group, floats, block) > MOST_SHARED // 2:
            block //= 2
        return block

    def _refusal(self, kernels: Sequence[CudaKernel], buffers: Sequence[CudaBuffer], place: Place) -> str:
        if place not in PLACES:
            return f"edges={place.value} is not built on GPUs; give one of {', '.join(one.value for one in PLACES)}"
        tracking, lane_group, floats = self.setting.tracking, self.setting.lane_group, _tile_floats(kernels)
        tracked = len(tracking.propagating()) if tracking.change_driven else 0
        if tracked > MOST_GROUPS:
            return f"changes are tracked for {MOST_GROUPS} edge stages at most, and the program has {tracked}"
        positions = any(isinstance(one.source, (Reverse, Places)) for one in buffers)
        if self.setting.facts.num_edges > 1 << 32 and positions:
            return "ids of reverse edges take 32 bits on a device, and the graph has more edges"
        if lane_group.lanes == 1 and floats > MOST_LOCAL:
            return f"matrices of {floats} floats do not fit a thread; with feature_aware a lane group shares them"
        if lane_group.lanes > 1 and shared_bytes(lane_group, floats, 32) > MOST_SHARED:
            return f"matrices of {floats} floats for each lane group do not fit the shared memory of a block"
        return ""

    def _uncached(self, placement: Placement, prefix: Prefix, launches: Sequence[Launch]) -> str:
        """Return why a requested cache of edges cannot be used; empty if it can, or none is requested."""
        if not placement.cache_bytes:
            return ""
        if self.setting.facts.num_edges and not prefix.edges:
            return "cache_mb is too small for an edge; give more"
        return prefix.refusal(launches, combined=self.combined is not None)

    # buffers ----------------------------------------------------------------------------------------------------------
    def _buffers(self, kernels: Sequence[CudaKernel], launches: Sequence[Launch]) -> tuple[CudaBuffer, ...]:
        """Return the buffers that kernels take, those that swap with them, and those that are kept."""
        known: dict[str, CudaBuffer] = {}
        for buffer in self._known():
            if known.setdefault(buffer.name, buffer) != buffer:
                raise ValueError(f"two buffers of program {self.setting.program.name!r} are named {buffer.name!r}")
        parities = {
            f"{parity}_{array}": name
            for array in self.setting.flipped
            for parity, name in (("even", array), ("odd", second(array)))
        }
        taken = {parities.get(name, name) for kernel in kernels for name in kernel.arguments} - OF_LAUNCH
        if not taken <= set(known):
            raise ValueError(f"kernels take arrays that the plan does not describe: {sorted(taken - set(known))}")
        taken |= {name for launch in launches for name in launch.swaps if second(name) in taken}
        found = [known[name] for name in sorted(known) if name in taken or known[name].kept]
        there = {buffer.name for buffer in found}
        return tuple(one if one.partner in there else replace(one, partner="", flips="") for one in found)

    def _known(self) -> Iterator[CudaBuffer]:
        """Yield every buffer that a kernel of this draft may take."""
        setting, layout, facts = self.setting, self.setting.layout, self.setting.facts
        yield CudaBuffer("parameters", Holds.PARAMETERS, rows=max(1, len(parameter_names(setting.program))))
        yield from of_structure(facts, many_edges=setting.many_edges)
        yield from of_tracking(setting.tracking, facts, layout)
        for array, flips in setting.flipped.items():
            yield CudaBuffer(flips, Holds.FLIPS, array, "int64", start=0)
        for one in of_program(setting.program, facts, layout):
            other, flips = second(one.name), setting.flipped.get(one.name, "")
            yield replace(one, partner=other, flips=flips, start=self._starts.get(one.name))
            if one.name in self._doubled:
                yield CudaBuffer(
                    other, Holds.SECOND, one.name, one.dtype, one.rows, one.stride, partner=one.name, kept=True
                )  # fmt: skip
        yield from self._owned.values()


def refusal(
    program: Program, facts: GraphFacts, features: int, *, change_driven: bool = False, tracks_edges: bool = False,
    in_place: bool = False,
) -> str:  # fmt: skip
    """Return why no device can run a lowered program on such a graph; empty if one can (:func:`unsupported`)."""
    if facts.num_vertices >= 1 << 31:
        return "vertex ids take 32 bits on a device, and the graph has more vertices"
    return unsupported(program, facts, features, change_driven=change_driven, tracks_edges=tracks_edges,
                       in_place=in_place)  # fmt: skip


def _tile_floats(kernels: Sequence[CudaKernel]) -> int:
    return max((kernel.tile_floats for kernel in kernels), default=0)
