"""Generate the CUDA C++ of one kernel from a traversal's template and a program's functions.

The traversals that a template calls are C++ templates in ``.cuh`` files beside the engine. The engine declares with
:meth:`CudaKernelBuilder.bind` where a space (``src``, ``dst``, ``v``, ``edge``) is known, requests statements, and gets
a :class:`CudaKernel`.

Names cannot collide: arrays are ``vertex_lp``, ``csc_weight``, ...; variables end in a number.
"""

from __future__ import annotations

from collections.abc import Mapping as MappingOf
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from harness.language.expressions import Expression, parameter, read
from harness.language.program import Program, Reducer, Stage, reads
from harness.lowering.cuda.code import Value
from harness.lowering.cuda.conditions import NEVER, OVER, Condition
from harness.lowering.cuda.layout import DeviceLayout, LaneGroupShape
from harness.lowering.cuda.mapping import Location, Mapping
from harness.lowering.cuda.names import in_ascii, kernel_name, parameter_names, propagated_tolerance
from harness.lowering.cuda.parameters import KINDS, Parameter
from harness.lowering.cuda.templates import blocks_of, filled

Scratch: TypeAlias = Literal["global", "shared"]  # where a single thread's matrices are; global: in local memory
MOST_SCRATCH = 96  # floats of a thread in shared memory, so that two blocks of 256 threads fit on a multiprocessor


@dataclass(frozen=True)
class Visits:
    """The vertices whose edges a kernel reads: those with ``flags``, an array of the kernel; without flags all.

    ``every``: a condition on ``run`` under which it reads the edges of all. ``never``: one under which it reads none.
    ``alone``: it does nothing but for these vertices. ``listed``: an array of sorted vertices, to which it is limited;
    the next kernel reads the edges of the others, and decides for both which are read.
    """

    flags: str = ""
    every: Condition = NEVER
    never: Condition = NEVER
    alone: bool = True
    listed: str = ""


@dataclass(frozen=True)
class CudaKernel:
    """A kernel: its name, its parameters, and its statements.

    ``body``: the statements, each line ended. ``tile_floats``: of shared memory that each lane group needs. ``unless``:
    the condition under which the kernel does nothing. ``thread_floats``: of shared memory that each thread needs for
    itself. ``panels``: passes over its work, each with other features. ``visits``: the vertices whose edges it reads.
    ``bounds``: of its launches, as ``__launch_bounds__`` takes them. ``before``: definitions that it needs.
    ``reads_frontier``: the statements read how many edges leave the active sources of this superstep.
    ``counts_frontier``: they add to that number.
    """

    name: str
    parameters: tuple[Parameter, ...]
    body: str = ""
    tile_floats: int = 0
    unless: Condition = NEVER
    thread_floats: int = 0
    panels: int = 1
    visits: Visits = Visits()
    bounds: str = "BLOCK"
    before: str = ""
    reads_frontier: bool = False
    counts_frontier: bool = False

    @property
    def arguments(self) -> tuple[str, ...]:
        """The names under which the engine keeps the arguments."""
        return tuple(one.name for one in self.parameters)

    @property
    def reads_no_edges(self) -> Condition:
        """The condition under which it reads the edges of no vertex."""
        return self.unless | self.visits.never

    @property
    def source(self) -> str:
        """The definition of the kernel in CUDA C++."""
        listed = ", ".join(one.text for one in self.parameters)
        start = f'extern "C" __global__ void __launch_bounds__({self.bounds}) {self.name}({listed})'
        test = f"    if ({self.unless.text}) return;\n" if self.unless else ""
        return f"{self.before}{start}\n{{\n{test}{self.body}}}\n"

    def called(self, name: str) -> CudaKernel:
        """Return the same kernel under another name."""
        return replace(self, name=name)


@dataclass(frozen=True)
class Binding:
    """The place where a space is known: the block, the index variable, a prefix of its arrays' names."""

    block: str
    index: str
    prefix: str


class CudaKernelBuilder:
    """Fill one template. ``signature`` lists the template's own arguments as ``(name, kind)``, kinds of ``KINDS``.

    The blocks of a template are ``kernel`` and those named by its other placeholders; the parent of a block is the last
    block before it at a smaller indentation. Values that ``fetch`` reads are kept in ``got``, and ``visit`` computes
    with them; ``holds``: this includes rows that a thread reads feature by feature, which are short. ``idle``: a
    condition under which the kernel does nothing. ``coherent``: rows of vertices are read past the cache of the
    multiprocessor, because others write them during the kernel; the module must be COHERENT. ``flipped``: arrays whose
    two buffers swap during a run, by the name of the count of their swaps. ``reads_frontier``, ``counts_frontier``: of
    the :class:`CudaKernel`; who writes statements that read the frontier sets the former.
    """

    def __init__(
        self,
        name: str,
        program: Program,
        layout: DeviceLayout,
        lane_group: LaneGroupShape,
        template: str,
        signature: Sequence[tuple[str, str]],
        *,
        feature_aware: bool,
        hoisted: Sequence[str] = (),
        scratch: Scratch = "global",
        flipped: MappingOf[str, str] | None = None,
        holds: bool = False,
        idle: Condition = NEVER,
        coherent: bool = False,
    ) -> None:
        self.idle = idle
        self.reads_frontier = self.counts_frontier = False
        self.name, self.program, self.layout, self.template = kernel_name(name), program, layout, template
        self.lane_group, self.flipped, self.scratch = lane_group, flipped or {}, scratch
        self.blocks = blocks_of(template, hoisted)
        self._types: dict[str, str] = {"run": "run", **dict(signature)}
        self._counters: dict[str, str] = {}
        self._bindings: dict[str, Binding] = {}
        self._values: dict[tuple[str, str], Location] = {}
        self.root = self.blocks["kernel"]
        computed = {"fetch": self.blocks["visit"]} if "fetch" in self.blocks else {}
        self.mapping = Mapping(
            layout, lane_group, self._locate, self.root, parameter_names(program),
            feature_aware=feature_aware, computed=computed, holds=holds,
        )  # fmt: skip
        self.mapping.coherent = coherent

    # bindings ---------------------------------------------------------------------------------------------------------
    def bind(self, space: str, block: str, index: str, prefix: str = "vertex_") -> None:
        """Bind properties of ``space`` to ``index`` of the array ``prefix + property``, from ``block`` on."""
        self._bindings[space] = Binding(block, index, prefix)

    def bind_edge(self, stage: Stage, block: str, order: str) -> None:
        """Bind what a stage reads of edge ``e`` and of its reverse.

        If all edges pair, the reverse is at ``reverse[e]`` in either order.
        """
        self.bind("edge", block, "e", f"{order}_")
        if any(space == "reverse" for space, _ in reads(stage)):
            self.argument("reverse", "ids")
            self.bind("reverse", block, "reverse[e]", f"{order}_")

    def bind_scalar(self, space: str, name: str, block: str, text: str) -> None:
        """Bind a number of a property to ``text`` from ``block`` on, which does not access the property's array."""
        self.bind_value(space, name, block, Value("scalar", text))

    def bind_value(self, space: str, name: str, block: str, value: Value) -> None:
        """Bind a property that is already in a variable, from ``block`` on."""
        self._values[(space, name)] = Location(self.blocks[block], value=value)

    def read_in(self, block: str) -> str:
        """Return the block that reads what ``block`` computes with: ``fetch`` for ``visit``, others themselves."""
        return "fetch" if block == "visit" and "fetch" in self.blocks else block

    def argument(self, name: str, kind: str) -> str:
        """Add an argument; return its name. An array that is both read and written is no longer declared constant."""
        if kind in ("f32", "flag") and self._types.get(name) in ("input", "flags"):
            self._types[name] = kind
        self._types.setdefault(name, kind)
        return name

    def _locate(self, space: str, name: str) -> Location:
        if (space, name) in self._values:
            return self._values[(space, name)]
        prop = self.program.properties[name]
        if space == "graph":
            return Location(self.root, self.argument(f"graph_{name}", "input"), "0")
        binding = self._bindings[space]
        kind = "flags" if prop.dtype == "bool" else "input"
        return Location(self.blocks[binding.block], self.argument(binding.prefix + name, kind), binding.index)

    def reading(self, space: str, name: str) -> Expression:
        """Return the expression that reads a property from a space."""
        prop = self.program.properties[name]
        return read(space, name, prop.shape, prop.dtype)

    # statements -------------------------------------------------------------------------------------------------------
    def comment(self, block: str, stage: Stage) -> None:
        """Write a comment that names the stage of the next statements and quotes its line in the program."""
        comment = f"// {stage.name}: {stage.line.text or stage.line}".split("\n")[0]
        self.blocks[block].line(
            comment.rstrip("\\")
        )  # a trailing backslash would continue the comment on the next line

    def accumulator(self, name: str, message: Expression, reducer: Reducer, block: str) -> Value:
        """Return a local accumulator, set to the reducer's identity in ``block``."""
        value = self.mapping.accumulator(name, message, self.blocks[block])
        self.mapping.clear(value, message, reducer, self.blocks[block])
        return value

    def accumulate(self, target: Value, message: Expression, reducer: Reducer, block: str) -> None:
        """Reduce a message into a local accumulator."""
        self.mapping.accumulate(target, message, reducer, self.blocks[block])

    def reduce_into(
        self, array: str, index: str, message: Expression, reducer: Reducer, block: str, *, taken: str = ""
    ) -> None:
        """Reduce a message into an array that other threads write at the same time.

        ``taken``: a bool variable to declare, true if this changed anything (of extrema, with features in a
        loop).
        """
        self.argument(array, "f32")
        self.mapping.reduce_into(array, index, message, reducer, self.blocks[block], taken=taken)

    def fill_identity(self, array: str, index: str, message: Expression, reducer: Reducer, block: str) -> None:
        """Set an accumulator in an array to the reducer's identity (with features in a loop)."""
        self.argument(array, "f32")
        self.mapping.fill_identity(array, index, message, reducer, self.blocks[block])

    def choose(self, condition: Expression, block: str) -> str:
        """Declare in ``block`` whether vertex ``v`` is ``chosen``; bind it in the block of that name and return this.

        Of other vertices, only what the condition reads is read.
        """
        self.blocks[block].line(f"const bool chosen = {self.mapping.lower(condition).text};")
        self.bind("v", "chosen", "v")
        return "chosen"

    def known_in(self, node: Expression, block: str) -> bool:
        """Return whether a value is already known in a block or one that encloses it."""
        return self.mapping.home(node).depth <= self.blocks[block].depth

    def is_identity(self, message: Expression, reducer: Reducer, block: str) -> str:
        """Declare a bool variable: whether a message, known in ``block``, changes nothing."""
        return self.mapping.is_identity(message, reducer, self.blocks[block])

    def store(self, array: str, index: str, node: Expression, value: Value, block: str) -> None:
        """Write the value of ``node`` to ``array`` at ``index``."""
        self.argument(array, "flag" if node.dtype == "bool" else "f32")
        self.mapping.store(array, index, node, value, self.blocks[block])

    def moved(self, space: str, name: str, new: Value, block: str, *, exact: bool = False, share: float = 1.0) -> str:
        """Declare a bool variable: whether a property differs from the value that ``space`` holds.

        It differs by more than the program's tolerance, or a share of it; ``exact``: at all.
        """
        node = self.reading(space, name)
        if len(node.shape) == 2:
            return "true"  # comparing k x k elements costs more than it saves: a matrix always counts as moved
        tolerance = None if exact else self.tolerance(propagated=share != 1.0)
        return self.mapping.differs(node, new, self.blocks[block], tolerance, self.program.control.relative)

    def tolerance(self, *, propagated: bool = False) -> str:
        """Return the program's tolerance, or the share of it that is ``propagated``; 0 if it has none."""
        name = self.program.control.tolerance
        if name is None:
            return "0.0f"
        return self.mapping.lower(parameter(propagated_tolerance(self.program) if propagated else name, "float")).text

    def counter(self, name: str, target: str) -> str:
        """Declare a variable of every thread, whose sum over all threads is added to ``target`` at the end."""
        self._counters[name] = target
        return name

    def frontier_counter(self, name: str, number: int, *, later: bool = False) -> str:
        """Declare a variable of every thread that counts edges of the frontier of edge stage ``number``.

        The frontier is that of this superstep, or ``later`` that of the next one.
        """
        self.counts_frontier |= not later
        return self.counter(name, f"&run->frontier[{number}][(run->superstep{' + 1' if later else ''}) & 1]")

    def sparse(self, number: int) -> str:
        """Return the expression: few edges leave the active sources of edge stage ``number`` in this superstep."""
        self.reads_frontier = True
        return f"run->sparse({number})"

    # the result -------------------------------------------------------------------------------------------------------
    def finish(self, *, unless: Condition = OVER, at_once: int = 0, visits: Visits | None = None) -> CudaKernel:
        """Return the kernel.

        ``unless``: another condition under which it does nothing. ``at_once``: the number of threads that must fit on a
        multiprocessor, which limits the registers of each. ``visits``: the vertices whose edges it reads; None: all.
        """
        if self.mapping.reads_parameters:
            self.argument("parameters", "input")
        if self.mapping.tile_floats:
            self.root.lines.insert(0, self._tiles())
        types, chosen = self._buffers()
        lines = [*chosen, "const LaneGroup group;"]
        if self.layout.panels > 1:  # a block's features begin at an offset; blocks of the same panel are adjacent
            lines.append(f"const Id panel = blockIdx.y * {self.layout.features // self.layout.panels};")
        lines += [f"Count {name} = 0;" for name in self._counters]
        ends = [f"add_counts({target}, {name});" for name, target in self._counters.items()]
        body = [
            *(f"    {line}" for line in lines), filled(self.template, self.blocks), *(f"    {line}" for line in ends)
        ]  # fmt: skip
        return CudaKernel(
            self.name, tuple(Parameter.of(name, kind) for name, kind in types.items()),
            "".join(f"{in_ascii(part)}\n" for part in body), self.mapping.tile_floats, unless | self.idle,
            self._stride() if self._shares_scratch() else 0, self.layout.panels, visits or Visits(),
            f"BLOCK, {at_once} / BLOCK" if at_once else "BLOCK",
            reads_frontier=self.reads_frontier, counts_frontier=self.counts_frontier,
        )  # fmt: skip

    def _shares_scratch(self) -> bool:
        """Return whether matrices of single threads are in shared memory."""
        floats = self.mapping.tile_floats
        return self.lane_group.lanes == 1 and self.scratch == "shared" and 0 < floats <= MOST_SCRATCH

    def _stride(self) -> int:
        """Return the floats from one thread's scratch to the next: an odd number, which avoids bank conflicts."""
        return self.mapping.tile_floats | 1

    def _buffers(self) -> tuple[dict[str, str], list[str]]:
        """Return the arguments, with both buffers of arrays that a run swaps, and the statements that select the
        buffers.
        """
        types, chosen = dict(self._types), []
        for array, flips in self.flipped.items():
            kinds = {name: types.pop(name) for name in (array, f"next_{array}") if name in types}
            if not kinds:
                continue
            flags = not {"flag", "flags"}.isdisjoint(kinds.values())
            written = not {"f32", "flag"}.isdisjoint(kinds.values())
            kind = ("flag" if flags else "f32") if written else ("flags" if flags else "input")
            types |= dict.fromkeys((f"even_{array}", f"odd_{array}"), kind)
            types[flips] = types.get(flips, "swaps")
            for name, (odd, even) in {array: ("odd", "even"), f"next_{array}": ("even", "odd")}.items():
                if name in kinds:
                    value = f"{flips}[0] & 1 ? {odd}_{array} : {even}_{array}"
                    chosen.append(f"{KINDS[kind][0]} const {name} = {value};")
        return types, chosen

    def _tiles(self) -> str:
        floats = self.mapping.tile_floats
        if self._shares_scratch():
            return f"extern __shared__ float scratch[]; float* const tiles = scratch + threadIdx.x * {self._stride()};"
        if self.lane_group.lanes == 1:
            return f"float tiles[{floats}];"
        mine = "threadIdx.x / 32 * LANE_GROUPS + min(group.number, LANE_GROUPS - 1)"
        return (
            f"extern __shared__ float4 shared[]; float* tiles = reinterpret_cast<float*>(shared) + ({mine}) * {floats};"
        )
