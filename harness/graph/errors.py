"""The one error that everything about graphs raises."""

from __future__ import annotations

from pathlib import Path


class GraphError(ValueError):
    """A graph, or a file that should hold one, is not as it must be.

    The message says what was met, where (file and line when there is one) and what to do about it.
    """

    @classmethod
    def in_file(cls, path: str | Path, what: str, mend: str, *, line: int | None = None) -> GraphError:
        """The error for `what` met in the file `path` (at `line`, counted from 1), with the way to `mend` it."""
        where = str(path) if line is None else f"{path}:{line}"
        return cls(f"{where}: {what}; {mend}")
