"""How a device can fail us, each with its mend."""

from __future__ import annotations


class DeviceUnavailable(RuntimeError):
    """There is no such CUDA device here: no driver, one too old, or an index that does not exist."""


class CompilationFailed(RuntimeError):
    """A generated kernel does not compile; the message holds the compiler's words and the lines they are about."""
