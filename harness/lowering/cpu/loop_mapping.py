"""Lower expressions with an explicit loop over features, as conventional frameworks do (NFA in the thesis).

Vectors and matrices are in memory (properties, or the worker's scratch space). Every operation is a loop over
features; an elementwise tree is one loop. LLVM gets plain scalar loops and optimises them as it chooses.
"""

from __future__ import annotations

from harness.language.expressions import Expression
from harness.language.program import Reducer
from harness.lowering.cpu.code import Block, Value
from harness.lowering.cpu.mapping import (
    ELEMENTWISE,
    FIRST,
    REDUCTIONS,
    Locate,
    Mapping,
    far,
    identity,
    scalar_operation,
)
from harness.lowering.cpu.rows_mapping import combined_scalar
from harness.lowering.layout import Layout, row_stride

Index = tuple[str, ...]  # variables that name a feature, or a row and a feature
LARGEST_TREE = 64  # operations in one loop; a shared subexpression is repeated for each use


class LoopMapping(Mapping):
    """Features in loops."""

    def __init__(self, layout: Layout, locate: Locate, root: Block, parameters: tuple[str, ...]) -> None:
        super().__init__(layout, locate, root, parameters)
        self._trees: dict[str, int] = {}

    # elements ---------------------------------------------------------------------------------------------------
    def element(self, node: Expression, at: Index) -> str:
        """Return the text of one element; :meth:`prepare` must have stored what is not elementwise."""
        if not node.shape:
            return self.lower(node).text
        if node.op in ELEMENTWISE:
            found = self._found(node)
            if found is not None:
                return element_of(found, at)
            return scalar_operation(node.op, [self.element(arg, at) for arg in node.args])
        match node.op:
            case "outer":
                return f"({self.element(node.args[0], at[:1])} * {self.element(node.args[1], at[1:])})"
            case "full":
                return self.lower(node.args[0]).text
            case "eye":
                return f"(float32(1.0) if {at[0]} == {at[1]} else float32(0.0))"
            case "transpose":
                return self.element(node.args[0], at[::-1])
        return element_of(self.lower(node), at)

    def prepare(self, node: Expression) -> None:
        """Compute, before a loop over elements, everything in it that is not a loop over the same elements."""
        if not node.shape:
            self.lower(node)
        elif self._found(node) is not None:
            return
        elif node.op in ELEMENTWISE or node.op in ("outer", "full", "transpose"):
            for arg in node.args:
                if arg.dtype == "float" and self._tree(arg) > LARGEST_TREE:
                    self.lower(arg)
                else:
                    self.prepare(arg)
        elif node.op != "eye":
            self.lower(node)

    def _found(self, node: Expression) -> Value | None:
        """Return where the elements of a float are stored; a value computed from a bool is stored as a float."""
        return self.home(node).find(node.key) if node.dtype == "float" else None

    def _tree(self, node: Expression) -> int:
        """Return the number of operations that :meth:`element` writes for a node."""
        if not node.shape or node.op not in ELEMENTWISE or self._found(node) is not None:
            return 1
        if node.key not in self._trees:
            self._trees[node.key] = 1 + sum(self._tree(arg) for arg in node.args)
        return self._trees[node.key]

    def loops(self, node: Expression, block: Block) -> tuple[Index, str]:
        """Open the loops over the elements of ``node``; return the index variables and the indentation of the body."""
        dims = self.layout.dims(node.shape)
        names = [self.fresh(stem) for stem in ("f", "i")[: len(dims)]][::-1]
        for depth, (name, size) in enumerate(zip(names, dims, strict=True)):
            block.line("    " * depth + f"for {name} in range({size}):")
        return tuple(names), "    " * len(dims)

    # vectors and matrices ---------------------------------------------------------------------------------------
    def vector(self, node: Expression, home: Block) -> Value:
        """Return where a vector is stored; computed into scratch if it is not a property."""
        return self._placed(node, home)

    def matrix(self, node: Expression, home: Block) -> Value:
        """Return where a matrix is stored; computed into scratch if it is not a property."""
        return self._placed(node, home)

    def _placed(self, node: Expression, home: Block) -> Value:
        if node.op == "read":
            place = self.locate(*node.attribute)
            return place.value if place.value is not None else self.in_memory(place.array, place.index, node)
        target = self._room(node)
        match node.op:
            case "normalize":
                self._normalize(node, target, home)
            case "matmul" | "max_product":
                self._product(node, target, home)
            case "solve_spd":
                matrix = self.copied(node.args[0], home)
                self._write(node.args[1], target, home)
                solve = self.maker("solve_spd", matrix.lanes)
                home.line(f"{solve}(scratch, {matrix.text}, {matrix.stride}, scratch, {target.text})")
            case "inverse":
                target = self.copied(node.args[0], home)
                home.line(f"{self.maker('inverse', target.lanes)}(scratch, {target.text}, {target.stride})")
            case "stack":
                for i, arg in enumerate(node.args):
                    self._stacked(arg, target, i, home)
            case "index":
                whole = self.lower(node.args[0])
                return Value("row", whole.row_start(str(node.attribute)), whole.lanes, array=whole.array)
            case _:
                self._write(node, target, home)
        return target

    def _room(self, node: Expression) -> Value:
        dims = self.layout.dims(node.shape)
        if len(dims) == 1:
            return Value("row", self.scratch(dims[0]), dims[0], array="scratch")
        stride = row_stride(dims[1])
        return Value("matrix", self.scratch(dims[0] * stride), dims[1], dims[0], stride, "scratch")

    def copied(self, node: Expression, home: Block) -> Value:
        """Return a vector or matrix in scratch of its own."""
        target = self._room(node)
        self._write(node, target, home)
        return target

    def _write(self, node: Expression, target: Value, block: Block) -> None:
        self.prepare(node)
        at, indent = self.loops(node, block)
        block.line(f"{indent}{element_of(target, at)} = {self.element(node, at)}")

    def _stacked(self, arg: Expression, target: Value, i: int, home: Block) -> None:
        self.prepare(arg)
        if not arg.shape:
            home.line(f"{element_of(target, (str(i),))} = {self.lower(arg).text}")
            return
        at, indent = self.loops(arg, home)
        home.line(f"{indent}{element_of(target, (str(i), *at))} = {self.element(arg, at)}")

    def _normalize(self, node: Expression, target: Value, home: Block) -> None:
        x = node.args[0]
        self.prepare(x)
        dims = self.layout.dims(x.shape)
        outer: Index = ()
        indent = ""
        if len(dims) == 2:
            outer, indent = (self.fresh("i"),), "    "
            home.line(f"for {outer[0]} in range({dims[0]}):")
        size, f, features = self.fresh("size"), self.fresh("f"), dims[-1]
        element, place = self.element(x, (*outer, f)), element_of(target, (*outer, f))
        loop = f"{indent}for {f} in range({features}):"
        if node.attribute == "softmax":
            top = self.fresh("top")
            home.line(f"{indent}{top} = float32(-np.inf)").line(loop)
            home.line(f"{indent}    {top} = np.maximum({top}, {element})")
            element = f"np.exp({element} - {top})"
        part = {"l1": f"abs({element})", "l2": f"{element} * {element}"}.get(node.attribute, place)
        home.line(f"{indent}{size} = float32(0.0)").line(loop)
        if node.attribute == "softmax":
            home.line(f"{indent}    {place} = {element}")
        home.line(f"{indent}    {size} = {size} + {part}")
        if node.attribute == "l2":
            home.line(f"{indent}{size} = np.sqrt({size})")
        home.line(f"{indent}{size} = float32(1.0) / {size} if {size} != 0 else float32(1.0)")
        scaled = place if node.attribute == "softmax" else element
        home.line(loop).line(f"{indent}    {place} = {scaled} * {size}")

    def _product(self, node: Expression, target: Value, home: Block) -> None:
        left, right = node.args
        self.prepare(left)
        self.prepare(right)
        at, indent = self.loops(node, home)
        j, total = self.fresh("j"), self.fresh("sum")
        inner = self.layout.dims(left.shape)[-1]
        first = (at[0], j) if len(left.shape) == 2 else (j,)
        second = (j, at[-1]) if len(right.shape) == 2 else (j,)
        term = f"{self.element(left, first)} * {self.element(right, second)}"
        start, step = "float32(0.0)", f"{total} + {term}"
        if node.op == "max_product":
            start, step = "float32(-np.inf)", f"np.maximum({total}, {term})"
        home.line(f"{indent}{total} = {start}").line(f"{indent}for {j} in range({inner}):")
        home.line(f"{indent}    {total} = {step}")
        home.line(f"{indent}{element_of(target, at)} = {total}")

    def contraction(self, node: Expression, home: Block) -> str:
        """Return a scalar computed by a loop over elements."""
        for arg in node.args:
            self.prepare(arg)
        if node.op == "index":
            return element_of(self.lower(node.args[0]), (str(node.attribute),))
        total = self.fresh("reduced")
        home.line(f"{total} = {FIRST[node.op if node.op in REDUCTIONS else 'sum']}")
        at, indent = self.loops(node.args[0], home)
        elements = [self.element(arg, at) for arg in node.args]
        step = {
            "dot": f"{total} + {elements[0]} * {elements[-1]}", "sum": f"{total} + {elements[0]}",
            "any": f"{total} or {elements[0]}", "all": f"{total} and {elements[0]}",
            "reduce_max": f"np.maximum({total}, {elements[0]})", "reduce_min": f"np.minimum({total}, {elements[0]})",
        }[node.op]  # fmt: skip
        home.line(f"{indent}{total} = {step}")
        return total

    # accumulators -----------------------------------------------------------------------------------------------
    def start_accumulator(self, name: str, message: Expression, reducer: Reducer, block: Block) -> Value:
        """Declare a variable for a scalar, else reserve scratch."""
        target = self._room(message) if message.shape else Value("scalar", name)
        self.clear_accumulator(target, message, reducer, block)
        return target

    def clear_accumulator(self, target: Value, message: Expression, reducer: Reducer, block: Block) -> None:
        """Set a variable, or a region of scratch."""
        if target.kind == "scalar":
            block.line(f"{target.text} = {identity(reducer)}")
            return
        at, indent = self.loops(message, block)
        block.line(f"{indent}{element_of(target, at)} = {identity(reducer)}")

    def resume_accumulator(
        self, name: str, kept: Value, message: Expression, reducer: Reducer, fresh: str, block: Block
    ) -> Value:
        """Declare a variable for a scalar, else reserve scratch."""
        if kept.kind == "scalar":
            block.line(f"{name} = {identity(reducer)} if {fresh} else {kept.text}")
            return Value("scalar", name)
        target = self._room(message)
        at, indent = self.loops(message, block)
        old = element_of(kept, at)
        block.line(f"{indent}{element_of(target, at)} = {identity(reducer)} if {fresh} else {old}")
        return target

    def accumulate(self, target: Value, message: Expression, reducer: Reducer, block: Block) -> None:
        """Reduce feature by feature."""
        self.prepare(message)
        if target.kind == "scalar":
            place, indent, new = (
                f"{target.array}[{target.text}]" if target.array else target.text, "", self.lower(message).text
            )  # fmt: skip
        else:
            at, indent = self.loops(message, block)
            place, new = element_of(target, at), self.element(message, at)
        block.line(f"{indent}{place} = {combined_scalar(reducer, place, new)}")

    def store(self, array: str, index: str, node: Expression, value: Value, block: Block) -> None:
        """Copy feature by feature."""
        if value.kind == "scalar":
            block.line(f"{array}[{self.start(index, node)}] = {value.text}")
            return
        target = self.in_memory(array, index, node)
        at, indent = self.loops(node, block)
        block.line(f"{indent}{element_of(target, at)} = {element_of(value, at)}")

    def differs(self, old: Value, new: Value, block: Block, tolerance: str | None, relative: bool) -> str:
        """Return the condition that any feature differs."""
        if new.kind == "scalar":
            return far(old.text, new.text, tolerance, relative)
        found, f = self.fresh("differs"), self.fresh("f")
        one = far(element_of(old, (f,)), element_of(new, (f,)), tolerance, relative)
        block.line(f"{found} = False").line(f"for {f} in range({new.lanes}):")
        block.line(f"    {found} = {found} or {one}")
        return found


def element_of(value: Value, at: Index) -> str:
    """Return the text of one element of a value in memory."""
    if value.kind == "matrix":
        return f"{value.array}[{value.row_start(at[0])} + {at[1]}]"
    return f"{value.array}[{value.text} + {at[0]}]"
