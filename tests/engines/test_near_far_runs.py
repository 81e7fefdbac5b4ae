"""Near-far over several runs: the default of delta by hand, other inputs and problems, and what is recorded."""

from __future__ import annotations

import numpy as np
import pytest

from engines.onyx.engine import OnyxEngine
from engines.onyx.schedule import OnyxSchedule
from harness.contract import Device
from harness.graph import Graph
from harness.language import Inputs
from harness.lowering import near_far
from harness.lowering.cpu import near_far as near_far_of_cpus
from harness.lowering.cpu.near_far import NearFarCpuEngine
from harness.lowering.near_far import UNBOUNDED
from tests.engines.near_far import PROGRAMS, SERIAL, TOLLS, runs_again, scattered, starts

INF = np.inf


def several_edges(count):
    """Return a graph of two vertices with some edges between them."""
    return Graph.from_edges([0] * count, [1] * count, num_vertices=2, name="several", duplicates="keep")


@pytest.mark.parametrize(
    ("program", "lengths", "mean"),
    [
        ("lengths", [1.0, 2.0, 6.0], 3.0),
        ("lengths", [0.0, 0.0, 0.5], 0.5 / 3),
        ("lengths", [1.0, INF, 3.0], 2.0),
        ("lengths", [3.0, INF, 3.0], None),
        ("lengths", [INF, INF], None),
        ("lengths", [2.0, 2.0, 2.0], None),
        ("lengths", [2.0], None),
        ("lengths", [], None),
        ("hops", [1.0, 5.0], None),
        ("copies", [1.0, 5.0], None),
        ("longer of two", [0.25, 1.0, 2.5], 4.0 / 3),  # of 0.5, the rate, if an edge is shorter
        ("losses", [4.0, -2.0, -0.25], 1.0),  # of 0.5, 2 and 0.5
        ("largest edge", [4.0, 1.0], 2.5),
        # every second edge is a sample
        ("lengths", [1.0, 90.0, 2.0, 70.0, 3.0, 80.0, 4.0, 10.0, 5.0, 20.0], 3.0),
    ],
)
def test_the_default_of_delta_is_twice_the_mean_length_of_some_edges(program, lengths, mean, monkeypatch):
    """It is unbounded if all are equal; edges of infinite length do not count."""
    monkeypatch.setattr(near_far, "SAMPLES", 5)
    graph, engine = several_edges(len(lengths)), NearFarCpuEngine(OnyxSchedule(order="near_far"))
    engine.generate(PROGRAMS[program], graph, 1, SERIAL)
    assert engine.resolved_options() == {"order": "near_far"}
    given = {"own": np.zeros((2, 1), np.float32), "weight": np.array(lengths, np.float32)}
    engine.reset(Inputs({name: values for name, values in given.items() if name in PROGRAMS[program].properties}))
    assert engine.resolved_options() == {"order": "near_far", "delta": UNBOUNDED if mean is None else 2 * mean}
    engine.close()


def test_a_given_delta_is_used_and_explained():
    engine, graph = NearFarCpuEngine(OnyxSchedule(order="near_far", delta=0.75)), scattered(1)
    engine.generate(PROGRAMS["lengths"], graph, 1, SERIAL)
    engine.reset(Inputs({"own": starts(graph, 1, "min")}))
    assert engine.delta == 0.75
    assert engine.resolved_options() == {"order": "near_far", "delta": 0.75}
    assert "delta: 0.75\n" in engine.explain()
    engine.close()


@pytest.mark.parametrize(
    ("program", "needed"),
    [
        (PROGRAMS["hops"], "the inputs"), (PROGRAMS["lengths"], "weight"),
        (PROGRAMS["longer of two"], "weight, rate"), (TOLLS, "weight, rate, tolerance"),
    ],
)  # fmt: skip
def test_the_explanation_names_every_input_and_parameter_with_a_condition(program, needed):
    engine = OnyxEngine(OnyxSchedule(order="near_far"))
    engine.generate(program, scattered(1), 1, SERIAL)
    (line,) = (line for line in engine.explain().splitlines() if line.startswith("required of "))
    names, _, rest = line.removeprefix("required of ").partition(": ")
    assert (sorted(names.split(", ")), rest) == (
        sorted(needed.split(", ")), "no message is better than its source's value"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("threads", "lanes", "pool", "workers"), [(4, 2, 8, 2), (2, 9, 8, 2), (4, 9, 3, 3), (1, 9, 8, 1), (4, 0, 8, 1)]
)
def test_no_more_threads_than_features_or_than_the_pool_has(threads, lanes, pool, workers, monkeypatch):
    monkeypatch.setattr(near_far_of_cpus.numba.config, "NUMBA_NUM_THREADS", pool)
    assert near_far_of_cpus.workers(Device(threads=threads), lanes) == workers


@pytest.mark.parametrize("threads", [1, 3])
def test_each_run_has_its_own_inputs_and_the_record_the_first(threads):
    runs_again(OnyxEngine(OnyxSchedule(order="near_far")), Device(threads=threads))
