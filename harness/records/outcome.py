"""How a run of a cell ended."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """How a run of a cell ended; there is no other way.

    Only ``OK`` and ``UNSUPPORTED`` leave the exit status of a sweep at zero: the first is a result, the second an
    honest answer.
    """

    OK = "ok"
    WRONG = "wrong"  # the answer is outside the bound: never timed as a win
    IMPLAUSIBLE = "implausible"  # the answer is right, and the times cannot be those of the work: never timed as a win
    DIVERGED = "diverged"  # values are not finite where the reference's are
    UNSUPPORTED = "unsupported"  # the engine said no, with a reason
    OUT_OF_MEMORY = "out_of_memory"
    TIMEOUT = "timeout"
    CRASHED = "crashed"  # the process died; the reason has the signal's name
    INVALID_INPUT = "invalid_input"  # the graph, the algorithm or its parameters cannot be used together
    ENGINE_ERROR = "engine_error"  # the engine raised an error
    INTERRUPTED = "interrupted"

    @property
    def acceptable(self) -> bool:
        """Whether a sweep with this outcome may exit with status 0."""
        return self in (Outcome.OK, Outcome.UNSUPPORTED)
