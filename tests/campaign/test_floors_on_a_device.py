"""The rates of a real CUDA device, and floors below the times of runs on it."""

from __future__ import annotations

import time

import pytest

from harness.campaign.least_work import least_bytes
from harness.contract import Device, Phases
from harness.device.driver import synchronize
from harness.language import trace
from harness.records.floor import Work, floor_of
from tests.benchmarks.workloads import Aggregation, rmat
from tests.engines.cuda_schedules import cuda_engine

pytestmark = pytest.mark.gpu
SUPERSTEPS = 50


@pytest.fixture(scope="module")
def rates():
    pytest.importorskip("cupy")
    from harness.device.cuda_rates import cuda_rates

    return cuda_rates(0)


def test_rates_of_a_device_are_plausible(rates):
    (_, near), (cache, remote) = rates["levels"]
    assert near >= remote / 2
    assert 1e10 < remote < 1e14  # bytes per second
    assert cache >= 1 << 19
    assert 1e8 < rates["adds"] <= 2 * rates["wide_adds"]
    assert 1e-7 < rates["launch"] < 1e-4  # seconds


@pytest.mark.parametrize(
    ("schedule", "features"), [(name, k) for name in ("pull", "push", "tigr", "gunrock", "simdx") for k in (1, 32)]
)
def test_no_run_takes_less_than_its_floor(schedule, features, rates):
    algorithm, graph, device = Aggregation(supersteps=SUPERSTEPS), rmat(), Device("cuda")
    program, engine = trace(algorithm), cuda_engine(schedule)
    engine.prepare(program, graph, features, device, Phases())
    inputs, samples = algorithm.inputs(graph, features), []
    for _ in range(5):
        engine.reset(inputs)
        synchronize(0)
        began = time.perf_counter()
        statistics = engine.run(SUPERSTEPS)
        synchronize(0)
        samples.append(time.perf_counter() - began)
    done = engine.operations(statistics)
    moved = least_bytes(program, graph.facts, features, statistics.supersteps)
    floor = floor_of(Work(bytes=moved, adds=done.adds, wide=done.wide, launches=done.launches), rates)
    engine.close()
    for size, superstep in zip(moved, statistics.supersteps, strict=True):  # ids, and coefficients if all are visited
        assert size >= (8 if superstep.edges >= graph.num_edges else 4) * superstep.edges
    assert (done.adds > 0) == (schedule in ("push", "tigr", "gunrock"))
    print(f"{schedule}, k = {features}: {floor['largest']}, {floor['seconds'] / min(samples):.1%} of the time")
    assert 0 < floor["seconds"] <= min(samples), floor
