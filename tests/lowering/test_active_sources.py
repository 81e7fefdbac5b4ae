"""Active sources of a run on a CPU: counts of the parts at hand, and what has been propagated."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from harness.lowering.cpu.active_sources import ActiveSources, Frontier

VERTICES, WIDTH = 5, 2
FRONTIERS = (
    Frontier("gather", reduces=True, sent=("x", "y"), moved_before=False),
    Frontier("late", reduces=True, sent=("x",), moved_before=True),
    Frontier("update", reduces=False, sent=("x",), moved_before=False),
)


@pytest.fixture
def sources():
    """Return the sources of three groups; kernels that count leave 3 sources with 7 edges in the first part only."""
    made = {"pairs": np.full(8, 100), **{f"active_{one.group}": np.ones(VERTICES, np.bool_) for one in FRONTIERS}}
    for name in ("x", "y"):
        made[f"vertex_{name}"] = np.arange(VERTICES * WIDTH, dtype=np.float32)
        made |= {f"sent_{one.group}_{name}": np.full(VERTICES * WIDTH, -1, np.float32) for one in FRONTIERS}

    def call(kernel, parts, bounds, counts):
        assert (kernel, parts, len(bounds)) == ("count_gather", 1, 2) or kernel in ("count_late", "count_dirty_update")
        counts[:2] = 3, 7

    memory = SimpleNamespace(arrays=made, set_flags=lambda name, value: made[name].__setitem__(slice(None), value))
    store = SimpleNamespace(table=lambda _: np.array([0, VERTICES]))
    return ActiveSources(FRONTIERS, SimpleNamespace(num_vertices=VERTICES), store, memory, call, None)


def test_only_the_parts_of_a_call_are_counted(sources):
    assert sources.count("gather") == (3, 7)
    assert sources.count("update", flag="dirty") == (3, 7)
    sources.counted["late"] = 1, 20  # by another kernel
    assert sources.count_moved(["gather", "late"]) == 3 + 1
    assert sources.edges == {"gather": 7, "late": 20}
    assert not sources.counted
    sources.edges["update"] = 99
    assert sources.most_edges() == 20, "of the groups that reduce"


@pytest.mark.parametrize("alternates", [False, True])
def test_a_run_begins_with_the_values_propagated_that_another_group_moves_first(sources, alternates):
    """If sides alternate, also with the values of all other groups, whose sources stay active."""
    arrays, sources.edges = sources.memory.arrays, {"gather": 5}
    sources.reset(alternates=alternates)
    assert sources.edges == {}
    assert [one.group for one in FRONTIERS if not arrays[f"active_{one.group}"].any()] == ["late"]
    assert np.array_equal(arrays["sent_late_x"], arrays["vertex_x"])
    for name in ("gather_x", "gather_y", "update_x"):
        assert np.array_equal(arrays[f"sent_{name}"], arrays[f"vertex_{name[-1]}"]) == alternates


@pytest.mark.parametrize(("first", "last"), [(0, None), (0, 3), (3, 5)])
def test_values_of_a_range_are_propagated(sources, first, last):
    arrays = sources.memory.arrays
    sources.all_propagated("gather", first=first, last=last, but=("y",))
    inside = np.isin(np.arange(VERTICES), range(first, VERTICES if last is None else last))
    assert np.array_equal(arrays["active_gather"], ~inside)
    assert np.array_equal(arrays["sent_gather_x"], np.where(np.repeat(inside, WIDTH), arrays["vertex_x"], -1))
    assert (arrays["sent_gather_y"] == -1).all()


def test_a_run_begins_with_some_senders_of_the_groups_that_reduce(sources):
    arrays, senders = sources.memory.arrays, np.arange(VERTICES) == 2
    sources.begin_with(senders)
    assert all(np.array_equal(arrays[f"active_{name}"], senders) for name in ("gather", "late"))
    assert arrays["active_update"].all()
    assert sources.edges == {"gather": 7, "late": 7}
    assert np.array_equal(arrays["sent_gather_y"], arrays["vertex_y"])
