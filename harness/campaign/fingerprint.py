"""Detect writes to the arrays that an engine was given: an engine may only read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from harness.graph.digest import array_digests

if TYPE_CHECKING:
    from collections.abc import Mapping

    from numpy.typing import NDArray

    from harness.campaign.problem import Problem
    from harness.graph import Graph


PART = 1 << 28  # bytes of an array that one thread hashes


class InputsChanged(RuntimeError):
    """An engine wrote to its input arrays; the message names them."""


class Fingerprint:
    """The digests of the arrays of a problem, taken before an engine is imported.

    Inputs that are mapped from the cache are left out: a write to one of them ends the process by SIGSEGV, and a write
    to their file is found when another cell opens it.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._arrays = _arrays(problem)
        self._digests = _digests(self._arrays)
        self._parameters = dict(problem.inputs.parameters)

    def changes(self) -> list[str]:
        """Return the names of the arrays that have changed, and of run-time parameters."""
        now = _digests(self._arrays)
        changed = [name for name, digest in now.items() if digest != self._digests[name]]
        met = self._problem.inputs.parameters
        return changed + [f"parameter {name}" for name, value in self._parameters.items() if met.get(name) != value]

    def check(self) -> None:
        """Raise InputsChanged if something has changed."""
        changed = self.changes()
        if changed:
            written = ", ".join(changed)
            raise InputsChanged(f"the engine wrote to {written}; an engine may only read the graph and the inputs")


def _digests(arrays: Mapping[str, NDArray[np.generic]]) -> dict[str, tuple[str, ...]]:
    """Return the digests of the parts of each array; a long array is hashed on several threads."""
    parts = {
        (name, first): array[first : first + rows]
        for name, array in zip(arrays, map(np.atleast_1d, arrays.values()), strict=True)
        for rows in [max(1, PART // max(1, array[:1].nbytes))]
        for first in range(0, max(1, len(array)), rows)
    }
    found = array_digests({f"{number}": part for number, part in enumerate(parts.values())})
    of_array: dict[str, list[str]] = {name: [] for name in arrays}
    for (name, _), digest in zip(parts, found.values(), strict=True):
        of_array[name].append(digest)
    return {name: tuple(digests) for name, digests in of_array.items()}


def _arrays(problem: Problem) -> dict[str, NDArray[np.generic]]:
    """Return the arrays of a problem by a readable name, each once."""
    inputs = problem.inputs.properties
    found = {f"input {name}": np.asarray(array) for name, array in inputs.items() if not _mapped(array)}
    if problem.start is not None:
        found |= {f"state {name}": np.asarray(array) for name, array in problem.start.state.items()}
    found |= _arrays_of_graph(problem.graph)
    return found


def _arrays_of_graph(graph: Graph) -> dict[str, NDArray[np.generic]]:
    found: dict[str, NDArray[np.generic]] = {f"graph {place}": array for place, array in graph.arrays()}
    if "csc" in graph.__dict__:
        found |= {
            "graph csc.offsets": graph.csc.offsets,
            "graph csc.neighbours": graph.csc.neighbours,
            "graph csc.edge_ids": graph.in_edge_ids,
        }
    if graph.__dict__.get("in_weights") is not None:
        found["graph csc.weights"] = graph.__dict__["in_weights"]
    return found


def _mapped(array: object) -> bool:
    """Return whether an array is a view of a file that is mapped for reading only."""
    while array is not None:
        if isinstance(array, np.memmap):
            return array.mode == "r"
        array = array.obj if isinstance(array, memoryview) else getattr(array, "base", None)
    return False
