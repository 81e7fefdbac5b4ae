"""Errors of devices and of compilation."""

from __future__ import annotations


class DeviceUnavailable(RuntimeError):
    """The CUDA device is unavailable: no driver, a driver that is too old, or an index that does not exist."""


class CompilationFailed(RuntimeError):
    """A generated kernel does not compile; the message quotes the compiler and the source lines that it names."""
