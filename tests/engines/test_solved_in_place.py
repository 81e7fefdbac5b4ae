"""Systems whose matrix a kernel has summed: solved in place if the matrix is not read again."""

from __future__ import annotations

import pytest

from engines.onyx.cuda_engine import OnyxCudaEngine
from engines.onyx.schedule import OnyxSchedule
from harness.language import K, eye, outer, solve_spd, total
from tests.engines.cuda_schedules import plan_of
from tests.engines.programs import edges_and_loops, inputs_for, traced
from tests.engines.test_cuda import check_every_superstep

FEATURES = 40  # too large for a warp's registers


def normal_equations(p, self):
    """Sum a matrix that only one system reads, once."""
    _sums(p)

    @p.over_vertices
    def solve(v):
        return {"x": solve_spd(v.gram + 2.0 * eye(K), v.score)}

    _ends(p)


def scaled(p, self):
    """Scale the summed matrix element by element; the right side is not only a sum."""
    _sums(p)

    @p.over_vertices
    def solve(v):
        return {"x": solve_spd(2.0 * eye(K) + v.gram * 0.5, v.score + v.x0)}

    _ends(p)


def read_again(p, self):
    """Read the sum in another expression, too."""
    _sums(p)

    @p.over_vertices
    def solve(v):
        return {"x": solve_spd(v.gram + 2.0 * eye(K), v.score) / (1.0 + total(v.gram))}

    _ends(p)


def solved_twice(p, self):
    """Solve two systems of one matrix."""
    _sums(p)

    @p.over_vertices
    def solve(v):
        shifted = v.gram + 2.0 * eye(K)
        return {"x": 0.5 * solve_spd(shifted, v.score) + 0.5 * solve_spd(shifted, v.x0)}

    _ends(p)


def sum_is_output(p, self):
    """Return the sum as an output."""
    p.vertex("gram", (K, K), start=0.0)
    _sums(p)

    @p.over_vertices
    def solve(v):
        return {"x": solve_spd(v.gram + 2.0 * eye(K), v.score)}

    _ends(p)
    p.output("gram", bound=1e-4)


def read_later(p, self):
    """Read the sum in the following step."""
    _sums(p)

    @p.over_vertices
    def solve(v):
        return {"x": solve_spd(v.gram + 2.0 * eye(K), v.score)}

    @p.over_vertices
    def shrink(v):
        return {"x": v.x / (1.0 + total(v.gram))}

    _ends(p)


def _sums(p):
    p.vertex("x0", K)
    p.vertex("x", K, start="x0")

    @p.over_edges(into="gram", reduce="sum")
    def multiply(src):
        return outer(src.x, src.x)

    @p.over_edges(into="score", reduce="sum")
    def add(src):
        return src.x


def _ends(p):
    p.repeat(3)
    p.output("x", bound=1e-4)


# The number of tiles of a lane group: for the sum, for each system that overwrites one, and for values kept until they
# are stored.
TILES = {
    normal_equations: 1, scaled: 1, read_again: 2, solved_twice: 3, sum_is_output: 3, read_later: 2,
}  # fmt: skip


@pytest.mark.parametrize(("build", "tiles"), TILES.items(), ids=[build.__name__ for build in TILES])
def test_a_second_tile_is_taken_where_the_matrix_is_read_again(build, tiles):
    program, graph = traced(build, build.__name__), edges_and_loops()
    engine = OnyxCudaEngine(OnyxSchedule(change_driven=False, balance="warp"))
    plan = plan_of(engine, program, graph, FEATURES)
    tile = FEATURES * -(-FEATURES // 32) * 32
    assert max(kernel.tile_floats for kernel in plan.kernels) == tiles * tile


@pytest.mark.gpu
@pytest.mark.parametrize("build", TILES, ids=[build.__name__ for build in TILES])
@pytest.mark.parametrize(("schedule", "features"), [("pull", 33), ("pull", 70), ("pull-single-features", FEATURES)])
def test_answers(schedule, features, build, device):
    program, graph = traced(build, build.__name__), edges_and_loops()
    inputs = inputs_for(program, graph, features, seed=features)
    check_every_superstep(schedule, program, graph, inputs, features, device, 3)
