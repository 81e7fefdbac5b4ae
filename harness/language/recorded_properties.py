"""The part of a program builder that declares properties."""

from __future__ import annotations

from harness.language.declarations import Declarations
from harness.language.expressions import Dimension, Shape


class PropertyRecorder:
    """The properties of a program builder, in ``_properties``."""

    _properties: Declarations

    def vertex(
        self, name: str, shape: Shape | Dimension = (), *, dtype: type[float] | type[bool] = float,
        start: str | float | None = None, nonnegative: bool = False,
    ) -> None:  # fmt: skip
        """Declare a vertex property: an input or, with ``start`` (a property's name or a constant), state.

        ``nonnegative`` promises that no value is below zero: other inputs are rejected, the reference run checks what
        is written, and products of such values need no signs.
        """
        self._properties.declare(name, "vertex", shape, dtype, start, nonnegative)

    def edge(
        self, name: str, shape: Shape | Dimension = (), *, dtype: type[float] | type[bool] = float,
        start: str | float | None = None, nonnegative: bool = False,
    ) -> None:  # fmt: skip
        """Declare an edge property: an input or, with ``start``, state.

        ``weight`` is the graph's own. ``nonnegative``: see :meth:`vertex`.
        """
        self._properties.declare(name, "edge", shape, dtype, start, nonnegative)

    def graph(self, name: str, shape: Shape | Dimension = (), *, dtype: type[float] | type[bool] = float) -> None:
        """Declare an input with one value for the whole graph, read as ``graph.<name>``; it is given as
        ``[*shape]``."""
        self._properties.declare(name, "graph", shape, dtype, None)
