"""Programs with steps in place, run in float64 in the order in which an engine updated the edges."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from harness.language.algorithm import Inputs
from harness.language.program import Program
from harness.language.reference import ReferenceRun

if TYPE_CHECKING:
    from harness.graph import Graph

Orders = Mapping[str, NDArray[Any]]


def replay(
    program: Program, graph: Graph, features: int, inputs: Inputs, orders: Iterable[Orders]
) -> dict[str, NDArray[Any]]:
    """Return the outputs after one superstep for each of ``orders``, in float64.

    An element of ``orders`` maps the name of a step in place to all edges, CSR positions [E], in the order of that
    superstep (:meth:`harness.contract.Engine.ordered_superstep`).
    """
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    for order in orders:
        run.orders = order
        run.superstep()
    return {name: run.values(name) for name in program.outputs}
