"""Loops that reduce messages into local accumulators, written so that few operations wait for each other.

A sum adds a term to the result of the addition before it, and a minimum of rows takes several operations. Several
accumulators that take the messages in turn do not wait for each other. A float32 sum of many terms is also taken in
runs. If the test for the end of a run is in the loop over terms, LLVM replaces its branch by selections, which every
addition then waits for. The runs therefore have a loop of their own.

Feature diffusion with one feature on an R-MAT graph of 2^18 vertices, one thread: 2.0 ns per edge with the test in the
loop, 1.4 with a loop over runs, 1.26 with four accumulators. On cnr-2000 1.7, 1.0 and 0.8.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from harness.language.expressions import Expression
from harness.language.program import Reducer
from harness.lowering.cpu.code import Block, Value
from harness.lowering.cpu.mapping import Mapping
from harness.lowering.cpu.rows_mapping import RowsMapping, combined_scalar
from harness.lowering.cpu.templates import TemplateLoop

# A float32 sum of n equal terms is off by 1.5e-5 for n = 10^3, 1.4e-4 for 10^4, 1.4e-3 for 10^5 (many leaves of a hub
# send the same value); in runs of 256 by 3e-6, 3e-6 and 6e-6.
RUN = 256  # terms of one accumulator
CHAINS = 4  # accumulators
# Features of a row. With 16, manifold ranking, whose edges have rows, took 1.07 times as long with four accumulators as
# with one (R-MAT 16).
LONGEST = 8


@dataclass(frozen=True)
class Reduced:
    """A local accumulator of a loop; ``carry``: the sum of its runs, None if there is one run or no sum."""

    target: Value
    message: Expression
    reducer: Reducer
    carry: Value | None


@dataclass
class ReductionLoop:
    """A loop of a template over ``at``, whose body has the block ``block``, and its accumulators.

    ``simple``: no accumulator is in memory.
    """

    at: str
    block: str
    reductions: list[Reduced] = field(default_factory=list)
    simple: bool = True

    @property
    def chains(self) -> int:
        """The number of accumulators that take the messages in turn.

        It depends on the length of the rows only: all kernels that reduce the same messages add them in one order.
        """
        short = all(one.target.lanes <= LONGEST for one in self.reductions)
        return CHAINS if self.simple and short else 1

    def written(self, template: str, mapping: Mapping) -> str:
        """Return a template with the loop in runs and over several accumulators, as far as these are needed."""
        carried = [one for one in self.reductions if one.carry is not None]
        if self.chains == 1 and not carried:
            return template
        loop = TemplateLoop.of(template, self.at, self.block)
        bounds = [f"{self.at} = {loop.first}", f"{self.at}_stop = {loop.stop}"]
        return loop.replaced([*bounds, *self._loops(loop.body, carried, mapping)])

    def _loops(self, body: list[str], carried: list[Reduced], mapping: Mapping) -> list[str]:
        at, chains = self.at, self.chains
        step = [*body, f"{at} += 1"]
        if chains == 1:
            run = [f"{at}_run = {at} + {RUN}", *_while(f"{at} < {at}_run", step), *_flushed(carried, mapping)]
            return [*_while(f"{at}_stop - {at} > {RUN}", run), *_while(f"{at} < {at}_stop", step)]
        others = [[mapping.fresh(one.target.text) for _ in range(1, chains)] for one in self.reductions]
        turns = [
            line for one, more in zip(self.reductions, others, strict=True) for line in _turn(one.target.text, more)
        ]
        begin = [
            line for one, more in zip(self.reductions, others, strict=True) for line in _cleared(one, more, mapping)
        ]  # fmt: skip
        joined = [_joined(one, more) for one, more in zip(self.reductions, others, strict=True)]
        inner = [line for _ in range(chains) for line in (*body, *turns, f"{at} += 1")]
        rest = _while(f"{at} < {at}_stop", ["not_unrolled()", *step])
        if not carried:
            return [*begin, *_while(f"{at}_stop - {at} >= {chains}", inner), *joined, *rest]
        end = f"{at}_run = min({at}_stop - {chains - 1}, {at} + {chains * RUN})"
        run = [end, *begin, *_while(f"{at} < {at}_run", inner), *joined, *_flushed(carried, mapping)]
        return [*_while(f"{at}_stop - {at} >= {chains}", run), *rest]


def _while(condition: str, body: list[str]) -> list[str]:
    """Return a loop."""
    return [f"while {condition}:", *(f"    {line}" for line in body)]


def _turn(name: str, others: list[str]) -> list[str]:
    """Return the line after which the next accumulator has the name of the first; only names change in machine code."""
    names = [name, *others]
    return [f"{', '.join(names)} = {', '.join([*others, name])}"]


def _cleared(one: Reduced, names: list[str], mapping: Mapping) -> list[str]:
    """Return the lines that set more accumulators to the identity."""
    block = Block("more")
    for name in names:
        mapping.clear_accumulator(Value(one.target.kind, name, one.target.lanes), one.message, one.reducer, block)
    return block.lines


def _joined(one: Reduced, others: list[str]) -> str:
    """Return the line that reduces all accumulators into the first, pair by pair."""
    combined: Callable[[Reducer, str, str], str] = RowsMapping.combined if one.target.kind == "row" else combined_scalar
    names = [one.target.text, *others]
    while len(names) > 1:
        pairs = zip(names[::2], names[1::2], strict=True)
        names = [f"({combined(one.reducer, *pair)})" for pair in pairs]
    return f"{one.target.text} = {names[0]}"


def _flushed(carried: list[Reduced], mapping: Mapping) -> list[str]:
    """Return the lines that end a run."""
    block = Block("flush")
    for one in carried:
        assert one.carry is not None
        block.line(f"{one.carry.text} = {one.carry.text} + {one.target.text}")
        mapping.clear_accumulator(one.target, one.message, one.reducer, block)
    return block.lines
