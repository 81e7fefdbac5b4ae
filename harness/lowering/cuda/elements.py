"""Home blocks of expressions, and the text of their elements within loops over what a lane holds."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from harness.language.expressions import ELEMENTWISE, Expression
from harness.lowering.cuda.code import Block, Value
from harness.lowering.cuda.layout import DeviceLayout, LaneGroupShape
from harness.lowering.log_products import POSITIVE, SELDOM

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==",
    "ne": "!=", "and": "&&", "or": "||", "without": "-",
}  # fmt: skip
FUNCTION = {
    "min": "minimum", "max": "maximum", "abs": "fabsf", "exp": "expf", "log": "logf", "sqrt": "sqrtf",
    "floor": "floorf", "pow": "powf",
}  # fmt: skip
INLINE = frozenset(ELEMENTWISE) | {"without"}
LARGEST_TREE = 40  # operations written out in one loop
UNROLLED = 16  # features of a row in memory that a compiler keeps in registers (UNROLL of lane_groups.cuh)
LONG = ("log",)  # operations of many instructions: a row of their results is kept for later readers


@dataclass(frozen=True)
class Location:
    """Where a property is read: ``array`` at ``index``, in ``block``; or a value that is already in a variable."""

    block: Block
    array: str = ""
    index: str = ""
    value: Value | None = None


Locate = Callable[[str, str], Location]


@dataclass
class LoopNest:
    """The loops under construction: the names of the slot and, in matrices, the row; statements before the body."""

    slot: str
    row: str = ""
    before: list[str] = field(default_factory=list)
    picked: dict[str, str] = field(default_factory=dict)


def literal(value: float | bool) -> str:
    """Return a constant in generated code."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if value != value:
        return "__int_as_float(0x7fc00000)"
    if value in (float("inf"), float("-inf")):
        return "INFINITE" if value > 0 else "(-INFINITE)"
    text = repr(float(value))
    return f"{text}f" if value >= 0 else f"({text}f)"


class Elements(ABC):
    """Write the statements of expressions into blocks.

    ``locate(space, name)`` returns where a property is read. ``root`` is the block of the whole kernel. ``computed`` is
    the block in which values are computed that are read in the block that only fetches; ``holds``: that block reads
    rows too.
    """

    def __init__(
        self,
        layout: DeviceLayout,
        lane_group: LaneGroupShape,
        locate: Locate,
        root: Block,
        parameters: tuple[str, ...],
        *,
        feature_aware: bool,
        computed: dict[str, Block],
        holds: bool = False,
    ) -> None:
        self.layout, self.lane_group, self.locate, self.root = layout, lane_group, locate, root
        self.parameters, self.feature_aware, self.computed, self.holds = parameters, feature_aware, computed, holds
        self.overwritable: frozenset[tuple[str, str]] = (
            frozenset()
        )  # accumulators that only one solution reads and overwrites
        self.coherent = False  # values of vertices are read from memory that all multiprocessors share (``seen``)
        self.reads_parameters = False
        self.tile_floats = 0
        self.read_by_all: set[str] = set()  # arrays of which all lanes of a lane group read the same value
        self._names = 0
        self._homes: dict[str, Block] = {}
        self._trees: dict[str, int] = {}

    # home blocks and names --------------------------------------------------------------------------------------------
    def home(self, node: Expression) -> Block:
        """Return the outermost block in which everything that ``node`` reads is known."""
        if node.key not in self._homes:
            if node.op == "read":
                place = self.locate(*node.attribute)
                block = place.block
                if place.value is None and self._lies(node):
                    block = self.computed.get(block.name, block)
            else:
                blocks = [self.root, *(self.home(arg) for arg in node.args)]
                block = max(blocks, key=lambda one: one.depth)
                block = self.computed.get(block.name, block)
            self._homes[node.key] = block
        return self._homes[node.key]

    def _lies(self, node: Expression) -> bool:
        """Return whether a property is used in place in memory: matrices, and rows that one thread loops over."""
        if len(node.shape) != 1 or self.feature_aware:
            return len(node.shape) == 2
        if self.coherent:
            return False
        return not (self.holds and self.locate(*node.attribute).block.fields is not None)

    @abstractmethod
    def lower(self, node: Expression) -> Value:
        """Return the value of ``node`` in a variable, computed in its home block or already known there."""

    def fresh(self, stem: str) -> str:
        """Return a new variable name."""
        self._names += 1
        return f"{stem}_{self._names}"

    def start(self, array: str, index: str, node: Expression) -> str:
        """Return the text of the address of a value."""
        stride = self.layout.stride(node.shape)
        start = f"{array} + {offset(index, stride)}" if index != "0" else array
        return f"{start} + panel" if node.shape and self.layout.panels > 1 else start

    def stays(self, node: Expression) -> bool:
        """Return whether a row is short enough to be read before all loops and to stay in registers."""
        return int(np.prod(self.layout.dims(node.shape))) <= UNROLLED

    # elements ---------------------------------------------------------------------------------------------------------
    def element(self, node: Expression, nest: LoopNest) -> str:
        """Return the text of one element within loops; :meth:`prepare` must have lowered what is not elementwise."""
        if not node.shape:
            return self.lower(node).text
        found = self.home(node).find(node.key)
        if found is not None:
            return found.element(nest.slot, nest.row)
        match node.op:
            case "where" if node.attribute == SELDOM:
                return self._element_seldom(node, nest)
            case op if op in INLINE:
                return scalar_operation(node, [self.element(arg, nest) for arg in node.args])
            case "full":
                return self.lower(node.args[0]).text
            case "eye":
                return f"(group.feature({nest.slot}) == {nest.row} ? 1.0f : 0.0f)"
            case "outer":
                left = self._picked(self.lower(node.args[0]), nest)
                return f"({left} * {self.element(node.args[1], LoopNest(nest.slot))})"
        return self.lower(node).element(nest.slot, nest.row)

    def _element_seldom(self, node: Expression, nest: LoopNest) -> str:
        """Return one of two elements; values that only the first needs are read only if it is chosen."""
        condition, rare, usual = node.args
        chosen, otherwise = self.element(condition, nest), self.element(usual, nest)
        return f"({chosen} ? {self.element(rare, nest)} : {otherwise})"

    def _picked(self, row: Value, nest: LoopNest) -> str:
        if row.kind == "in_memory":
            return f"{row.text}[{nest.row}]"
        if row.text not in nest.picked:
            nest.picked[row.text] = self.fresh("left")
            nest.before.append(f"const float {nest.picked[row.text]} = pick(group, {row.text}, {nest.row});")
        return nest.picked[row.text]

    def prepare(self, node: Expression) -> None:
        """Compute, before a loop over elements, everything in it that is not a loop over the same elements."""
        if not node.shape or node.op == "read":
            self.lower(node)
        elif self.home(node).find(node.key) is not None or node.op == "eye":
            return
        elif node.op == "outer":
            self.lower(node.args[0])
            self.prepare(node.args[1])
        elif node.op == "where" and self.seldom(node) is not None:
            self.lower(node)
        elif node.op in INLINE or node.op == "full":
            for arg in node.args:
                if self._tree(arg) > LARGEST_TREE or (arg.op in LONG and arg.shape and self._fits(arg)):
                    self.lower(arg)
                else:
                    self.prepare(arg)
        else:
            self.lower(node)

    def seldom(self, node: Expression) -> int | None:
        """Return which argument of a ``where`` need not be computed if the other side is taken.

        It is an argument that is marked as seldom taken or, if the whole lane group takes the same side, a row in
        memory that nothing has read yet. None if there is no such argument.
        """
        if len(node.shape) != 1 or node.dtype != "float" or not self._fits(node):
            return None
        if node.attribute == SELDOM:
            return 1
        if node.args[0].shape or not self.feature_aware:
            return None
        for i in (1, 2):
            row = node.args[i]
            if row.op != "read" or row.shape != node.shape or self.home(row).find(row.key) is not None:
                continue
            place = self.locate(*row.attribute)
            if place.value is None and place.block.fields is None and place.block is not self.root:
                return i
        return None

    def _fits(self, node: Expression) -> bool:
        """Return whether a lane's part of a row stays in registers until it is read again."""
        return self.feature_aware or self.stays(node)

    def _tree(self, node: Expression) -> int:
        if not node.shape or node.op not in INLINE or self.home(node).find(node.key) is not None:
            return 1
        if node.key not in self._trees:
            self._trees[node.key] = 1 + sum(self._tree(arg) for arg in node.args)
        return self._trees[node.key]

    def loop(self, node: Expression, block: Block, body: Callable[[LoopNest], str], *, tile: bool = False) -> None:
        """Write ``body`` for every element of ``node`` that a lane holds. ``tile``: rows need not be unrolled."""
        dims = self.layout.dims(node.shape)
        nest = LoopNest("f") if len(dims) == 1 else LoopNest("f", "i")
        text = body(nest)
        if len(dims) == 1:
            block.line(f"FEATURES(f, {dims[0]}) {text}")
            return
        rows = "LOOP" if not self.feature_aware else "STRIP" if tile else "ROWS"
        before = " ".join(nest.before)
        block.line(f"{rows}(i, {dims[0]}) {{ {before} FEATURES(f, {dims[1]}) {text} }}".replace("{  ", "{ "))


def offset(index: str, stride: int) -> str:
    """Return the text of the start of row ``index``; arrays may have more than 2^31 elements."""
    return f"(size_t){index} * {stride}" if stride != 1 else index


def scalar_operation(node: Expression, args: list[str]) -> str:
    """Return the text of an elementwise operation on single elements."""
    op = node.op
    if op == "log" and node.attribute == POSITIVE:
        return f"log_of_positive({args[0]})"
    if op in INFIX:
        return f"({args[0]} {INFIX[op]} {args[1]})"
    match op:
        case "neg":
            return f"(-{args[0]})"
        case "not":
            return f"(!{args[0]})"
        case "float":
            return f"float({args[0]})"
        case "where":
            return f"choose({args[0]}, {args[1]}, {args[2]})"
        case "pow" if node.args[1].op == "const" and node.args[1].attribute == 2.0:
            return f"square({args[0]})"
    return f"{FUNCTION[op]}({', '.join(args)})"
