"""Replace long rows strip by strip: an update that reads several rows, reduces them, and then writes some of them.

All rows of an update at once do not fit the vector registers once they are long, and every operand then makes a detour
through the stack. In strips, a pass over the features computes the reductions that need no other ones, such as a dot
product; the next those that need these; the last one loads the rows again and writes the results.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harness.language.expressions import Expression
from harness.lowering.cpu.code import Block
from harness.lowering.cpu.code import Value as Lowered
from harness.lowering.cpu.mapping import ELEMENTWISE
from harness.lowering.cpu.modules import processor
from harness.lowering.cpu.rows_mapping import RowsMapping

# Rows of at most WHOLE features are in registers at once. A strip that is written has the lanes of one register, as it
# holds several rows, results and sums. One that is only reduced has several: so additions do not wait for each other.
# Updates of SGD per second of processor time over those of whole rows, on an AVX2 processor (16 registers of 8 lanes),
# 1 M ratings: k = 128, rates=power 1.44, rates=twin 1.39 (with strips of 16 lanes 1.42 and 1.14); k = 32, strips of 16:
# 0.7 and 0.93. On an AVX-512 processor (Zen 5), strips of 16 lanes over those of 8, k = 128: rates=power 1.8, twin 1.6
# (32 lanes 1.8 and 1.5).
WHOLE, REDUCED = 32, 32
AVX2_LANES, AVX512_LANES = 8, 16  # float32 of a register
REDUCTIONS = ("sum", "dot")


def updated_lanes() -> int:
    """Return the lanes of a strip that is written: the float32 of a vector register of this processor."""
    return AVX512_LANES if "+avx512vl" in processor()[1].split(",") else AVX2_LANES


@dataclass(frozen=True)
class Store:
    """A value that replaces the one in ``array`` at vertex or edge ``index``."""

    array: str
    index: str
    node: Expression


@dataclass(frozen=True)
class Strips:
    """``count`` strips of ``lanes`` features from feature ``start`` on."""

    start: int
    lanes: int
    count: int


def strips_of(features: int, lanes: int) -> list[Strips]:
    """Return whole strips of ``lanes`` features, and the rest."""
    whole, rest = divmod(features, lanes)
    found = [Strips(0, lanes, whole), Strips(whole * lanes, rest, 1)]
    return [strips for strips in found if strips.lanes and strips.count]


class StripWriter:
    """Write stores of an update into a block. All of them read the values from before the update."""

    def __init__(self, mapping: RowsMapping, block: Block, stores: Sequence[Store]) -> None:
        self.mapping, self.block, self.stores = mapping, block, stores
        self._depths: dict[str, int] = {}

    # suitability ------------------------------------------------------------------------------------------------------
    @property
    def features(self) -> int:
        """The length of the rows; 0 if no row is written."""
        return max((self.mapping.layout.dims(store.node.shape)[0] for store in self._rows()), default=0)

    def refusal(self) -> str:
        """Return the first operation that strips cannot express; empty if there is none."""
        for node in self._inner():
            if len(node.shape) > 1 or (node.shape and self.mapping.layout.dims(node.shape) != (self.features,)):
                return f"{node.op} of another shape than the rows"
            if node.op == "read" and node.shape and self.mapping.locate(*node.attribute).value is not None:
                return "a row that is not in memory"
            if node.shape and node.op not in ELEMENTWISE | {"read", "full"}:
                return node.op
            reduces = not node.shape and any(arg.shape for arg in node.args)
            if reduces and self._within(node) and node.op not in REDUCTIONS:
                return node.op
        return ""

    def _rows(self) -> list[Store]:
        return [store for store in self.stores if store.node.shape]

    def _inner(self) -> Iterator[Expression]:
        """Yield the expressions of all stores that are computed for each update."""
        seen: set[str] = set()
        waiting = [store.node for store in self.stores]
        while waiting:
            node = waiting.pop()
            if node.key not in seen and (node.shape or self._within(node)):
                seen.add(node.key)
                yield node
                waiting += node.args

    def _within(self, node: Expression) -> bool:
        """Return whether a value differs between updates."""
        return self.mapping.home(node) is self.block

    # passes -----------------------------------------------------------------------------------------------------------
    def write(self) -> None:
        """Write all passes, then the scalars."""
        reductions = [node for node in self._inner() if not node.shape and node.op in REDUCTIONS]
        depths = [self._depth(node) for node in reductions]
        last = max([*depths, *(self._depth(store.node) + 1 for store in self._rows())])
        for depth in range(1, last + 1):
            reduced = [node for node, own in zip(reductions, depths, strict=True) if own == depth]
            self._pass(reduced, self._rows() if depth == last else [])
        scalars = [store for store in self.stores if not store.node.shape]
        values = [self.mapping.lower(store.node) for store in scalars]
        for store, value in zip(scalars, values, strict=True):
            self.mapping.store(store.array, store.index, store.node, value, self.block)

    def _depth(self, node: Expression) -> int:
        """Return how many passes come before a value is known: 0 for one without reductions."""
        if node.key not in self._depths:
            reduces = not node.shape and node.op in REDUCTIONS and self._within(node)
            inner = max(map(self._depth, node.args), default=0) if node.shape or self._within(node) else 0
            self._depths[node.key] = inner + reduces
        return self._depths[node.key]

    def _pass(self, reduced: Sequence[Expression], stores: Sequence[Store]) -> None:
        self._lower_scalars([*(arg for node in reduced for arg in node.args), *(store.node for store in stores)])
        sums: dict[str, list[str]] = {node.key: [] for node in reduced}
        for strips in strips_of(self._features_of(reduced), updated_lanes() if stores else REDUCED):
            self._strips(strips, reduced, stores, sums)
        for node in reduced:
            name = self.mapping.fresh("reduced")
            self.block.line(f"{name} = {' + '.join(f'reduce_sum({each})' for each in sums[node.key])}")
            self.block.known[node.key] = Lowered("scalar", name)

    def _features_of(self, reduced: Sequence[Expression]) -> int:
        found = [self.mapping.layout.dims(arg.shape)[0] for node in reduced for arg in node.args]
        return max([self.features, *found])

    def _lower_scalars(self, nodes: Sequence[Expression]) -> None:
        """Compute, before the loop over strips, the scalars that its rows are computed from."""
        for node in nodes:
            if node.shape:
                self._lower_scalars(node.args)
            else:
                self.mapping.lower(node)

    def _strips(
        self, strips: Strips, reduced: Sequence[Expression], stores: Sequence[Store], sums: dict[str, list[str]]
    ) -> None:
        mapping, inside = self.mapping, Strip(self.mapping, strips)
        results = [(store, inside.row(store.node)) for store in stores]
        for node in reduced:
            name = mapping.fresh("sums")
            self.block.line(f"{name} = {mapping.maker('zero', strips.lanes)}()")
            sums[node.key].append(name)
            inside.lines.append(f"{name} = {name} + {' * '.join(inside.row(arg) for arg in node.args)}")
        inside.lines += [f"store({one.array}, {inside.start(one.index, one.node)}, {row})" for one, row in results]
        if strips.count > 1:
            self.block.line(f"for {inside.number} in range({strips.count}):").inner(inside.lines)
        else:
            self.block.lines += inside.lines


class Strip:
    """The lines that compute rows in one strip of a loop."""

    def __init__(self, mapping: RowsMapping, strips: Strips) -> None:
        self.mapping, self.strips = mapping, strips
        self.number = mapping.fresh("strip")
        self.lines: list[str] = []
        self._known: dict[str, str] = {}

    def start(self, index: str, node: Expression) -> str:
        """Return the text of the first element of the strip in the value of vertex or edge ``index``."""
        strips = self.strips
        inner = f"{self.number} * {strips.lanes}" if strips.count > 1 else str(strips.start)
        return f"{self.mapping.start(index, node)} + {inner}"

    def row(self, node: Expression) -> str:
        """Return the variable with the strip's lanes of a row, or with a scalar."""
        if not node.shape:
            return self.mapping.lower(node).text
        if node.key not in self._known:
            text, name = self._text(node), self.mapping.fresh("part")
            self.lines.append(f"{name} = {text}")
            self._known[node.key] = name
        return self._known[node.key]

    def _text(self, node: Expression) -> str:
        mapping, lanes = self.mapping, self.strips.lanes
        if node.op == "read":
            place = mapping.locate(*node.attribute)
            return f"{mapping.maker('load', lanes)}({place.array}, {self.start(place.index, node)})"
        if node.op == "full":
            return f"{mapping.maker('splat', lanes)}({self.row(node.args[0])})"
        operands, rows = [self.row(arg) for arg in node.args], [bool(arg.shape) for arg in node.args]
        if node.op == "where" and not node.args[0].shape:
            spread = [text if row else f"{mapping.maker('splat', lanes)}({text})"
                      for text, row in zip(operands[1:], rows[1:], strict=True)]  # fmt: skip
            return f"{spread[0]} if {operands[0]} else {spread[1]}"
        return mapping.row_operation(node.op, operands, rows, lanes)
