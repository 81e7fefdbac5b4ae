"""Algorithm x engine x schedule x k: each runs and is held against the reference, or is refused as the table says.

``docs/what-runs-where.md`` is the table. All of it is run under ``-m full``. Otherwise every engine's default schedule
meets every algorithm and every number of features, and every algorithm all of these; and of the engine with options
every algorithm meets every value of every option. The functions take the device.
"""

from __future__ import annotations

import functools
import os
from pathlib import Path

import pytest

from harness.conformance.matrix import FEATURES, algorithms, ask, check, question, schedules, table
from harness.conformance.subject import new_engine
from harness.contract import Device, No, Phases, Yes
from harness.language import InvalidInput
from harness.language.validation import compare
from harness.plugins import Registry, load_plugins
from tests.engines.problems import (
    ALGORITHMS,
    SMALL,
    SPECS,
    STRATEGIES,
    outputs_of,
    prepared,
    problem,
    program,
    published,
    reference,
)

TABLE = Path(__file__).parents[2] / "docs" / "what-runs-where.md"
CPU = Device(threads=2)
# ALS needs ratings that differ; on a star, with all sides at once, it shrinks to nothing and with it every digit.
GRAPHS = dict.fromkeys(ALGORITHMS, tuple(SMALL)) | {
    "als": ("ratings",),
    "als_all": ("scattered", "chain", "grid", "rmat", "ratings"),
    "belief_propagation": ("picture", "network hub", "pair"),
    "belief_propagation_max": ("picture", "pair"),
    "belief_propagation_edge": ("network", "forest"),
}
REAL = {
    "label_propagation": ("digits", "wiki-Vote", "rome99"),
    "pagerank": ("digits", "wiki-Vote", "rome99"),
    "als": ("movielens",),
    "als_all": ("digits",),
    "sssp": ("rome99",),
}
# Thresholds are low, so that small graphs fill all three lists of simdx.
NUMBERS = {"simdx": {"warp_degree": 3, "block_degree": 9}, "tigr": {"degree_bound": 3}}
# With all sides at once and one feature, ALS itself drifts from a neighbouring run: what starts 1e-6 apart is 1.3e-4
# apart after 12 supersteps, 2.6e-3 after 30 (in float64, on "scattered").
LONGEST = {"als_all": 12}
WORK = 3_000_000  # elements of messages that the reference computes for one answer
HERE = {name: spec for name, spec in SPECS.items() if "cpu" in spec.devices}
ENGINES = tuple(HERE)


@functools.cache
def registry():
    """The built-in engines and algorithms, whatever else is installed."""
    installed = load_plugins()
    ours = {name: spec for name, spec in installed.algorithms.items() if spec.factory.startswith("harness.")}
    return Registry(engines=HERE, algorithms=ours)


@functools.cache
def asked(name, features):
    """The algorithm of the tests on the small graph of the table."""
    return question(ALGORITHMS[name], features)


def supersteps(name, graph, features):
    """As many supersteps as the program may take, or as the reference can afford."""
    cubic = name.startswith(("als", "belief"))
    elements = graph.num_edges * features * (features if cubic else 1)
    most = LONGEST.get(name, 12 if name.startswith("belief") else program(name).max_supersteps)
    return max(3, min(most, WORK // max(elements, 1)))


def check_everywhere(engine_name, options, name, features, graphs, device=CPU):
    """On every graph: the answer is right, or the reason of the refusal is that of the table."""
    spec, options = HERE[engine_name], {**NUMBERS.get(engine_name, {}), **options}
    said = ask(spec, options, asked(name, features), device)
    for graph_name in graphs:
        try:
            graph, inputs = problem(name, graph_name, features)
        except InvalidInput:
            assert graph_name in ("forest", "network hub")  # of more states than there are features
            assert features < 5
            continue
        engine = new_engine(spec, options)
        answer = engine.supports(program(name), graph, features, device)
        if isinstance(said, No):
            assert answer == said, graph_name
            continue
        assert isinstance(answer, Yes), f"{graph_name}: {answer}"
        assert answer.bytes_needed >= 0
        engine.prepare(program(name), graph, features, device, Phases())
        engine.reset(inputs)
        count = supersteps(name, graph, features)
        engine.run(count)
        wanted, _, _ = reference(name, graph_name, features, count)
        found = compare(program(name), outputs_of(engine, program(name)), wanted)
        engine.close()
        assert found.ok, f"{graph_name}: {found.detail}"


def here(name):
    """The graphs of an algorithm, with those of the published ones that can be had."""
    real = REAL.get(name, ())
    return GRAPHS[name] + (real if os.environ.get("HARNESS_DATA") else tuple(g for g in real if g == "digits"))


# the table ------------------------------------------------------------------------------------------------------------
def test_the_table_is_current():
    for spec in HERE.values():
        for required in spec.requires:
            pytest.importorskip(required, reason=f"engine {spec.name!r} needs the module {required!r}")
    told = "it is out of date: python -m harness.conformance --table > docs/what-runs-where.md"
    assert TABLE.read_text() == table(registry(), Device(threads=1)), told


def test_every_algorithm_takes_part():
    assert {algorithm.name for algorithm in ALGORITHMS.values()} == set(registry().algorithms)
    assert {algorithm.name for algorithm in algorithms(registry()).values()} == set(registry().algorithms)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_answers_do_not_depend_on_the_number_of_features(name):
    for engine, spec in HERE.items():
        for options in schedules(spec):
            answers = [ask(spec, options, asked(name, features), CPU) for features in FEATURES]
            refusals = {answer.reason if isinstance(answer, No) else "" for answer in answers}
            assert len(refusals) == 1, f"{engine} {options}: {refusals}"


# the matrix -----------------------------------------------------------------------------------------------------------
def turns():
    """(engine, options, algorithm, k): see above. Complementary schedules go in pairs, so two show every value."""
    for i, engine in enumerate(ENGINES):
        for j, name in enumerate(ALGORITHMS):
            few = 5 if name.startswith("als") and engine != "onyx" else 8  # ALS is cubic in k: up to 8 on the others
            for features in sorted({FEATURES[(2 * i + j) % few], FEATURES[(2 * i + j + 1) % few]}):
                yield engine, {}, name, features
        every = schedules(HERE[engine])
        for j, name in enumerate(ALGORITHMS) if len(every) > 1 else ():
            for options in (every[1 + j % (len(every) // 2 - 1)], every[-2 - j % (len(every) // 2 - 1)]):
                yield engine, options, name, FEATURES[j % 5]


def label(case):
    engine, options, name, features = case
    return "-".join([engine, *(f"{option}={value}" for option, value in options.items()), name, str(features)])


PAIRED = list(turns())


@pytest.mark.parametrize("case", PAIRED, ids=label)
def test_answers(case):
    engine, options, name, features = case
    check_everywhere(engine, options, name, features, here(name))


def test_the_turns_leave_nothing_out():
    default = [(engine, name, features) for engine, options, name, features in PAIRED if not options]
    assert {(engine, k) for engine, _, k in default} == {(engine, k) for engine in ENGINES for k in FEATURES}
    assert {(engine, name) for engine, name, _ in default} == {(e, name) for e in ENGINES for name in ALGORITHMS}
    chosen = {(name, *item) for _, options, name, _ in PAIRED for item in options.items()}
    values = {item for options in schedules(HERE["onyx"]) for item in options.items()}
    assert chosen == {(name, *item) for name in ALGORITHMS for item in values}


@pytest.mark.full
@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("engine", ENGINES)
def test_all_answers(engine, name, features):
    for options in schedules(HERE[engine]):
        check_everywhere(engine, options, name, features, here(name))


def test_the_question_of_the_table_is_answered_rightly_too():
    """The check that other engines are held against."""
    found = check(HERE["scipy"], {}, asked("pagerank", 3), CPU)
    assert found.ok, found.detail
    assert isinstance(check(HERE["scipy"], {}, asked("bfs", 3), CPU), No)


def test_published_graphs_took_part():
    for name in {name for names in REAL.values() for name in names}:
        assert published(name).num_edges > 0


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_hub_of_a_hundred_thousand_equal_messages(strategy):
    name, options = STRATEGIES[strategy]
    graph, inputs = problem("pagerank", "great hub", 1)
    engine = prepared(name, options, program("pagerank"), graph, 1)
    engine.reset(inputs)
    engine.run(5)
    wanted, _, _ = reference("pagerank", "great hub", 1, 5)
    found = compare(program("pagerank"), outputs_of(engine, program("pagerank")), wanted)
    assert found.ok, found.detail
