"""The error that all code about graphs raises."""

from __future__ import annotations

from pathlib import Path


class GraphError(ValueError):
    """A graph or a graph file is invalid.

    The message gives the fault, its place (file, and line if known) and the remedy.
    """

    @classmethod
    def in_file(cls, path: str | Path, what: str, mend: str, *, line: int | None = None) -> GraphError:
        """Return the error for the fault `what` in `path` (at `line`, counted from 1), with the remedy `mend`."""
        where = str(path) if line is None else f"{path}:{line}"
        return cls(f"{where}: {what}; {mend}")
