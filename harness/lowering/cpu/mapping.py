"""The part that mappings of features to the machine share: home blocks of expressions, scalars, names, scratch space.

A mapping writes the code of expressions into blocks. :class:`~harness.lowering.cpu.rows_mapping.RowsMapping` keeps the
k features of a property in one vector value; :class:`~harness.lowering.cpu.loop_mapping.LoopMapping` loops over them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass

from harness.language.expressions import Expression
from harness.language.program import IDENTITY, Reducer
from harness.lowering.cpu.code import Block, Value
from harness.lowering.layout import LINE, Layout

INFIX = {
    "add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**", "lt": "<", "le": "<=", "gt": ">", "ge": ">=",
    "eq": "==", "ne": "!=", "and": "&", "or": "|", "without": "-",
}  # fmt: skip
SCALAR_FUNCTION = {
    "min": "np.minimum", "max": "np.maximum", "abs": "abs", "exp": "np.exp", "log": "np.log", "sqrt": "np.sqrt",
    "floor": "np.floor"
}  # fmt: skip
REDUCTIONS = ("sum", "reduce_max", "reduce_min", "any", "all")
FIRST = {
    "sum": "float32(0.0)", "any": "False", "all": "True", "reduce_max": "float32(-np.inf)",
    "reduce_min": "float32(np.inf)",
}  # fmt: skip
ELEMENTWISE = frozenset(
    [
        "add",
        "sub",
        "mul",
        "div",
        "pow",
        "neg",
        "abs",
        "exp",
        "log",
        "floor",
        "sqrt",
        "min",
        "max",
        "where",
        "float",
        "not",
        "and",
        "or",
        "without",  # of a sum; products are not lowered
    ]
) | frozenset(["lt", "le", "gt", "ge", "eq", "ne"])


@dataclass(frozen=True)
class Location:
    """Where a property is read: ``array`` at vertex or edge ``index`` (a variable), known from ``block`` on, or a value
    that is already in a variable.
    """

    block: Block
    array: str = ""
    index: str = ""
    value: Value | None = None


Locate = Callable[[str, str], Location]


def literal(value: float) -> str:
    """Return a float32 constant in generated code."""
    if value != value:
        return "float32(np.nan)"
    if value in (float("inf"), float("-inf")):
        return f"float32({'-' if value < 0 else ''}np.inf)"
    return f"float32({value!r})"


def scalar_operation(op: str, args: list[str]) -> str:
    """Return the text of an elementwise operation on scalars."""
    if op == "pow":
        return f"float32({args[0]} ** {args[1]})"
    if op in INFIX:
        return f"({args[0]} {INFIX[op]} {args[1]})"
    match op:
        case "neg":
            return f"(-{args[0]})"
        case "not":
            return f"(not {args[0]})"
        case "float":
            return f"float32({args[0]})"
        case "where":
            return f"({args[1]} if {args[0]} else {args[2]})"
    return f"{SCALAR_FUNCTION[op]}({', '.join(args)})"


class Mapping(ABC):
    """Write the code of expressions into blocks.

    ``locate(space, name)`` returns where a property is read. ``root`` is the block in which parameters and constants
    are known. ``parameters`` are their names in the order of the ``parameters`` array.
    """

    def __init__(self, layout: Layout, locate: Locate, root: Block, parameters: tuple[str, ...]) -> None:
        self.layout, self.locate, self.root, self.parameters = layout, locate, root, parameters
        self.scratch_floats = 0
        self.reads_parameters = False
        self.made: set[tuple[str, int]] = set()  # functions for one length of rows, by name and length
        self._names = 0
        self._homes: dict[str, Block] = {}

    def maker(self, function: str, lanes: int) -> str:
        """Return the name of a function for rows of this length, such as ``_load8``; kernels need its definition."""
        self.made.add((function, lanes))
        return f"_{function}{lanes}"

    # shared -----------------------------------------------------------------------------------------------------
    def home(self, node: Expression) -> Block:
        """Return the outermost block in which everything that ``node`` reads is known."""
        if node.key not in self._homes:
            if node.op == "read":
                blocks = [self.locate(*node.attribute).block]
            else:
                blocks = [self.root, *(self.home(arg) for arg in node.args)]
            self._homes[node.key] = max(blocks, key=lambda block: block.depth)
        return self._homes[node.key]

    def lower(self, node: Expression) -> Value:
        """Return the value of ``node``, computed in its home block, or already known there."""
        home = self.home(node)
        found = home.find(node.key)
        if found is None:
            rank = len(node.shape)
            found = (self.scalar, self.vector, self.matrix)[rank](node, home)
            home.known[node.key] = found
        return found

    def fresh(self, stem: str) -> str:
        """Return a new variable name."""
        self._names += 1
        return f"{stem}_{self._names}"

    def scratch(self, floats: int) -> str:
        """Reserve a region of the worker's scratch space; return its start."""
        start = self.scratch_floats
        self.scratch_floats += -(-floats // LINE) * LINE
        return f"scratch_start + {start}" if start else "scratch_start"

    def parameter(self, name: str) -> str:
        """Return the text that reads a run-time parameter."""
        self.reads_parameters = True
        return f"parameters[{self.parameters.index(name)}]"

    def start(self, index: str, node: Expression) -> str:
        """Return the start of the value of vertex or edge ``index`` in its flat array."""
        stride = self.layout.stride(node.shape)
        return index if stride == 1 and not node.shape else f"int64({index}) * {stride}"

    def scalar(self, node: Expression, home: Block) -> Value:
        """Lower a scalar to a variable."""
        name = self.fresh(stem(node))
        match node.op:
            case "const":
                text = literal(node.attribute) if node.dtype == "float" else repr(node.attribute)
            case "param":
                at = self.parameter(node.attribute)
                text = at if node.dtype == "float" else f"{at} != 0"
            case "read":
                place = self.locate(*node.attribute)
                if place.value is not None:
                    return place.value
                text = f"at({place.array}, {place.index})"
            case op if op in ELEMENTWISE:
                text = scalar_operation(op, [self.lower(arg).text for arg in node.args])
            case _:
                text = self.contraction(node, home)
        home.line(f"{name} = {text}")
        return Value("scalar", name)

    def detached(self, node: Expression) -> Value:
        """Return the value of ``node`` outside of any array that is about to be written."""
        value = self.lower(node)
        return value if value.array in ("", "scratch") else self.copied(node, self.home(node))

    # defined by each mapping --------------------------------------------------------------------------------------
    @abstractmethod
    def contraction(self, node: Expression, home: Block) -> str:
        """Return the text of a scalar computed from vectors or matrices: reductions, dot, an element."""

    @abstractmethod
    def vector(self, node: Expression, home: Block) -> Value:
        """Lower a vector."""

    @abstractmethod
    def matrix(self, node: Expression, home: Block) -> Value:
        """Lower a matrix."""

    @abstractmethod
    def copied(self, node: Expression, home: Block) -> Value:
        """Return a vector or matrix in scratch of its own."""

    @abstractmethod
    def start_accumulator(self, name: str, message: Expression, reducer: Reducer, block: Block) -> Value:
        """Return a local accumulator shaped like ``message``, set to the reducer's identity."""

    @abstractmethod
    def clear_accumulator(self, target: Value, message: Expression, reducer: Reducer, block: Block) -> None:
        """Reset a local accumulator shaped like ``message`` to the reducer's identity."""

    @abstractmethod
    def resume_accumulator(
        self, name: str, kept: Value, message: Expression, reducer: Reducer, fresh: str, block: Block
    ) -> Value:
        """Return a local accumulator (no matrix) that starts as the identity if ``fresh`` holds, else as ``kept``."""

    @abstractmethod
    def accumulate(self, target: Value, message: Expression, reducer: Reducer, block: Block) -> None:
        """Reduce ``message`` into ``target``: a local accumulator, or a value in an array that the caller owns."""

    @abstractmethod
    def store(self, array: str, index: str, node: Expression, value: Value, block: Block) -> None:
        """Write the value of ``node`` to ``array`` at vertex or edge ``index``."""

    @abstractmethod
    def differs(self, old: Value, new: Value, block: Block, tolerance: str | None, relative: bool) -> str:
        """Return the condition that two vectors or scalars differ, at all or by more than ``tolerance``, a variable."""

    def in_memory(self, array: str, index: str, node: Expression) -> Value:
        """Return the value in ``array`` at ``index``, as the target of an accumulation."""
        dims = self.layout.dims(node.shape)
        start, stride = self.start(index, node), self.layout.stride(node.shape)
        match dims:
            case ():
                return Value("scalar", start, array=array)
            case (lanes,):
                return Value("row", start, lanes, array=array)
            case _:
                return Value("matrix", start, dims[1], dims[0], stride // dims[0], array)


def far(old: str, new: str, tolerance: str | None, relative: bool) -> str:
    """Return the condition that two scalars differ, at all or by more than the tolerance.

    NaN differs from everything; equal infinities do not differ.
    """
    if tolerance is None:
        return f"{new} != {old}"
    margin = f"{tolerance} * abs({new})" if relative else tolerance
    return f"({new} != {old} and not abs({new} - {old}) <= {margin})"


def identity(reducer: Reducer) -> str:
    """Return the text of the value of an empty reduction."""
    return literal(IDENTITY[reducer])


def stem(node: Expression) -> str:
    """Return a readable prefix for a variable name."""
    if node.op == "read":
        space, name = node.attribute
        return name if space in ("v", "dst", "graph") else f"{space}_{name}"
    return str(node.attribute) if node.op == "param" else {"sum": "total", "float": "number"}.get(node.op, node.op)
