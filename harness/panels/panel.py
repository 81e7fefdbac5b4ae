"""Panels of features: their columns, the memory of the host for a run in panels, and the statistics of such a run."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import zip_longest
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from harness.contract import Device, RunStatistics, Superstep, Transfers
from harness.language.evaluation import concrete
from harness.language.independent_features import row_of_features

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from harness.graph import Graph
    from harness.language.program import Program, Property

    Array = NDArray[Any]

_TOGETHER: Final = 4  # features that a lane of a GPU loads at once


@dataclass(frozen=True)
class Panel:
    """The features ``first`` to ``last``, the latter excluded, of an engine that runs ``width`` features."""

    first: int
    last: int
    width: int

    def of(self, values: Array) -> Array:
        """Return the columns ``[..., width]`` of ``values[..., k]``.

        A panel with fewer features repeats its last one, which settles when the original does.
        """
        if self.last - self.first == self.width:
            return values[..., self.first : self.last]
        columns = np.minimum(np.arange(self.first, self.first + self.width), self.last - 1)
        return np.take(values, columns, axis=-1)

    def put(self, into: Array, values: Array) -> None:
        """Store ``values[..., width]`` of a panel in the columns ``into[..., k]``."""
        into[..., self.first : self.last] = values[..., : self.last - self.first]


def panels_of(features: int, width: int) -> tuple[Panel, ...]:
    """Return the panels of ``width`` features that cover all ``features``."""
    return tuple(Panel(first, min(first + width, features), width) for first in range(0, features, width))


@dataclass(frozen=True, eq=False)
class Problem:
    """A problem that runs in panels of ``width`` of its ``features``."""

    program: Program
    graph: Graph
    features: int
    width: int

    @property
    def panels(self) -> tuple[Panel, ...]:
        """The panels in the order in which they run."""
        return panels_of(self.features, self.width)

    @property
    def kept(self) -> tuple[Property, ...]:
        """The properties that are read from the device after each panel: states and outputs."""
        program = self.program
        return tuple(
            prop for prop in program.properties.values() if prop.role == "state" or prop.name in program.outputs
        )

    def count(self, prop: Property) -> int:
        """Return the number of values of a property: of vertices, edges, or 1."""
        return {"vertex": self.graph.num_vertices, "edge": self.graph.num_edges, "graph": 1}[prop.place]

    def nbytes(self, prop: Property, features: int) -> int:
        """Return the bytes of a property with some features on the host."""
        size = 1 if prop.dtype == "bool" else 4
        return size * self.count(prop) * int(np.prod(concrete(prop.shape, features), dtype=np.int64))

    @property
    def host_bytes(self) -> int:
        """The bytes on the host of a run in panels: kept properties, and a panel of them and of the inputs."""
        kept = sum(self.nbytes(prop, self.features) for prop in self.kept)
        given = [prop for prop in self.program.properties.values() if prop.role == "input"]
        moving = [prop for prop in given if row_of_features(prop.shape)]
        return kept + sum(self.nbytes(prop, self.width) for prop in (*self.kept, *moving))


def device_memory(device: Device) -> int | None:
    """Return the bytes of a GPU that an engine may use: its limit, or all that the driver reports; None: not known."""
    from harness.device.driver import cuda_unavailable, describe

    if device.memory is not None or device.kind != "cuda" or cuda_unavailable(device.index):
        return device.memory
    return describe(device.index).memory


def largest_panel(features: int, fits: Callable[[int], bool]) -> int:
    """Return the most features of a panel that fit, at least 1; as few as the same number of panels needs.

    ``fits``: whether a panel of this many features fits; larger panels need no less memory. The number is a multiple of
    four if that fits.
    """
    low, high = 1, features + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    even = -(-features // -(-features // low))
    rounded = -(-even // _TOGETHER) * _TOGETHER
    return rounded if even < features and rounded <= low else even


def together(panels: Sequence[RunStatistics]) -> RunStatistics:
    """Return the statistics of a run from those of its panels.

    A superstep has the edges of all panels, the active sources of the panel with most, and the direction of the first
    panel that ran it.
    """
    steps = [list(filter(None, of_panels)) for of_panels in zip_longest(*(one.supersteps for one in panels))]
    merged = [
        Superstep(max(one.active for one in step), sum(one.edges for one in step), step[0].direction) for step in steps
    ]
    counted = [one.transfers for one in panels if one.transfers is not None]
    return RunStatistics(
        all(one.settled for one in panels), merged, Transfers.total(counted) if counted else None
    )  # fmt: skip
