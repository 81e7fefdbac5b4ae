"""Lower expressions to CUDA C++ for a lane group.

One text serves both mappings: a loop over the slots that a lane holds. With features across lanes (FA) there are few
slots, in registers. With features in a loop (NFA) there is a slot for every feature, rows of properties are read in
memory, and the lane group is one thread. Elementwise trees become one loop; operations across lanes are functions of
``lane_groups.cuh`` or ``matrices.cuh``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager

from harness.language.expressions import Expression, walk
from harness.lowering.cuda.code import Block, Value
from harness.lowering.cuda.elements import INLINE, Elements, LoopNest, literal, scalar_operation

REDUCTION = {"sum": "Add", "dot": "Add", "reduce_max": "Max", "reduce_min": "Min"}
ENDS = ("src", "dst")  # of an edge, whose values other lane groups may be writing
MOST_REGISTERS = 64  # of a lane for one matrix; larger ones are in shared memory


class Lowering(Elements):
    """Scalars, rows and matrices in variables."""

    def lower(self, node: Expression) -> Value:
        """Return the value of ``node`` in a variable, computed in its home block or already known there."""
        home = self.home(node)
        found = home.find(node.key)
        if found is None:
            found = (self._scalar, self._row, self._matrix)[len(node.shape)](node, home)
            home.known[node.key] = found
        return found

    # scalars ----------------------------------------------------------------------------------------------------------
    def _scalar(self, node: Expression, home: Block) -> Value:
        kind = "float" if node.dtype == "float" else "bool"
        match node.op:
            case "const":
                return Value("scalar", literal(node.attribute))
            case "param":
                self.reads_parameters = True
                at = f"parameters[{self.parameters.index(node.attribute)}]"
                text = at if node.dtype == "float" else f"{at} != 0.0f"
            case "read":
                place = self.locate(*node.attribute)
                if place.value is not None:
                    return place.value
                self.read_by_all.add(place.array)
                text = f"{place.array}[{place.index}]"
                if self.coherent and node.dtype == "float" and node.attribute[0] in ENDS:
                    text = f"seen({place.array} + {place.index})"
            case op if op in INLINE:
                text = scalar_operation(node, [self.lower(arg).text for arg in node.args])
            case "index":
                text = self._row_element(node.args[0], str(node.attribute))
            case "sum" if node.args[0].op == "full" and node.args[0].args[0].op == "const":
                of = node.args[0]
                return Value("scalar", literal(of.args[0].attribute * math.prod(self.layout.dims(of.shape))))
            case _:
                return self._contraction(node, home)
        return Value("scalar", home.declare(kind, self.fresh(stem(node)), text))

    def _row_element(self, row: Expression, index: str) -> str:
        value = self.lower(row)
        return f"{value.text}[{index}]" if value.kind == "in_memory" else f"pick(group, {value.text}, {index})"

    def _contraction(self, node: Expression, home: Block) -> Value:
        """Return a scalar computed by a loop over what the lane holds, then across the lane group."""
        for arg in node.args:
            self.prepare(arg)
        whole = node.args[0]
        length = self.layout.dims(whole.shape)[-1]
        name = self.fresh(stem(node))
        if node.op in ("any", "all"):
            text = home.declare("bool", name, "false" if node.op == "any" else "true", constant=False)

            def step(nest: LoopNest) -> str:  # no element waits for the previous one, as it would with || and &&
                held, element = f"group.holds({nest.slot}, {length})", self.element(whole, nest)
                return f"{text} |= {held} & ({element});" if node.op == "any" else f"{text} &= !{held} | ({element});"

            self.loop(whole, home, step)
            home.line(f"{text} = {'any(group, ' + text + ')' if node.op == 'any' else '!any(group, !' + text + ')'};")
            return Value("scalar", text)
        operation = REDUCTION[node.op]
        text = home.declare("float", name, f"{operation}::identity()", constant=False)

        def reduce(nest: LoopNest) -> str:
            elements = " * ".join(self.element(arg, nest) for arg in node.args)
            return f"if (group.holds({nest.slot}, {length})) {text} = {operation}()({text}, {elements});"

        self.loop(whole, home, reduce)
        home.line(f"{text} = across(group, {text}, {operation}());")
        return Value("scalar", text)

    # rows -------------------------------------------------------------------------------------------------------------
    def _row(self, node: Expression, home: Block) -> Value:
        (length,) = self.layout.dims(node.shape)
        kind = f"Row<{length}>" if node.dtype == "float" else f"Row<{length}, bool>"
        name = self.fresh(stem(node))
        match node.op:
            case "read":
                return self._read_row(node, home, kind, name, length)
            case "normalize":
                argument = self.materialised(node.args[0])
                return Value("row", home.declare(kind, name, f"normalized_{node.attribute}(group, {argument})"), length)
            case "matmul" | "max_product":
                function = "max_times" if node.op == "max_product" else "times"
                left, right = (
                    self.materialised(arg) if len(arg.shape) == 1 else self.lower(arg).text for arg in node.args
                )
                return Value("row", home.declare(kind, name, f"{function}(group, {left}, {right})"), length)
            case "solve_spd":
                right = self.materialised(node.args[1])
                matrix = self._own_matrix(node.args[0], home)
                return Value("row", home.declare(kind, name, f"solve_spd(group, {matrix.text}, {right})"), length)
            case "index":
                matrix = self.lower(node.args[0])
                return Value("row", home.declare(kind, name, f"{matrix.text}.whole(group, {node.attribute})"), length)
            case "stack":
                values = [self.lower(arg).text for arg in node.args]
                text = home.declare(kind, name, f"filled<{length}>(0.0f)", constant=False)
                for i, value in enumerate(values):
                    home.line(f"place(group, {text}, {i}, {value});")
                return Value("row", text, length)
        if node.op == "where":
            rare = self.seldom(node)
            if rare is not None:
                return self._row_seldom(node, rare, home, kind, name)
        self.prepare(node)
        text = home.declare(kind, name)
        self.loop(node, home, lambda nest: f"{text}[{nest.slot}] = {self.element(node, nest)};")
        return Value("row", text, length)

    def _row_seldom(self, node: Expression, rare: int, home: Block, kind: str, name: str) -> Value:
        """Return one side of a ``where``, which the other side replaces if it is chosen.

        The other side is read and computed only if the lane group, or the lane for any of its features, chooses it. Its
        frequency depends on values, so no access is recorded.
        """
        usual, chosen = node.args[3 - rare], node.args[rare]
        (length,) = self.layout.dims(node.shape)
        condition = self._chosen_by_lane(node.args[0], home) if node.args[0].shape else self.lower(node.args[0]).text
        self.prepare(usual)
        text = home.declare(kind, name)
        self.loop(node, home, lambda nest: f"{text}[{nest.slot}] = {self.element(usual, nest)};")
        test = condition if rare == 1 else f"!{condition}"
        if chosen.op == "read":
            place = self.locate(*chosen.attribute)
            start, stride = self.start(place.array, place.index, chosen), self.layout.stride(chosen.shape)
            home.line(f"if ({test}) {text} = load<{length}, {stride}>(group, {start});")
            return Value("row", text, length)
        inner = Block(f"{home.name} seldom", parent=home)
        with self._read_in(inner, chosen):
            self.prepare(chosen)
            self.loop(node, inner, lambda nest: f"{text}[{nest.slot}] = {self.element(chosen, nest)};")
        home.line(f"if ({test}) {{")
        home.lines += inner.lines
        home.line("}")
        return Value("row", text, length)

    def _chosen_by_lane(self, condition: Expression, home: Block) -> str:
        """Declare a bool variable: whether a condition holds for any of the lane's features."""
        self.prepare(condition)
        (length,) = self.layout.dims(condition.shape)
        name = home.declare("bool", self.fresh("chosen"), "false", constant=False)
        self.loop(
            condition, home,
            lambda nest: f"{name} |= group.holds({nest.slot}, {length}) & ({self.element(condition, nest)});",
        )  # fmt: skip
        return name

    @contextmanager
    def _read_in(self, inner: Block, node: Expression) -> Iterator[None]:
        """Read rows of ``node`` that nothing has read yet in a block of its own."""
        homes = dict(self._homes)
        rows = [n for n in walk(node) if n.op == "read" and len(n.shape) == 1 and self.home(n).find(n.key) is None]
        self._homes = {key: home for key, home in self._homes.items() if key not in {n.key for n in walk(node)}}
        self._homes |= {row.key: inner for row in rows}
        yield
        self._homes = homes

    def _read_row(self, node: Expression, home: Block, kind: str, name: str, length: int) -> Value:
        place = self.locate(*node.attribute)
        if place.value is not None:
            return place.value
        start, stride = self.start(place.array, place.index, node), self.layout.stride(node.shape)
        if self._lies(node):
            flag = "const bool*" if node.dtype == "bool" else "const float*"
            return Value("in_memory", home.declare(flag, name, start), length)
        return Value("row", home.declare(kind, name, f"load<{length}, {stride}>(group, {start})"), length)

    def materialised(self, node: Expression) -> str:
        """Return a row in a variable of slots, even if it is in memory."""
        value = self.lower(node)
        if value.kind != "in_memory":
            return value.text
        home, key = self.home(node), f"loaded {node.key}"
        found = home.find(key)
        if found is None:
            stride = self.layout.stride(node.shape)
            text = home.declare(
                f"Row<{value.length}>", self.fresh("loaded"), f"load<{value.length}, {stride}>(group, {value.text})"
            )
            found = home.known[key] = Value("row", text, value.length)
        return found.text

    def kept(self, node: Expression) -> Value:
        """Return the value of ``node`` in a variable, outside of any array that is about to be written."""
        value = self.lower(node)
        if value.kind == "in_memory":
            return Value("row", self.materialised(node), value.length)
        if value.kind == "tile" and node.op == "read":
            return self._own_matrix(node, self.home(node))
        return value

    # matrices ---------------------------------------------------------------------------------------------------------
    def in_registers(self, rows: int, length: int) -> bool:
        """Return whether a matrix is small enough for registers."""
        return self.feature_aware and rows * self.lane_group.slots(length) <= MOST_REGISTERS

    def room(self, shape_of: Expression, block: Block, name: str, *, tile: bool = False) -> Value:
        """Declare an uninitialised matrix: in registers, or (if large or requested) a tile of the lane group's own."""
        rows, length = self.layout.dims(shape_of.shape)
        if not tile and self.in_registers(rows, length):
            return Value("matrix", block.declare(f"Matrix<{rows}, {length}>", name), length, rows)
        stride = self.lane_group.slots(length) * self.lane_group.lanes
        at = f"tiles + {self.tile_floats}" if self.tile_floats else "tiles"
        self.tile_floats += -(-rows * stride // 4) * 4
        self.root.line(f"Tile<{rows}, {length}, {stride}> {name}{{{at}}};")
        return Value("tile", name, length, rows)

    def _matrix(self, node: Expression, home: Block) -> Value:
        rows, length = self.layout.dims(node.shape)
        name = self.fresh(stem(node))
        match node.op:
            case "read":
                place = self.locate(*node.attribute)
                if place.value is not None:
                    return place.value
                stride = self.layout.row_stride(length)
                start = self.start(place.array, place.index, node)
                kind = f"Tile<{rows}, {length}, {stride}, const float>"
                return Value("tile", home.declare(kind, name, f"{kind}{{{start}}}"), length, rows)
            case "transpose" | "inverse":
                source = self._tile(node.args[0], home)
                if node.op == "inverse":
                    home.line(f"invert(group, {source.text});")
                    return source
                target = self.room(node, home, name, tile=True)
                home.line(f"transpose(group, {source.text}, {target.text});")
                return target
            case "matmul":
                left, right = (self.lower(arg).text for arg in node.args)
                target = self.room(node, home, name)
                home.line(f"multiply(group, {left}, {right}, {target.text});")
                return target
            case "normalize":
                return self._normalized_matrix(node, home, name)
            case "stack":
                for arg in node.args:
                    self.prepare(arg)
                target = self.room(node, home, name)
                for i, arg in enumerate(node.args):
                    element = self.element(arg, LoopNest("f"))
                    home.line(f"FEATURES(f, {length}) {target.text}(group, {i}, f) = {element};")
                return target
        return self._filled(node, self.room_after(node, home, name), home)

    def room_after(self, node: Expression, home: Block, name: str, *, tile: bool = False) -> Value:
        """Declare a matrix whose elements are lowered first."""
        self.prepare(node)
        return self.room(node, home, name, tile=tile)

    def _filled(self, node: Expression, target: Value, home: Block) -> Value:
        self.loop(
            node, home, lambda nest: f"{target.element(nest.slot, nest.row)} = {self.element(node, nest)};",
            tile=target.kind == "tile",
        )  # fmt: skip
        return target

    def _normalized_matrix(self, node: Expression, home: Block, name: str) -> Value:
        rows, length = self.layout.dims(node.shape)
        argument = node.args[0]
        target = self.room_after(argument, home, name)
        nest = LoopNest("f", "i")
        element = self.element(argument, nest)
        loop = "LOOP" if target.kind == "tile" else "ROWS"
        home.line(f"{loop}(i, {rows}) {{ {' '.join(nest.before)} Row<{length}> row; FEATURES(f, {length}) row[f] = ")
        home.lines[-1] += f"{element}; row = normalized_{node.attribute}(group, row); "
        home.lines[-1] += f"FEATURES(f, {length}) {target.text}(group, i, f) = row[f]; }}"
        return target

    def _own_matrix(self, node: Expression, home: Block) -> Value:
        """Return a matrix that may be overwritten: that of an accumulator without further readers, or a new one."""
        for read in walk(node):
            held = (
                self.locate(*read.attribute).value
                if read.op == "read" and read.attribute in self.overwritable
                else None
            )
            if held is not None and held.kind == "tile":
                self.prepare(node)
                return held if read is node else self._filled(node, held, home)
        target = self.room_after(node, home, self.fresh("own"))
        return self._filled(node, target, home)

    def _tile(self, node: Expression, home: Block) -> Value:
        """Return a matrix in a tile of its own, which may be overwritten and indexed by any row."""
        target = self.room_after(node, home, self.fresh("tile"), tile=True)
        return self._filled(node, target, home)


def stem(node: Expression) -> str:
    """Return a readable prefix for a variable name."""
    if node.op == "read":
        space, name = node.attribute
        return name if space in ("v", "dst", "graph") else f"{space}_{name}"
    words = {"sum": "total", "float": "number", "and": "both", "or": "either", "not": "none"}
    return str(node.attribute) if node.op == "param" else words.get(node.op, node.op)
