"""Errors of the CUDA driver are reported in sentences, also if there is no driver."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import threading

import pytest

from harness.contract import EngineFailure
from harness.device import driver
from tests.processes import HANGS_S

IDENTITY = bytes(range(16))


class FakeDriver:
    """The called functions of the CUDA driver, for two devices; one of them may fail."""

    def __init__(self, init=0, count=2, failing="", status=700, cuda=13010):
        self.init, self.count, self.failing, self.status, self.cuda = init, count, failing, status, cuda
        self.called = []

    def __getattr__(self, name):
        if name.startswith("_"):
            raise AttributeError(name)

        def function(*arguments):
            self.called.append(name)
            return self.status if name == self.failing else getattr(self, f"_{name}", lambda *_: 0)(*arguments) or 0

        return function

    def _cuInit(self, flags):
        return self.init

    def _cuDeviceGetCount(self, count):
        count._obj.value = self.count

    def _cuDriverGetVersion(self, version):
        version._obj.value = self.cuda

    def _cuDeviceGetName(self, name, size, index):
        name.value = b"A GPU"

    def _cuDeviceGetUuid_v2(self, identity, index):
        ctypes.memmove(identity, IDENTITY, 16)

    def _cuDeviceTotalMem_v2(self, memory, index):
        memory._obj.value = 80 << 30

    def _cuDeviceGetAttribute(self, value, attribute, index):
        value._obj.value = {75: 9, 76: 0}[attribute]

    def _cuMemGetInfo_v2(self, free, whole):
        free._obj.value, whole._obj.value = 70 << 30, 80 << 30

    def _cuGetErrorString(self, status, text):
        text._obj.value = b"an illegal memory access was encountered"


@pytest.fixture
def install(monkeypatch):
    def use(library):
        monkeypatch.setattr(driver, "_library", lambda: library)
        driver._primary_context.cache_clear()
        return library

    yield use
    driver._primary_context.cache_clear()


@pytest.mark.parametrize(
    ("library", "index", "words"),
    [
        (None, 0, ("no CUDA device", "no NVIDIA driver", "device=cpu")),
        (FakeDriver(init=100), 0, ("no CUDA device", "CUDA_VISIBLE_DEVICES")),
        (FakeDriver(count=0), 0, ("no CUDA device", "CUDA_VISIBLE_DEVICES")),
        (FakeDriver(init=803), 0, ("no CUDA device", "too old")),
        (FakeDriver(init=999), 0, ("no CUDA device", "illegal memory access")),
        (FakeDriver(), 2, ("no CUDA device 2", "shows 2", "0..1")),
    ],
)
def test_reasons_for_a_missing_device(install, library, index, words):
    install(library)
    reason = driver.cuda_unavailable(index)
    assert all(word in reason for word in words), reason
    with pytest.raises(driver.DriverError, match="no CUDA device"):
        driver.describe(index)


def test_the_driver_is_initialised_while_the_process_does_other_work(install):
    began, may_end, ended = threading.Event(), threading.Event(), threading.Event()

    class Slow(FakeDriver):
        def _cuInit(self, flags):
            began.set()
            may_end.wait(HANGS_S)
            ended.set()

    install(Slow())
    assert driver.start_driver()
    assert began.wait(HANGS_S)
    assert not ended.is_set()
    may_end.set()
    assert ended.wait(HANGS_S)


def test_without_a_driver_nothing_is_initialised(install):
    install(None)
    assert not driver.start_driver()


def test_a_device_is_described(install):
    install(FakeDriver())
    assert driver.cuda_unavailable(1) == ""
    found = driver.describe(1)
    assert found.name == "A GPU"
    assert found.uuid == "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f"
    assert found.memory == 80 << 30
    assert found.compute_capability == "9.0"


def test_the_newest_cuda_is_reported(install):
    install(FakeDriver(cuda=12080))
    assert driver.newest_cuda() == 12080


def test_waiting_is_for_the_context_that_libraries_share(install):
    library = install(FakeDriver())
    driver.synchronize(0)
    driver.synchronize(0)
    waited = ["cuCtxPushCurrent_v2", "cuCtxSynchronize", "cuCtxPopCurrent_v2"]
    assert library.called == ["cuInit", "cuDevicePrimaryCtxRetain", *waited, *waited]


def test_memory_is_counted_once_the_device_has_finished(install):
    library = install(FakeDriver())
    assert driver.used_bytes(0) == 10 << 30
    assert library.called[-4:] == ["cuCtxPushCurrent_v2", "cuCtxSynchronize", "cuMemGetInfo_v2", "cuCtxPopCurrent_v2"]


def test_a_failed_kernel_is_reported_at_synchronization(install):
    library = install(FakeDriver(failing="cuCtxSynchronize"))
    with pytest.raises(EngineFailure, match="cuCtxSynchronize .* illegal memory access"):
        driver.synchronize(0)
    assert library.called[-1] == "cuCtxPopCurrent_v2"  # after a failure, too


OF_MANAGED = """
#include <stdio.h>
typedef unsigned long long Pointer;
struct Location { int type, id; };
char called[1000];
static int length;
#define NOTED(...) (length += snprintf(called + length, sizeof called - length, __VA_ARGS__), 0)
int cuInit(unsigned flags) { return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return 0; }
int cuCtxPushCurrent_v2(void *context) { return 0; }
int cuCtxPopCurrent_v2(void **context) { return 0; }
int cuCtxSynchronize(void) { return NOTED("wait "); }
#ifdef NEW
int cuMemPrefetchAsync_v2(Pointer at, size_t size, struct Location to, unsigned flags, void *stream)
{ return NOTED("prefetch %llx %zu type %d flags %u stream %p ", at, size, to.type, flags, stream); }
int cuMemAdvise_v2(Pointer at, size_t size, int advice, struct Location to)
{ return NOTED("advise %llx %zu %d type %d ", at, size, advice, to.type); }
#else
int cuMemPrefetchAsync(Pointer at, size_t size, int device, void *stream)
{ return NOTED("prefetch %llx %zu device %d stream %p ", at, size, device, stream); }
int cuMemAdvise(Pointer at, size_t size, int advice, int device)
{ return NOTED("advise %llx %zu %d device %d ", at, size, advice, device); }
#endif
"""


@pytest.mark.parametrize(("version", "host"), [("NEW", "type 2"), ("OLD", "device -1")])
def test_the_host_is_named_as_a_driver_names_it(install, tmp_path, version, host):
    """The functions take a structure by value, as in cuda.h of CUDA 13."""
    compiler = shutil.which("gcc") or pytest.skip("needs gcc")
    source, made = tmp_path / "driver.c", tmp_path / "driver.so"
    source.write_text(OF_MANAGED)
    subprocess.run([compiler, "-shared", "-fPIC", f"-D{version}", "-o", made, source], check=True)
    library = install(ctypes.CDLL(str(made)))
    pointer, size = 0x7F1234567000, 5 << 32
    driver.prefetch_to_host(pointer, size, 0)
    driver.prefer_host(pointer, size, 0)
    flags = "flags 0 " if version == "NEW" else ""
    buffer = ctypes.create_string_buffer(1000)
    ctypes.memmove(buffer, library.called, 1000)
    assert buffer.value.decode() == (
        f"wait prefetch 7f1234567000 {size} {host} {flags}stream (nil) wait advise 7f1234567000 {size} 3 {host} "
    )


@pytest.mark.parametrize(
    ("init", "count", "index", "reason"),
    [
        (0, 2, 0, ""), (0, 2, 1, ""), (0, 2, 2, "the NVIDIA driver shows 2; set device.index to one of 0..1"),
        (0, 0, 0, "the NVIDIA driver shows none; see nvidia-smi"), (100, 2, 0, "the NVIDIA driver shows none"),
        (35, 2, 0, "too old for its own library"), (803, 2, 0, "too old for its own library"),
        (36, 2, 0, "the NVIDIA driver says an illegal memory access"), (1, 2, 0, "says an illegal memory access"),
        (101, 0, 0, "says an illegal memory access"),
    ],
)  # fmt: skip
def test_the_reason_why_a_device_is_unavailable(monkeypatch, init, count, index, reason):
    monkeypatch.setattr(driver, "_library", lambda: FakeDriver(init=init, count=count))
    found = driver.cuda_unavailable(index)
    assert bool(found) == bool(reason)
    assert reason in found
