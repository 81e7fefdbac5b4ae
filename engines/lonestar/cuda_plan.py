"""The plan of a schedule on a CUDA device: one kernel for each kind of pass, made from the program's step.

Rows of vertices are read past the caches of the multiprocessors (``coherent``), which do not see what others write.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from engines.lonestar import cuda_templates as templates
from engines.lonestar import hand_over
from engines.lonestar.changes import changes
from engines.lonestar.choice import unfit
from engines.lonestar.cpu_locks import FirstList, HubColumns
from engines.lonestar.cuda_tables import (
    CudaBatches,
    CudaFirstList,
    CudaHubs,
    CudaListedEnds,
    CudaWave,
    edges_of_degrees,
)
from engines.lonestar.orders import WaveTable
from engines.lonestar.schedule import IN_BLOCKS, LonestarSchedule
from harness.api import EdgeStep, GraphFacts, No, Program, reads, unfolded
from harness.api.cuda import (
    CudaBuffer,
    CudaKernelBuilder,
    CudaPlan,
    CudaSetting,
    DeviceLayout,
    LaneGroupShape,
    LoweredProgram,
    Over,
    PlanDraft,
    Value,
    refusal,
    table,
    work,
)

FOLDER = Path(__file__).parent
BLOCK = 256  # threads
# Edges of a column whose locks are tried, and whose rows are read, at once: DEEP if columns have at least LONG edges on
# average. More take registers. A pass over columns of a tenth of the ratings of Netflix, k = 16, took 14.2 ms on an
# H100 with 8, and 19.3 ms with 4.
DEPTH, DEEP, LONG = 4, 8, 64
VALUES = 8  # of both ends, that a lane writes for an edge, at most, with DEEP
MEETING = 0.02  # share of the updates of hogwild that may meet another one of the same row, and lose it
# Updates that an update of hogwild meets on average, where changes are added. In float64, updates in batches of this
# size that read the rows of before their batch had a training RMSE within 0.3 % of that of updates one after another,
# and within 0.6 % with 10: three sets of up to 1 M ratings, k = 16 and 64, alpha = 0.02 and 0.05, five sweeps.
MEETING_ADDED = 4.0
Signature = list[tuple[str, str]]
FIRST: Signature = [("first", "Id"), ("last", "Id")]
STAMPED: Signature = [("taking", "ids"), ("stamps", "list"), ("counters", "list")]
LOCKED: Signature = [("locks", "list"), ("sizes", "sizes"), *STAMPED]
ENDS: Signature = [("in_neighbours", "ids"), ("in_rows", "ids")]
ENDS_LISTED: Signature = [("listed_sources", "ids"), ("listed_destinations", "ids")]
LISTED_VALUES: Signature = [("csc", "input"), ("listed", "f32")]
LISTED: Signature = [("order_edges", "offsets"), ("order_sources", "ids"), ("order_destinations", "ids")]


def plan(program: Program, schedule: LonestarSchedule, facts: GraphFacts, features: int) -> CudaPlan | No:
    """Return the plan of a program, or why it cannot run."""
    lowered = LoweredProgram.of(program)
    steps = [stage for stage in lowered.program.stages if isinstance(stage, EdgeStep)]
    reason = refused(lowered.program, schedule, facts, features)
    if reason:
        return No(reason)
    resolved = resolve(schedule, steps, facts)
    setting = CudaSetting(
        lowered=lowered, facts=facts, layout=DeviceLayout(features),
        lane_group=LaneGroupShape.for_program(lowered.program, features, feature_aware=bool(resolved.feature_aware)),
        tracking=lowered.tracking(unfolded(lowered.program), change_driven=False), direction="push",
        feature_aware=bool(resolved.feature_aware), block=BLOCK, coherent=True,
    )  # fmt: skip
    planner = StepPlanner(PlanDraft(setting), resolved)
    for step in steps:
        planner.add(step)
    return planner.draft.finish(resolved, FOLDER)


def refused(program: Program, schedule: LonestarSchedule, facts: GraphFacts, features: int) -> str:
    """Return why this schedule cannot run a lowered program; empty if it can, as far as known without planning."""
    steps = [stage for stage in program.stages if isinstance(stage, EdgeStep)]
    if not steps:
        return "the program has no step that updates both ends of an edge; this engine is for those"
    for stage in program.stages:
        if not isinstance(stage, EdgeStep):
            return f"{stage.name} is not a step of edges in place, and on CUDA this engine runs no others"
    given = any(step.order == "given" for step in steps)
    serial = any(step.conflicts == "serial" for step in steps)
    reason = schedule.refusal(given=given, serial=serial) or unfit(program, schedule, facts)
    if schedule.writes == "add" and not all(map(changes, steps)):
        reason = reason or "writes=add needs new values that are the old ones plus a change; use writes=store"
    return reason or refusal(program, facts, features, in_place=True)


def resolve(schedule: LonestarSchedule, steps: Sequence[EdgeStep], facts: GraphFacts) -> LonestarSchedule:
    """Return the schedule with every option filled in."""
    given = any(step.order == "given" for step in steps)
    found = schedule.resolved(given=given, edges=facts.num_edges)
    blocks, workers = found.blocks, None
    if blocks is None and found.order in ("grid", "wavefront") and facts.bipartite is not None:
        left, right = facts.bipartite
        blocks = max(1, min(1024, left // 16, right // 32))
    writes = None
    if found.order == "hogwild":
        writes = found.writes or ("add" if all(map(changes, steps)) else "store")
        few = MEETING_ADDED if writes == "add" else MEETING
        meeting = edges_of_degrees(facts.in_degrees.counts) + edges_of_degrees(facts.out_degrees.counts)
        workers = found.workers or max(1, min(int(few / meeting) if meeting else 1 << 16, 1 << 16))
    hub = found.hub
    if hub and schedule.hub is None and facts.in_degrees.largest < hub:
        hub = 1  # no column is a hub: a lane group may own any
    aware = found.feature_aware is None or found.feature_aware
    return replace(found, blocks=blocks, workers=workers, writes=writes, hub=hub, feature_aware=aware)


def columns_take_over(schedule: LonestarSchedule, facts: GraphFacts) -> bool:
    """Return whether passes over edges hand those that are left over to a pass over columns first.

    Columns are not locked, so that they must have no edges of their own.
    """
    return bool(schedule.hand_over) and schedule.order in ("el", "hybrid") and facts.one_way


class StepPlanner:
    """Add the kernels and buffers of steps to a draft, under a schedule with every option filled in."""

    def __init__(self, draft: PlanDraft, schedule: LonestarSchedule) -> None:
        self.draft, self.schedule, self.setting = draft, schedule, draft.setting
        self.edges = self.setting.facts.num_edges
        self.position = "int64" if self.setting.many_edges else "uint32"
        draft.own(work("arrivals", 64, "uint64"), work("sizes", 4, "uint64"), work("taking", 1, "uint32"))
        draft.own(work("stamps", 2, "uint32"), work("counters", 2, "uint32"))

    def add(self, step: EdgeStep) -> None:
        """Add the kernels of a step."""
        order = self.schedule.order
        planned: dict[str, Callable[[EdgeStep], None]] = {
            "el": self._edges, "nl": self._nodes, "wavefront": self._wave, "hogwild": self._lossy,
        }  # fmt: skip
        columns = columns_take_over(self.schedule, self.setting.facts)
        if order in ("hybrid", "owner") or columns:
            self._nodes(step)
            self._remaining(step)
            self._edges(step)
            if columns:
                self._pending(step)
        else:
            planned.get(order, self._batches)(step)

    # kernels ----------------------------------------------------------------------------------------------------------
    def _builder(self, name: str, template: str, signature: Signature) -> CudaKernelBuilder:
        setting = self.setting
        return CudaKernelBuilder(
            name, setting.program, setting.layout, setting.lane_group, template, signature,
            feature_aware=setting.feature_aware, holds=True, coherent=True,
        )  # fmt: skip

    def _finish(self, builder: CudaKernelBuilder) -> None:
        self.draft.add(builder.finish(), Over.ALL_EDGES)

    def _batches(self, step: EdgeStep) -> None:
        units = self.schedule.order in IN_BLOCKS
        template = templates.BATCHED.format(edge=templates.IN_UNITS if units else templates.EACH)
        signature = [*FIRST, ("arrivals", "sizes"), ("batches", "offsets"), *LISTED]
        signature += [("units", "offsets")] if units else []
        builder = self._builder(step.name, template, signature)
        updating(builder, step, "edge")
        source = CudaBatches(self.schedule)
        self._ordered(source)
        self.draft.own(self._positions("batches", self.edges + 1, source))
        if units:
            self.draft.own(self._positions("units", self.edges + 1, source))
        self._finish(builder)

    def _edges(self, step: EdgeStep) -> None:
        lists: Signature = [("list_0", "places"), ("list_1", "places")]
        signature = [*FIRST, ("arrivals", "sizes"), *lists, *LOCKED, *ENDS]
        template = templates.EDGE_LOCKED.format(
            hand_over=str(bool(self.schedule.hand_over)).lower(), share=hand_over.LEAST_SHARE, least=hand_over.LEAST,
            turn=hand_over.TURN,
        )  # fmt: skip
        builder = self._builder(f"{step.name}_edges", template, signature)
        updating(builder, step, "edge")
        self._locks(self.setting.facts.num_vertices)
        self._first_list()
        self.draft.own(*(work(name, self.edges, self.position) for name, _ in lists))
        self._finish(builder)
        if self.schedule.hand_over:
            self._owned(step, lists)

    def _owned(self, step: EdgeStep, lists: Signature) -> None:
        signature = [*FIRST, ("owned", "offsets"), *lists, *LOCKED, *ENDS]
        columns = templates.OWNED_COLUMNS.format(depth=DEPTH)
        builder = self._builder(f"{step.name}_owned_columns", columns, signature)
        updating_column(builder, step)
        self._finish(builder)
        builder = self._builder(f"{step.name}_owned", templates.OWNED, signature)
        updating(builder, step, "edge")
        self.draft.own(work("owned", min(self.edges, hand_over.MOST_UNITS) + 1, self.position))
        self._finish(builder)

    def _nodes(self, step: EdgeStep) -> None:
        hubs = self.schedule.order == "owner"
        template = templates.NODE_LOCKED.format(column="hubs[n]" if hubs else "n", depth=self._depth(step))
        signature = [
            *FIRST, *LOCKED, ("done", "flag"), ("in_offsets", "offsets"), ("in_neighbours", "ids"),
            *([("hubs", "ids")] if hubs else []),
        ]  # fmt: skip
        builder = self._builder(f"{step.name}_nodes", template, signature)
        updating_column(builder, step)
        self._locks(self.setting.facts.num_vertices)
        self.draft.own(work("done", self.edges, "bool"))
        if hubs:
            assert self.schedule.hub is not None
            source = CudaHubs(HubColumns(self.schedule.hub))
            self.draft.own(table("hubs", self.setting.facts.in_degrees.between(self.schedule.hub), source))
        self._finish(builder)

    def _depth(self, step: EdgeStep) -> int:
        """Return how many edges of a column are read at once; rows of few values leave registers for more."""
        setting = self.setting
        few = setting.lane_group.slots(setting.layout.features) * len(step.values) <= VALUES
        return DEEP if few and self.edges >= LONG * setting.facts.in_degrees.between(1) else DEPTH

    def _pending(self, step: EdgeStep) -> None:
        signature = [("first", "EdgeId"), ("last", "EdgeId"), ("list_0", "offsets"), ("done", "flag")]
        self._finish(self._builder(f"{step.name}_pending", templates.PENDING, signature))

    def _remaining(self, step: EdgeStep) -> None:
        signature = [
            ("first", "EdgeId"), ("last", "EdgeId"), ("first_list", "offsets"), ("done", "flags"),
            ("list_0", "places"), ("sizes", "sizes"),
        ]  # fmt: skip
        self._finish(self._builder(f"{step.name}_remaining", templates.REMAINING, signature))

    def _wave(self, step: EdgeStep) -> None:
        assert self.schedule.blocks is not None
        wave = WaveTable(self.schedule.blocks, self.schedule.seed)
        blocks = wave.rows * wave.columns
        template = templates.WAVEFRONT.format(columns=wave.columns)
        signature = [
            *FIRST, *LOCKED, ("visits", "ids"), ("done_blocks", "flag"), ("wave_bounds", "offsets"), *LISTED,
        ]  # fmt: skip
        builder = self._builder(f"{step.name}_blocks", template, signature)
        updating(builder, step, "edge")
        self._locks(wave.columns)
        source = CudaWave(wave)
        self._ordered(source)
        self.draft.own(
            table("visits", blocks, source), self._positions("wave_bounds", blocks + 1, source),
            work("done_blocks", blocks, "bool"),
        )  # fmt: skip
        self._finish(builder)

    def _lossy(self, step: EdgeStep) -> None:
        self._first_list()
        if self.schedule.writes == "add":
            self._adding(step)
            return
        template = templates.LOSSY.format(batch=self.schedule.batch, edges=self.edges)
        signature: Signature = [*FIRST, ("taking", "ids"), ("counters", "list"), ("first_list", "offsets"), *ENDS]
        builder = self._builder(f"{step.name}_lossy", template, signature)
        updating(builder, step, "edge")
        self._finish(builder)

    def _adding(self, step: EdgeStep) -> None:
        values = list(dict.fromkeys(name for space, name in reads(step) if space == "edge"))
        properties = self.setting.program.properties
        listed = all(properties[name].shape == () and properties[name].dtype == "float" for name in values)
        template = templates.ADDING.format(
            batch=self.schedule.batch, edges=self.edges, place="i" if listed else "first_list[i]"
        )  # fmt: skip
        signature: Signature = [*FIRST, ("taking", "ids"), ("counters", "list"), *ENDS_LISTED]
        signature += [] if listed else [("first_list", "offsets")]
        builder = self._builder(f"{step.name}_adding", template, signature)
        adding(builder, step, "listed_" if listed else "csc_")
        source = CudaListedEnds(CudaFirstList(self._first))
        self.draft.own(*(table(name, self.edges, source) for name, _ in ENDS_LISTED))
        self._finish(builder)
        copies = "\n        ".join(f"listed_{name}[i] = csc_{name}[e];" for name in values) if listed else ""
        signature = [("first", "EdgeId"), ("last", "EdgeId"), ("first_list", "offsets")]
        signature += [(f"{order}_{name}", kind) for name in values if listed for order, kind in LISTED_VALUES]
        self._finish(self._builder(f"{step.name}_listing", templates.LISTING.format(copies=copies), signature))
        if listed:
            self.draft.own(*(work(f"listed_{name}", self.edges) for name in values))

    # buffers ----------------------------------------------------------------------------------------------------------
    def _positions(self, name: str, length: int, source: CudaBatches | CudaFirstList | CudaWave) -> CudaBuffer:
        return table(name, length, source, self.position)

    def _ordered(self, source: CudaBatches | CudaWave) -> None:
        self.draft.own(
            self._positions("order_edges", self.edges, source), table("order_sources", self.edges, source),
            table("order_destinations", self.edges, source),
        )  # fmt: skip

    def _first_list(self) -> None:
        self.draft.own(self._positions("first_list", self.edges, CudaFirstList(self._first)))

    @property
    def _first(self) -> FirstList:
        return FirstList(bool(self.schedule.shuffle), self.schedule.seed)

    def _locks(self, count: int) -> None:
        self.draft.own(work("locks", count, "uint32"))


def updating(builder: CudaKernelBuilder, step: EdgeStep, block: str) -> None:
    """Write the update of the edge ``e`` from ``u`` to ``v`` in memory."""
    builder.bind("src", block, "u")
    builder.bind("dst", block, "v")
    builder.bind("edge", block, "e", "csc_")
    builder.comment(block, step)
    index = {"src": "u", "dst": "v"}
    new = [builder.mapping.kept(value) for _, _, value in step.values]
    for (end, name, value), made in zip(step.values, new, strict=True):
        builder.store(f"vertex_{name}", index[end], value, made, block)


def adding(builder: CudaKernelBuilder, step: EdgeStep, values: str) -> None:
    """Add the changes of a step, which must have some (:func:`.changes.changes`), to memory.

    ``values``: the prefix of the arrays of values of edges, whose index is ``e``.
    """
    index, found = {"src": "u", "dst": "v"}, changes(step)
    for space, vertex in index.items():
        builder.bind(space, "fetch", vertex)
    builder.bind("edge", "fetch", "e", values)
    builder.comment("visit", step)
    assert found is not None
    for (end, name, _), change in zip(step.values, found, strict=True):
        builder.reduce_into(f"vertex_{name}", index[end], change, "sum", "visit")


def updating_column(builder: CudaKernelBuilder, step: EdgeStep) -> None:
    """Write the update of edges of the column ``v``, whose values are in variables until all of its edges have run."""
    builder.bind("src", "fetch", "u")
    builder.bind("edge", "fetch", "e", "csc_")
    builder.bind("column", "column", "v")
    names = dict.fromkeys(name for space, name in reads(step) if space == "dst")
    names |= dict.fromkeys(name for end, name, _ in step.values if end == "dst")
    held = {}
    for name in names:
        node = builder.reading("column", name)
        kind = f"Row<{builder.layout.dims(node.shape)[0]}>" if node.shape else "float"
        made = builder.mapping.kept(node)
        builder.blocks["column"].line(f"{kind} held_{name} = {made.text};")
        held[name] = Value("row" if node.shape else "scalar", f"held_{name}", made.length)
        builder.bind_value("dst", name, "visit", held[name])
    builder.comment("visit", step)
    new = []
    for _, _, value in step.values:
        made = builder.mapping.kept(value)
        if made in held.values():  # another property may replace it first
            text = builder.blocks["visit"].declare("auto", builder.mapping.fresh("copied"), made.text)
            made = replace(made, text=text)
        new.append(made)
    for (end, name, value), made in zip(step.values, new, strict=True):
        if end == "src":
            builder.store(f"vertex_{name}", "u", value, made, "visit")
        else:
            builder.blocks["visit"].line(f"held_{name} = {made.text};")
    for end, name, value in step.values:
        if end == "dst":
            builder.store(f"vertex_{name}", "v", value, held[name], "finish")
