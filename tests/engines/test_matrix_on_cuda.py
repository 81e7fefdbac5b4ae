"""The matrix of :mod:`tests.engines.test_matrix` on a CUDA device: fresh graphs and inputs, memory poisoned beforehand.

Every schedule of the CPU's matrix meets every algorithm that it supports with one number of features, under one of
the options that only a GPU has, on two graphs. The choice rotates (:func:`rows`), so that schedules and algorithms
meet all numbers, options and graphs. Everything runs under ``-m full``. A failing test reports ``HARNESS_SEED=...``,
which repeats its draws.
"""

from __future__ import annotations

import collections
import functools
import importlib.util
import itertools
import sys
from contextlib import closing, contextmanager, nullcontext
from typing import Any, NamedTuple

import numpy as np
import pytest

from harness.conformance.matrix import FEATURES, schedules
from harness.conformance.page import page
from harness.contract import Device, No, Phases, Unsupported, Yes
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from harness.lowering.buffers import Holds
from harness.per_device import PerDevice
from harness.plugins import Registry
from tests.engines.fresh import SEED, drawn_problem
from tests.engines.problems import ALGORITHMS, SPECS, new_engine, outputs_of, problem, program
from tests.engines.test_matrix import DOCS, GRAPHS, SCALAR, STREAMS, UPDATING, check_table, registry, supersteps

gpu = pytest.mark.gpu
TABLE = DOCS / "what-runs-where-cuda.md"
TABLED = tuple(name for name, spec in SPECS.items() if "cuda" in spec.devices)
ENGINES = tuple(name for name in TABLED if name != "lonestar")  # which has tests of its own: test_lonestar_on_cuda.py
LIBRARIES = ("cusparse", "torch")
# Options that the CPU's matrix does not vary. Thresholds are low, so that small graphs fill all lists of simdx and have
# several virtual nodes per vertex.
LOW = {"warp_degree": 3, "block_degree": 9}
TURNS: dict[str, tuple[dict[str, Any], ...]] = {
    "onyx": (
        {}, {"balance": "warp"}, {"balance": "edge"}, {"pipeline": False}, {"vector_width": 1},
        {"vector_width": 2, "block_size": 128}, {"dense_share": 1.0, "rebuild": 2},
    ),
    "gunrock": ({}, {"balance": "merge_path"}, {"rebuild": 0}),
    "tigr": ({}, {"degree_bound": 3}),
    "simdx": ({}, LOW, {"fusion": "none", **LOW}),
    "emogi": (
        {}, {"access": "naive"}, {"access": "merged", "frontier": "list"}, {"access": "tiled", "counters": True},
        {"access": "chunk", "rebuild": 2}, {"edges": "managed", "advice": "accessed_by"}, {"edges": "resident"},
    ),
    "scaph": (
        {"window_mb": 0.1}, {"window_mb": 0.1, "values": "low"}, {"window_mb": 0.1, "values": "high", "slots": 2},
        {"window_mb": 0.1, "low": "zero_copy", "alpha": 0.2}, {"window_mb": 0.1, "access": "aligned", "values": "low"},
        {"window_mb": 0.1, "rule": "chosen"},
    ),
    "cusparse": ({}, {"algorithm": 1}, {"algorithm": 2}, {"algorithm": 3}),
    "torch": ({},),
}  # fmt: skip
STATES = {"forest": 5, "network hub": 3}  # of graphs that need more features
# A vertex that sums thousands of messages, with programs whose stated bounds do not depend on degrees: see
# test_hubs_on_cuda.py.
MANY = {("pagerank", "hub"), ("feature_diffusion", "hub"), ("hits", "hub")}
# Half of the CPU matrix's number: of 500 fresh draws one had an error of 2e-3 after 12 supersteps.
LONGEST = {("als_all", 1): 6}
MATRICES = ("als", "als_all", "multimodal")  # whose messages or values are matrices
NO_PRODUCT = ("belief_propagation", "belief_propagation_max", "belief_propagation_edge", "bfs", "sssp", "components")
NO_CONSTANTS = ("manifold_ranking", "multimodal")
# With rebuild=0 Gunrock's sums keep the rounding errors of all changes; these programs state no bound for them.
NEVER_REBUILT = ("feature_diffusion", "hits")
# With these options a version of cuSPARSE left rows of products out on these graphs, with so many features or more: the
# row of thousands of entries, and an empty row behind the only row that has entries. It is refused then.
LEFT_OUT = {"algorithm": 3, "preprocess": "yes"}
LEFT_OUT_ON = {"hub": 1, "one loop": 2}
WIDE = ("manifold_ranking", 2)  # an edge has values of every feature: MB of a window that holds the edges of a hub


class Row(NamedTuple):
    """A schedule, an algorithm and a number of features, with their graphs."""

    engine: str
    options: dict[str, Any]
    name: str
    features: int
    graphs: tuple[str, ...] = ()


def refused(row):
    """Return a part of the reason why the engine refuses; empty if it does not."""
    if row.engine == "cusparse" and row.name in NO_PRODUCT:
        return "which is not a sparse product"
    if row.engine == "cusparse" and row.name in NO_CONSTANTS:
        return "is not a constant of the edge times a value of its source"
    if row.engine in STREAMS and row.name.startswith(UPDATING):
        return "updates an edge property, and only edges that do not change stream"
    if row.engine == "gunrock" and row.name.startswith("belief"):
        return "updates an edge property, whose changes are not tracked"
    if row.options.get("counters") and row.name in ("multimodal", "manifold_ranking"):
        return "omit counters"
    edges = row.options.get("direction") == "pull" and row.options.get("balance") == "edge"
    if edges and row.name in MATRICES:
        return "balance=edge keeps the sums of rows in registers"
    alone = row.engine not in LIBRARIES and not row.options.get("feature_aware", False)
    if alone and row.name.startswith("als") and row.features == 100:
        return "do not fit a thread; with feature_aware a lane group shares them"
    return ""


def runs(row):
    """Return whether the engine does not refuse the row, and the bound of the program holds for its options."""
    return not refused(row) and not (row.options.get("rebuild") == 0 and row.name in NEVER_REBUILT)


def options_of(row):
    """Return the options of a row; windows hold the edges of a hub, also with a value of each feature."""
    wide = {"window_mb": WIDE[1]} if row.engine == "scaph" and row.name == WIDE[0] else {}
    return row.options | wide


def graphs_of(name, features):
    """Return the graphs of the CPU's matrix with at most as many states as features, without measured ones."""
    known = (g for g in GRAPHS[name] if STATES.get(g, 0) <= features and (name, g) not in MANY)
    return tuple(graph for graph in known if graph != "pair" or importlib.util.find_spec("skimage"))


def rows():
    """Return every schedule with every algorithm that it supports; cuSPARSE's few schedules three times.

    A row takes the numbers, options and graphs that its schedule and its algorithm have met least often before.
    """
    met = collections.Counter()

    def least(values, *who):
        found = min(values, key=lambda value: sum(met[one, value] for one in who))
        met.update((one, found) for one in who)
        return found

    for engine, options in [(name, options) for name in ENGINES for options in schedules(SPECS[name])]:
        schedule = (engine, *options.values())
        names = [name for name in ALGORITHMS if not refused(Row(engine, options, name, 3))]
        for name in names * (3 if engine == "cusparse" else 1):
            suited = [k for k in FEATURES if not refused(Row(engine, options, name, k))]
            features = least(suited, name, *(() if name in SCALAR else (schedule,)))
            row = Row(engine, options, name, features)
            more = [row._replace(options=options | turn) for turn in TURNS[engine]]
            turn = least([(engine, i) for i, other in enumerate(more) if runs(other)], name, schedule)
            left, graphs = list(graphs_of(name, features)), []
            while left and len(graphs) < 2:
                graphs.append(least(left, name, schedule))
                left = [graph for graph in reversed(left) if graph not in graphs]  # from the other end, unlike it
            yield more[turn[1]]._replace(graphs=tuple(graphs))


ROWS = list(rows())


def label(row):
    options = (f"{option}={value}" for option, value in row.options.items())
    return "-".join([row.engine, *options, row.name, str(row.features)])


def poison_free_memory(engine):
    """Fill the memory that the library of an engine allocates next with NaN."""
    if engine == "torch":
        import torch

        made = [torch.full((size,), np.nan, device="cuda") for size in (*[1 << 18] * 8, 5 << 20)]
    else:
        import cupy

        made = [cupy.full(size, np.nan, np.float32) for size in (*[1 << 18] * 8, 5 << 20)]
    del made


def is_of_graph(plan, name):
    """Return whether an array is part of the graph or of a table."""
    return name in plan.named and plan.named[name].source is not None


def is_input(engine, name):
    """Return whether an array holds an input, or a property of the graph such as a degree."""
    buffer = engine.planned.named.get(name)
    if buffer is None or buffer.holds is not Holds.PROPERTY:
        return False
    return engine.executor.memory.program.properties[buffer.of].role in ("input", "builtin")


def poison(engine):
    """Overwrite the floats that a run has left on the device with NaN.

    Tables stay; so do inputs, because a reset need not upload them again.
    """
    chosen = engine.prepared if isinstance(engine, PerDevice) else None
    for name, array in chosen.executor.arrays.items() if chosen else ():
        if array.dtype == np.float32 and not is_of_graph(chosen.planned, name) and not is_input(chosen, name):
            array.fill(np.nan)


@contextmanager
def refusal(reason):
    """Allow that the engine refuses, for a reason that contains ``reason``."""
    try:
        yield
    except Unsupported as refused:
        if reason not in str(refused):
            raise


@functools.lru_cache(maxsize=1)
def problems(name, graphs, features, seed):
    """Return the graph, the inputs of two resets, the supersteps and the outputs after each reset, for each of some
    graphs."""
    traced, rng, found = program(name), np.random.default_rng(seed), []
    for graph_name in graphs:
        graph, draws = drawn_problem(name, graph_name, features, rng)
        count = min(supersteps(name, graph, features), LONGEST.get((name, features), 1 << 30))
        reference, expected = ReferenceRun(traced, graph, features), []
        for inputs in draws:
            reference.reset(inputs)
            reference.run(count)
            expected.append({output: np.array(values) for output, values in outputs_of(reference, traced).items()})
        found.append((graph_name, graph, draws, count, expected))
    return found


def check(row, device, seed=SEED, more=0.0):
    """Check on every graph of the row: after each of two resets the answer is that of its inputs, within the
    program's bound and ``more``; ways in which cuSPARSE leaves rows out may be refused."""
    print(f"HARNESS_SEED={seed} repeats the draws")  # shown if the test fails
    traced = program(row.name)
    for graph_name, graph, draws, count, expected in problems(row.name, row.graphs, row.features, seed):
        engine = new_engine(row.engine, options_of(row))
        answer = engine.supports(traced, graph, row.features, device)
        assert isinstance(answer, Yes), f"{graph_name}: {answer}"
        if row.engine in LIBRARIES and device.kind == "cuda":
            poison_free_memory(row.engine)
        leaves_out = row.engine == "cusparse" and LEFT_OUT.items() <= row.options.items()
        left_out = leaves_out and row.features >= LEFT_OUT_ON.get(graph_name, sys.maxsize)
        with closing(engine), refusal("rows of a product are wrong") if left_out else nullcontext():
            engine.prepare(traced, graph, row.features, device, Phases())
            for number, inputs in enumerate(draws):
                poison(engine)
                engine.reset(inputs)
                engine.run(count)
                found = compare(traced, outputs_of(engine, traced), expected[number])
                message = f"{label(row)}, HARNESS_SEED={seed}, {graph_name}, reset {number}: {found.detail}"
                assert found.ok or found.error <= found.bound + more, message


@gpu
@pytest.mark.parametrize("row", ROWS, ids=label)
def test_answers(row, device):
    check(row, device)


ADAPTIVE = [
    Row("onyx", {"direction": "adaptive", "balance": balance, **more}, name, features, graphs_of(name, features)[:2])
    for name, balance in itertools.product(ALGORITHMS, ("warp", "edge"))
    for features, more in ((1, {}), (3, {"persistent": True}), (33, {"dense_share": 0.5}))
    if not name.startswith("belief")  # whose edges change
]


@gpu
@pytest.mark.parametrize("row", ADAPTIVE, ids=label)
def test_answers_of_a_direction_that_switches(row, device):
    check(row, device)


# Parts of the schedules of an engine, so that no row takes minutes.
PARTS = {"onyx": 8, "cusparse": 4, "scaph": 2, "emogi": 2}
EVERY = [
    pytest.param(engine, name, features, part, id=f"{engine}-{name}-{features}-{part}")
    for engine, name, features in itertools.product(ENGINES, ALGORITHMS, FEATURES)
    for part in range(PARTS.get(engine, 1))
]


# Not marked gpu, so that ``-m gpu`` does not run it.
@pytest.mark.full
@pytest.mark.parametrize(("engine", "name", "features", "part"), EVERY)
def test_all_answers(engine, name, features, part, device):
    every = itertools.product(schedules(SPECS[engine]), TURNS[engine])
    for options, more in itertools.islice(every, part, None, PARTS.get(engine, 1)):
        row = Row(engine, options | more, name, features, graphs_of(name, features))
        if runs(row):
            check(row, device)


def check_refusals(engine, every=1):
    """Check that exactly the expected combinations are refused, for the known reason; ``every``: the step."""
    combinations = itertools.product(schedules(SPECS[engine]), TURNS[engine], ALGORITHMS)
    for options, more, name in itertools.islice(combinations, 0, None, every):
        features = 100 if name.startswith("als") else 3
        row = Row(engine, options | more, name, features)
        graph, _ = problem(name, GRAPHS[name][0], features)
        answer = new_engine(engine, row.options).supports(program(name), graph, features, Device("cuda", 0))
        reason = answer.reason if isinstance(answer, No) else ""
        assert (refused(row) in reason) if refused(row) else not reason, f"{label(row)}: {reason}"


@gpu
@pytest.mark.parametrize("engine", LIBRARIES)
def test_refusals_of_libraries(engine, device):
    check_refusals(engine)


GENERATED = [engine for engine in ENGINES if engine not in LIBRARIES]
# Onyx has 1,680 combinations. The step has no divisor in common with the numbers of schedules, turns and algorithms:
# every pair of two options, or of one with an algorithm, is met.
STEP = {"onyx": 11}


@pytest.mark.parametrize("engine", GENERATED)
def test_refusals(engine):
    check_refusals(engine, STEP.get(engine, 1))


@pytest.mark.full
@pytest.mark.parametrize("engine", STEP)
def test_all_refusals(engine):
    check_refusals(engine)


@gpu
@pytest.mark.parametrize("engine", LIBRARIES)
def test_the_table_of_libraries_is_current(engine, device):
    check_table(TABLE, engine, device)


def test_the_table_names_the_engines_and_nothing_else():
    text, onyx = TABLE.read_text(), Registry(engines={"onyx": SPECS["onyx"]}, algorithms=registry().algorithms)
    assert [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")] == sorted(TABLED)
    assert text.startswith(page(onyx, Device("cuda")).partition("| algorithm")[0])


@pytest.mark.parametrize("engine", [engine for engine in TABLED if engine not in LIBRARIES])
def test_the_table_is_current(engine):
    check_table(TABLE, engine, Device("cuda"))


def test_the_turns_leave_nothing_out():
    """A schedule may meet no graph that needs states if its only row has another number of features."""
    numbers, options, graphs, pairs = (collections.defaultdict(set) for _ in range(4))
    for row in ROWS:
        schedule, more = parted(row)
        pairs[schedule].add(row.name)
        for who in (schedule, row.name):
            graphs[who] |= set(row.graphs)
            options[who].add((row.engine, str(more)))
            numbers[who] |= set() if who == schedule and row.name in SCALAR else {row.features}
    for schedule, names in pairs.items():
        of_schedule = Row(schedule[0], {}, "", 0)
        assert set(ALGORITHMS) - names == {name for name in ALGORITHMS if refused(of_schedule._replace(name=name))}
        assert numbers[schedule] == set(FEATURES), schedule
        assert graphs[schedule] >= {graph for name in names for graph in graphs_of(name, 1)}, schedule
        assert len(options[schedule]) == len(TURNS[schedule[0]]), schedule
    for name in ALGORITHMS:
        assert numbers[name] == set(FEATURES), name
        assert graphs[name] == set(graphs_of(name, 100)), name


def parted(row):
    """Split a schedule into the part of the CPU's matrix, by its engine, and the options that are not in it."""
    known = schedules(SPECS[row.engine])[0]
    more = {option: value for option, value in row.options.items() if option not in known}
    return (row.engine, *(row.options[option] for option in known)), more
