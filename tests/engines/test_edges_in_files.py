"""Edge arrays in files on the CPU: mapped, or streamed by windows within a memory budget."""

from __future__ import annotations

import itertools
import json
import shutil
import subprocess
import sys

import numpy as np
import pytest

from harness.algorithms.sssp import SSSP
from harness.cache import CacheError
from harness.contract import Device, EngineFailure, No, Phases, ScheduleError
from harness.graph import Graph
from harness.graph.adjacency import Adjacency
from harness.graph.cache import open_stored, store
from harness.graph.file_maps import file_map, release_pages, taken_from
from harness.language import trace
from harness.language.validation import compare
from harness.lowering.cpu import edge_places
from harness.lowering.cpu.edge_places import EdgeFile
from harness.lowering.cpu.engine import CpuEngine
from harness.lowering.cpu.policy import CpuPolicy
from harness.lowering.cpu.windowed_calls import Slot, WindowedCalls
from tests.engines.measured_streaming import FEATURES, SUPERSTEPS
from tests.engines.problems import ALGORITHMS, STRATEGIES, new_engine, prepared, problem, program, reference
from tests.engines.programs import inputs_for, program_named, traced, two_sides
from tests.processes import HANGS_S

GENERATING = [name for name, (engine, _) in STRATEGIES.items() if engine not in ("scipy", "torch")]
PLACES = [{"edges": "mapped"}, {"edges": "streamed", "window_mb": 0.004}]


def answers(options, graph, inputs, name="pagerank"):
    """Return the outputs after some supersteps, the statistics, and the engine."""
    engine = prepared(*options, program(name), graph, FEATURES)
    for _ in range(2):  # a second run reads the same files
        engine.reset(inputs)
        statistics = engine.run(12)
    return {output: engine.values(output) for output in program(name).outputs}, statistics, engine


@pytest.mark.parametrize("place", PLACES, ids=["mapped", "streamed"])
@pytest.mark.parametrize("strategy", GENERATING)
def test_answers_are_those_of_edges_in_memory_bit_for_bit(strategy, place):
    engine, options = STRATEGIES[strategy]
    graph, inputs = problem("pagerank", "rmat", FEATURES)
    wanted, statistics, _ = answers((engine, options), graph, inputs)
    found, in_files, streaming = answers((engine, {**options, **place}), graph, inputs)
    assert all(np.array_equal(found[name], values) for name, values in wanted.items())
    assert (in_files.settled, in_files.supersteps) == (statistics.settled, statistics.supersteps)
    assert streaming.resolved_options()["edges"] == place["edges"]
    assert f"edge arrays {place['edges']} from files" in streaming.explain()


@pytest.mark.parametrize("place", PLACES, ids=["mapped", "streamed"])
@pytest.mark.parametrize("strategy", ["pull", "push"])
def test_edge_values_are_read_from_files(strategy, place):
    engine, options = STRATEGIES[strategy]
    graph, inputs = problem("sssp", "rmat", FEATURES)
    wanted, statistics, _ = answers((engine, options), graph, inputs, "sssp")
    found, in_files, _ = answers((engine, {**options, **place}), graph, inputs, "sssp")
    assert all(np.array_equal(found[name], values) for name, values in wanted.items())
    assert (in_files.settled, in_files.supersteps) == (statistics.settled, statistics.supersteps)
    given, *_ = answers((engine, {**options, **place}), graph.with_weights(2 * graph.weights), inputs, "sssp")
    assert all(np.array_equal(given[name], 2 * values) for name, values in wanted.items())


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize("algorithm", ["pagerank", "sssp"])
@pytest.mark.parametrize("strategy", ["pull-all", "pull"])
def test_counts_are_those_of_edges_in_memory_if_windows_have_fewer_parts_than_others(strategy, algorithm, monkeypatch):
    monkeypatch.setattr(CpuEngine, "runs", CpuPolicy(few=0, smallest_part=64))
    engine, options = STRATEGIES[strategy]
    graph, inputs = problem(algorithm, "rmat", FEATURES)
    (_, wanted, _), (_, found, _) = (
        answers((engine, {**options, **place}), graph, inputs, algorithm) for place in ({}, PLACES[1])
    )
    assert found.supersteps == wanted.supersteps


@pytest.mark.parametrize("strategy", ["push-all", "gunrock", "tigr"])
def test_the_sums_of_hubs_are_right_across_windows(strategy):
    engine, options = STRATEGIES[strategy]
    graph, inputs = problem("pagerank", "hub", FEATURES)
    streamed = {"edges": "streamed", "window_mb": 0.05}  # a window has the out-edges of the hub, or some leaves
    running = prepared(engine, {**options, **streamed}, program("pagerank"), graph, FEATURES)
    running.reset(inputs)
    running.run(6)
    wanted, _, _ = reference("pagerank", "hub", FEATURES, 6)
    assert compare(program("pagerank"), {name: running.values(name) for name in wanted}, wanted).error < 1e-5


@pytest.mark.full
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("strategy", GENERATING)
def test_every_algorithm_streams_or_is_refused(strategy, algorithm):
    engine, options = STRATEGIES[strategy]
    on = {"als": "ratings", "belief_propagation": "picture", "belief_propagation_edge": "network"}.get(algorithm)
    on = on or {"belief_propagation_max": "picture"}.get(algorithm, "rmat")
    graph, inputs = problem(algorithm, on, FEATURES)
    for place in PLACES:
        made, device = new_engine(engine, {**options, **place}), Device(threads=2)
        resident = new_engine(engine, options).supports(program(algorithm), graph, FEATURES, device)
        answer = made.supports(program(algorithm), graph, FEATURES, device)
        if isinstance(resident, No) or isinstance(answer, No):
            assert isinstance(answer, No)
            assert answer == resident or answer.reason.startswith("edges=streamed: ")
            continue
        outcomes = []
        for chosen in ({}, place):
            running = prepared(engine, {**options, **chosen}, program(algorithm), graph, FEATURES)
            running.reset(inputs)
            running.run(5)
            outcomes.append([running.values(name) for name in program(algorithm).outputs])
        assert all(np.array_equal(*pair, equal_nan=True) for pair in zip(*outcomes, strict=True))


# the budget -----------------------------------------------------------------------------------------------------------
def regular(vertices, degree):
    """Return random edges, as many from each vertex, with random weights."""
    rng = np.random.default_rng(0)
    neighbours = np.sort(rng.integers(0, vertices, (vertices, degree), dtype=np.uint32), axis=1).ravel()
    offsets = np.arange(vertices + 1, dtype=np.int64) * degree
    weights = rng.uniform(0.5, 1.0, len(neighbours)).astype(np.float32)
    return Graph(Adjacency(offsets, neighbours), name="regular", weights=weights)


def measured(graph, small, window_mb):
    """Return what a process that streams the edges of a stored graph measures."""
    folders = [str(store(one)) for one in (graph, small)]
    options = {"edges": "streamed", "window_mb": window_mb, "direction": "pull"}
    command = [sys.executable, "-m", "tests.engines.measured_streaming", *folders, "onyx", json.dumps(options)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=HANGS_S, check=False)
    assert ended.returncode == 0, ended.stderr
    return json.loads(ended.stdout)


def test_the_peak_memory_stays_within_a_quarter_of_the_edges():
    graph = regular(1 << 15, 128)
    read = 3 * 4 * graph.num_edges  # sources and weights of in-edges, destinations of out-edges
    found = measured(graph, regular(512, 8), 1.5)
    assert 2 * 1.5e6 <= found["bytes_needed"] < read / 8
    assert found["peak"] - found["before"] <= read / 4
    engine, algorithm = prepared("onyx", {}, trace(SSSP()), graph, FEATURES), SSSP()
    engine.reset(algorithm.inputs(graph, FEATURES))
    engine.run(SUPERSTEPS)
    assert found["total"] == float(engine.values("distance").sum(dtype=np.float64))


@pytest.mark.full
def test_a_whole_process_stays_within_a_quarter_of_the_files():
    """1.3 GB of files, and a process whose resident memory, with that of Python and the compiler, is a quarter."""
    graph = regular(1 << 18, 240)
    folder = store(graph)
    try:
        files = sum(file.stat().st_size for file in folder.glob("*.npy"))
        found = measured(graph, regular(512, 8), 8)
    finally:
        shutil.rmtree(folder)
    assert found["peak"] <= files / 4


def test_the_plan_prices_windows_instead_of_edges():
    graph, _ = problem("sssp", "rmat", FEATURES)
    price = {}
    for edges in ("resident", "mapped", "streamed"):
        options = {"edges": edges, "change_driven": True} | ({"window_mb": 0.004} if edges == "streamed" else {})
        price[edges] = new_engine("onyx", options).supports(program("sssp"), graph, FEATURES, Device(threads=2))
    weights = 4 * graph.num_edges
    assert price["mapped"].bytes_needed == price["resident"].bytes_needed - weights
    assert price["streamed"].bytes_needed == price["mapped"].bytes_needed + 2 * 4000
    assert {one.host_bytes for one in price.values()} == {0}


def test_windows_without_active_vertices_are_not_read(monkeypatch):
    """A chain has one active vertex in each superstep of shortest paths."""
    fetched, fetch = [], Slot.fetch

    def counted(slot, arrays, num_edges, first, last, *runs):
        fetched.append((sorted(arrays), first, last))
        return fetch(slot, arrays, num_edges, first, last, *runs)

    monkeypatch.setattr(Slot, "fetch", counted)
    graph, _ = problem("sssp", "chain", FEATURES)
    inputs = SSSP(sources="0 0 0").inputs(graph, FEATURES)
    engine = prepared(
        "onyx", {"edges": "streamed", "window_mb": 5 * 8e-6, "direction": "pull"}, program("sssp"), graph, FEATURES
    )
    engine.reset(inputs)
    engine.run(1)
    assert [span for _, *span in fetched] == [[first, first + 5] for first in range(0, 40, 5)]
    fetched.clear()
    engine.run(1)
    assert fetched == [(["out_neighbours"], 0, 5), (["csc_weight", "in_neighbours"], 0, 5)]
    engine.run(40)
    np.testing.assert_allclose(engine.values("distance")[:, 0], np.cumsum([0, *graph.weights]), rtol=1e-6)


# refusals and failures ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("engine", ["onyx", "gunrock", "tigr", "simdx"])
def test_programs_whose_edges_cannot_be_streamed_are_refused(engine):
    streamed = new_engine(engine, {"edges": "streamed", "window_mb": 0.004})
    device = Device(threads=2)
    answer = streamed.supports(program_named("beliefs"), two_sides(), FEATURES, device)
    assert isinstance(answer, No)
    if engine != "gunrock":  # which refuses it in any place
        assert "updates an edge property, and only edges that do not change stream" in answer.reason
    hub, leaves = np.zeros(3000, np.int64), np.arange(1, 3001)
    for ends in ((leaves, hub), (hub, leaves)):
        graph = Graph.from_edges(*ends, num_vertices=3001, name="hub")
        answer = streamed.supports(program("pagerank"), graph, FEATURES, device)
        assert answer == No("edges=streamed: a window has 1,000 edges, and a vertex has 3,000; give window_mb=1")


def reverse_weights(p, self):
    """Weigh what sources send by the weight of the reverse edge."""
    p.edge("weight")
    p.vertex("x", start=1.0)

    @p.over_edges(into="total", reduce="sum")
    def send(src, edge):
        return src.x * edge.reverse.weight

    @p.over_vertices
    def step(v):
        return {"x": 0.5 * v.total}

    p.repeat(5)
    p.output("x", bound=1e-5)


def test_programs_that_read_reverse_edges_are_mapped_but_not_streamed():
    read = traced(reverse_weights, "reverse_weights")
    graph, inputs = two_sides(), inputs_for(read, two_sides(), FEATURES)
    answer = new_engine("onyx", {"edges": "streamed"}).supports(read, graph, FEATURES, Device(threads=2))
    assert isinstance(answer, No)
    assert answer.reason.endswith("give edges=mapped")
    found = []
    for edges in ("resident", "mapped"):
        engine = prepared("onyx", {"edges": edges}, read, graph, FEATURES)
        engine.reset(inputs)
        engine.run(3)
        found.append(engine.values("x"))
    np.testing.assert_array_equal(*found)


def test_a_window_needs_streamed_edges():
    with pytest.raises(ScheduleError, match="window_mb=8 applies only to edges=streamed"):
        new_engine("tigr", {"edges": "mapped", "window_mb": 8})


def test_a_truncated_file_is_named_with_the_byte_where_it_ends():
    folder = store(regular(600, 8))
    graph = open_stored(folder, name="stored", meta={})
    behind = file_map(graph.csc.neighbours)
    engine = new_engine("onyx", {"edges": "streamed", "window_mb": 0.004, "direction": "pull"})
    engine.prepare(trace(SSSP()), graph, FEATURES, Device(threads=2), Phases())
    engine.reset(SSSP().inputs(graph, FEATURES))
    whole = behind.path.read_bytes()
    try:
        with behind.path.open("r+b") as file:
            file.truncate(behind.offset + 10_000)
        with pytest.raises(EngineFailure, match=rf"{behind.path}: the file ends at byte 10,128, before the last edge"):
            engine.run(1)
    finally:
        behind.path.write_bytes(whole)


def test_a_disk_without_room_is_refused_before_anything_is_written(monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(edge_places.os, "posix_fallocate", full)

    def parts():
        raise AssertionError("written")
        yield

    with pytest.raises(CacheError, match="No space left on device"):
        EdgeFile.written(parts(), 100)


# files behind arrays --------------------------------------------------------------------------------------------------
def test_the_file_behind_an_array_is_found_through_views():
    graph = open_stored(store(regular(600, 8)), name="stored", meta={})
    values = graph.csr.neighbours
    found = file_map(values[1000:2000])
    with found.path.open("rb") as file:
        file.seek(found.offset)
        np.testing.assert_array_equal(np.frombuffer(file.read(found.nbytes), np.uint32), values[1000:2000])
    assert file_map(np.arange(3)) is None
    assert file_map(values[::2]) is None
    release_pages(values[700:4000])
    places = np.arange(0, values.size, 3)
    np.testing.assert_array_equal(taken_from(values, places), np.asarray(values)[places])
    np.testing.assert_array_equal(graph.csr.neighbours, regular(600, 8).csr.neighbours)


def test_reads_of_a_run_that_failed_are_not_those_of_the_next_one(monkeypatch):
    graph, inputs = problem("sssp", "chain", FEATURES)
    options = {"edges": "streamed", "window_mb": 5 * 8e-6, "direction": "pull"}
    running = prepared("onyx", options, program("sssp"), graph, FEATURES)
    found, called, calls_of_run = [], WindowedCalls.__call__, itertools.count(1)

    def failing(calls, *arguments, **overrides):
        called(calls, *arguments, **overrides)
        if next(calls_of_run) % 8 == 0:
            raise EngineFailure("the disk failed")

    for fails in (False, True, False, True, False):
        running.reset(inputs)
        if not fails:
            found.append(running.run(SUPERSTEPS).transfers)
            continue
        with monkeypatch.context() as patch, pytest.raises(EngineFailure, match="the disk failed"):
            patch.setattr(WindowedCalls, "__call__", failing)
            running.run(SUPERSTEPS)
    assert found[0].visited > 0
    assert found == [found[0]] * 3
