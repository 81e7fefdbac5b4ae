"""The start of a run of the SIMD-X style: active vertices in lists by degree, their edges, and whether they vote."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from engines.pullbaseline.schedules import SimdxSchedule
from engines.pullbaseline.simdx import task_run
from engines.pullbaseline.simdx.tasks import EDGES, PULLED, SIZES, VERTICES, VOTES, WORDS
from harness.emulation.arrays import allocated, cupy_of

INF = np.inf
DEGREES = np.array([0, 2, 3, 9, 10, 40, 3])  # two small ones, three of 3 to 9, two large ones
PULLED_LISTS = {"small": 11, "middle": 12, "large": 13}


def started(monkeypatch, values, *, identity=INF, quiet=True, votes=True, degrees=DEGREES):
    """Return the numbers of the tasks, the listed vertices by size, and the number of active ones.

    ``values``: [V] or [V, k], which are stored with a stride of k + 1.
    """
    monkeypatch.setitem(sys.modules, "cupy", cupy_of(object))
    monkeypatch.setattr(task_run, "lists_by_degree", lambda schedule, sides: tuple(SIZES))
    values = np.asarray(values, np.float32)
    values = values if values.ndim == 2 else values[:, None]
    width = values.shape[1]
    stored = np.full((len(degrees), width + 1), 5.0, np.float32)  # padding counts for nothing
    stored[:, :width] = values
    arrays = {f"{name}_active": allocated(np.full(len(degrees) + 1, 99, np.uint32)) for name in SIZES}
    arrays |= {"vertex_x": allocated(np.append(stored.ravel(), [1.0, 2.0])), "tasks": allocated(np.zeros(40, np.int64))}
    plan = SimpleNamespace(
        named={"vertex_x": SimpleNamespace(name="vertex_x", length=stored.size, stride=width + 1)}, sides=(),
        program=SimpleNamespace(properties={"x": SimpleNamespace(shape=("k",))}),
        layout=SimpleNamespace(dims=lambda shape: (width,)), schedule=SimdxSchedule(warp_degree=3, block_degree=9),
    )  # fmt: skip
    store = SimpleNamespace(
        graph=SimpleNamespace(num_vertices=len(degrees), num_edges=77, out_degrees=degrees),
        table=lambda name: SimpleNamespace(sides=[(0, PULLED_LISTS[name])]),
    )
    active = SimpleNamespace(metadata="x", identity=identity, quiet=quiet, votes=votes)
    count = task_run.start_tasks(active, plan, store, arrays)
    words = arrays["tasks"].get()
    assert not words[WORDS:].any()
    lists = [arrays[f"{name}_active"].get()[: words[number]].tolist() for number, name in enumerate(SIZES)]
    for number, name in enumerate(SIZES):
        assert (arrays[f"{name}_active"].get()[words[number] :] == 99).all()
    return words, lists, count


@pytest.mark.parametrize(
    ("values", "options", "lists"),
    [
        ([INF, 0, INF, INF, INF, INF, INF], {}, [[1], [], []]),
        ([1, INF, 1, 1, 1, 1, INF], {}, [[0], [2, 3], [4, 5]]),
        ([INF] * 7, {}, [[], [], []]),
        ([INF] * 7, {"quiet": False}, [[0, 1], [2, 3, 6], [4, 5]]),
        ([0, -INF, 0, -INF, 0, -INF, 0], {"identity": -INF}, [[0], [2, 6], [4]]),
        ([0, 0, 0, 3, 0, 0, 0], {"identity": 0.0}, [[], [3], []]),
        ([[INF, INF]] * 3 + [[INF, 2]] + [[INF, INF]] * 2 + [[4, INF]], {}, [[], [3, 6], []]),
    ],
)
def test_vertices_that_have_heard_something_are_listed_by_their_degree(values, options, lists, monkeypatch):
    words, found, count = started(monkeypatch, values, **options)
    listed = [v for one in lists for v in one]
    assert found == lists
    assert count == len(listed)
    assert words[len(SIZES)] == DEGREES[listed].sum()
    assert words[PULLED : PULLED + 3].tolist() == list(PULLED_LISTS.values())
    assert (words[VERTICES], words[EDGES]) == (7, 77)


@pytest.mark.parametrize(
    ("values", "alike"),
    [
        ([INF, 0, INF, INF, INF, INF, INF], True),
        ([INF, 0, INF, 0, 0, INF, INF], True),
        ([INF, 0, INF, 1, INF, INF, INF], False),
        ([INF] * 7, True),
        ([[0, 5], [INF, 5]] + [[0, INF]] * 5, True),  # each feature has one value
        ([[0, 5], [INF, 6]] + [[0, INF]] * 5, False),
        ([[0, INF]] * 7, True),
        ([[1, INF], [0, INF]] + [[INF, INF]] * 5, False),
    ],
)
def test_vertices_vote_if_each_feature_has_one_value(values, alike, monkeypatch):
    assert started(monkeypatch, values)[0][VOTES] == alike
    assert started(monkeypatch, values, votes=False)[0][VOTES] == 0


def test_of_no_vertices_nobody_votes(monkeypatch):
    words, lists, count = started(monkeypatch, np.zeros((0, 1)), degrees=np.zeros(0, np.int64))
    assert (lists, count, words[VOTES], words[VERTICES]) == ([[], [], []], 0, 0, 0)
