"""Outcomes of a run of a cell."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The outcome of a run of a cell.

    Only ``OK`` and ``UNSUPPORTED`` leave the exit status of a sweep at 0: a result, and a declared limitation.
    """

    OK = "ok"
    WRONG = "wrong"  # the answer is outside the bound; its times are never compared
    IMPLAUSIBLE = "implausible"  # the answer is right, but the times are impossible; never compared
    DIVERGED = "diverged"  # values are not finite where those of the reference are
    UNSUPPORTED = "unsupported"  # the engine refused, with a reason
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    CRASHED = "crashed"  # the process died; the reason names the signal
    INVALID_INPUT = "invalid_input"  # the graph, the algorithm or its parameters cannot be used together
    ENGINE_ERROR = "engine_error"  # the engine raised an error
    INTERRUPTED = "interrupted"

    @property
    def acceptable(self) -> bool:
        """True if a sweep with this outcome may exit with status 0."""
        return self in (Outcome.OK, Outcome.UNSUPPORTED)
