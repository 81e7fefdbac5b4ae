"""The device's own functions at extreme values, emulated."""

from __future__ import annotations

import numpy as np
import pytest

from engines.onyx.cuda_plan import FOLDER
from engines.onyx.cuda_tracking_policy import TrackedRuns
from harness.emulation.arrays import allocated
from harness.emulation.compiler import Module, library, unavailable
from harness.lowering.cuda.executor import PAST_FIELDS
from harness.lowering.cuda.modules import HEADER, headers
from harness.lowering.cuda.movement import BLOCKS, ROWS
from harness.lowering.cuda.run_extension import RunExtension
from harness.lowering.cuda.run_state import RUN_FIELDS
from tests.engines.device_functions import BLOCK, FOUND, SOURCE, arguments, check, headers_of_lane_groups

pytestmark = pytest.mark.skipif(bool(unavailable()), reason=unavailable())


def test_minima_maxima_and_logarithms():
    a, b = arguments()
    found = allocated(np.zeros((FOUND, len(a)), np.float32))
    module = Module()
    module.load(str(library(SOURCE, headers_of_lane_groups())).encode())
    blocks = -(-len(a) // BLOCK)
    given = (allocated(a), allocated(b), found, np.uint32(len(a)))
    module.get_function("functions")((blocks,), (BLOCK,), given, shared_mem=0)
    check(a, b, found)


def heading(extension: RunExtension) -> str:
    """Return the beginning of a module of single threads."""
    return HEADER.format(
        title="a test", lanes=1, width=1, block=BLOCK, coherent="", groups=1, edge_id="unsigned", includes="",
        extension=extension.declaration,
    )  # fmt: skip


MEASURED = f"""
{heading(RunExtension())}
#include "movement.cuh"
static_assert(MOVEMENT_BLOCKS == {BLOCKS} && MOVEMENT_ROWS == {ROWS}, "those of movement.py");
extern "C" __global__ void __launch_bounds__(BLOCK) measured(const float* a, const float* b, Id n, Id callers, float* c)
{{
    if (blockIdx.x < callers) measure_movement<Norm::SUM>(a, b, n, 1, 1, 0.0f, c);
}}
"""


@pytest.mark.parametrize(
    ("vertices", "grid", "callers"),
    [(ROWS, 1, 1), (ROWS, 5, 1), (ROWS, 5, 5), (3 * ROWS, 3, 3), (3 * ROWS, 7, 7), (3 * ROWS, 2, 2), (1, 4, 1)],
)
def test_movement_is_that_of_all_vertices_for_any_number_of_blocks(vertices, grid, callers):
    """A persistent kernel has its own number of blocks, of which one measures where launches would have one."""
    rng = np.random.default_rng(vertices + grid)
    before, now = rng.random((2, vertices), np.float32)
    found = allocated(np.zeros(2 * BLOCKS, np.float32))
    module = Module()
    module.load(str(library(MEASURED, headers_of_lane_groups())).encode())
    given = (allocated(before), allocated(now), np.uint32(vertices), np.uint32(callers), found)
    module.get_function("measured")((grid,), (BLOCK,), given, shared_mem=0)
    distance, size = found.get().reshape(BLOCKS, 2).sum(0)
    assert distance == pytest.approx(np.abs(now - before).sum(), rel=1e-5)
    assert size == pytest.approx(np.abs(now).sum(), rel=1e-5)


TURNS = f"""
{heading(TrackedRuns(dense_rows=0.5, rebuild_share=None, pausing=None))}
#include "tracking_policy.cuh"
extern "C" __global__ void turns(
    const Count* movers, const Count* edges, Id n, Count begun, Count lasting, Count* run_fields)
{{
    if (threadIdx.x != 0) return;
    Run run{{}};
    run.may_pause = 1;
    run.patience = 2;
    run.untracked_edges = run.entered = run.usual = 100;
    run.lasting_edges = lasting;
    run.untracked = run.stretch = begun;
    for (Id i = 0; i < n; ++i) {{
        run.movers = movers[i];
        run.found = edges[i];
        end_turn(&run);
        run_fields[3 * i] = run.untracked;
        run_fields[3 * i + 1] = run.resuming;
        run_fields[3 * i + 2] = run.stretch;
    }}
}}
"""


def rows_of(turns, begun=0, lasting=1 << 30):
    """Return (untracked turns left, resuming, stretch) after each turn; ``turns``: (movers, edges of their sources).

    ``begun``: the length of the stretch with which the run begins. ``lasting``: the edges of the sources that move from
    which a stretch goes on.
    """
    movers, edges = np.array(turns, np.int64).T
    found = allocated(np.zeros(3 * len(turns), np.int64))
    module = Module()
    module.load(str(library(TURNS, headers(FOLDER))).encode())
    arrays = (allocated(movers.copy()), allocated(edges.copy()))
    given = (*arrays, np.uint32(len(turns)), np.int64(begun), np.int64(lasting), found)
    module.get_function("turns")((1,), (BLOCK,), given, shared_mem=0)
    return [tuple(row) for row in found.get().reshape(-1, 3).tolist()]


CROWDED, QUIET = (50, 150), (5, 10)


def test_tracking_pauses_after_crowded_turns_and_resumes_where_less_moves():
    assert rows_of([CROWDED, QUIET, CROWDED, CROWDED]) == [(0, 0, 0)] * 3 + [(8, 0, 8)]
    less = (20, 0)  # 150 edges times 20 movers of 50 are fewer than 100
    assert rows_of([CROWDED, CROWDED, (50, 0), (34, 0), less])[2:] == [(7, 0, 8), (6, 0, 8), (0, 1, 8)]
    again = rows_of([CROWDED, CROWDED, (50, 0), less, CROWDED, CROWDED, less, less, (13, 0)])
    assert again[3:] == [(0, 1, 8), (0, 0, 8), (16, 0, 16), (15, 0, 16), (14, 0, 16), (0, 1, 16)]


def test_stretches_double_up_to_the_longest_and_restart_after_a_quiet_turn():
    def pauses(*stretches):
        """Return crowded turns, each pair followed by all untracked turns of a stretch."""
        return [turn for length in stretches for turn in (CROWDED, CROWDED, *[(50, 0)] * length)]

    rows = rows_of(pauses(8, 16, 32, 32))
    begun = [stretch for (left, _, stretch), (before, _, _) in zip(rows[1:], rows, strict=False) if left > before]
    assert begun == [8, 16, 32, 32]
    assert sum(resuming for _, resuming, _ in rows) == 4
    assert rows_of([*pauses(8), QUIET, CROWDED, CROWDED])[-1] == (8, 0, 8)


def test_a_stretch_whose_turns_have_passed_goes_on_while_much_moves():
    begin = [CROWDED, CROWDED, *[(50, 0)] * 7]  # 150 edges have 50 movers
    assert rows_of([*begin, (50, 0), (70, 0), (49, 0)], lasting=150)[8:] == [(1, 0, 8)] * 3 + [(0, 1, 8)]
    assert rows_of([*begin, (50, 0)], lasting=151)[8:] == [(1, 0, 8), (0, 1, 8)]


def test_a_run_that_begins_untracked_resumes_unless_it_is_nearly_over():
    endless = 1 << 40
    assert rows_of([(300, 0), (90, 0)], endless) == [(endless - 1, 0, endless), (endless - 2, 0, endless)]
    assert rows_of([(300, 0), (99, 0)], endless)[1] == (endless - 2, 0, endless)  # 3 * 99 < 300
    assert rows_of([(200, 0), (99, 0)], endless)[1] == (0, 1, endless)
    assert rows_of([(200, 0), (100, 0)], endless)[1] == (endless - 2, 0, endless)  # as many as all edges


SUPERSTEPS = f"""
{heading(TrackedRuns(dense_rows=0.5, rebuild_share=None, pausing=None))}
#include "run.cuh"
extern "C" __global__ void supersteps(Count sides, Count rebuild, Id n, Past* past, Count* rebuilding)
{{
    if (threadIdx.x != 0) return;
    Run run{{}};
    run.sides = sides;
    run.rebuild = rebuild;
    run.settles = 1;
    run.limit = n;
    run.rebuilding = 1;
    for (Id i = 0; i < n; ++i) {{
        rebuilding[i] = run.rebuilding;
        run.moved = 100 + i;
        run.edges = 10 * i;
        run.dense = i % 2;
        run.always[i % sides] = 7;
        end_superstep(&run, past);
    }}
}}
"""


@pytest.mark.parametrize(("sides", "rebuild"), [(1, 0), (1, 3), (2, 0), (2, 3)])
def test_sums_are_rebuilt_every_so_many_supersteps_of_each_side_and_records_are_of_one_superstep(sides, rebuild):
    count = 15
    past, rebuilding = allocated(np.zeros(PAST_FIELDS * count, np.int64)), allocated(np.zeros(count, np.int64))
    module = Module()
    module.load(str(library(SUPERSTEPS, headers_of_lane_groups())).encode())
    given = (np.int64(sides), np.int64(rebuild), np.uint32(count), past, rebuilding)
    module.get_function("supersteps")((1,), (BLOCK,), given, shared_mem=0)
    turns = [i // sides for i in range(count)]
    assert rebuilding.get().tolist() == [int(turn == 0 or (rebuild > 0 and turn % rebuild == 0)) for turn in turns]
    recorded = past.get().reshape(count, PAST_FIELDS)[:, :3]
    assert recorded.tolist() == [[100 + i - 1 if i else 0, 10 * i + 7, i % 2] for i in range(count)]


PAUSES = f"""
{heading(TrackedRuns(dense_rows=0.5, rebuild_share=None, pausing=None))}
#include "tracking_policy.cuh"
extern "C" __global__ void pauses(Run* run, Past* past, int* sparse)
{{
    if (threadIdx.x != 0) return;
    sparse[0] = sparse_rows(run, 0);
    end_or_pause(run, past);
    sparse[1] = sparse_rows(run, 0);
}}
"""
ADDED = TrackedRuns(dense_rows=0.5, rebuild_share=None, pausing=None).names
USUAL = {
    "limit": 99, "sides": 1, "dense_rows": 60, "untracked_edges": 1000, "patience": 2, "may_pause": 1, "reductions": 1,
    "lasting_edges": 1 << 30, "full": 500, "full_odd": 7000, "moved": 3, "edges": 20, "movers": 4, "found": 50,
    "before": 9, "usual": 100, "entered": 1, "rebuild": 1 << 40, "settles": 1,
}  # fmt: skip


def after_superstep(frontier, **fields):
    """Return the fields of a run after a superstep that may be untracked, its frontiers, its record, and whether its
    dirty rows and those of the next superstep have few edges."""
    module = Module()
    module.load(str(library(PAUSES, headers(FOLDER))).encode())
    names = (*ADDED, *RUN_FIELDS)
    run = allocated(np.array([*((USUAL | fields).get(name, 0) for name in names), *frontier], np.int64))
    past, sparse = allocated(np.zeros(PAST_FIELDS, np.int64)), allocated(np.zeros(2, np.int32))
    module.get_function("pauses")((1,), (BLOCK,), (run, past, sparse), shared_mem=0)
    after = dict(zip(names, run.get().tolist(), strict=False))
    return after, run.get()[len(names) :].tolist(), past.get().tolist(), sparse.get().tolist()


def test_a_tracked_superstep_counts_movers_and_the_edges_of_sources_that_moved():
    after, frontier, past, sparse = after_superstep((60, 61))
    assert (after["before"], after["movers"], after["found"], after["untracked"]) == (4 + 3, 0, 0, 0)
    assert (frontier, past, sparse) == ([0, 61], [0, 20, 0, 60, 0], [1, 0])
    assert (after["crowded"], after["rebuilding"]) == (0, 0)  # 50 + 61 edges are fewer than 1,000
    for reductions, at_once, found in ((1, 0, 50 + 61), (1, 1, 50 + 60), (0, 0, 50), (2, 0, 50)):
        after, *_ = after_superstep((60, 61), reductions=reductions, at_once=at_once, sides=2)
        assert (after["found"], after["movers"], after["before"]) == (found, 7, 9)  # the turn has another side
    for found, crowded in ((938, 0), (939, 1)):  # with the 61 edges of this superstep: 1,000
        assert after_superstep((60, 61), found=found)[0]["crowded"] == crowded
    after, frontier, _, sparse = after_superstep((60, 61), found=2000, crowded=1)
    assert (after["untracked"], after["stretch"], after["entered"], after["rebuilding"]) == (8, 8, 2061, 1)
    assert (frontier, sparse) == ([0, 61], [1, 0])


def test_an_untracked_superstep_visits_all_edges_and_treats_everything_as_dirty():
    after, frontier, past, sparse = after_superstep((0, 0), untracked=5, stretch=8, entered=1000, untracked_edges=9)
    assert (past, after["untracked"], after["rebuilding"]) == ([0, 520, 1, 0, 0], 4, 1)
    assert (frontier, sparse) == ([0, 61], [1, 0])
    _, _, past, _ = after_superstep((0, 0), untracked=5, sides=2, superstep=1, first=1)
    assert past == [0, 7020, 1, 0, 0]


def test_a_resuming_turn_is_not_the_last():
    fields = {"untracked": 1, "stretch": 8, "moved": 0, "settles": 1, "superstep": 4, "first": 4, "confirming": 1}
    after, _, _, _ = after_superstep((0, 0), **fields, rebuilding=1)
    assert (after["untracked"], after["resuming"], after["rebuilding"]) == (0, 1, 1)
    after, _, _, _ = after_superstep((0, 0), **(fields | {"untracked": 0, "resuming": 1}), rebuilding=1)
    assert (after["settled"], after["confirming"], after["resuming"]) == (0, 1, 0)
    after, _, _, _ = after_superstep((0, 0), **(fields | {"untracked": 0}), rebuilding=1)
    assert (after["settled"], after["confirming"]) == (1, 1)


COHERENT = "\n".join(
    f"""
namespace width{width} {{
#undef WIDTH
#define WIDTH {width}
#include "lane_groups{width}.cuh"
}}
extern "C" __global__ void read{width}(const float* source, float* target)
{{
    const width{width}::LaneGroup group;
    if (threadIdx.x < LANES) width{width}::store<13, 16>(group, target, width{width}::load<13, 16>(group, source));
}}"""
    for width in (1, 2, 4)
)


def test_rows_that_others_write_are_read_past_the_cache_as_they_are():
    lane_groups = headers_of_lane_groups()["lane_groups.cuh"]
    heads = "#define COHERENT\n#define __CUDA_ARCH__ 800\n#define LANES 1\n#define BLOCK 64\n"
    module = Module()
    module.load(
        str(library(heads + COHERENT, {f"lane_groups{width}.cuh": lane_groups for width in (1, 2, 4)})).encode()
    )
    source = np.arange(1, 17, dtype=np.float32)
    for width in (1, 2, 4):
        target = allocated(np.zeros(16, np.float32))
        module.get_function(f"read{width}")((1,), (64,), (allocated(source), target), shared_mem=0)
        assert np.array_equal(target.get()[:13], source[:13])
