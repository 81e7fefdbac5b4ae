"""Every operation of the language on every engine that supports it, compared with the reference after every
superstep."""

from __future__ import annotations

import functools
import itertools

import pytest

from harness.contract import Device, No, Phases, Yes
from harness.language.program import EdgeReduce, reads
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.covering import covering
from tests.engines.compiled_rows import RENEW, listed
from tests.engines.problems import LIBRARIES, PUSH, new_engine, outputs_of
from tests.engines.programs import PROGRAMS, graph_for, inputs_for, program_named

SCHEDULES = {
    "pull": ("onyx", {"direction": "pull", "dense_share": 1.0}),
    "pull-dense": ("onyx", {"direction": "pull", "dense_share": 0.0}),
    "pull-unfolded": ("onyx", {"direction": "pull", "fold": False, "dense_share": 1.0}),
    "pull-all": ("onyx", {"change_driven": False}),
    "pull-loops": ("onyx", {"feature_aware": False, "change_driven": False, "fold": False}),
    "pull-loops-changes": ("onyx", {"direction": "pull", "feature_aware": False, "dense_share": 1.0}),
    "push": ("onyx", PUSH),
    "push-all": ("onyx", {**PUSH, "change_driven": False}),
    "push-loops": ("onyx", {**PUSH, "feature_aware": False, "fold": False}),
    "push-loops-all": ("onyx", {**PUSH, "feature_aware": False, "change_driven": False}),
    "gunrock": ("gunrock", {"rebuild": 0}),
    "tigr": ("tigr", {"degree_bound": 2}),
    "simdx": ("simdx", {"warp_degree": 2, "block_degree": 4}),
    "scipy": ("scipy", {}),
    "torch": ("torch", {}),
}
# Programs that a change-driven push (and gunrock) must refuse, as they have no delta form; and those that sparse
# products refuse.
NO_DELTA = {
    "own_aggregate",
    "reads_destination",
    "destination_alone",
    "message_reads_graph",
    "several_reductions",
    "tall_messages",
    "sums_and_products_without",
}
NO_PRODUCT = {
    "shortest_paths", "largest_label", "own_aggregate", "reads_destination", "destination_alone", "several_reductions",
    "message_reads_graph", "edge_operations", "tall_messages", "without_own", "beliefs", "products",
    "matrix_products", "sums_and_products_without", "a_product_of_itself", "sides_settle",
}  # fmt: skip
REFUSED = {"scipy": NO_PRODUCT} | dict.fromkeys(("push", "push-loops", "gunrock"), NO_DELTA)
SUPERSTEPS = 4


@functools.cache
def expected(name, features):
    program, graph = program_named(name), graph_for(name)
    run = ReferenceRun(program, graph, features)
    run.reset(inputs_for(program, graph, features))
    found = []
    for _ in range(SUPERSTEPS):
        run.run(1)
        found.append({output: run.values(output) for output in program.outputs})
    return found


def check(schedule, name, features):
    program, graph = program_named(name), graph_for(name)
    engine_name, options = SCHEDULES[schedule]
    engine, device = new_engine(engine_name, options), Device(threads=2)
    assert isinstance(engine.supports(program, graph, features, device), Yes)
    engine.prepare(program, graph, features, device, Phases())
    engine.reset(inputs_for(program, graph, features))
    for superstep, wanted in enumerate(expected(name, features)):
        engine.run(1)
        found = compare(program, outputs_of(engine, program), wanted)
        assert found.ok, f"after superstep {superstep}: {found.detail}"
    engine.close()


FEATURES = (1, 3, 4, 8)
TAKEN = [(schedule, name) for schedule in SCHEDULES for name in PROGRAMS if name not in REFUSED.get(schedule, ())]


def side(schedule):
    """Return which kernels a schedule has: those of pull, those of push, or a library's."""
    engine, options = SCHEDULES[schedule]
    if engine in LIBRARIES:
        return "library"
    return "push" if engine in ("gunrock", "tigr") or options.get("direction") == "push" else "pull"


@functools.cache
def kinds(name):
    """Return the kinds of a program's stages: reducer and rank of a message, spaces that it reads, updates."""
    found = set()
    for stage in program_named(name).stages:
        if isinstance(stage, EdgeReduce):
            found.add((stage.reducer, len(program_named(name).properties[stage.into].shape)))
            found |= {("reads", space) for space, _ in reads(stage)}
        else:
            found.add(type(stage))
    return frozenset(found)


REDUCTIONS = tuple(itertools.product(("sum", "min", "max", "prod"), (0, 1, 2)))


def tracks(schedule):
    """Return whether a schedule propagates changes only."""
    engine, options = SCHEDULES[schedule]
    return engine in ("onyx", "gunrock") and options.get("change_driven", True)


def shown(row):
    """Return what a row covers: every program is compiled once and, if a library supports it, multiplied; every second
    program is also propagated by changes, and every third pushed; every kind of stage is pulled and pushed, completely
    and by changes, and so is every rank of a message with every reducer, one of the two; every schedule meets whole
    vectors or scalars (k of 1 or 4) and others (3 or 8)."""
    schedule, name, features = row
    if side(schedule) == "library":
        return {(name, "library"), (schedule, features)}
    way = side(schedule), tracks(schedule)
    ranks = {(side(schedule), kind) for kind in kinds(name)}
    found = {(way, without_rank(kind)) for kind in kinds(name)}
    number = list(PROGRAMS).index(name)
    more = {("by changes", number % 2 == 0 and tracks(schedule)), ("pushed", number % 3 == 0 and way[0] == "push")}
    turns = {(name, kind) for kind, met in more if met}
    return {(name, "compiled"), (schedule, features in (1, 4)), (way, features)} | ranks | found | turns


def without_rank(kind):
    """Return the reducer of a reduction, and any other kind of a stage as it is."""
    return kind[0] if kind in REDUCTIONS else kind


def turns():
    """Return all of TAKEN with every k, ordered so that the schedules rotate along the programs, and the k as well."""
    for turn in range(len(FEATURES)):
        for shift in range(len(SCHEDULES)):
            for number, name in enumerate(PROGRAMS):
                schedule = list(SCHEDULES)[(number + shift) % len(SCHEDULES)]
                if (schedule, name) in TAKEN:
                    yield schedule, name, FEATURES[(number + turn) % len(FEATURES)]


def compiles(row):
    """Return whether a row compiles kernels."""
    return side(row[0]) != "library"


def label(row):
    schedule, name, features = row
    return f"{schedule}-{name}-{features}"


EVERY = list(dict.fromkeys(turns()))
# The rest of the pairs of a schedule and a program are in AT_LENGTH.
CHOSEN = listed("operations", [row for row in EVERY if compiles(row)], label)
CHOSEN += covering([row for row in EVERY if not compiles(row)], shown)


def test_every_program_and_every_kind_of_stage_is_compiled():
    compiled = [row for row in CHOSEN if compiles(row)]
    assert set().union(*map(shown, CHOSEN)) == set().union(*map(shown, EVERY)), f"items are missing{RENEW}"
    assert {name for _, name, _ in compiled} == set(PROGRAMS)
    multiplied = {(s, name) for s, name in TAKEN if side(s) == "library"}
    assert {name for s, name, _ in CHOSEN if side(s) == "library"} == {name for _, name in multiplied}
    assert {(schedule, k in (1, 4)) for schedule, _, k in CHOSEN} == set(itertools.product(SCHEDULES, (False, True)))
    assert {(k, side(schedule)) for schedule, _, k in CHOSEN} == set(itertools.product(FEATURES, map(side, SCHEDULES)))
    every = set().union(*map(kinds, PROGRAMS))
    for way in itertools.product(("pull", "push"), (False, True)):
        rows = [row for row in CHOSEN if (side(row[0]), tracks(row[0])) == way]
        taken = {kind for schedule, name in TAKEN if (side(schedule), tracks(schedule)) == way for kind in kinds(name)}
        assert {without_rank(kind) for _, name, _ in rows for kind in kinds(name)} == set(map(without_rank, taken))
        assert taken == every or way == ("push", True)
    assert set(REDUCTIONS) <= every
    for pulled_or_pushed in ("pull", "push"):
        rows = [row for row in CHOSEN if side(row[0]) == pulled_or_pushed]
        assert {kind for _, name, _ in rows for kind in kinds(name)} == every


@pytest.mark.parametrize("schedule", REFUSED)
def test_unsupported_programs_are_refused_with_a_reason(schedule):
    """Every such pair of a schedule and a program, for every k; nothing is compiled."""
    for name, features in itertools.product(REFUSED[schedule], FEATURES):
        engine = new_engine(*SCHEDULES[schedule])
        answer = engine.supports(program_named(name), graph_for(name), features, Device(threads=2))
        assert isinstance(answer, No), name
        assert len(answer.reason) > 10


@pytest.mark.short_run(rows=5, always="sides_settle")
@pytest.mark.parametrize(("schedule", "name", "features"), CHOSEN)
def test_operations(schedule, name, features):
    check(schedule, name, features)


@pytest.mark.parametrize("schedule", ["gunrock", "tigr"])
def test_sides_that_alternate(schedule):
    """The other compiled engines have rows above."""
    check(schedule, "sides", 3)


MORE_FEATURES = (*FEATURES, 17, 33)
# Every pair of a schedule and a program, each for one rotating k: 1,600 distinct kernels. Every k would need 5,900.
AT_LENGTH = [
    (schedule, name, MORE_FEATURES[(list(SCHEDULES).index(schedule) + list(PROGRAMS).index(name)) % 6])
    for schedule, name in TAKEN
]


def test_at_length_every_schedule_and_every_program_meets_every_number_of_features():
    assert [row[:2] for row in AT_LENGTH] == TAKEN
    assert {(schedule, k) for schedule, _, k in AT_LENGTH} == set(itertools.product(SCHEDULES, MORE_FEATURES))
    assert {(name, k) for _, name, k in AT_LENGTH} == set(itertools.product(PROGRAMS, MORE_FEATURES))


@pytest.mark.full
@pytest.mark.parametrize(("schedule", "name", "features"), AT_LENGTH)
def test_all_operations(schedule, name, features):
    check(schedule, name, features)
