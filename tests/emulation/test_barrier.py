"""The barrier of a whole grid, run by a thread of the host for each block of one thread."""

from __future__ import annotations

import ctypes
import re
import subprocess
from pathlib import Path

import pytest

from harness.emulation.compiler import COMPILER, unavailable
from harness.lowering.cuda import modules

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())

BUILT_INS = """
#include <atomic>
#include <thread>
#include <vector>
#define __device__
struct Index {
    unsigned x;
};
static const Index threadIdx = {0};
static thread_local Index blockIdx;
static Index gridDim;
static void __syncthreads() {}
static void __threadfence() { std::atomic_thread_fence(std::memory_order_seq_cst); }
struct Lost {};
static void __trap() { throw Lost(); }  // a thread has waited for too long
static unsigned long long atomicAdd(unsigned long long* target, unsigned long long value)
{
    return __atomic_fetch_add(target, value, __ATOMIC_SEQ_CST);
}
"""
ROUNDS = """
// Every block counts itself in every round, and all have to be counted behind the barrier. One calls `between`, when
// all have arrived and none has left. Returns the number of mistakes.
extern "C" int rounds(unsigned blocks, int count, unsigned long long* lock, int* betweens)
{
    gridDim.x = blocks;
    std::atomic<int> arrived{0}, left{0}, mistakes{0};
    std::vector<std::thread> running;
    for (unsigned block = 0; block < blocks; ++block)
        running.emplace_back([&, block] {
            blockIdx.x = block;
            GlobalBarrier barrier(lock);
            try {
                for (int round = 1; round <= count; ++round) {
                    const int all = round * int(blocks);
                    ++arrived;
                    if (round % 2) barrier.wait();
                    else barrier.wait([&] {
                        if (arrived != all || left != all - int(blocks)) ++mistakes;
                        ++*betweens;
                    });
                    if (arrived < all) ++mistakes;
                    ++left;
                    barrier.wait();
                }
            } catch (Lost) {
                ++mistakes;
            }
        });
    for (auto& one : running) one.join();
    return mistakes;
}
"""


@pytest.fixture(scope="module")
def rounds(tmp_path_factory):
    header = Path(modules.__file__).with_name("barrier.cuh").read_text(encoding="utf-8")
    folder = tmp_path_factory.mktemp("barrier")
    source, library = folder / "barrier.cpp", folder / "barrier.so"
    body = re.sub(r"^#(include|pragma) .*$", "", header, flags=re.MULTILINE)
    look = "if (++looks == MOST_LOOKS)"
    assert body.count(look) == 1
    # Threads of the host may have fewer cores than there are blocks, and 2^26 looks take a CPU less than a time slice.
    body = body.replace(look, f"if (std::this_thread::yield(), {look.removeprefix('if (')}")
    source.write_text(BUILT_INS + body + ROUNDS, encoding="utf-8")
    options = ["-std=c++17", "-w", "-O1", "-fPIC", "-shared", "-pthread"]
    subprocess.run([COMPILER, *options, str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library)).rounds


@pytest.mark.parametrize("blocks", [1, 2, 3])
def test_no_block_leaves_before_all_have_arrived(rounds, blocks):
    lock, betweens = (ctypes.c_uint64 * 64)(), ctypes.c_int(0)
    for launch in (1, 2):  # the counters are never reset
        assert rounds(ctypes.c_uint(blocks), ctypes.c_int(4), lock, ctypes.byref(betweens)) == 0
        assert betweens.value == 2 * launch
        assert list(lock) == [8 * blocks * launch if i in (0, 32) else 0 for i in range(64)]
