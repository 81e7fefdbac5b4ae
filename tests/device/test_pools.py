"""Limits of a process's device memory, and its peak use."""

from __future__ import annotations

import numpy as np
import pytest

from harness.campaign.preflight import ran_out_of_memory
from harness.device.cuda import require_memory
from harness.device.pools import Pool

pytestmark = pytest.mark.gpu
MEBIBYTE = 1 << 20


@pytest.fixture
def cupy():
    library = pytest.importorskip("cupy")
    library.get_default_memory_pool().free_all_blocks()
    yield library
    library.get_default_memory_pool().set_limit(size=0)
    library.get_default_memory_pool().free_all_blocks()


def test_the_peak_stays_after_its_arrays_are_released(cupy):
    with Pool(0, None) as pool:
        before = cupy.get_default_memory_pool().total_bytes()
        array = cupy.zeros(64 * MEBIBYTE, np.uint8)
        del array
        cupy.get_default_memory_pool().free_all_blocks()
        cupy.zeros(16 * MEBIBYTE, np.uint8)
    assert before + 64 * MEBIBYTE <= pool.peak < before + 80 * MEBIBYTE


def test_nothing_is_taken_beyond_the_limit(cupy):
    with Pool(0, 100 * MEBIBYTE) as pool:
        kept = cupy.zeros(64 * MEBIBYTE, np.uint8)
        require_memory(36 * MEBIBYTE)
        with pytest.raises(MemoryError, match=r"0\.10 GiB as its limit"):
            require_memory(37 * MEBIBYTE)
        with pytest.raises(cupy.cuda.memory.OutOfMemoryError) as caught:
            cupy.zeros(64 * MEBIBYTE, np.uint8)
        assert ran_out_of_memory(caught.value)
        assert kept.nbytes <= pool.peak <= 100 * MEBIBYTE
        cupy.zeros(32 * MEBIBYTE, np.uint8)


def test_arrays_that_only_reference_each_other_are_released(cupy):
    class Holder:
        pass

    with Pool(0, 100 * MEBIBYTE):
        holder = Holder()
        holder.itself, holder.array = holder, cupy.zeros(64 * MEBIBYTE, np.uint8)
        del holder
        require_memory(64 * MEBIBYTE)
        assert cupy.zeros(64 * MEBIBYTE, np.uint8).nbytes == 64 * MEBIBYTE
