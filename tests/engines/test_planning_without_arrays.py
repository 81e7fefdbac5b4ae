"""Planning depends on facts of a graph: with arrays that raise, every engine gives the same answer."""

from __future__ import annotations

import copy
import functools
import itertools
import pickle
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import yaml

from engines.lonestar import cpu_engine
from harness.conformance.matrix import schedules
from harness.contract import Device, No, Yes
from harness.graph import Graph
from harness.graph.generators import random_ratings, rmat
from harness.language import trace
from harness.per_device import PerDevice
from tests.engines.edge_programs import EDGE_PROGRAMS
from tests.engines.problems import ALGORITHMS, ELSEWHERE, IN_PLACE, SPECS, new_engine
from tests.engines.programs import PROGRAMS
from tests.engines.test_lonestar_choice import FIGURES_MADE
from tests.lowering.test_cpu_plan import example

CONFIGURATION = Path(__file__).parents[2] / "conf/engine"
CHOSEN = {**IN_PLACE, **ELSEWHERE}
NAMES = [*ALGORITHMS, *CHOSEN, *PROGRAMS, *EDGE_PROGRAMS]
FACTS = ("facts", "has_reverse_edges", "has_self_loops", "has_parallel_edges", "least_weight")  # computed once
SIZES = ("shape", "dtype", "ndim", "size")


def read(*_):
    raise AssertionError("planning reads an array of the graph")


class Unread:
    """An array of which only the sizes may be read."""

    def __init__(self, array):
        vars(self).update({name: getattr(array, name) for name in SIZES})

    __getattr__ = __array__ = __getitem__ = __len__ = __iter__ = __eq__ = __bool__ = read
    __hash__ = None


class GraphWithoutArrays(Graph):
    """The facts of a graph, and names and sizes of its data; its arrays raise."""

    csr = csc = in_weights = in_offsets = in_degrees = out_degrees = in_edge_ids = reverse_edges = property(read)
    arrays = edges_into = in_csc_order = read

    def __init__(self, graph):
        for name in ("name", "directed", "num_vertices", "num_edges", "bipartite", "meta", *FACTS):
            vars(self)[name] = getattr(graph, name)
        self.weights, self.labels = (None if a is None else Unread(a) for a in (graph.weights, graph.labels))
        for name in ("vertex_data", "edge_data"):
            setattr(self, name, {key: Unread(array) for key, array in getattr(graph, name).items()})


@functools.cache
def program_named(name):
    return trace(CHOSEN[name]) if name in CHOSEN else example(name)


@functools.cache
def graphs():
    """Return ratings, a graph with reverse edges, and one with self-loops, each with and without its arrays."""
    found = [
        random_ratings(users=30, items=20, num_ratings=200, seed=3), rmat(6, 4, symmetric=True, max_weight=4),
        rmat(6, 4, self_loops=True, parallel_edges=True),
    ]  # fmt: skip
    return [(graph, GraphWithoutArrays(graph)) for graph in found]


def named_variants(name):
    """Return the options of an engine's variants in the configuration."""
    files = map(yaml.safe_load, (path.read_text() for path in sorted(CONFIGURATION.glob("*.yaml"))))
    found = [file for file in files if file.get("name") == name]
    return [{key: value for key, value in file.items() if key not in ("name", "defaults")} for file in found]


@functools.cache
def engines():
    """Return an engine under every schedule, with the device, for every kind of device that it runs on."""
    found = []
    for spec in SPECS.values():
        if not all(map(find_spec, spec.requires)):
            continue
        for options, kind in itertools.product([*schedules(spec), *named_variants(spec.name)], spec.devices):
            engine = new_engine(spec.name, options)
            found.append((engine.on(Device(kind)) if isinstance(engine, PerDevice) else engine, Device(kind)))
    return found


@pytest.fixture
def measured(monkeypatch, tmp_path):
    """Give figures of the CPU for ``order=auto`` without measuring it."""
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setattr(cpu_engine, "cpu_figures", lambda _: FIGURES_MADE)


@pytest.mark.usefixtures("measured")
@pytest.mark.short_run(rows=1, always="sgd_mf")
@pytest.mark.parametrize("name", NAMES)
def test_a_program_is_planned_under_every_schedule_without_arrays(name):
    """As with arrays, twice alike, and without a change of the engine, the program or the facts."""
    program, answers = program_named(name), []
    for number, (engine, device) in enumerate(engines()):
        graph, without = graphs()[number % len(graphs())]
        before = copy.copy(vars(engine)), program.serialise(), pickle.dumps(without.facts)
        answers.append(engine.supports(program, without, 3, device))
        if number % 4 == NAMES.index(name) % 4:  # the others with other programs
            assert answers[-1] == engine.supports(program, without, 3, device)
            assert answers[-1] == engine.supports(program, graph, 3, device)
        assert (vars(engine), program.serialise(), pickle.dumps(without.facts)) == before
    assert {type(answer) for answer in answers} == {Yes, No}


def test_arrays_raise():
    for graph, without in graphs():
        for name in ("csr", "csc", "in_degrees", "out_degrees", "in_edge_ids", "row_of_edge"):
            with pytest.raises((AssertionError, AttributeError)):
                getattr(without, name)
        if graph.weights is not None:
            for use in (np.asarray, np.sum, len, bool, lambda weights: weights[0], lambda weights: weights.min()):
                with pytest.raises(AssertionError, match="planning reads"):
                    use(without.weights)
