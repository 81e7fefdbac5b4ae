"""The properties of a program during tracing."""

from __future__ import annotations

from harness.language.errors import LanguageError, SourceLine
from harness.language.expressions import Dimension, DType, Expression, Shape, as_shape
from harness.language.program import BUILTIN_GRAPH, BUILTIN_VERTEX, SUPERSTEP, Place, Property
from harness.language.wellformed import check_name


class Declarations(dict[str, Property]):
    """Properties by name: built-in ones, declared ones, and temporaries that stages write.

    ``once``: the temporaries that stages which run once have written; they may be the start of others. ``ended``: names
    of earlier phases that are no longer known.
    """

    def __init__(self) -> None:
        super().__init__({name: Property(name, "vertex", (), role="builtin") for name in BUILTIN_VERTEX})
        self.update({name: Property(name, "graph", (), role="builtin") for name in BUILTIN_GRAPH})
        self.once: set[str] = set()
        self.ended: set[str] = set()

    def declare(
        self, name: str, place: Place, shape: Shape | Dimension, dtype: type, start: str | float | None,
        nonnegative: bool = False,
    ) -> None:  # fmt: skip
        """Declare an input or, with a start, a state property. Raises LanguageError."""
        if name in self:
            known = self[name]
            why = "is built in" if known.role == "builtin" else f"is already a property of the {known.place}"
            raise LanguageError(f"property {name!r} {why}; choose another name")
        check_name(name)
        if dtype not in (float, bool):
            raise LanguageError(f"property {name!r}: dtype is float or bool, not {dtype!r}")
        kind: DType = "bool" if dtype is bool else "float"
        dims = as_shape(shape)
        start = self._checked_start(name, start, (place, dims, kind))
        role = "state" if start is not None else "input"
        if nonnegative:
            self._check_promise(name, kind, start)
        self[name] = Property(name, place, dims, kind, role, start, nonnegative)  # type: ignore[arg-type]

    def read_superstep(self) -> None:
        """Record that the program reads the number of the superstep."""
        self.setdefault(SUPERSTEP, Property(SUPERSTEP, "graph", (), role="builtin"))

    def _check_promise(self, name: str, kind: DType, start: str | float | None) -> None:
        if kind == "bool":
            raise LanguageError(f"property {name!r} is bool; only numbers are nonnegative")
        if not (self[start].nonnegative if isinstance(start, str) else start is None or start >= 0):
            raise LanguageError(f"property {name!r} is nonnegative and starts as {start!r}, which may be negative")

    def _checked_start(
        self, name: str, start: str | float | None, wanted: tuple[Place, Shape, DType]
    ) -> str | float | None:
        if isinstance(start, str):
            other = self.get(start)
            same = other is not None and (other.place, other.shape, other.dtype) == wanted
            if start in self.ended:
                raise LanguageError(
                    f"property {name!r} starts as {start!r}, which is not an output of its phase, so that later phases "
                    "do not know it; add p.output() there"
                )
            if other is None or not same or (other.role == "temporary" and start not in self.once):
                raise LanguageError(
                    f"property {name!r} starts as {start!r}, which is not a declared {wanted[0]} {wanted[2]} of "
                    f"shape {wanted[1]}; declare it before"
                )
        elif start is not None:
            if not isinstance(start, (bool, int, float)):
                raise LanguageError(
                    f"property {name!r} starts as {start!r}; a start is a constant or the name of a property "
                    "declared before (an input, for example, if it depends on parameters)"
                )
            return bool(start) if wanted[2] == "bool" else float(start)
        return start

    def write(self, name: str, place: Place, value: Expression, line: SourceLine) -> None:
        """Record that a stage writes ``value`` to a declared property or to a new temporary.

        Raises LanguageError for built-in properties, inputs, and values whose place, shape or dtype differs.
        """
        prop = self.get(name)
        if prop is None:
            check_name(name, line)
            self[name] = Property(name, place, value.shape, value.dtype, "temporary")
        elif prop.role == "builtin":
            raise LanguageError(f"{name!r} is built in and cannot be written; choose another name", line)
        elif prop.role == "input":
            raise LanguageError(f"{name!r} is an input; declare it with a start to write it", line)
        elif (prop.place, prop.shape, prop.dtype) != (place, value.shape, value.dtype):
            mend = "; full(shape, value) spreads a scalar" if prop.shape and not value.shape else ""
            raise LanguageError(
                f"{name!r} is a {prop.place} {prop.dtype} of shape {prop.shape}; this gives a {place} {value.dtype} "
                f"of shape {value.shape}{mend}",
                value.where,
            )
