"""The ranges that a profiler counts, from the calls of a CuPy that notes them."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from harness.device.profiler_range import counted_run


class Kernel:
    """A kernel that notes its launches."""

    def __init__(self, calls, name):
        self.calls, self.name = calls, name

    def compile(self):
        """Note that the kernel is compiled."""
        self.calls.append(f"compile {self.name}")

    def __call__(self, grid, block, arguments):
        self.calls.append(f"launch {self.name}")


@pytest.fixture
def calls(monkeypatch):
    """Return the calls of CuPy."""
    made = []
    cuda = SimpleNamespace(
        Device=lambda: SimpleNamespace(synchronize=lambda: made.append("wait")),
        profiler=SimpleNamespace(start=lambda: made.append("start"), stop=lambda: made.append("stop")),
    )
    cupy = SimpleNamespace(cuda=cuda, RawKernel=lambda _, name: Kernel(made, name))
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    return made


def test_the_boundary_follows_the_kernels_of_its_run(calls):
    for kernel in ("first", "second"):
        with counted_run("end"):
            calls.append(f"launch {kernel}")
    alike = ["compile end", "wait", "start", "launch RUN", "launch end", "wait", "stop"]
    assert calls == [call.replace("RUN", kernel) for kernel in ("first", "second") for call in alike]


def test_a_run_that_fails_ends_the_range(calls):
    with pytest.raises(RuntimeError, match="failed"), counted_run("end"):
        raise RuntimeError("failed")
    assert calls[-1] == "stop"
    assert "launch end" not in calls
