"""The part of a CPU engine that the steps of a superstep use."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.contract import Direction
    from harness.graph import Graph
    from harness.language import Program
    from harness.lowering.cpu.kernels import Kernel
    from harness.lowering.cpu.memory import Memory
    from harness.lowering.layout import Layout
    from harness.lowering.tracking import Tracking


class StepEngine(Protocol):
    """The interface of an engine to its steps: its plan, arrays, kernels and the counts of the current superstep.

    ``edges``: edges visited in this superstep. ``moved``: sources found moved in it. ``workers``: threads of the next
    call. ``most_parts``: the largest number of parts of any kernel.
    """

    program: Program
    graph: Graph
    layout: Layout
    memory: Memory
    tracking: Tracking
    direction: Direction
    feature_aware: bool
    change_driven: bool
    threads: int
    workers: int
    most_parts: int
    superstep_index: int
    edges: int
    moved: int

    @property
    def ids(self) -> str:
        """Return the kind of the graph's vertex ids, as an argument of a kernel."""

    def add_kernel(self, kernel: Kernel) -> None:
        """Add a kernel to the module."""

    def call(self, name: str, parts: int, **overrides: NDArray[Any]) -> None:
        """Run a kernel over ``parts`` parts; ``overrides`` replace arrays of the memory."""
