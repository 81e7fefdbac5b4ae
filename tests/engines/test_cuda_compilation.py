"""Every kernel compiles without a device, and needs no more resources than the checked-in table allows.

By default the modules of a covering choice of the tables' cells are compiled (see :func:`shown`); ``-m full``: all.
"""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from harness.language import K
from harness.language.analysis import change_driven
from harness.lowering.accumulators import separated
from harness.lowering.cuda.plan import CudaPlan
from harness.lowering.log_products import products_as_sums
from tests.covering import covering
from tests.engines.cuda_modules import (
    CHIPS,
    DECLARED,
    FEATURES,
    TABLES,
    Module,
    accepted,
    algorithms,
    generated,
    module_of,
    pairs,
    problem,
)
from tests.engines.cuda_resources import (
    COLUMNS,
    Resources,
    compiler,
    compiler_of,
    recorded,
    resources,
    schedule_of,
)
from tests.engines.programs import PROGRAMS, edges_and_loops, graph_for, program_named, traced

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the CUDA compiler is installed on Linux only")
MEND = "; if that is intended, update the table with python -m tests.engines.cuda_resources"


def cells_of(table):
    """Return the cells of a table, each a module to compile."""
    compiled = dict.fromkeys((algorithm, schedule) for algorithm, schedule, _ in recorded(table))
    return [(table, algorithm, schedule, column) for algorithm, schedule in compiled for column in COLUMNS]


CELLS = [cell for engine in DECLARED for cell in cells_of(engine)]
FURTHER = [cell for table in TABLES if table not in DECLARED for cell in cells_of(table)]  # with -m full only


def compiles(engine, algorithm):
    """Return whether an engine compiles an algorithm by default: Onyx every one, the others every second, in turns."""
    return engine == "onyx" or (list(DECLARED).index(engine) + algorithms().index(algorithm)) % 2 == 0


def shown(cell):
    """Return what a cell covers: every engine meets every column and every pair of its options; see `compiles`."""
    engine, algorithm, schedule, column = cell
    options = {(engine, *pair) for pair in pairs(tuple(schedule.split()))}
    return options | {(engine, column), *([(engine, algorithm)] if compiles(engine, algorithm) else [])}


def cost(cell):
    """Estimate the time to compile a cell's kernels; those of matrices take longest, and longer with more features."""
    _, algorithm, _, column = cell
    features, _ = COLUMNS[column]
    return 1 + features / 8 if algorithm.startswith(("als", "belief")) else 1


CHOSEN = covering(CELLS, shown, cost)


def test_the_choice_leaves_no_engine_algorithm_column_or_pair_of_options_out():
    assert {cell[:2] for cell in CHOSEN} >= {cell[:2] for cell in CELLS if compiles(*cell[:2])}
    assert {cell[1] for cell in CHOSEN if cell[0] != "onyx"} == {cell[1] for cell in CELLS if cell[0] != "onyx"}
    assert {(cell[0], cell[3]) for cell in CHOSEN} == {(cell[0], cell[3]) for cell in CELLS}
    assert set().union(*map(shown, CHOSEN)) == set().union(*map(shown, CELLS))


def parameters():
    """Return all cells; those that are not chosen are marked as full."""
    today = set(CHOSEN)
    for cell in (*CELLS, *FURTHER):
        engine, algorithm, schedule, column = cell
        marks = () if cell in today else (pytest.mark.full,)
        yield pytest.param(*cell, marks=marks, id=f"{engine}-{algorithm}-{column}-{schedule}")


@pytest.mark.parametrize(("engine", "algorithm", "schedule", "column"), list(parameters()))
def test_kernels_use_the_resources_of_the_table(engine, algorithm, schedule, column):
    declared, (features, chip) = TABLES[engine], COLUMNS[column]
    table = {
        kernel: cells[column]
        for (named, under, kernel), cells in recorded(engine).items()
        if (named, under) == (algorithm, schedule) and column in cells
    }
    module = generated(declared, algorithm, schedule_of(declared, schedule), features)
    if not isinstance(module, Module):
        assert not table, f"{module.reason}, and the table has {sorted(table)}{MEND}"
        assert "matrices" in module.reason, module.reason
        return
    found = resources(module, chip)
    assert set(found) == set(table), f"the kernels differ from those of the table{MEND}"
    ours, theirs = compiler(), compiler_of(engine)
    if ours != theirs:
        pytest.skip(f"compiled by {ours}, and these are the right kernels; the figures of the table are of {theirs}")
    grown = {kernel: table[kernel].growth(now) for kernel, now in found.items()}
    assert not any(grown.values()), f"{ {kernel: text for kernel, text in grown.items() if text} }{MEND}"


@pytest.mark.parametrize("engine", list(TABLES))
def test_every_engine_has_a_table_of_every_algorithm_that_it_runs(engine):
    run = {algorithm for algorithm in algorithms() if accepted(TABLES[engine], algorithm)}
    assert {algorithm for algorithm, _, _ in recorded(engine)} == run, f"the table is out of date{MEND}"


@pytest.mark.parametrize("algorithm", algorithms())
@pytest.mark.parametrize("engine", list(TABLES))
@pytest.mark.short_run(rows=99)  # a row takes milliseconds
def test_every_pair_of_options_is_in_the_table(engine, algorithm):
    declared = TABLES[engine]
    rows = {schedule for named, schedule, _ in recorded(engine) if named == algorithm}
    there = set().union(*(pairs(schedule_of(declared, schedule)) for schedule in rows))
    wanted = set().union(*(pairs(schedule) for schedule in accepted(declared, algorithm)))
    assert there == wanted, f"pairs of options are missing or refused now{MEND}"


@pytest.mark.parametrize("engine", list(DECLARED))
def test_positions_of_64_bits(engine):
    """A graph of 2^31 edges or more has a 64-bit type for edge ids."""
    declared = DECLARED[engine]
    program, graph = problem("label_propagation")
    facts = replace(graph.facts, num_edges=1 << 31)
    for schedule in covering(accepted(declared, "label_propagation"), pairs)[:2]:
        module = module_of(declared.build(schedule), program, facts, 8)
        assert isinstance(module, Module)
        assert "typedef long long EdgeId;" in module.source
        assert resources(module, "sm_90")


def three_reducers(p, self):
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")
    for reducer in ("sum", "min", "max"):
        p.over_edges(into=reducer, reduce=reducer)(lambda src: src.x)

    @p.over_vertices
    def step(v):
        return {"x": 0.1 * v.sum + 0.1 * v.min + 0.1 * v.max}

    p.repeat(2)
    p.output("x", bound=1e-4)


def test_sums_of_a_hub_of_several_reducers_share_their_room():
    schedule = {"change_driven": False, "balance": "warp", "block_size": 512}
    engine = DECLARED["onyx"].build(tuple(schedule.items()))
    module = module_of(engine, traced(three_reducers, "three reducers"), edges_and_loops().facts, 256)
    assert isinstance(module, Module)
    hubs = [found for name, found in resources(module, "sm_90").items() if name.endswith("_hubs")]
    assert len(hubs) == 1
    assert 16 << 10 <= hubs[0].shared < 17 << 10


def test_programs_with_reverse_edges_refuse_more_edges_than_32_bits_count():
    for name, taken in (("belief_propagation", False), ("label_propagation", True)):
        program, graph = problem(name)
        answer = DECLARED["onyx"].build(()).plan(program, replace(graph.facts, num_edges=(1 << 32) + 1), 4)
        assert isinstance(answer, CudaPlan) == taken
        assert taken or "32 bits" in answer.reason


def test_frontiers_of_gunrock_refuse_more_edges_than_their_size_counts():
    program, graph = problem("bfs")
    for edges, taken in ((1 << 33, False), ((1 << 33) - 1, True)):
        answer = DECLARED["gunrock"].build(()).plan(program, replace(graph.facts, num_edges=edges), 1)
        assert isinstance(answer, CudaPlan) == taken
        assert taken or "counts its edges in 33 bits" in answer.reason


FEW_SCHEDULES = 4  # of the schedules that cover an engine's options, the least number that must compile a program


@pytest.mark.full
@pytest.mark.parametrize("name", list(PROGRAMS))
@pytest.mark.parametrize("engine", list(DECLARED))
def test_every_operation_of_the_language_compiles(engine, name):
    declared, program = DECLARED[engine], program_named(name)
    graph = graph_for(name)
    built, refused = 0, set()
    schedules = covering(list(declared.schedules()), pairs)
    step = max(1, len(schedules) // FEW_SCHEDULES)
    chosen = schedules[list(PROGRAMS).index(name) % step :: step]
    for features, schedule in zip(FEATURES * len(chosen), chosen, strict=False):
        module = module_of(declared.build(schedule), program, graph.facts, features)
        if isinstance(module, Module):
            built += len(resources(module, "sm_90"))
        else:
            refused.add(module.reason)
    if not built:
        form = change_driven(separated(products_as_sums(program, masked=True)))
        untracked = "message updates an edge property, whose changes are not tracked"
        reasons = {
            "gunrock": form if isinstance(form, str) else untracked,  # it propagates only changes, under every schedule
            "scaph": "edges=streamed: message updates an edge property, and only edges that do not change stream",
        }
        assert refused == {reasons[engine]}


def test_growth_beyond_the_margins_is_reported():
    before = Resources(40, 0, 0)
    assert not before.growth(Resources(48, 1024, 0))
    assert not before.growth(Resources(20, 0, 0))
    assert before.growth(Resources(49, 0, 0)) == "registers from 40 to 49"
    assert before.growth(Resources(40, 1025, 0)) == "shared memory from 0 to 1025 bytes"
    assert before.growth(Resources(40, 0, 4)) == "spills from 0 to 4 bytes"
    assert not Resources(40, 0, 4).growth(Resources(40, 0, 36))
    assert Resources(40, 0, 4).growth(Resources(40, 0, 37)) == "spills from 4 to 37 bytes"
    assert Resources.parse(str(Resources(255, 48, 12))) == Resources(255, 48, 12)


def test_covering_schedules_have_every_pair():
    for declared in DECLARED.values():
        every = list(declared.schedules())
        few = covering(every, pairs)
        assert set().union(*map(pairs, few)) == set().union(*map(pairs, every))
        assert len(few) < 16
        assert set(CHIPS) == {"sm_80", "sm_90", "sm_100"}
