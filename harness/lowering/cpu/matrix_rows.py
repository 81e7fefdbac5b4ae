"""Matrices as consecutive rows in memory: elementwise work row by row, products, solves."""

from __future__ import annotations

from abc import abstractmethod

from harness.language.expressions import Expression
from harness.lowering.cpu.code import Block, Value
from harness.lowering.cpu.mapping import ELEMENTWISE, FIRST, Mapping, stem
from harness.lowering.layout import row_stride


class MatrixRows(Mapping):
    """The matrix half of the rows mapping."""

    @abstractmethod
    def row_operation(self, op: str, args: list[str], rows: list[bool], lanes: int) -> str:
        """Return the text of an elementwise operation with at least one row argument."""

    @abstractmethod
    def normalized(self, x: str, kind: str, home: Block) -> str:
        """Return the text of a normalised row."""

    @staticmethod
    def _stem(node: Expression) -> str:
        return stem(node)

    def scratch_matrix(self, rows: int, lanes: int) -> Value:
        """Return a new matrix in scratch."""
        stride = row_stride(lanes)
        return Value("matrix", self.scratch(rows * stride), lanes, rows, stride, "scratch")

    def load_row(self, matrix: Value, i: str) -> str:
        """Return the text that reads row ``i``."""
        return f"{self.maker('load', matrix.lanes)}({matrix.array}, {matrix.row_start(i)})"

    def matrix(self, node: Expression, home: Block) -> Value:
        """Lower a matrix: in place if it is a property, else computed into scratch."""
        if node.op == "read":
            place = self.locate(*node.attribute)
            return place.value if place.value is not None else self.in_memory(place.array, place.index, node)
        return self.copied(node, home)

    def copied(self, node: Expression, home: Block) -> Value:
        """Return a matrix in scratch of its own, which may be overwritten."""
        if node.op == "inverse":
            target = self.copied(node.args[0], home)
            home.line(f"{self.maker('inverse', target.lanes)}(scratch, {target.text}, {target.stride})")
            return target
        rows, lanes = self.layout.dims(node.shape)
        target = self.scratch_matrix(rows, lanes)
        if node.op == "transpose":
            source, i, j = self.lower(node.args[0]), self.fresh("i"), self.fresh("j")
            home.line(f"for {i} in range({rows}):").line(f"    for {j} in range({lanes}):")
            element = f"at({source.array}, {source.row_start(j)} + {i})"
            home.line(f"        scratch[{target.row_start(i)} + {j}] = {element}")
        elif node.op == "stack":
            for at, arg in enumerate(node.args):
                home.line(f"store(scratch, {target.row_start(str(at))}, {self.lower(arg).text})")
        else:
            i = self.fresh("i")
            row, prelude = self.row_of(node, i)
            home.line(f"for {i} in range({rows}):").inner(prelude)
            home.line(f"    store(scratch, {target.row_start(i)}, {row})")
        return target

    def row_of(self, node: Expression, i: str) -> tuple[str, list[str]]:
        """Return the text of row ``i`` of a matrix, and the lines to run before it in the loop over rows."""
        lanes = self.layout.dims(node.shape)[1]
        match node.op:
            case op if op in ELEMENTWISE:
                return self._elementwise_row(node, i, lanes)
            case "outer":
                left = self.spilled(node.args[0])
                return f"(at({left.array}, {left.text} + {i}) * {self.lower(node.args[1]).text})", []
            case "eye":
                return f"{self.maker('unit', lanes)}({i})", []
            case "full":
                return f"{self.maker('splat', lanes)}({self.lower(node.args[0]).text})", []
            case "matmul":
                return self._product_row(node, i)
            case "normalize":
                text, prelude = self.row_of(node.args[0], i)
                x, inner = self.fresh("row"), Block("row")
                whole = self.normalized(x, node.attribute, inner)
                return whole, [*prelude, f"{x} = {text}", *inner.lines]
        return self.load_row(self.lower(node), i), []

    def _elementwise_row(self, node: Expression, i: str, lanes: int) -> tuple[str, list[str]]:
        texts: list[str] = []
        prelude: list[str] = []
        for arg in node.args:
            if len(arg.shape) == 2:
                text, lines = self.row_of(arg, i)
                texts.append(f"({text})")
                prelude += lines
            else:
                texts.append(self.lower(arg).text)
        return self.row_operation(node.op, texts, [len(a.shape) == 2 for a in node.args], lanes), prelude

    def _product_row(self, node: Expression, i: str) -> tuple[str, list[str]]:
        left, right = self.lower(node.args[0]), self.lower(node.args[1])
        j, total = self.fresh("j"), self.fresh("row")
        factor = f"at({left.array}, {left.row_start(i)} + {j})"
        return total, [
            f"{total} = {self.maker('zero', right.lanes)}()",
            f"for {j} in range({right.rows}):",
            f"    {total} = fma({factor}, {self.load_row(right, j)}, {total})",
        ]

    def spilled(self, node: Expression) -> Value:
        """Return a row stored in scratch, so that its features can be read one by one."""
        home = self.home(node)
        key = f"spilled {node.key}"
        found = home.find(key)
        if found is None:
            row = self.lower(node)
            found = Value("matrix", self.scratch(row.lanes), row.lanes, 1, row.lanes, "scratch")
            home.line(f"store(scratch, {found.text}, {row.text})")
            home.known[key] = found
        return found

    def matrix_times_vector(self, node: Expression, home: Block) -> str:
        """Return the text of vector @ matrix or matrix @ vector."""
        left, right = node.args
        i, total, first = self.fresh("i"), self.fresh("product"), ""
        if len(left.shape) == 1:
            matrix, vector = self.lower(right), self.spilled(left)
            factor = f"at({vector.array}, {vector.text} + {i})"
            step = f"fma({factor}, {self.load_row(matrix, i)}, {total})"
            if node.op == "max_product":
                first = f"{self.maker('splat', matrix.lanes)}(float32(-np.inf))"
                step = f"maximum({factor} * {self.load_row(matrix, i)}, {total})"
            lanes = matrix.lanes
        else:
            matrix, row = self.lower(left), self.lower(right)
            step = f"insert({total}, {i}, dot({self.load_row(matrix, i)}, {row.text}))"
            lanes = matrix.rows
        home.line(f"{total} = {first or self.maker('zero', lanes) + '()'}")
        home.line(f"for {i} in range({matrix.rows}):").line(f"    {total} = {step}")
        return total

    def reduced_matrix(self, node: Expression, home: Block, reduce_row: str) -> str:
        """Return the text of a reduction over all elements of a matrix."""
        i, total = self.fresh("i"), self.fresh("reduced")
        text, prelude = self.row_of(node.args[0], i)
        rows = self.layout.dims(node.args[0].shape)[0]
        one = f"{reduce_row}({text})"
        joined = {
            "sum": f"{total} + {one}", "any": f"{total} or {one}", "all": f"{total} and {one}",
            "reduce_max": f"np.maximum({total}, {one})", "reduce_min": f"np.minimum({total}, {one})",
        }[node.op]  # fmt: skip
        home.line(f"{total} = {FIRST[node.op]}").line(f"for {i} in range({rows}):").inner(prelude)
        home.line(f"    {total} = {joined}")
        return total

    def solution(self, node: Expression) -> str:
        """Return the text of solve_spd(matrix, right side)."""
        home = self.home(node)
        matrix = self.copied(node.args[0], home)
        right = self.scratch(matrix.lanes)
        home.line(f"store(scratch, {right}, {self.lower(node.args[1]).text})")
        home.line(f"{self.maker('solve_spd', matrix.lanes)}(scratch, {matrix.text}, {matrix.stride}, scratch, {right})")
        return f"{self.maker('load', matrix.lanes)}(scratch, {right})"
