"""Rows in device memory, their division among lanes, and the parts of which kernels are put together."""

from __future__ import annotations

import numpy as np
import pytest

from harness.language import K, solve_spd, total
from harness.lowering.cuda.conditions import CHANGING, NEVER, OVER, REBUILDING, Condition, dense, sparse, when
from harness.lowering.cuda.last_use import overwritable
from harness.lowering.cuda.layout import DeviceLayout, LaneGroupShape, device_stride, longest_row, rows_held
from harness.lowering.cuda.parameters import KINDS, RESTRICTED, Parameter, joined
from harness.lowering.cuda.templates import blocks_of, filled
from tests.language.programs import program_of


@pytest.mark.parametrize(
    ("lanes", "stride"), [(1, 1), (2, 2), (3, 4), (4, 4), (5, 8), (8, 8), (9, 12), (33, 36), (64, 64), (65, 68)]
)
def test_rows_from_three_features_on_are_aligned_for_wide_loads(lanes, stride):
    assert device_stride(lanes) == stride
    assert DeviceLayout(lanes).stride((K,)) == stride
    assert DeviceLayout(lanes).stride((3, K)) == 3 * stride


@pytest.mark.parametrize(
    ("longest", "width", "shape", "lane_groups"),
    [
        (1, 4, (1, 1), 32), (2, 4, (1, 2), 32), (3, 4, (1, 4), 32), (4, 4, (1, 4), 32), (5, 4, (2, 4), 16),
        (16, 4, (4, 4), 8), (17, 4, (5, 4), 6), (33, 4, (9, 4), 3), (65, 4, (17, 4), 1), (128, 4, (32, 4), 1),
        (129, 4, (32, 4), 1), (3, 2, (2, 2), 16), (2, 1, (2, 1), 16), (33, 1, (32, 1), 1), (65, 2, (32, 2), 1),
    ],
)  # fmt: skip
def test_lanes_share_rows_in_chunks_as_wide_as_they_can_be(longest, width, shape, lane_groups):
    group = LaneGroupShape.of(longest, True, width)
    assert (group.lanes, group.width) == shape
    assert group.per_warp == lane_groups
    assert LaneGroupShape.of(longest, False, width) == LaneGroupShape(1, 1)


@pytest.mark.parametrize(
    "group", [LaneGroupShape(1, 1), LaneGroupShape(5, 1), LaneGroupShape(4, 4), LaneGroupShape(32, 2)]
)
@pytest.mark.parametrize("n", [1, 7, 16, 65])
def test_every_feature_is_in_one_slot_of_one_lane(group, n):
    members = np.arange(group.lanes)
    features = np.stack([group.feature(slot, members) for slot in range(group.slots(n))])
    assert np.array_equal(np.sort(features.ravel()), np.arange(features.size))
    assert features.size >= n > features.size - group.lanes * group.width
    assert np.array_equal(
        features[:: group.width, 1:] - features[:: group.width, :-1],
        np.full_like(features[:: group.width, 1:], group.width),
    )
    assert (np.diff(features.reshape(-1, group.width, group.lanes), axis=1) == 1).all()


def stepped(shape, step):
    def build(p, self):
        p.vertex("x", shape, start=0.0)
        p.vertex("seed", K)
        p.over_vertices(step)
        p.repeat(1)
        p.output("x", bound=0.0)

    return program_of(build)


def test_the_longest_row_and_matrices_decide_about_the_lanes():
    rows = stepped((), lambda v, graph: {"x": total(v.seed)})
    assert longest_row(rows, DeviceLayout(9)) == 9
    assert rows_held(rows, DeviceLayout(9)) == 0
    assert LaneGroupShape.for_program(rows, 9, True) == LaneGroupShape(3, 4)
    assert LaneGroupShape.for_program(rows, 9, True, width=2) == LaneGroupShape(5, 2)
    matrices = stepped((K, K), lambda v, graph: {"x": v.x * 2.0})
    assert rows_held(matrices, DeviceLayout(9)) == 32
    assert LaneGroupShape.for_program(matrices, 9, True) == LaneGroupShape(9, 1)
    assert LaneGroupShape.for_program(matrices, 9, True, width=2) == LaneGroupShape(5, 2)
    assert rows_held(matrices, DeviceLayout(3)) == 32
    assert LaneGroupShape.for_program(matrices, 3, True) == LaneGroupShape(3, 1), "of K rows"
    views = stepped((3, K), lambda v, graph: {"x": v.x * 2.0})
    assert rows_held(views, DeviceLayout(9)) == 3
    assert LaneGroupShape.for_program(views, 9, True) == LaneGroupShape(3, 4)
    assert LaneGroupShape.for_program(views, 1, True) == LaneGroupShape(1, 1)
    assert LaneGroupShape.for_program(views, 32, True) == LaneGroupShape(8, 4)
    assert LaneGroupShape.for_program(views, 33, True) == LaneGroupShape(32, 1), "rows of more than a warp"
    few = stepped((4, K), lambda v, graph: {"x": v.x * 2.0})
    assert LaneGroupShape.for_program(few, 9, True) == LaneGroupShape(9, 1), "too many rows"
    assert longest_row(stepped((20,), lambda v, graph: {"x": v.x * 2.0}), DeviceLayout(9)) == 20


def systems(step):
    def build(p, self):
        p.vertex("a", (K, K))
        p.vertex("b", K)
        p.vertex("x", K, start=0.0)
        p.vertex("n", start=0.0)
        p.over_vertices(step)
        p.repeat(1)
        p.output("x", bound=0.0)

    program = program_of(build)
    return overwritable([value for stage in program.stages for value in stage.expressions()])


def test_a_matrix_is_overwritten_only_by_its_last_use():
    a = frozenset({("v", "a")})
    assert systems(lambda v, graph: {"x": solve_spd(v.a, v.b)}) == a
    assert systems(lambda v, graph: {"x": solve_spd(2.0 * v.a, v.b)}) == a
    assert systems(lambda v, graph: {"x": solve_spd(v.a, v.b) + v.b}) == a
    assert systems(lambda v, graph: {"x": solve_spd(v.a, v.b), "n": total(v.a @ v.b)}) == frozenset()
    assert systems(lambda v, graph: {"x": v.a @ v.b}) == frozenset()


def test_conditions_hold_if_any_of_their_terms_does():
    both = OVER | sparse(2) | when("late")
    assert both.text == "run->over() || run->sparse(2) || late"
    assert (both.frontier, (OVER | when("late")).frontier, (OVER | dense(0)).frontier) == (True, False, True)
    assert dense(1).text == "!run->sparse(1)"
    assert (NEVER.text, bool(NEVER), bool(OVER)) == ("false", False, True)
    assert both.without(OVER | when("other")) == Condition(("run->sparse(2)", "late"), frontier=True)
    assert (REBUILDING.text, CHANGING.text) == ("run->rebuilding", "!run->rebuilding")


def test_only_arrays_that_nobody_writes_are_restricted():
    for kind, (declared, written) in KINDS.items():
        one = Parameter.of("größe", kind)
        assert (one.written, one.restricted) == (written, kind in RESTRICTED)
        assert not (one.restricted and (written or not declared.startswith("const ")))
        assert not (written and declared.startswith("const "))
        assert one.plain == f"{declared} gr_u00f6__u00df_e"
        assert one.text == (f"{declared} __restrict__ gr_u00f6__u00df_e" if one.restricted else one.plain)


def test_an_array_that_one_of_several_functions_writes_is_not_constant():
    read, write = Parameter.of("x", "input"), Parameter.of("x", "f32")
    other = Parameter.of("y", "ids")
    for order in ([read, write, other], [write, read, other]):
        assert joined(order) == {"x": write, "y": other}
    assert list(joined([other, read, read])) == ["y", "x"]


TEMPLATE = """
    before
    @outer
    for (;;) {
        @fetch
        struct { @fields }
            @fields
        @visit
    }
    @unused
"""


def test_templates_are_filled_line_by_line():
    blocks = blocks_of(TEMPLATE, ["outer"])
    assert list(blocks) == ["outer", "fetch", "visit", "unused"]
    assert blocks["fetch"].parent is blocks["outer"]
    assert blocks["visit"].parent is blocks["fetch"]
    assert (blocks["outer"].parent, blocks["unused"].parent) == (None, None)
    assert [blocks[name].hoisted for name in blocks] == [True, False, False, False]
    blocks["outer"].lines += ["one;", "two;"]
    blocks["visit"].lines.append("three;")
    assert blocks["fetch"].fields == []
    blocks["fetch"].fields.append("float f;")
    assert filled(TEMPLATE, blocks).splitlines() == [
        "    before", "    one;", "    two;", "    for (;;) {", "        struct { @fields }", "            float f;",
        "        three;", "    }",
    ]  # fmt: skip
