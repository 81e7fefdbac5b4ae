"""Every operation of the language on every engine that takes it, against the reference after every superstep."""

from __future__ import annotations

import functools

import pytest

from harness.contract import Device, No, Phases
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.problems import PUSH, new_engine, outputs_of
from tests.engines.programs import PROGRAMS, graph_for, inputs_for, program_named

SCHEDULES = {
    "pull": ("onyx", {"dense_share": 1.0}),
    "pull-dense": ("onyx", {"dense_share": 0.0}),
    "pull-unfolded": ("onyx", {"fold": False, "dense_share": 1.0}),
    "pull-all": ("onyx", {"change_driven": False}),
    "pull-loops": ("onyx", {"feature_aware": False, "change_driven": False, "fold": False}),
    "pull-loops-changes": ("onyx", {"feature_aware": False, "dense_share": 1.0}),
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
# Programs that a change-driven push (and gunrock) must refuse, as they have no delta form; and those no sparse product.
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
    answer = engine.supports(program, graph, features, device)
    if isinstance(answer, No):
        assert len(answer.reason) > 10
        assert name in REFUSED.get(schedule, ()), answer.reason
        pytest.skip(answer.reason)
    assert name not in REFUSED.get(schedule, ())
    engine.prepare(program, graph, features, device, Phases())
    engine.reset(inputs_for(program, graph, features))
    for superstep, wanted in enumerate(expected(name, features)):
        engine.run(1)
        found = compare(program, outputs_of(engine, program), wanted)
        assert found.ok, f"after superstep {superstep}: {found.detail}"
    engine.close()


FEATURES = (1, 3, 4, 8)
# A quarter of all pairs of a schedule and a program; the numbers of features take turns: along the schedules of a
# program, and along the programs of a schedule.
PAIRED = [
    (schedule, name, FEATURES[(i + j) // 4 % len(FEATURES)])
    for i, schedule in enumerate(SCHEDULES)
    for j, name in enumerate(PROGRAMS)
    if (i + j) % 4 == 0
]


def test_every_schedule_and_every_program_meets_every_number_of_features():
    assert {(schedule, k) for schedule, _, k in PAIRED} == {(s, k) for s in SCHEDULES for k in FEATURES}
    met = {name: {k for _, other, k in PAIRED if other == name} for name in PROGRAMS}
    assert all(len(numbers) >= 3 for numbers in met.values()), met  # of three or four schedules each


@pytest.mark.parametrize(("schedule", "name", "features"), PAIRED)
def test_operations(schedule, name, features):
    check(schedule, name, features)


@pytest.mark.full
@pytest.mark.parametrize("features", [1, 3, 4, 8, 17, 33])
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("schedule", SCHEDULES)
def test_all_operations(schedule, name, features):
    check(schedule, name, features)
