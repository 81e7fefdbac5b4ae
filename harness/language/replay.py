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
StepOrders = Mapping[str, NDArray[Any] | float]  # by an engine; a float: the share of updates that were lost


def lost_updates(orders: StepOrders) -> float | None:
    """Return the largest share of lost updates of the steps of a superstep; None if all of them have an order."""
    return max((one for one in orders.values() if isinstance(one, float)), default=None)


def replay(
    program: Program, graph: Graph, features: int, inputs: Inputs, orders: Iterable[StepOrders]
) -> dict[str, NDArray[Any]]:
    """Return the outputs after one superstep for each of ``orders``, in float64.

    An element of ``orders`` maps the name of a step in place to all edges, CSR positions [E], in the order of that
    superstep (:meth:`harness.contract.Engine.ordered_superstep`). Raises ValueError for a step without an order.
    """
    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    for order in orders:
        if lost_updates(order) is not None:
            raise ValueError("a step that lost updates has no order that could be repeated")
        run.orders = {name: one for name, one in order.items() if not isinstance(one, float)}
        run.superstep()
    return {name: run.values(name) for name in program.outputs}
