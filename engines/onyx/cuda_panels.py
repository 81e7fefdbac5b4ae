"""Onyx on CUDA: long rows gathered panel by panel.

A row of 128 features has 512 bytes, and few such rows stay in the cache until they are gathered again. A separate pass
over the edges for every panel of consecutive features reads the edge data again, 8 bytes per edge, but more of the
shorter rows stay in the cache. The messages of a panel must not use other features.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from harness.api import ELEMENTWISE, EdgeReduce, K, walk
from harness.api.cuda import DeviceLayout

if TYPE_CHECKING:
    from typing import Any

    from harness.api import Expression, Program

PANEL = 64  # features: with 32, a quarter of whole rows' 512 bytes at a time, passes took longer than they saved
OF_FEATURES_ALONE = ELEMENTWISE | {"read", "const", "param", "full", "without"}


@dataclass(frozen=True)
class PanelLayout(DeviceLayout):
    """The layout of kernels that pass over their work once for every panel of ``panel`` consecutive features, so that
    more of the rows that they gather stay cached. There are only scalars and rows of all features.
    """

    panel: int = 0

    @property
    def panels(self) -> int:
        """Return the number of passes; see :class:`DeviceLayout`."""
        return self.features // self.panel

    def dims(self, shape: tuple[Any, ...]) -> tuple[int, ...]:
        """Return the dimensions of what a kernel processes in one pass."""
        return (self.panel,) if super().dims(shape) else ()

    def row_stride(self, lanes: int) -> int:
        """Return the floats from one entire row to the next one."""
        return super().row_stride(self.features)


def panel_of(program: Program, features: int) -> int:
    """Return the number of features of a panel if there are several; 0 if a pass processes whole rows."""
    messages = [stage.message for stage in program.stages if isinstance(stage, EdgeReduce)]
    several = features > PANEL and features % PANEL == 0
    return PANEL if several and messages and all(map(_divides, messages)) else 0


def _divides(message: Expression) -> bool:
    """Return whether every feature of a message is computed from the same feature of rows, and from scalars.

    Scalars may be of vertices, edges and the graph.
    """
    nodes = walk(message)
    return message.shape == (K,) and all(n.op in OF_FEATURES_ALONE and n.shape in ((), (K,)) for n in nodes)
