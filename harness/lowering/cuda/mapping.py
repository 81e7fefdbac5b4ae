"""Operations of kernels on lowered values: reduce them in registers or into memory, store them, compare them."""

from __future__ import annotations

from harness.language.expressions import Expression
from harness.language.program import IDENTITY, Reducer
from harness.lowering.cuda.code import Block, Value
from harness.lowering.cuda.elements import Location, LoopNest, literal
from harness.lowering.cuda.expressions import Lowering

__all__ = ["OPERATION", "Location", "Mapping"]
OPERATION: dict[Reducer, str] = {"sum": "Add", "min": "Min", "max": "Max"}


class Mapping(Lowering):
    """Expressions lowered for a lane group, and statements on their values."""

    # accumulators -----------------------------------------------------------------------------------------------------
    def accumulator(self, name: str, message: Expression, block: Block) -> Value:
        """Return an uninitialised local accumulator shaped like ``message``."""
        if not message.shape:
            return Value("scalar", block.declare("float", name))
        if len(message.shape) == 1:
            (length,) = self.layout.dims(message.shape)
            return Value("row", block.declare(f"Row<{length}>", name), length)
        return self.room(message, block, name)

    def clear(self, target: Value, message: Expression, reducer: Reducer, block: Block) -> None:
        """Set an accumulator to the reducer's identity."""
        identity = literal(IDENTITY[reducer])
        if target.kind == "scalar":
            block.line(f"{target.text} = {identity};")
        else:
            tile = target.kind == "tile"
            self.loop(message, block, lambda nest: f"{target.element(nest.slot, nest.row)} = {identity};", tile=tile)

    def accumulate(self, target: Value, message: Expression, reducer: Reducer, block: Block) -> None:
        """Reduce a message into a local accumulator."""
        self.prepare(message)
        if target.kind == "scalar":
            block.line(combined(reducer, target.text, self.lower(message).text))
            return
        self.loop(
            message, block,
            lambda nest: combined(reducer, target.element(nest.slot, nest.row), self.element(message, nest)),
            tile=target.kind == "tile",
        )  # fmt: skip

    def reduce_into(
        self, array: str, index: str, message: Expression, reducer: Reducer, block: Block, *, taken: str = ""
    ) -> None:
        """Reduce a message, atomically, into memory that other threads write at the same time.

        ``taken`` (only extrema, at most a row): declare a bool variable of this name, whether any feature, of those
        that this lane holds, replaced another.
        """
        operation, start = OPERATION[reducer], self.start(array, index, message)
        if taken:
            assert reducer != "sum", "a sum takes every message"
            block.declare("bool", taken, "false", constant=False)
        if taken and self.feature_aware:
            assert len(message.shape) < 2, "no program has extrema of matrices"
            value = self.materialised(message) if message.shape else self.lower(message).text
            row = f", {self.layout.stride(message.shape)}" if message.shape else ""
            block.line(f"{taken} = offer_to<{operation}{row}>(group, {start}, {value});")
            return
        if taken and not message.shape:
            block.line(f"{taken} = {operation}::into({start}, {self.lower(message).text});")
        elif not message.shape:
            block.line(f"reduce_into<{operation}>(group, {start}, {self.lower(message).text});")
        elif not self.feature_aware:
            self._features_into(f"{taken} |= {operation}" if taken else operation, start, message, block)
        elif len(message.shape) == 1:
            stride = self.layout.stride(message.shape)
            block.line(f"reduce_into<{operation}, {stride}>(group, {start}, {self.materialised(message)});")
        else:
            self._matrix_into(operation, start, message, block)

    def _features_into(self, operation: str, start: str, message: Expression, block: Block) -> None:
        """Reduce feature by feature, one atomic operation each; ``operation``: its name, and the use of its result."""
        self.prepare(message)
        target = block.declare("float*", self.fresh("target"), start)
        if len(message.shape) == 1:
            at = "{0.slot}"
        else:
            at = f"{{0.row}} * {self.layout.row_stride(self.layout.dims(message.shape)[1])} + {{0.slot}}"
        self.loop(
            message, block,
            lambda nest: f"{operation}::into({target} + {at.format(nest)}, {self.element(message, nest)});",
        )  # fmt: skip

    def _matrix_into(self, operation: str, start: str, message: Expression, block: Block) -> None:
        """Reduce row by row."""
        self.prepare(message)
        rows, length = self.layout.dims(message.shape)
        stride, nest = self.layout.row_stride(length), LoopNest("f", "i")
        element = self.element(message, nest)
        loop = "ROWS" if self.in_registers(rows, length) else "LOOP"
        row = f"Row<{length}> row; FEATURES(f, {length}) row[f] = {element};"
        into = f"reduce_into<{operation}, {stride}>(group, {start} + i * {stride}, row);"
        block.line(f"{loop}(i, {rows}) {{ {' '.join(nest.before)} {row} {into} }}")

    def fill_identity(self, array: str, index: str, message: Expression, reducer: Reducer, block: Block) -> None:
        """Set an accumulator in memory to the reducer's identity (with features in a loop)."""
        assert not self.feature_aware, "a lane would have to know which features it holds"
        start, value = self.start(array, index, message), literal(IDENTITY[reducer])
        if not message.shape:
            block.line(f"{array}[{index}] = {value};")
            return
        target = block.declare("float*", self.fresh("target"), start)
        stride = self.layout.row_stride(self.layout.dims(message.shape)[-1])
        row = f"{{}} * {stride} + " if len(message.shape) == 2 else ""
        self.loop(message, block, lambda nest: f"{target}[{row.format(nest.row)}{nest.slot}] = {value};", tile=True)

    def is_identity(self, message: Expression, reducer: Reducer, block: Block) -> str:
        """Declare a bool variable: whether a message is the reducer's identity in all features, a no-op."""
        identity = literal(IDENTITY[reducer])
        if not message.shape:
            return block.declare("bool", self.fresh("silent"), f"{self.lower(message).text} == {identity}")
        self.prepare(message)
        name = block.declare("bool", self.fresh("silent"), "true", constant=False)
        self.loop(message, block, lambda nest: f"{name} = {name} && {self.element(message, nest)} == {identity};")
        return name

    def store(self, array: str, index: str, node: Expression, value: Value, block: Block) -> None:
        """Write a value to ``array`` at ``index``."""
        start, dims = self.start(array, index, node), self.layout.dims(node.shape)
        if value.kind == "scalar":
            if self.lane_group.lanes > 1 and array in self.read_by_all:
                block.line("group.sync();  // a lane may have yet to read what the leader is about to write")
            block.line(f"if (group.leads()) {array}[{index}] = {value.text};")
            return
        stride = self.layout.row_stride(dims[-1])
        if value.kind in ("row", "in_memory"):
            text = value.text if value.kind == "row" else f"load<{value.length}, {stride}>(group, {value.text})"
            block.line(f"store<{dims[0]}, {stride}>(group, {start}, {text});")
        else:
            loop = "ROWS" if value.kind == "matrix" else "LOOP"
            whole = f"{value.text}.whole(group, i)"
            block.line(f"{loop}(i, {dims[0]}) store<{dims[1]}, {stride}>(group, {start} + i * {stride}, {whole});")

    def differs(self, old: Expression, new: Value, block: Block, tolerance: str | None, relative: bool) -> str:
        """Declare a bool variable: whether any feature of two values differs, at all or by more than ``tolerance``."""
        before = self.lower(old)

        def one(a: str, b: str) -> str:
            if tolerance is None or old.dtype == "bool":
                return f"differs({a}, {b})"
            return f"far({a}, {b}, {f'{tolerance} * fabsf({b})' if relative else tolerance})"

        name = self.fresh("moved" if tolerance else "changed")
        if new.kind == "scalar":
            return block.declare("bool", name, one(before.text, new.text))
        text, test = block.declare("bool", name, "false", constant=False), one(before.element("f"), new.element("f"))
        if not self.feature_aware:
            block.line(f"FEATURES(f, {new.length}) {text} = {text} || {test};")
            return text
        block.line(f"FEATURES(f, {new.length}) {text} |= group.holds(f, {new.length}) & {test};")
        block.line(f"{text} = any(group, {text});")
        return text


def combined(reducer: Reducer, old: str, new: str) -> str:
    """Return the statement that reduces ``new`` into ``old``."""
    return f"{old} += {new};" if reducer == "sum" else f"{old} = {OPERATION[reducer]}()({old}, {new});"
