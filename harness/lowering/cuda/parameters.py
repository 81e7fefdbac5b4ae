"""Parameters of kernels: their types in C++, and which arrays a kernel writes."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harness.lowering.cuda.names import in_ascii

# By the kind that the signature of a kernel names: the type in C++, and whether the kernel writes the array.
KINDS = {
    "f32": ("float*", True),
    "input": ("const float*", False),
    "flag": ("bool*", True),
    "flags": ("const bool*", False),
    "run": ("Run*", False),
    "offsets": ("const EdgeId*", False),
    "ids": ("const Id*", False),
    "counts": ("Count*", True),
    "swaps": ("Count*", False),
    "list": ("Id*", True),
    "places": ("EdgeId*", True),
    "sizes": ("unsigned long long*", True),
    "Id": ("Id", False),
    "EdgeId": ("EdgeId", False),
    "Count": ("Count", False),
    "bounds": ("const Count*", False),
    "arrivals": ("Arrivals*", True),
    "past": ("Past*", True),
}
RESTRICTED = ("input", "flags", "offsets", "ids")  # nobody writes the array during the kernel


@dataclass(frozen=True)
class Parameter:
    """A parameter of a kernel: the name under which the engine keeps the array, and its type in C++.

    ``written``: the kernel writes the array. ``restricted``: nothing else does meanwhile.
    """

    name: str
    type: str
    written: bool = False
    restricted: bool = False

    @classmethod
    def of(cls, name: str, kind: str) -> Parameter:
        """Return a parameter of one of the KINDS."""
        type_, written = KINDS[kind]
        return cls(name, type_, written, kind in RESTRICTED)

    @property
    def identifier(self) -> str:
        """The name in C++."""
        return in_ascii(self.name)

    @property
    def text(self) -> str:
        """The declaration."""
        return f"{self.type}{' __restrict__' if self.restricted else ''} {self.identifier}"

    @property
    def plain(self) -> str:
        """The declaration in a function that is called beside others."""
        return f"{self.type} {self.identifier}"


def joined(parameters: Iterable[Parameter]) -> dict[str, Parameter]:
    """Return the parameters of something that calls several functions, by name.

    An array that any of these writes is not constant.
    """
    found: dict[str, Parameter] = {}
    for one in parameters:
        if one.name not in found or (one.written and not found[one.name].written):
            found[one.name] = one
    return found
