"""Memory of a device, by a made CuPy: what is refused, the limit and the peak of a pool, and drivers too old for it."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace

import pytest

from harness.device import cuda, pools
from harness.device.errors import DeviceUnavailable

GIB = 1 << 30


class MadePool:
    """A pool of CuPy: bytes that it holds, used and unused, and its limit."""

    def __init__(self):
        self.used, self.unused, self.limit, self.collected = 0, 0, 0, None

    def set_limit(self, size):
        self.limit = size

    def get_limit(self):
        return self.limit

    def used_bytes(self):
        return self.used

    def free_bytes(self):
        return self.unused

    def total_bytes(self):
        return self.used + self.unused


@pytest.fixture
def made(monkeypatch):
    """Return the made CuPy's pool, with a device of 8 GiB of which 2 are free, and the list of opened devices."""
    pool, opened = MadePool(), []

    class Hook:
        def __enter__(self):
            opened.append("hook")

        def __exit__(self, *_):
            opened.append("no hook")

    class MadeDevice:
        def __init__(self, index):
            self.index = index

        def use(self):
            opened.append(self.index)

        def __enter__(self):
            return self

        def __exit__(self, *_):
            pass

    runtime = SimpleNamespace(memGetInfo=lambda: (2 * GIB, 8 * GIB), runtimeGetVersion=lambda: 13010)
    cupy = ModuleType("cupy")
    cupy.cuda = SimpleNamespace(runtime=runtime, MemoryHook=Hook, Device=MadeDevice)
    cupy.get_default_memory_pool = lambda: pool
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(cuda, "cuda_unavailable", lambda index: "" if index < 2 else f"there is no device {index}")
    monkeypatch.setattr(cuda, "newest_cuda", lambda: 13000)
    monkeypatch.setattr(cuda, "_OPENED", set())
    monkeypatch.setattr(pools.importlib.util, "find_spec", lambda name: object())
    return SimpleNamespace(pool=pool, opened=opened, runtime=runtime)


@pytest.mark.parametrize(
    ("used", "unused", "limit", "most"),
    [
        (0, 0, 0, 2 * GIB), (GIB, GIB // 2, 0, 2 * GIB + GIB // 2), (0, 0, GIB, GIB),
        (GIB // 4, GIB // 4, GIB, 3 * GIB // 4), (0, 0, 3 * GIB, 2 * GIB), (2 * GIB, GIB, 4 * GIB, 2 * GIB),
    ],
)  # fmt: skip
def test_no_more_is_needed_than_is_free_and_the_limit_leaves(made, used, unused, limit, most):
    made.pool.used, made.pool.unused, made.pool.limit = used, unused, limit
    cuda.require_memory(most)
    with pytest.raises(MemoryError) as met:
        cuda.require_memory(most + 1)
    limited = f", and {limit / GIB:.2f} GiB as its limit" if limit else ""
    assert str(met.value) == (
        f"the run needs {most / GIB:.2f} GiB on the device, which has {most / GIB:.2f} of 8.00 GiB left{limited}; take "
        "fewer features or a smaller graph"
    )


def test_arrays_in_cycles_are_freed_before_memory_is_refused(made, monkeypatch):
    collected = []

    def collect():
        collected.append(1)
        made.pool.unused = GIB

    monkeypatch.setattr(cuda.gc, "collect", collect)
    cuda.require_memory(2 * GIB)
    assert collected == []
    cuda.require_memory(3 * GIB)
    assert collected == [1]


@pytest.mark.parametrize("limit", [None, 5 * GIB])
def test_a_pool_has_the_limit_and_remembers_its_peak(made, limit):
    with pools.Pool(1, limit) as pool:
        assert made.pool.limit == (limit or 0)
        assert pool.peak is None
        for used, unused in ((3, 1), (7, 2), (1, 0)):
            made.pool.used, made.pool.unused = used, unused
            pool._watch.alloc_postprocess(device_id=1, size=used)
        assert pool.peak == 9
    assert pool.peak == 9
    assert made.opened == [1, "hook", "no hook"]
    assert cuda.was_opened(1)
    assert not cuda.was_opened(0)


def test_a_pool_of_a_device_that_is_missing_is_an_error_and_without_cupy_there_is_none(made, monkeypatch):
    with pytest.raises(DeviceUnavailable, match="there is no device 2"), pools.Pool(2, None):
        pytest.fail("entered")
    monkeypatch.setattr(pools.importlib.util, "find_spec", lambda name: None)
    with pools.Pool(2, None) as pool:
        assert pool.peak is None


@pytest.mark.parametrize(
    ("driver", "library", "fits"), [(13000, 13010, True), (12090, 12040, True), (12090, 13000, False)]
)
def test_a_driver_fits_a_cupy_of_its_major_version_or_an_older_one(made, monkeypatch, driver, library, fits):
    monkeypatch.setattr(cuda, "newest_cuda", lambda: driver)
    made.runtime.runtimeGetVersion = lambda: library
    monkeypatch.setattr(cuda, "describe", lambda index: SimpleNamespace(compute_capability="9.0"))
    if fits:
        assert cuda.architecture(0) == "sm_90"
        return
    message = (
        "the NVIDIA driver is for CUDA 12, and the CuPy installed for CUDA 13; update the driver, or install CuPy for "
        "CUDA 12"
    )
    for function in (cuda.architecture, cuda.open_device):
        with pytest.raises(DeviceUnavailable) as met:
            function(0)
        assert str(met.value) == message
    assert not cuda.was_opened(0)
