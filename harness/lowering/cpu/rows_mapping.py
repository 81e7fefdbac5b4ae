"""Lower one row (k features) to one vector value: the feature-aware mapping of the CPU.

Vectors become rows (``harness.lowering.cpu.rows``) in variables; matrices are consecutive rows in memory.
"""

from __future__ import annotations

from harness.language.expressions import Expression
from harness.language.program import IDENTITY, Reducer
from harness.lowering.cpu.code import Block, Value
from harness.lowering.cpu.mapping import (
    ELEMENTWISE,
    INFIX,
    REDUCTIONS,
    far,
    identity,
    literal,
    scalar_operation,
)
from harness.lowering.cpu.matrix_rows import MatrixRows

ROW_FUNCTION = {
    "min": "minimum",
    "max": "maximum",
    "abs": "absolute",
    "exp": "exp",
    "log": "log",
    "sqrt": "sqrt",
    "floor": "floor",
}
REDUCE_ROW = {"sum": "reduce_sum", "reduce_max": "reduce_max", "reduce_min": "reduce_min", "any": "reduce_any",
              "all": "reduce_all"}  # fmt: skip


class RowsMapping(MatrixRows):
    """Rows in vector registers."""

    def vector(self, node: Expression, home: Block) -> Value:
        """Lower a vector to a row in a variable."""
        (lanes,) = self.layout.dims(node.shape)
        if node.op == "read":
            place = self.locate(*node.attribute)
            if place.value is not None:
                return place.value
            text = f"{self.maker('load', lanes)}({place.array}, {self.start(place.index, node)})"
        elif node.op == "where" and not node.args[0].shape:
            text = self._choice(node, home)
        elif node.op in ELEMENTWISE:
            operands = [self.lower(arg) for arg in node.args]
            text = self.row_operation(node.op, [o.text for o in operands], [o.kind == "row" for o in operands], lanes)
        else:
            text = self._structural(node, home, lanes)
        name = self.fresh(self._stem(node))
        home.line(f"{name} = {text}")
        return Value("row", name, lanes)

    def _choice(self, node: Expression, home: Block) -> str:
        """Return the text of a row chosen by a scalar condition; a row used only by this choice is loaded when it is
        chosen.
        """
        condition, *branches = node.args
        test = self.lower(condition).text
        texts = []
        for branch in branches:
            if branch.op == "read" and branch.shape and home.find(branch.key) is None:
                place = self.locate(*branch.attribute)
                (lanes,) = self.layout.dims(branch.shape)
                loaded = f"{self.maker('load', lanes)}({place.array}, {self.start(place.index, branch)})"
                texts.append(place.value.text if place.value is not None else loaded)
            else:
                row = self.lower(branch)
                lanes = self.layout.dims(node.shape)[0]
                texts.append(row.text if row.kind == "row" else f"{self.maker('splat', lanes)}({row.text})")
        return f"{texts[0]} if {test} else {texts[1]}"

    def _structural(self, node: Expression, home: Block, lanes: int) -> str:
        match node.op:
            case "normalize":
                return self.normalized(self.lower(node.args[0]).text, node.attribute, home)
            case "full":
                return f"{self.maker('splat', lanes)}({self.lower(node.args[0]).text})"
            case "matmul" | "max_product":
                return self.matrix_times_vector(node, home)
            case "solve_spd":
                return self.solution(node)
            case "index":
                whole = self.lower(node.args[0])
                return self.load_row(whole, str(node.attribute))
            case "stack":
                text = f"{self.maker('zero', lanes)}()"
                for i, arg in enumerate(node.args):
                    text = f"insert({text}, {i}, {self.lower(arg).text})"
                return text
        raise NotImplementedError(f"operation {node.op!r} has no lowering to a row")

    def row_operation(self, op: str, args: list[str], rows: list[bool], lanes: int) -> str:
        """Return the text of an elementwise operation with at least one row argument."""
        if op in INFIX:
            return f"{args[0]} {INFIX[op]} {args[1]}"
        match op:
            case "neg":
                return f"-{args[0]}"
            case "not":
                return f"~{args[0]}"
            case "float":
                splat = self.maker("splat", lanes)
                return f"where({args[0]}, {splat}(float32(1.0)), {splat}(float32(0.0)))"
            case "where":
                splat = self.maker("splat", lanes)
                spread = [a if row else f"{splat}({a})" for a, row in zip(args, rows, strict=True)]
                return f"where({args[0]}, {spread[1]}, {spread[2]})"
        return f"{ROW_FUNCTION[op]}({', '.join(args)})"

    def normalized(self, x: str, kind: str, home: Block) -> str:
        """Return the text of a normalised row, with one division per row; a zero vector stays zero."""
        if kind == "softmax":
            e = self.fresh("exponent")
            home.line(f"{e} = exp({x} - reduce_max({x}))")
            return f"{e} / reduce_sum({e})"
        size = self.fresh("size")
        home.line(f"{size} = " + (f"reduce_sum(absolute({x}))" if kind == "l1" else f"np.sqrt(dot({x}, {x}))"))
        return f"{x} * (float32(1.0) / {size} if {size} != 0 else float32(1.0))"

    def contraction(self, node: Expression, home: Block) -> str:
        """Return the text of a scalar computed from rows or matrices."""
        whole = node.args[0]
        if node.op in REDUCTIONS:
            if len(whole.shape) == 2:
                return self.reduced_matrix(node, home, REDUCE_ROW[node.op])
            return f"{REDUCE_ROW[node.op]}({self.lower(whole).text})"
        if node.op == "dot":
            return f"dot({self.lower(whole).text}, {self.lower(node.args[1]).text})"
        if node.op == "index":
            return f"extract({self.lower(whole).text}, {node.attribute})"
        raise NotImplementedError(f"operation {node.op!r} has no lowering to a scalar")

    # accumulators -----------------------------------------------------------------------------------------------
    def identity_row(self, reducer: Reducer, lanes: int) -> str:
        """Return the text of a row of the reducer's identity."""
        if IDENTITY[reducer] == 0:
            return f"{self.maker('zero', lanes)}()"
        return f"{self.maker('splat', lanes)}({literal(IDENTITY[reducer])})"

    def start_accumulator(self, name: str, message: Expression, reducer: Reducer, block: Block) -> Value:
        """Declare a variable; for a matrix, reserve rows in scratch."""
        dims = self.layout.dims(message.shape)
        if len(dims) == 2:
            target = self.scratch_matrix(*dims)
        else:
            target = Value("row", name, dims[0]) if dims else Value("scalar", name)
        self.clear_accumulator(target, message, reducer, block)
        return target

    def clear_accumulator(self, target: Value, message: Expression, reducer: Reducer, block: Block) -> None:
        """Set a variable, or rows in scratch."""
        if target.kind == "matrix":
            i = self.fresh("i")
            block.line(f"for {i} in range({target.rows}):")
            block.line(f"    store(scratch, {target.row_start(i)}, {self.identity_row(reducer, target.lanes)})")
        else:
            text = identity(reducer) if target.kind == "scalar" else self.identity_row(reducer, target.lanes)
            block.line(f"{target.text} = {text}")

    def resume_accumulator(
        self, name: str, kept: Value, message: Expression, reducer: Reducer, fresh: str, block: Block
    ) -> Value:
        """Declare a variable."""
        neutral = self.identity_row(reducer, kept.lanes) if kept.kind == "row" else identity(reducer)
        block.line(f"{name} = {neutral} if {fresh} else {kept.text}")
        return Value(kept.kind, name, kept.lanes)

    def accumulate(self, target: Value, message: Expression, reducer: Reducer, block: Block) -> None:
        """Reduce into a variable, or row by row into memory."""
        if target.kind == "matrix":
            i = self.fresh("i")
            row, prelude = self.row_of(message, i)
            place = target.row_start(i)
            old = f"{self.maker('load', target.lanes)}({target.array}, {place})"
            block.line(f"for {i} in range({target.rows}):").inner(prelude)
            block.line(f"    store({target.array}, {place}, {self.combined(reducer, old, row)})")
            return
        new = self.lower(message).text
        if target.kind == "row" and target.array:
            old = f"{self.maker('load', target.lanes)}({target.array}, {target.text})"
            block.line(f"store({target.array}, {target.text}, {self.combined(reducer, old, new)})")
        elif target.kind == "row":
            block.line(f"{target.text} = {self.combined(reducer, target.text, new)}")
        else:
            place = f"{target.array}[{target.text}]" if target.array else target.text
            block.line(f"{place} = {combined_scalar(reducer, place, new)}")

    @staticmethod
    def combined(reducer: Reducer, old: str, new: str) -> str:
        """Return the text of one reduction step on rows."""
        if reducer in ("sum", "prod"):
            return f"{old} {'+' if reducer == 'sum' else '*'} {new}"
        return f"{ROW_FUNCTION[reducer]}({old}, {new})"

    def store(self, array: str, index: str, node: Expression, value: Value, block: Block) -> None:
        """Write a scalar, a row, or a matrix row by row."""
        start = self.start(index, node)
        if value.kind == "scalar":
            block.line(f"{array}[{start}] = {value.text}")
        elif value.kind == "row":
            block.line(f"store({array}, {start}, {value.text})")
        else:
            i, stride = self.fresh("i"), self.layout.stride(node.shape) // value.rows
            block.line(f"for {i} in range({value.rows}):")
            block.line(f"    store({array}, {start} + {i} * {stride}, {self.load_row(value, i)})")

    def differs(self, old: Value, new: Value, block: Block, tolerance: str | None, relative: bool) -> str:
        """Return the condition that any feature differs."""
        if new.kind == "scalar":
            return far(old.text, new.text, tolerance, relative)
        if tolerance is None:
            return f"reduce_any({new.text} != {old.text})"
        margin = f"{tolerance} * absolute({new.text})" if relative else tolerance
        near = f"absolute({new.text} - {old.text}) <= {margin}"
        return f"reduce_any(({new.text} != {old.text}) & ~({near}))"


def combined_scalar(reducer: Reducer, old: str, new: str) -> str:
    """Return the text of one reduction step on scalars."""
    return scalar_operation({"sum": "add", "prod": "mul", "min": "min", "max": "max"}[reducer], [old, new])
