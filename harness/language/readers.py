"""The symbolic arguments of traced functions."""

from __future__ import annotations

import difflib

from harness.language.declarations import Declarations
from harness.language.errors import LanguageError
from harness.language.expressions import Expression, Operand, _operand, read, read_at
from harness.language.program import SUPERSTEP, Place, Property

PLACE_OF_ARGUMENT: dict[str, Place] = {
    "src": "vertex", "dst": "vertex", "v": "vertex", "edge": "edge", "graph": "graph"
}  # fmt: skip
# The arguments of edge functions and of vertex functions.
ARGUMENTS: dict[str, tuple[str, ...]] = {"edge": ("src", "dst", "edge", "graph"), "vertex": ("v", "graph")}
_ARGUMENTS_OF_PLACE: dict[Place, str] = {"vertex": "src, dst or v", "edge": "edge", "graph": "graph"}


class Reader:
    """A symbolic argument: ``src.lp`` is the expression that reads property lp of the source."""

    def __init__(self, space: str, place: Place, properties: Declarations) -> None:
        self._space, self._place, self._properties = space, place, properties

    def __getattr__(self, name: str) -> Expression:
        if name.startswith("__"):
            raise AttributeError(name)
        prop = self._properties.get(name)
        if prop is None or prop.place != self._place:
            names = [p.name for p in self._properties.values() if p.place == self._place]
            close = difflib.get_close_matches(name, names, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"available: {', '.join(sorted(names)) or 'none'}."
            spelt = "edge.reverse" if self._space == "reverse" else self._space
            if prop is None and name in self._properties.ended:
                hint = "it is not an output of its phase, so that later phases do not know it; add p.output() there."
            raise LanguageError(
                f"{spelt}.{name}: no {self._place} property {name!r} is known here; {hint}"
                if prop is None
                else f"{spelt}.{name}: {name!r} is a property of the {prop.place}; read it from the argument "
                f"{_ARGUMENTS_OF_PLACE[prop.place]}"
            )
        return self._read(name, prop)

    def __repr__(self) -> str:
        return "edge.reverse" if self._space == "reverse" else self._space

    def _read(self, name: str, prop: Property) -> Expression:
        return read(self._space, name, prop.shape, prop.dtype)

    def __setattr__(self, name: str, value: object) -> None:
        if not name.startswith("_"):
            raise LanguageError(f"{self._space}.{name} cannot be assigned; return the new value instead")
        super().__setattr__(name, value)


class VertexReader(Reader):
    """The symbolic vertex; ``v.at(number).x`` is the value of x at the vertex with that number."""

    def at(self, vertex: Operand) -> Reader:
        """Return the vertex that a number names (:mod:`harness.language.named_vertices`).

        Raises LanguageError unless ``vertex`` is a float scalar.
        """
        return NamedReader(vertex_number(vertex, "at()"), self._properties)


class NamedReader(Reader):
    """The symbolic vertex that a number names, with its values before the stage."""

    def __init__(self, vertex: Expression, properties: Declarations) -> None:
        super().__init__("v.at()", "vertex", properties)
        self._vertex = vertex

    def _read(self, name: str, prop: Property) -> Expression:
        return read_at(self._vertex, name, prop.shape, prop.dtype)


def vertex_number(given: object, what: str) -> Expression:
    """Return an expression that names a vertex. Raises LanguageError unless it is a float scalar."""
    value = _operand(given)
    if value.shape or value.dtype != "float":
        raise LanguageError(
            f"{what} takes the number of a vertex, a float scalar such as v.root, not a {value.dtype} of shape "
            f"{value.shape}",
            value.where,
        )
    return value


class GraphReader(Reader):
    """The symbolic graph; ``graph.superstep`` is the number of the superstep, from 0 in every run."""

    @property
    def superstep(self) -> Expression:
        self._properties.read_superstep()
        return read("graph", SUPERSTEP, (), "float")


class EdgeReader(Reader):
    """The symbolic edge; ``edge.reverse`` is the edge from destination to source, with its values before the stage."""

    @property
    def reverse(self) -> Reader:
        return Reader("reverse", "edge", self._properties)
