"""Generate the source of one kernel from an engine's traversal template and a program's functions.

A template is the text of a part function. Lines like ``@edge`` mark where lowered code is inserted::

    for v in range(bounds[t], bounds[t + 1]):
        @vertex
        for e in range(offsets[v], offsets[v + 1]):
            u = neighbours[e]
            @edge
        @after

Each such line is a :class:`Block`. The values that a block computes are known in the later blocks at the same or a
deeper indentation, up to the first line with less indentation. The engine declares with :meth:`KernelBuilder.bind`
where a space (``src``, ``dst``, ``v``, ``edge``) is known, requests code to be lowered, and gets a :class:`Kernel`.

Names cannot collide: arrays are ``vertex_lp``, ``csc_weight``, ``sent_spread_lp``, ...; variables end in a number;
module-level definitions start with an underscore or ``run_``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harness.language.expressions import Expression, read
from harness.language.operators import maximum, minimum
from harness.language.program import EdgeReduce, Program, Reducer, reads
from harness.lowering.cpu.code import Block, Value
from harness.lowering.cpu.flags import blocks_of, raised
from harness.lowering.cpu.loop_mapping import LoopMapping
from harness.lowering.cpu.mapping import Location, Mapping, literal
from harness.lowering.cpu.reduction_loops import RUN, Reduced, ReductionLoop
from harness.lowering.cpu.rows_mapping import RowsMapping
from harness.lowering.cpu.strips import WHOLE, Store, StripWriter
from harness.lowering.cpu.templates import blocks_of_template, filled
from harness.lowering.layout import LINE, Layout

# A launch on a second thread takes 1 us more than on one, and an edge of 16 features about 10 ns.
BATCH = 256
IN_BATCHES = """    failed = 0
    for batch in range(len({batches}) - 1):
        some = max(1, min(threads, ({batches}[batch + 1] - {batches}[batch]) // {batch}))
        failed += launch(_{name}_part, some, some, (batch, some, {names},))
    return failed
"""
EXTREMUM = {"min": minimum, "max": maximum}
TYPES = {
    "f32": "float32[::1]",
    "flag": "boolean[::1]",
    "i32": "int32[::1]",
    "i64": "int64[::1]",
    "f64": "float64[::1]",
    "offsets": "READ_ONLY_INT64",
    "ids32": "READ_ONLY_UINT32",
    "ids64": "READ_ONLY_UINT64",
}


@dataclass(frozen=True)
class Kernel:
    """A kernel's source and its array arguments, by the names under which the engine keeps them.

    ``selects``: flags of the vertices whose edges it reads; "": it reads those of all. ``items``: the array of the
    vertices whose edges it reads, ascending, which its bounds or runs index; "": they are ranges of vertices.
    ``made``: the functions for one length of rows that it calls, by name and length.
    """

    name: str
    source: str
    arguments: tuple[str, ...]
    scratch_floats: int
    selects: str = ""
    items: str = ""
    made: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True)
class Binding:
    """The place where a space is known: the block, the index variable, and a prefix of its arrays' names."""

    block: str
    index: str
    prefix: str


class KernelBuilder:
    """Fill one template.

    ``signature`` lists the arrays of the template itself as ``(name, kind)`` with the kinds of ``TYPES``; property
    arrays are added when they are used. ``assigned``: flags of a vertex that the kernel has written without a branch.
    ``batches``: an array of bounds, int64, by name. The kernel then runs once for every range, one after another, on as
    many threads as there are whole ``BATCH`` elements in it, and at least on one. The part
    function also takes the number of the range, ``batch``, and of the parts, ``parts``. ``selects``, ``items``: of the
    :class:`Kernel`.
    """

    def __init__(
        self,
        name: str,
        program: Program,
        layout: Layout,
        template: str,
        signature: Sequence[tuple[str, str]],
        *,
        feature_aware: bool = True,
        dynamic: bool = False,
        batches: str = "",
        selects: str = "",
        items: str = "",
    ) -> None:
        self.batches = batches
        self.selects, self.items = selects, items
        self.name, self.program, self.layout, self.template = name, program, layout, template
        self.dynamic = dynamic
        self.blocks = blocks_of_template(template)
        self.assigned: set[str] = set()
        self.loops: dict[str, ReductionLoop] = {}
        self._types: dict[str, str] = dict(signature)
        self._bindings: dict[str, Binding] = {}
        self._values: dict[tuple[str, str], Location] = {}
        mapping: type[Mapping] = RowsMapping if feature_aware else LoopMapping
        self.root = next(iter(self.blocks.values()))
        self.mapping = mapping(layout, self._locate, self.root, tuple(program.parameters))

    # where things are ---------------------------------------------------------------------------------------------
    def bind(self, space: str, block: str, index: str, prefix: str = "vertex_") -> None:
        """Bind properties of ``space`` to ``index`` of the array ``prefix + property``, from ``block`` on."""
        self._bindings[space] = Binding(block, index, prefix)

    def bind_value(self, space: str, name: str, block: str, value: Value) -> None:
        """Bind a property that is already in a variable, from ``block`` on."""
        self._values[(space, name)] = Location(self.blocks[block], value=value)

    def argument(self, name: str, kind: str) -> str:
        """Add an array to the kernel's arguments; return its name."""
        self._types.setdefault(name, kind)
        return name

    def flags(self, name: str) -> str:
        """Add flags, both levels, to the kernel's arguments; return the two names, separated by a comma."""
        return f"{self.argument(name, 'flag')}, {self.argument(blocks_of(name), 'flag')}"

    def _locate(self, space: str, name: str) -> Location:
        if (space, name) in self._values:
            return self._values[(space, name)]
        prop = self.program.properties[name]
        if space == "graph":
            return Location(self.root, self.argument(f"graph_{name}", "f32"), "0")
        binding = self._bindings[space]
        kind = "flag" if prop.dtype == "bool" else "f32"
        return Location(self.blocks[binding.block], self.argument(binding.prefix + name, kind), binding.index)

    def reading(self, space: str, name: str) -> Expression:
        """Return the expression that reads a property from a space."""
        prop = self.program.properties[name]
        return read(space, name, prop.shape, prop.dtype)

    # lowering -----------------------------------------------------------------------------------------------------
    def lower(self, node: Expression) -> Value:
        """Return the value of an expression, computed in its home block."""
        return self.mapping.lower(node)

    def start_accumulator(self, name: str, message: Expression, reducer: Reducer, block: str) -> Value:
        """Return a local accumulator, set to the reducer's identity in ``block``."""
        return self.mapping.start_accumulator(name, message, reducer, self.blocks[block])

    def resume_accumulator(self, name: str, into: str, message: Expression, reducer: Reducer, fresh: str) -> Value:
        """Return a local accumulator (no matrix) in the block "vertex".

        It starts as the reducer's identity if ``fresh`` holds, else as the value of the reduction kept in
        ``vertex_<into>``.
        """
        self.bind("kept", "vertex", "v")
        return self.mapping.resume_accumulator(
            name, self.lower(self.reading("kept", into)), message, reducer, fresh, self.blocks["vertex"]
        )

    def accumulate(self, target: Value, message: Expression, reducer: Reducer, block: str) -> None:
        """Reduce a message into a local accumulator, in ``block``."""
        self.mapping.accumulate(target, message, reducer, self.blocks[block])

    def accumulate_in_runs(
        self,
        target: Value,
        into: str,
        message: Expression,
        reducer: Reducer,
        *,
        start: str,
        block: str,
        end: str,
        at: str,
        terms: float = float("inf"),
    ) -> None:
        """Reduce a message into a local accumulator in ``block``, the body of a loop over ``at``.

        The loop begins in ``start`` and has ended in ``end``; for the form in which it is written see
        :mod:`.reduction_loops`. Sums are taken in runs of ``RUN`` terms, which are then added. ``terms``: of a sum, at
        most; ``RUN`` terms or fewer are one run.
        """
        self.accumulate(target, message, reducer, block)
        simple = isinstance(self.mapping, RowsMapping) and not target.rows
        carry = None
        if reducer == "sum" and terms > RUN:
            opening = self.blocks[start] if simple or not target.rows else Block("")
            carry = self.mapping.start_accumulator(f"{into}_carry", message, reducer, opening)
            self.bind_value("carry", into, end, carry)
            if not simple:
                self._carry(target, carry, into, message, start, block, end, at)
            else:
                self.accumulate(target, self.accumulator("carry", into, message), reducer, end)
        loop = self.loops.setdefault(block, ReductionLoop(at, block))
        loop.reductions.append(Reduced(target, message, reducer, carry if simple else None))
        loop.simple &= simple

    def _carry(
        self, target: Value, carry: Value, into: str, message: Expression, start: str, block: str, end: str, at: str
    ) -> None:
        """Add a sum in memory to ``carry`` in the body of the loop, at the end of each run."""
        opening, body, closing = self.blocks[start], self.blocks[block], self.blocks[end]
        self.bind_value("run", into, block, target)
        flush, joined = Block("flush", body), Block("joined", closing)
        self.mapping.accumulate(carry, self.accumulator("run", into, message), "sum", flush)
        self.mapping.clear_accumulator(target, message, "sum", flush)
        self.mapping.accumulate(target, self.accumulator("carry", into, message), "sum", joined)
        body.line(f"if ({at} & {RUN - 1}) == {RUN - 1}:")
        if not target.rows:
            body.inner(flush.lines)
            closing.lines += joined.lines
            return
        carried, cleared = self.mapping.fresh("carried"), Block("cleared", body)
        opening.line(f"{carried} = False")  # a matrix is not cleared for every vertex, only at the end of a run
        self.mapping.clear_accumulator(carry, message, "sum", cleared)
        body.line(f"    if not {carried}:").inner([f"    {line}" for line in cleared.lines])
        body.inner([*flush.lines, f"{carried} = True"])
        closing.line(f"if {carried}:").inner(joined.lines)

    @staticmethod
    def accumulator(space: str, into: str, message: Expression) -> Expression:
        """Return the expression that reads, from a space, the result of reducing messages."""
        return read(space, into, message.shape, "float")

    def accumulate_in_memory(self, array: str, index: str, message: Expression, reducer: Reducer, block: str) -> None:
        """Reduce a message into ``array`` at vertex ``index``, in ``block``; the caller owns that vertex."""
        target = self.mapping.in_memory(self.argument(array, "f32"), index, message)
        self.mapping.accumulate(target, message, reducer, self.blocks[block])

    def push(
        self, stage: EdgeReduce, message: Expression, block: str, flags: Sequence[str], *, prefix: str = "vertex_"
    ) -> None:
        """Reduce a message into the array ``prefix + property`` of the reduction at vertex ``v``, in ``block``.

        Also set ``flags`` of the vertex; for an extremum only if the message changes it.
        """
        for name in flags:
            self.flags(name)
        body, lines = self.blocks[block], [raised(name, "v") for name in flags]
        if not flags or stage.reducer not in EXTREMUM or len(message.shape) > 1:
            self.accumulate_in_memory(f"{prefix}{stage.into}", "v", message, stage.reducer, block)
            body.lines += lines
            return
        self.bind("kept", block, "v")
        kept = self.accumulator("kept", stage.into, message)
        joined = EXTREMUM[stage.reducer](kept, message)
        old, new = self.lower(kept), self.mapping.detached(joined)
        body.line(f"if {self.differs(old, new, block)}:")
        changed = Block("changed", body)
        self.mapping.store(self.argument(f"vertex_{stage.into}", "f32"), "v", joined, new, changed)
        body.inner([*changed.lines, *lines])

    def store(self, array: str, index: str, node: Expression, value: Value, block: str) -> None:
        """Write the lowered value of ``node`` to ``array`` at vertex or edge ``index``, in ``block``."""
        self.argument(array, "flag" if node.dtype == "bool" else "f32")
        self.mapping.store(array, index, node, value, self.blocks[block])

    def store_together(self, stores: Sequence[Store], block: str) -> str:
        """Write values that are all computed from those before, in ``block``; long rows in :mod:`.strips`.

        Return the operation that keeps long rows from strips; empty if they are in strips, or short.
        """
        for store in stores:
            self.argument(store.array, "flag" if store.node.dtype == "bool" else "f32")
        reason = ""
        if isinstance(self.mapping, RowsMapping):
            writer = StripWriter(self.mapping, self.blocks[block], stores)
            reason = writer.refusal() if writer.features > WHOLE else ""
            if writer.features > WHOLE and not reason:
                writer.write()
                return ""
        new = [self.mapping.detached(store.node) for store in stores]
        for store, made in zip(stores, new, strict=True):
            self.mapping.store(store.array, store.index, store.node, made, self.blocks[block])
        return reason

    def differs(
        self, old: Value, new: Value, block: str, *, tolerance: str | None = None, relative: bool | None = None
    ) -> str:
        """Return the condition that two values differ, at all or by more than the variable ``tolerance``.

        ``relative``: the tolerance is relative to the new value; None: as the program defines it.
        """
        if new.kind == "matrix":
            return "True"  # comparing k x k elements costs more than it saves: a matrix always counts as changed
        relative = self.program.control.relative if relative is None else relative
        if self.program.control.tolerance is None:
            tolerance = None  # it would be 0
        return self.mapping.differs(old, new, self.blocks[block], tolerance, relative)

    def prefetch_sources(
        self, stages: Sequence[EdgeReduce], neighbours: str, distance: int, *, last: str = "last"
    ) -> None:
        """Prefetch, in the block "edge" at edge ``e``, the rows of the source ``distance`` edges ahead.

        ``last`` limits the edge, by default to the last edge of the graph.
        """
        names = dict.fromkeys(name for stage in stages for space, name in reads(stage) if space == "src")
        rows = [name for name in names if len(self.program.properties[name].shape) == 1]
        if not rows or not isinstance(self.mapping, RowsMapping):
            return
        if last == "last":
            self.root.line(f"last = len({neighbours}) - 1")
        self.blocks["edge"].line(f"ahead = int64(at({neighbours}, min(e + {distance}, {last})))")
        for name in rows:
            self.prefetch("src", name, "edge", "ahead")

    def prefetch(self, space: str, name: str, block: str, index: str) -> None:
        """Prefetch, in ``block``, a property at ``index`` (an int64) of the array that a space is bound to.

        Values other than rows and scalars, and values processed feature by feature, are not prefetched.
        """
        shape = self.program.properties[name].shape
        if len(shape) > 1 or not isinstance(self.mapping, RowsMapping):
            return
        array, stride, body = self._locate(space, name).array, self.layout.stride(shape), self.blocks[block]
        if LINE % stride == 0:  # a row within one line
            body.line(f"prefetch({array}, {index} * {stride})")
        else:
            body.line(f"prefetch_row({array}, {index} * {stride}, {self.layout.dims(shape)[0]})")

    def tolerance(self, share: float = 1.0) -> str:
        """Return a variable of the root block with the program's tolerance (0 if it has none), or a share of it."""
        name = self.program.control.tolerance
        variable = "tolerance" if share == 1.0 else "propagated"
        known = f"the {variable}"
        if self.root.find(known) is None:
            at = self.mapping.parameter(name) if name else literal(0.0)
            self.root.line(f"{variable} = {at}" if share == 1.0 else f"{variable} = {literal(share)} * {at}")
            self.root.known[known] = Value("scalar", variable)
        return variable

    # the result ---------------------------------------------------------------------------------------------------
    def finish(self) -> Kernel:
        """Return the kernel: the source of the part function and of its driver."""
        if self.mapping.scratch_floats:
            size = self.mapping.scratch_floats
            self.argument("scratch", "f32")
            self.root.lines.insert(0, f"scratch_start = worker * {size}")
        if self.mapping.reads_parameters:
            self.argument("parameters", "f32")
        template = self.template
        for loop in self.loops.values():
            template = loop.written(template, self.mapping)
        body = filled(template, self.blocks)
        names = ", ".join(self._types)
        types = ", ".join(TYPES[kind] for kind in self._types.values())
        launcher = "launch_dynamic" if self.dynamic else "launch"
        driver = f"    return {launcher}(_{self.name}_part, parts, threads, ({names},))\n"
        if self.batches:
            driver = IN_BATCHES.format(name=self.name, names=names, batches=self.batches, batch=BATCH)
        numbers = "batch, parts, " if self.batches else ""
        source = (
            f'@njit(nogil=True, error_model="numpy", _nrt=False)\n'
            f"def _{self.name}_part(t, worker, {numbers}{names}):\n{body}\n\n\n"
            f"@njit(int64(int64, int64, {types}), nogil=True, cache=True, no_cfunc_wrapper=True,\n"
            f'      error_model="numpy", _nrt=False)\n'
            f"def run_{self.name}(parts, threads, {names}):\n"
            f"{driver}"
        )
        return Kernel(
            self.name, source, tuple(self._types), self.mapping.scratch_floats, self.selects, self.items,
            tuple(sorted(self.mapping.made)),
        )  # fmt: skip
