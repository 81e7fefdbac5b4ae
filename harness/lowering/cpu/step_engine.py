"""The part of an engine on the CPU that the steps of a superstep use."""

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
    """An engine as steps see it: its plan, its arrays, its kernels and the counts of the present superstep.

    ``edges``: arcs visited in this superstep. ``moved``: sources found moved in it. ``workers``: threads of the next
    call. ``most_parts``: parts of the kernel that has the most.
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
        """The kind of the graph's vertex ids, as an argument of a kernel."""

    def add_kernel(self, kernel: Kernel) -> None:
        """Add a kernel to the module."""

    def call(self, name: str, parts: int, **overrides: NDArray[Any]) -> None:
        """Run a kernel over ``parts`` parts; ``overrides`` replace arrays of the memory."""
