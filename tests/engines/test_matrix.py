"""Algorithm x engine x schedule x k: each combination agrees with the reference or is refused as the table says.

The table is ``docs/what-runs-where.md``. Under ``-m full``, every schedule meets every algorithm (:func:`at_length`).
Otherwise:

- every engine meets every small k, and 33, with vectors;
- the default schedule of an engine without compiled kernels meets every algorithm and every k;
- every algorithm is pulled and pushed by compiled engines;
- every larger k is met by some compiled engine;
- every pair of two options' values of an engine, or of one with an algorithm (variants excepted) or a k, is met.
"""

from __future__ import annotations

import functools
import importlib.util
import itertools
import os
from pathlib import Path

import pytest

from engines.libraries.schedules import LibmfSchedule, SolverSchedule, SurpriseSchedule
from harness.conformance import matrix
from harness.conformance.matrix import FEATURES, algorithms, ask, check, question
from harness.conformance.page import answers, page, questions, section, summary
from harness.conformance.subject import new_engine
from harness.contract import Device, No, Phases, Yes
from harness.language import InvalidInput
from harness.language.validation import compare
from harness.plugins import Registry, load_plugins
from tests.covering import covering
from tests.engines.compiled_rows import RENEW, listed
from tests.engines.problems import (
    ALGORITHMS,
    ELSEWHERE,
    IN_PLACE,
    SMALL,
    SPECS,
    STRATEGIES,
    one_number,
    outputs_of,
    prepared,
    problem,
    program,
    published,
    reference,
    turns,
)

DOCS = Path(__file__).parents[2] / "docs"
TABLE = DOCS / "what-runs-where.md"
CPU = Device(threads=2)
# ALS needs different ratings; on a star, with all sides at once, it shrinks to zero and loses every digit.
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
# With all sides at once and one feature, ALS itself diverges from a neighbouring run: in float64, on "scattered", a
# difference of 1e-6 grows to 5e-5 after 12 supersteps and 2e-3 after 30, more than the bound of 1.5e-3. With more
# features it stays within 3e-5.
LONGEST = {("als_all", 1): 12}
WORK = 3_000_000  # elements of messages that the reference computes for one answer
HERE = {name: spec for name, spec in SPECS.items() if "cpu" in spec.devices}
# Engines that solve the whole problem have separate tests (test_solvers.py), and so have those of steps in place
# (test_lonestar.py, test_ratings_libraries.py).
ELSEWHERE_TESTED = (SolverSchedule, LibmfSchedule, SurpriseSchedule)
ENGINES = tuple(
    name for name, spec in HERE.items() if spec.schedule not in ELSEWHERE_TESTED and name != "lonestar"
)  # fmt: skip


@functools.cache
def schedules(spec):
    """Return the schedules of an engine, which must not be changed; the choice of rows asks for them 6,000 times."""
    return matrix.schedules(spec)


@functools.cache
def registry():
    """Return the built-in engines and algorithms, independent of other installed plugins."""
    installed = load_plugins()
    ours = {name: spec for name, spec in installed.algorithms.items() if spec.factory.startswith("harness.")}
    return Registry(engines=HERE, algorithms=ours)


@functools.cache
def posed_algorithm(name, features):
    """Return the algorithm of the tests on the small graph of the table."""
    return question(ALGORITHMS[name], features)


def supersteps(name, graph, features):
    """Return the number of supersteps that the program may take, limited by the reference's cost."""
    cubic = name.startswith(("als", "belief"))
    elements = graph.num_edges * features * (features if cubic else 1)
    most = LONGEST.get((name, features), 12 if name.startswith("belief") else program(name).max_supersteps)
    return max(3, min(most, WORK // max(elements, 1)))


def check_everywhere(engine_name, options, name, features, graphs, device=CPU):
    """Check on every graph that the answer is right, or that the reason of the refusal is that of the table."""
    spec, numbers = HERE[engine_name], NUMBERS.get(engine_name, {})
    options = {**numbers, **options}
    said = ask(spec, options, posed_algorithm(name, features), device)
    for graph_name in graphs:
        try:
            graph, inputs = problem(name, graph_name, features)
        except InvalidInput:
            assert graph_name in ("forest", "network hub")  # with more states than there are features
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
        # an order that has no supersteps gives the fixed point
        count = supersteps(name, graph, features) if engine.stepwise else program(name).max_supersteps
        engine.run(count)
        wanted, _, _ = reference(name, graph_name, features, count)
        found = compare(program(name), outputs_of(engine, program(name)), wanted)
        engine.close()
        assert found.ok, f"{graph_name}: {found.detail}"


def here(name):
    """Return the graphs of an algorithm, with the published ones that are available."""
    real = REAL.get(name, ())
    return GRAPHS[name] + (real if os.environ.get("HARNESS_DATA") else tuple(g for g in real if g == "digits"))


# the table ------------------------------------------------------------------------------------------------------------
def installed(engine):
    """Return the engine's specification; skip the test, with the reason, if a required module is missing."""
    for required in SPECS[engine].requires:
        pytest.importorskip(required, reason=f"engine {engine!r} needs the module {required!r}")
    return SPECS[engine]


@functools.cache
def rows():
    return questions(registry())


@pytest.mark.parametrize("engine", HERE)
def test_the_table_is_current(engine):
    check_table(TABLE, engine, Device(threads=1))


def check_table(path, engine, device):
    """Check that the table and the engine say the same."""
    message = f"it is out of date: python -m harness.conformance --table --device {device.kind} > docs/{path.name}"
    text = path.read_text()
    found = answers(installed(engine), rows(), device)
    assert f"\n{section(SPECS[engine], found)}" in f"{text}\n", message
    head, _, *lines = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("|")]
    assert {line[0]: line[head.index(engine)] for line in lines} == summary(found), message


def test_the_table_names_the_engines_and_nothing_else():
    text = TABLE.read_text()
    head = next(line for line in text.splitlines() if line.startswith("| algorithm"))
    assert head.strip("| ").split(" | ")[1:] == sorted(HERE)
    assert [line.removeprefix("## ") for line in text.splitlines() if line.startswith("## ")] == sorted(HERE)
    scipy = {"scipy": SPECS["scipy"]}
    alone = page(Registry(engines=scipy, algorithms=registry().algorithms), Device(threads=1))
    assert text.startswith(alone.partition("| algorithm")[0])


def test_schedules_have_every_value_but_partial_ones():
    assert {options["direction"] for options in schedules(SPECS["onyx"])} == {"push", "pull"}
    options = {"direction": "adaptive", "change_driven": False}
    assert isinstance(ask(SPECS["onyx"], options, posed_algorithm("pagerank", 3), CPU), No)


def test_every_algorithm_takes_part():
    every = {**ALGORITHMS, **IN_PLACE, **ELSEWHERE}.values()
    assert {algorithm.name for algorithm in every} == set(registry().algorithms)
    assert {algorithm.name for algorithm in algorithms(registry()).values()} == set(registry().algorithms)


@pytest.mark.parametrize("name", ALGORITHMS)
@pytest.mark.parametrize("engine", ENGINES)
def test_answers_do_not_depend_on_the_number_of_features(engine, name):
    spec = installed(engine)
    for options in schedules(spec):
        found = [ask(spec, options, posed_algorithm(name, features), CPU) for features in (*FEW[:1], VECTOR, ODD)]
        refusals = {answer.reason if isinstance(answer, No) else "" for answer in found}
        assert len(refusals) == 1, f"{options}: {refusals}"


# the matrix -----------------------------------------------------------------------------------------------------------
SCALAR = ("components", "kcore")  # one value per vertex, whatever the number of features
# Of algorithms that are already chosen; hits has the sums over edges and over the graph of pagerank, twice.
VARIANTS = ("als_all", "belief_propagation_max", "belief_propagation_edge", "hits")
CUBIC = ("als", "belief")  # of k x k matrices
COMPILED = ("onyx", "gunrock", "tigr", "simdx", "emogi", "scaph")  # have separate kernels for every number of features


FEW, MANY = FEATURES[:4], FEATURES[4:]
STREAMS, UPDATING = ("scaph",), "belief_propagation"  # engines that refuse programs with updates of edges
PULLS = ("simdx",)  # of COMPILED; onyx has an option, the others push
CHANGES_TESTED = ("onyx", "gunrock")  # test_change_driven.py compiles their kernels of every algorithm
VECTOR = 4  # floats of the narrowest SIMD vector: a row of k is a whole number of them, or has a remainder
ODD, ANY_LARGER = 33, "larger"  # more than a row's vector, and not a multiple of one


def of_interpreted():
    """Return (engine, no options, algorithm, k) of the engines for which nothing is compiled: every algorithm, for an
    alternating small k and a larger one."""
    for (engine, name), turn in itertools.product(itertools.product(ENGINES, ALGORITHMS), (0, 1)):
        if engine not in COMPILED and (turn == 0 or name not in VARIANTS):
            yield engine, {}, name, turns(engine, name)[turn]


def of_compiled():
    """Return (engine, options, algorithm, k) of the engines with compiled kernels, such that engines alternate.

    Variants have the default schedule only; ALS with 100 features and matrices of more than 8 under other schedules are
    slow, and left to :func:`at_length`.
    """
    for turn, shift in itertools.product((0, 1), range(len(COMPILED))):
        for number, name in enumerate(ALGORITHMS):
            engine = COMPILED[(number + shift) % len(COMPILED)]
            features = turns(engine, name)[turn]
            if turn == 0 or (name not in VARIANTS and (name, features) != ("als", 100)):
                yield engine, {}, name, features
    for engine, name in itertools.product(CHANGES_TESTED, ALGORITHMS):
        yield engine, {}, name, one_number(engine, name)
    for engine, name in itertools.product(COMPILED, ALGORITHMS):
        for features, options in itertools.product(FEATURES, schedules(SPECS[engine])):
            if options and name not in VARIANTS and not (name.startswith(CUBIC) and features > 8):
                yield engine, options, name, features


def shown(row):
    """Return what a row shows: an algorithm that is pulled or pushed; all pairs of an option's value with an algorithm,
    a k, or another option's value; and with vectors, a small k, 33 or a larger k on an engine, and any larger k."""
    engine, _, name, features = row
    met = {(name, side(row)), *of_options(row)}
    if name in SCALAR or (engine in STREAMS and name.startswith(UPDATING)):
        return met
    return met | ({(engine, features)} if features in FEW else {(engine, larger(features)), features})


def shown_at_length(row):
    """Return what a row shows under ``-m full``: also an algorithm with whole vectors, a remainder and a larger k."""
    _, _, name, features = row
    if name in SCALAR:
        return shown(row)
    return shown(row) | {(name, features % VECTOR == 0 if features in FEW else ANY_LARGER)}


def larger(features):
    """Return the class of a number of features that is more than a row's vector."""
    return features if features == ODD else ANY_LARGER


def side(row):
    """Return whether a row of a compiled engine pulls or pushes."""
    engine, options, *_ = row
    return resolved(engine, options).get("direction", "pull" if engine in PULLS else "push")


def resolved(engine, options):
    """Return the values of the options that select code paths, the defaults included."""
    return {**schedules(SPECS[engine])[0], **options}


def cost(row):
    """Estimate the time to compile a row's kernels, relative to kernels of vectors; kernels of matrices are larger.

    Kernels that test_change_driven.py compiles anyway cost little.
    """
    engine, options, name, features = row
    if engine in CHANGES_TESTED and not options and features == one_number(engine, name):
        return 0.4
    return 2 + features / 8 if name.startswith(CUBIC) else 1


def of_options(row):
    """Return all pairs of an option's value with an algorithm, a k, or another option's value; variants have none, and
    scalars none with a k."""
    engine, options, name, features = row
    items = [] if name in VARIANTS else list(resolved(engine, options).items())
    others = (name,) if name in SCALAR else (name, features)
    return {(item, other) for item in items for other in others} | set(itertools.combinations(items, 2))


def label(case):
    engine, options, name, features = case
    return "-".join([engine, *(f"{option}={value}" for option, value in options.items()), name, str(features)])


INTERPRETED, EVERY = list(of_interpreted()), list(of_compiled())
CHOSEN = INTERPRETED + listed("matrix", EVERY, label)
MORE = [row for row in covering(EVERY, shown_at_length, cost) if row not in CHOSEN]


@pytest.mark.short_run(rows=3)
@pytest.mark.parametrize("case", CHOSEN, ids=label)
def test_answers(case):
    check_case(case)


@pytest.mark.full
@pytest.mark.parametrize("case", MORE, ids=label)
def test_more_answers(case):
    check_case(case)


def check_case(case):
    engine, options, name, features = case
    installed(engine)
    check_everywhere(engine, options, name, features, here(name))


def test_the_choice_leaves_nothing_out():
    met = {(engine, name) for engine, _, name, _ in CHOSEN}
    assert met >= set(itertools.product(set(ENGINES) - set(COMPILED), ALGORITHMS))
    compiled = [row for row in CHOSEN if row[0] in COMPILED]
    assert set().union(*map(shown, compiled)) == set().union(*map(shown, EVERY)), f"items are missing{RENEW}"
    assert {(row[2], side(row)) for row in compiled} == set(itertools.product(ALGORITHMS, ("pull", "push")))
    importable = [engine for engine in ENGINES if all(map(importlib.util.find_spec, SPECS[engine].requires))]
    cases = [case for case in CHOSEN if case[0] in importable]
    vectors = {(engine, k) for engine, _, name, k in cases if name not in SCALAR and runs(engine, name)}
    interpreted = set(importable) - set(COMPILED)
    assert vectors >= set(itertools.product(importable, (*FEW, ODD))) | set(itertools.product(interpreted, FEATURES))
    assert {k for engine, k in vectors if engine in COMPILED} >= set(FEATURES)
    chosen, names = {pair for row in compiled for pair in of_options(row)}, set(ALGORITHMS) - set(VARIANTS)
    every = [list(options.items()) for options in schedules(SPECS["onyx"])]
    of_two = {pair for items in every for pair in itertools.combinations(items, 2)}
    assert chosen >= of_two | {(item, other) for items in every for item in items for other in (*names, *FEATURES)}


def test_at_length_every_algorithm_meets_whole_vectors_a_remainder_and_a_larger_number():
    rows = [row for row in CHOSEN + MORE if row[0] in COMPILED]
    small = {(name, k % VECTOR == 0) for _, _, name, k in rows if k in FEW}
    assert small >= set(itertools.product(set(ALGORITHMS) - set(SCALAR), (False, True)))
    large = {name for _, _, name, k in rows if k in MANY}
    assert large >= set(ALGORITHMS) - set(VARIANTS) - set(SCALAR)


def runs(engine, name):
    """Return whether an engine's default schedule supports the algorithm."""
    return isinstance(ask(SPECS[engine], {}, posed_algorithm(name, 3), CPU), Yes)


@pytest.mark.parametrize("engine", COMPILED)
def test_alternating_sides_run(engine):
    """Only belief propagation updates edges, which cannot be read from files."""
    streamed = {name for name in ALGORITHMS if engine in STREAMS and name.startswith(UPDATING)}
    assert {name for name in ALGORITHMS if not runs(engine, name)} == streamed


@pytest.mark.parametrize("name", ALGORITHMS)
def test_values_called_scalar_are_scalar(name):
    shapes = {prop.shape for prop in program(name).properties.values() if prop.role in ("state", "temporary")}
    assert (name in SCALAR) == (shapes == {()})


def at_length():
    """Return (engine, options, algorithm, k): for one alternating k, and for four if the engine has one schedule
    only."""
    for i, (engine, name) in enumerate(itertools.product(ENGINES, ALGORITHMS)):
        for j, options in enumerate(schedules(SPECS[engine])):
            for turn in (0, 2, 4, 6) if not options else (0,):
                yield engine, options, name, FEATURES[(i + j + turn) % len(FEATURES)]


@pytest.mark.full
@pytest.mark.parametrize("case", list(at_length()), ids=label)
def test_all_answers(case):
    engine, options, name, features = case
    installed(engine)
    check_everywhere(engine, options, name, features, here(name))


def test_the_question_of_the_table_is_answered_rightly_too():
    """The reference for all engines is itself correct."""
    found = check(HERE["scipy"], {}, posed_algorithm("pagerank", 3), CPU)
    assert found.ok, found.detail
    assert isinstance(check(HERE["scipy"], {}, posed_algorithm("bfs", 3), CPU), No)


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
