"""Onyx on CUDA: the kernels of vertex steps, edge updates and graph reductions, and the common parts of the kernels of
edge reductions in both directions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from engines.onyx import cuda_templates as templates
from engines.onyx.cuda_panels import PanelLayout
from engines.onyx.cuda_parts import ARRAYS
from engines.onyx.resolve import sums_matrices
from harness.api import EdgeReduce, EdgeUpdate, FoldGroup, GraphReduce, Stage, reads
from harness.api.cuda import (
    NEVER,
    OVER,
    CudaKernelBuilder,
    VertexReduce,
    combine_threads,
    cuda_write_back,
    dense,
    reduce_at_named,
    sparse,
    summand,
    when,
)

if TYPE_CHECKING:
    from engines.onyx.cuda_bottom_up import BottomUp
    from engines.onyx.policy import Policy
    from harness.api import Expression
    from harness.api.cuda import Condition, CudaKernel, CudaSetting, Value

LINE = 32  # floats of a cache line
EVERY = "Every()"
RANGE = templates.RANGE


@dataclass(frozen=True)
class Choices:
    """The choices of a schedule for one program on one graph.

    ``tiles``: blocks process equal tiles of edges. ``parts``: warps push the edges of a vertex of many in parts.
    ``pipeline``: edges are fetched ahead. ``fused_next_superstep``: the
    edge update and the reductions of the next superstep that share a pass. ``panel``: features of a pass over segments;
    0: all. ``small_degrees``: all vertices have few edges, in similar numbers. ``policy``: the constants of all
    choices. ``pauses``: tracking pauses while nearly everything moves. ``adaptive``: a push whose accumulators are
    rebuilt by a pull (:mod:`engines.onyx.cuda_adaptive`). ``bottom_up``: what that pull skips; None: nothing.
    """

    tiles: bool
    parts: bool
    pipeline: bool
    fused_next_superstep: tuple[EdgeUpdate, tuple[EdgeReduce, ...]] | None
    panel: int
    small_degrees: bool
    policy: Policy
    pauses: bool
    adaptive: bool = False
    bottom_up: BottomUp | None = None


class Kernels:
    """Builds the kernels of one plan.

    ``untracked``: build those for the untracked supersteps of a change-driven plan, which use full propagation.
    """

    def __init__(self, setting: CudaSetting, choices: Choices, *, untracked: bool = False) -> None:
        self.setting, self.program, self.layout = setting, setting.program, setting.layout
        self.choices = choices
        self.untracked, self.pauses = untracked, choices.pauses and not untracked
        self.tracking = replace(setting.tracking, change_driven=False) if untracked else setting.tracking
        self.fused_next_superstep = None if self.tracking.change_driven else choices.fused_next_superstep
        self.idle = when("!run->untracked") if untracked else when("run->untracked") if self.pauses else NEVER
        self.resuming = "bool(run->resuming)" if choices.pauses else "false"
        self.pipeline, self.tiles, self.parts = choices.pipeline, choices.tiles, choices.parts
        # Kernels with matrices or with features in a loop would spill, and pushes follow edges of single vertices.
        light = setting.feature_aware and not sums_matrices(self.program)
        self.scans_ahead = light and setting.direction == "pull"
        self.flags_at_once = light and not (setting.direction == "pull" and self.tiles)

    def builder(
        self, name: str, template: str, signature: list[tuple[str, str]], hoisted: tuple[str, ...] = (),
        panel: int = 0, *, either: bool = False,
    ) -> CudaKernelBuilder:  # fmt: skip
        """Return a builder under the plan's mapping.

        ``panel``: the kernel repeats its work for every panel of this many features. ``either``: the kernel runs in
        tracked and untracked supersteps.
        """
        setting = self.setting
        layout = PanelLayout(self.layout.features, panel) if panel else self.layout
        template = template.replace("FLAGGED", "Flagged" if self.flags_at_once else "FlaggedOneByOne")
        return CudaKernelBuilder(
            f"{name}_untracked" if self.untracked else name, self.program, layout, setting.lane_group, template,
            signature,
            feature_aware=setting.feature_aware, hoisted=hoisted, flipped=setting.flipped,
            idle=NEVER if either else self.idle,
        )  # fmt: skip

    def depth(self, group: FoldGroup) -> int:
        """Return the number of edges that are fetched before computing on the first."""
        if not self.pipeline or not self.setting.feature_aware:
            return 1
        rows = sum(
            self.setting.lane_group.slots(self.layout.dims(shape)[-1])
            for shape in {s.message.shape for s in group.edge_stages}
            if shape
        )
        return max(1, min(4, self.choices.policy.fetched_slots // max(1, rows)))

    def depth_of_update(self, stage: EdgeUpdate) -> int:
        """Return the number of edges that an update fetches ahead; it reads several rows per edge."""
        if not self.pipeline or not self.setting.feature_aware:
            return 1
        shapes = [self.program.properties[name].shape for space, name in reads(stage) if space != "graph"]
        slots = sum(self.setting.lane_group.slots(self.layout.dims(shape)[-1]) for shape in shapes if len(shape) == 1)
        return max(1, min(4, self.choices.policy.fetched_slots // max(1, slots)))

    def abreast(self, stages: Sequence[Stage]) -> int:
        """Return the number of lane groups that take turns at edges, if rows shorter than a cache line are stored along
        these."""
        rows = [
            self.program.properties[name].shape for stage in stages for space, name in reads(stage) if space == "edge"
        ]
        rows += [stage.value.shape for stage in stages if isinstance(stage, EdgeUpdate)]
        strides = [self.layout.stride(shape) for shape in rows if shape]
        if not strides or not self.setting.feature_aware:
            return 1
        lane_groups = self.setting.block // 32 * self.setting.lane_group.per_warp
        return math.gcd(max(1, LINE // min(strides)), lane_groups)

    # what to recompute ------------------------------------------------------------------------------------------------
    def recompute_test(self, group: FoldGroup) -> tuple[str, list[tuple[str, str]]]:
        """Return the test whether to recompute a vertex, and the arguments of the test.

        All vertices are recomputed. Under change tracking only the dirty ones are, or all if a graph value that the
        group reads has changed.
        """
        if not self.tracking.change_driven:
            return EVERY, []
        dirty = f"dirty_{self.tracking.name(group)}"
        values = [f"changed_{name}" for name in self.tracking.of_graph(group)]
        dense = ["dense"] if group.edge_stages else [self.resuming] if self.pauses else []
        signature = [(name, "flag") for name in (dirty, *values)]
        return templates.flagged(dirty, *dense, *(f"{value}[0]" for value in values)), signature

    def make_stale(
        self, builder: CudaKernelBuilder, stage: EdgeReduce | VertexReduce, block: str, *, taken: str = ""
    ) -> None:
        """Flag the groups that read at ``v`` the result of ``stage``, so that they recompute it.

        ``taken``: the variable of a lane that is true if it changed the result; empty: it did.
        """
        readers = self.tracking.stale_groups(stage.into) if self.tracking.change_driven else ()
        for reader in readers:
            flag = builder.argument(f"dirty_{self.tracking.name(reader)}", "flag")
            # most find it set, and reading is cheaper than writing what others also write
            changed = taken or f"group.leads() && !{flag}[v]"
            builder.blocks[block].line(f"if ({changed}) {flag}[v] = true;")

    def number(self, group: FoldGroup) -> int:
        """Return the index of a group's frontier in ``Run::frontier``."""
        return self.tracking.propagating().index(group)

    # vertices ---------------------------------------------------------------------------------------------------------
    def vertices(self, group: FoldGroup, last_read: Sequence[EdgeReduce] = ()) -> CudaKernel:
        """Build the kernel of the vertex steps of a group, in order on the same lane group.

        ``last_read``: reductions that are dead after the steps and are cleared.
        """
        name = self.tracking.name(group)
        wanted, flags = self.recompute_test(group)
        sender = self.sends_with(group)
        if sender is None:
            builder = self.builder(name, templates.vertices(wanted, ahead=self.scans_ahead), [*RANGE, *flags])
        else:
            active = f"active_{self.tracking.name(sender)}"
            template = templates.VERTEX_AND_SENT.format(
                dirty=flags[0][0], active=active, all_send=self.all_sent, all_step=self.resuming
            )
            builder = self.builder(name, template, [*RANGE, *flags, (active, "flag")])
            self.note_sent(builder, sender, "src")
        builder.bind("v", "vertex", "v")
        for step in group.vertex_steps:
            builder.comment("vertex", step)
        if flags:
            builder.blocks["vertex"].line(f"if (group.leads()) dirty_{name}[v] = false;")
        cuda_write_back(builder, self.tracking, group, "vertex")
        if self.choices.bottom_up:
            self.choices.bottom_up.note(builder, self.tracking, group)
        for stage in last_read:
            identity = builder.accumulator(f"{stage.into}_identity", stage.message, stage.reducer, "kernel")
            builder.store(f"vertex_{stage.into}", "v", stage.message, identity, "vertex")
        return builder.finish()

    @property
    def all_sent(self) -> str:
        """The condition under which all sources have sent their values."""
        return "false"

    def sends_with(self, group: FoldGroup) -> FoldGroup | None:
        """Return the group whose sources note in the vertex steps of ``group`` what they have sent; None: there is
        none."""
        return None

    def reduction_at_named(self, stage: VertexReduce) -> CudaKernel:
        """Build the kernel that reduces a value of every vertex into the vertex that it names."""
        builder = self.builder(stage.name, templates.vertices(EVERY), RANGE)
        reduce_at_named(builder, stage, "vertex")
        return builder.finish()

    def clear(
        self, stage: EdgeReduce | VertexReduce, *, array: str = "vertex", run: int = 0, unless: Condition = OVER,
        dense: str = "", either: bool = False,
    ) -> CudaKernel:  # fmt: skip
        """Build the kernel that sets an accumulator in memory to the reducer's identity.

        ``array``: the kind of array of the accumulator. ``run``: skip vertices that segments of this many edges store,
        and clear vertices without edges only once, since nothing else writes these
        (:mod:`harness.lowering.accumulators`). ``dense``: the flags to clear if this superstep recomputes everything
        although changes are tracked. ``either``: the kernel runs in tracked and untracked supersteps.
        """
        template = templates.vertices(EVERY)
        name = f"clear_{stage.into}" if array == "vertex" else f"clear_{array}_{stage.into}"
        builder = self.builder(name, template, RANGE, either=either)
        identity = builder.accumulator("identity", stage.message, stage.reducer, "kernel")
        if dense:
            builder.root.line("if (blockIdx.x == 0 && threadIdx.x == 0) ++run->dense;")
        self.make_stale(builder, stage, "vertex")
        if dense:
            builder.blocks["vertex"].line(f"if (group.leads()) {builder.argument(dense, 'flag')}[v] = false;")
        if run:
            offsets = builder.argument("in_offsets", "offsets")
            cleared = "true" if dense else "run->superstep < run->sides"
            kept = f"needs_no_clearing<{run}>({offsets}, v, {offsets}[first], {cleared})"
            builder.blocks["vertex"].line(f"if ({kept}) return;")
        builder.store(f"{array}_{stage.into}", "v", stage.message, identity, "vertex")
        return builder.finish(unless=unless)

    # edges ------------------------------------------------------------------------------------------------------------
    def edges(
        self, name: str, order: str, depth: int, *, wanted: str = EVERY, listed: str = "", tiles: bool = False,
        either: bool = False, parts: bool | None = None,
    ) -> CudaKernelBuilder:  # fmt: skip
        """Return the builder of an edgemap over out-edges (order csr) or in-edges (csc) of wanted vertices.

        The edgemap is warp- or edge-balanced. ``listed``: a test of single edges, which tiles use instead of the test
        of vertices. ``parts``: over parts of the edges of vertices of many (True), or over other vertices (False).
        """
        side, row, other = ("out", "u", "v") if order == "csr" else ("in", "v", "u")
        if tiles:
            ends = [("first", "EdgeId"), ("last", "EdgeId")]
            signature = [(f"{side}_rows", "ids"), (f"{side}_neighbours", "ids"), *ends]
            mapped, edge_arrays = f"edgemap_tiles<{depth}>", f"{side}_rows, {side}_neighbours"
            wanted = listed or wanted
        elif parts:
            size = self.choices.policy.part_edges
            arrays = [*ARRAYS, f"{side}_offsets", f"{side}_neighbours"]
            signature = [(arrays[0], "ids"), (arrays[1], "ids"), (arrays[2], "offsets"), (arrays[3], "ids"), *RANGE]
            mapped, edge_arrays = f"edgemap_parts<{size}, {depth}>", ", ".join(arrays)
        else:
            signature = [(f"{side}_offsets", "offsets"), (f"{side}_neighbours", "ids"), *RANGE]
            pipeline = "true" if self.pipeline else "false"
            map_, wanted = ("edgemap_listed", f"{wanted}, {listed}") if listed else ("edgemap", wanted)
            many = "" if parts is None else f", {self.choices.policy.split_degree}"
            mapped, edge_arrays = f"{map_}<{pipeline}, {depth}{many}>", f"{side}_offsets, {side}_neighbours"
        template = templates.EDGES.format(map=mapped, edge_arrays=edge_arrays, row=row, other=other)
        template = template.replace("WANTED", wanted)
        filled = template.replace("FETCH", templates.fetch(row, other))
        builder = self.builder(name, filled, signature, either=either)
        builder.bind("src", "fetch", "u")
        builder.bind("dst", "fetch", "v")
        builder.bind("edge", "fetch", "e", f"{order}_")
        return builder

    @staticmethod
    def bind_reverse(builder: CudaKernelBuilder, stages: Sequence[Stage], order: str, sent_to: str = "") -> None:
        """Bind edge properties of the reverse of edge ``e``, if stages read them.

        If all edges have reverses, the reverse is at ``reverse[e]`` in either order. ``sent_to``: bind also the values
        last propagated to that group.
        """
        if any(space == "reverse" for stage in stages for space, _ in reads(stage)):
            builder.argument("reverse", "ids")
            builder.bind("reverse", "fetch", "reverse[e]", f"{order}_")
            builder.bind("sent_reverse", "fetch", "reverse[e]", f"sent_{sent_to}_")

    def unless(self, group: FoldGroup, *, tiles: bool) -> Condition:
        """Return the condition under which a kernel over single rows, or over ``tiles``, does nothing.

        If the schedule balances edges, the one runs if few edges are to be followed, and the other if many are.
        """
        if not self.tiles:
            return OVER
        return OVER | (sparse if tiles else dense)(self.number(group))

    def count_edge(self, builder: CudaKernelBuilder, values: int, block: str) -> None:
        """Count the messages, or new values, of one edge."""
        visited = builder.counter("visited", "&run->edges")
        builder.blocks[block].line(f"if (group.leads()) {visited} += {values};")

    def update(self, stage: EdgeUpdate, order: str, *, in_place: bool = False) -> CudaKernel:
        """Build the kernel that computes an edge property into the unused buffer, or ``in_place``."""
        builder = self.edges(stage.name, order, self.depth_of_update(stage), tiles=self.tiles)
        builder.argument("reverse", "ids")
        builder.bind("reverse", "fetch", "reverse[e]", f"{order}_")
        builder.comment("visit", stage)
        self.updated(builder, stage, order, in_place=in_place)
        return builder.finish()

    def updated(self, builder: CudaKernelBuilder, stage: EdgeUpdate, order: str, *, in_place: bool = False) -> None:
        """Store the new value of an edge into the unused buffer, or ``in_place``, and count an edge that moved."""
        new = builder.mapping.kept(stage.value)
        if ("edge", stage.updates) in self.tracking.watches:
            builder.bind("old", "fetch", "e", f"{order}_")
            moved = builder.moved("old", stage.updates, new, "visit")
            count = builder.counter("moved", "&run->moved")
            builder.blocks["visit"].line(f"if (group.leads() && {moved}) ++{count};")
        if in_place and len(stage.value.shape) == 2:
            builder.blocks["visit"].line("group.sync();  // lanes may read what others of the group are about to write")
        target = f"{order}_{stage.updates}" if in_place else f"next_{order}_{stage.updates}"
        builder.store(target, "e", stage.value, new, "visit")

    # sources ----------------------------------------------------------------------------------------------------------
    def note_sent(self, builder: CudaKernelBuilder, group: FoldGroup, space: str = "v") -> None:
        """Store in the block *source* what vertex ``u`` has sent; ``space``: in which its properties are read."""
        builder.bind(space, "source", "u")
        for source in self.tracking.sent(group):
            node = builder.reading(space, source)
            array = f"sent_{self.tracking.name(group)}_{source}"
            builder.store(array, "u", node, builder.mapping.lower(node), "source")

    # the graph --------------------------------------------------------------------------------------------------------
    def reduction(self, stage: GraphReduce, ticket: str) -> CudaKernel:
        """Build the kernel that reduces the vertices of every block to one value; the last block combines these.

        ``ticket``: the array in which blocks count themselves.
        """
        condition, value = summand(stage)
        template = templates.reduce(ticket, chosen=condition is not None)
        builder = self.builder(stage.name, template, [*RANGE, (ticket, "list")], either=True)
        builder.bind("v", "vertex", "v")
        builder.comment("kernel", stage)
        block = builder.choose(condition, "vertex") if condition is not None else "vertex"
        partial = self._reduced(builder, ("kernel", block, "join"), value, stage)
        builder.store(f"partial_{stage.into}", "blockIdx.x", stage.value, partial, "store")
        builder.bind("partial", "part", "i", "partial_")
        total = self._reduced(builder, ("again", "part", "whole"), builder.reading("partial", stage.into), stage)
        if self.tracking.change_driven:
            changed = builder.moved("graph", stage.into, total, "result", exact=True)
            flag = builder.argument(f"changed_{stage.into}", "flag")
            builder.blocks["result"].line(f"if (group.leads()) {flag}[0] = {changed};")
        builder.store(f"graph_{stage.into}", "0", stage.value, total, "result")
        return builder.finish()

    def _reduced(
        self, builder: CudaKernelBuilder, blocks: tuple[str, str, str], value: Expression, stage: GraphReduce
    ) -> Value:
        """Return the joint accumulator of a block's lane groups, which three template blocks clear, reduce and combine.

        Spare lanes share the memory of the last lane group, and write the same values.
        """
        first, each, after = blocks
        total = builder.accumulator(f"reduced_{each}", stage.value, stage.reducer, first)
        builder.accumulate(total, value, stage.reducer, each)
        combine_threads(builder, total, stage.value, stage.reducer, after, "groups_combined_in_block")
        return total
