"""No kernel races: unordered accesses of several threads to one address are atomic, or their order changes nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from harness.emulation.arrays import allocated
from harness.emulation.compiler import EmulationError, library, unavailable
from harness.graph.generators import rmat
from harness.language import trace
from tests.emulation.device import emulate
from tests.emulation.racing import RacingModule
from tests.engines.cuda_schedules import SCHEDULES
from tests.engines.test_cuda import algorithms, check_every_superstep, random_network

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())

KERNELS = """
extern "C" __global__ void __launch_bounds__(64) added(float* sum, float* each)
{
    atomicAdd(sum, 1.0f);
}
extern "C" __global__ void __launch_bounds__(64) lost(float* sum, float* each)
{
    *sum += 1.0f;
}
extern "C" __global__ void __launch_bounds__(64) lost_by_blocks(float* sum, float* each)
{
    if (threadIdx.x == 0) *sum += 1.0f;
}
extern "C" __global__ void __launch_bounds__(64) stored(float* sum, float* each)
{
    if (threadIdx.x == 5) *sum = 0.0f;
    else atomicAdd(sum, 1.0f);
}
extern "C" __global__ void __launch_bounds__(64) flagged(float* sum, float* each)
{
    *sum = 1.0f;
}
extern "C" __global__ void __launch_bounds__(64) own(float* sum, float* each)
{
    each[blockIdx.x * 64 + threadIdx.x] += 1.0f;
}
extern "C" __global__ void __launch_bounds__(64) behind_a_barrier(float* sum, float* each)
{
    if (threadIdx.x == 40) each[blockIdx.x] = 0.0f;
    __syncthreads();
    if (threadIdx.x == 3) each[blockIdx.x] += 1.0f;
}
extern "C" __global__ void __launch_bounds__(64) behind_another_barrier(float* sum, float* each)
{
    if (threadIdx.x == 40) each[blockIdx.x] = 0.0f;
    __syncwarp();
    if (threadIdx.x == 3) each[blockIdx.x] += 1.0f;
}
extern "C" __global__ void __launch_bounds__(64) behind_a_barrier_of_lanes(float* sum, float* each)
{
    if (threadIdx.x == 9) each[blockIdx.x] = 0.0f;
    __syncwarp();
    if (threadIdx.x == 3) each[blockIdx.x] += 1.0f;
}
extern "C" __global__ void __launch_bounds__(64) shown(float* sum, float* each)
{
    __shared__ float room[64];
    for (int turn = 0; turn < 2; ++turn) {
        room[threadIdx.x] = turn;
        __syncthreads();
        each[blockIdx.x * 64 + threadIdx.x] = room[63 - threadIdx.x];
        __syncthreads();
    }
}
extern "C" __global__ void __launch_bounds__(64) shown_too_early(float* sum, float* each)
{
    __shared__ float room[64];
    room[threadIdx.x] = 1.0f;
    each[blockIdx.x * 64 + threadIdx.x] = room[63 - threadIdx.x];
}
extern "C" __global__ void __launch_bounds__(64) replaced_too_early(float* sum, float* each)
{
    __shared__ float room[64];
    for (int turn = 0; turn < 2; ++turn) {
        room[threadIdx.x] = turn;
        __syncthreads();
        each[blockIdx.x * 64 + threadIdx.x] = room[63 - threadIdx.x];
    }
}
extern "C" __global__ void __launch_bounds__(64) behind_a_barrier_of_other_lanes(float* sum, float* each)
{
    if (threadIdx.x == 9) each[blockIdx.x] = 0.0f;
    if (threadIdx.x / 8 == 1) __syncwarp(0xff00u);
    if (threadIdx.x == 3) each[blockIdx.x] += 1.0f;
}
extern "C" __global__ void __launch_bounds__(64) behind_a_barrier_of_both(float* sum, float* each)
{
    if (threadIdx.x == 9) each[blockIdx.x] = 0.0f;
    if (threadIdx.x < 16) __syncwarp(0xffffu);
    if (threadIdx.x == 3) each[blockIdx.x] += 1.0f;
}
extern "C" __global__ void __launch_bounds__(64) wide(float* sum, float* each)
{
    if (threadIdx.x == 0) *reinterpret_cast<double*>(each) = 0.0;
    if (threadIdx.x == 32) each[1] = 1.0f;
}
extern "C" __global__ void __launch_bounds__(64) bytes(float* sum, float* each)
{
    reinterpret_cast<unsigned char*>(each)[blockIdx.x * 64 + threadIdx.x] = threadIdx.x;
}
extern "C" __global__ void __launch_bounds__(64) counted(float* sum, float* each)
{
    __shared__ float room;
    if (threadIdx.x == 0) room = 0.0f;
    __syncthreads();
    atomicAdd(&room, 1.0f);
    __syncthreads();
    each[blockIdx.x * 64 + threadIdx.x] = room;
}
extern "C" __global__ void __launch_bounds__(64) counted_too_early(float* sum, float* each)
{
    __shared__ float room;
    if (threadIdx.x == 0) room = 0.0f;
    __syncthreads();
    atomicAdd(&room, 1.0f);
    each[blockIdx.x * 64 + threadIdx.x] = room;
}
extern "C" __global__ void __launch_bounds__(64) read_in_any_order(float* sum, float* each)
{
    if (threadIdx.x == 7) each[0] = 1.0f;
    if (threadIdx.x == 50 && each[0] == 2.0f) each[1] = 1.0f;
}
"""
RACING = {  # with so many blocks
    "lost": 1, "lost_by_blocks": 2, "stored": 1, "behind_another_barrier": 1, "shown_too_early": 1,
    "replaced_too_early": 1, "behind_a_barrier_of_other_lanes": 1, "wide": 1, "counted_too_early": 1,
}  # fmt: skip
SOUND = ("added", "flagged", "own", "behind_a_barrier", "behind_a_barrier_of_lanes", "shown",
         "behind_a_barrier_of_both", "bytes", "counted", "read_in_any_order")  # fmt: skip


def launch(name, blocks):
    module = RacingModule()
    module.load(str(library(KERNELS, {}, racing=True)).encode())
    arrays = tuple(allocated(np.zeros(length, np.float32)) for length in (1, 128))
    module.get_function(name)((blocks,), (64,), arrays)


@pytest.mark.short_run(rows=2 * len(RACING))
@pytest.mark.parametrize("turn", range(2))  # threads run in ascending and in descending order
@pytest.mark.parametrize("name", RACING)
def test_races_are_found(name, turn):
    if turn:
        launch("own", 1)
    with pytest.raises(EmulationError, match=f"^{name}: thread .* one address.*, in no order"):
        launch(name, RACING[name])


@pytest.mark.parametrize("name", SOUND)
def test_ordered_and_atomic_accesses_are_sound(name):
    launch(name, 2)
    launch(name, 2)


FEATURES, SUPERSTEPS = 3, 4
TODAY = [
    ("pull-edges", "label_propagation"), ("pull-edges", "belief_propagation"), ("push", "pagerank"),
    ("push-edges", "sssp"), ("changes-push-edges", "label_propagation"), ("gunrock-merge-path", "pagerank"),
    ("tigr", "label_propagation"), ("simdx-lists", "kcore"), ("emogi-tiled", "sssp"),
]  # fmt: skip
LATER = [pair for pair in zip(SCHEDULES, itertools.cycle(algorithms()), strict=False) if pair not in TODAY]


@pytest.mark.short_run(rows=3, always="pull-edges-label")
@pytest.mark.parametrize(
    ("schedule", "name"), [*TODAY, *(pytest.param(*pair, marks=pytest.mark.full) for pair in LATER)]
)
def test_no_kernel_races(schedule, name, monkeypatch):
    emulated, algorithm = emulate(monkeypatch, racing=True), algorithms()[name]
    program, features = trace(algorithm), 1 if name in ("components", "kcore") else FEATURES
    graph = algorithm.prepare_graph(rmat(scale=8, edge_factor=4, seed=4, max_weight=4))
    inputs = random_network(graph, features) if name == "belief_propagation" else algorithm.inputs(graph, features)
    check_every_superstep(schedule, program, graph, inputs, features, emulated, SUPERSTEPS)
