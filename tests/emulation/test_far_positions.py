"""The functions of Onyx's pulls with positions of edges beyond 32 bits, emulated."""

from __future__ import annotations

import numpy as np
import pytest

from engines.onyx.cuda_plan import FOLDER
from harness.emulation.arrays import allocated
from tests.emulation.kernels import EMULATED, Kernels, headers, heading
from tests.emulation.test_edge_functions import graph
from tests.emulation.test_gathering_functions import CALLS

pytestmark = EMULATED

BLOCK, FIRST, VERTICES = 64, (1 << 32) + 5 * 64, 90  # FIRST: the number of the first edge that exists
NUMBERS = (0, 1, (1 << 31) - 1, 1 << 31, (1 << 32) - 1, 1 << 32, (1 << 32) + 7, 1 << 40)
AT_MOST = """
extern "C" __global__ void at_most_{number}(const {type}* a, const {type}* b, {type}* found)
{{
    found[threadIdx.x] = at_most(a[threadIdx.x], b[threadIdx.x]);
}}
"""
TYPES = {"long long": np.int64, "unsigned int": np.uint32, "int": np.int32}
GATHER = """
extern "C" __global__ void gather_{call}(
    const EdgeId* offsets, const Id* neighbours, const Id* listed, Id last, float* sums, int* visits)
{{
    const LaneGroup group;
    float sum = 0.0f;
    const auto start = [&](Id v) {{ sum = 0.0f; }};
    const auto fetch = [&](Id u, Id v, EdgeId e) {{ return e; }};
    const auto visit = [&](EdgeId got, Id u, Id v, EdgeId e) {{
        atomicAdd(visits + (e - {first}LL), got == e ? 1 : 1000);
        sum += u;
    }};
    const auto finish = [&](Id v) {{
        if (group.leads()) sums[v] = sum;
    }};
    const Id first = 0;
    const Every wanted;
    const auto enough = WholeRow();
    {text}
}}
"""
SHARES = {"lanes": 2, "warps": 2, "blocks": 2}


@pytest.fixture(scope="module")
def kernels():
    texts = [AT_MOST.format(number=at, type=name) for at, name in enumerate(TYPES)]
    for name, share in SHARES.items():
        call = CALLS[name].format(share=share, depth=2, rounds=2, ahead="true", many=0)
        texts.append(GATHER.format(call=name, first=FIRST, text=call))
    head = heading("matrices.cuh", "gather.cuh", lanes=4, block=BLOCK, edge_id="long long")
    return Kernels("\n".join([head, *texts]), headers(FOLDER), BLOCK)


def check_at_most(kernels, dtype):
    """Compare the lesser of pairs of positions with NumPy's."""
    numbers = np.array([one for one in NUMBERS if one <= np.iinfo(dtype).max], dtype)
    pairs = np.stack(np.meshgrid(numbers, numbers)).reshape(2, -1)
    a, b = np.resize(pairs, (2, BLOCK))
    name = f"at_most_{list(TYPES.values()).index(dtype)}"
    *_, found = kernels(name, 1, a, b, np.zeros(BLOCK, dtype))
    np.testing.assert_array_equal(found, np.minimum(a, b))


@pytest.mark.parametrize("dtype", TYPES.values())
def test_the_lesser_of_two_positions_keeps_its_bits(kernels, dtype):
    check_at_most(kernels, dtype)


@pytest.mark.parametrize("blocks", [1, 3])
@pytest.mark.parametrize("call", CALLS)
def test_edges_beyond_32_bits_are_gathered_once(kernels, call, blocks):
    """The array of neighbours begins so far before its memory that only its last elements exist."""
    check_at_most(kernels, np.int64)  # wrong ones would be read outside the memory of the process
    offsets, sources, neighbours = graph(5, np.random.default_rng(3).integers(0, 40, VERTICES))
    on_device, count = allocated(neighbours.astype(np.uint32)), 16 * blocks if call == "lanes" else VERTICES
    far = np.uint64((on_device.data.ptr - FIRST * on_device.itemsize) % (1 << 64))  # addresses wrap around
    listed = np.random.default_rng(2).permutation(VERTICES).astype(np.uint32)
    space = np.zeros(VERTICES, np.float32), np.zeros(len(sources), np.int32)
    *_, sums, visits = kernels(
        f"gather_{call}", blocks, offsets.astype(np.int64) + FIRST, far, listed, np.uint32(count), *space
    )
    chosen = np.isin(np.arange(VERTICES), np.arange(count) if call == "lanes" else listed)
    assert np.array_equal(visits, 4 * chosen[sources])
    assert np.array_equal(sums, np.bincount(sources, neighbours, VERTICES) * chosen)
