"""The kernels that measure devices, emulated: they do the work by which their seconds are divided, each part once."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from engines.lonestar import cuda_probe as lonestar
from engines.onyx import cuda_probe as onyx
from harness.device import cuda_rates, link_rates
from tests.emulation.kernels import EMULATED, Kernels

pytestmark = EMULATED

BLOCK, DEGREE = 64, onyx.DEGREE


def kernels_of(module, more=""):
    return Kernels(Path(module.SOURCE).read_text(encoding="utf-8") + more, {}, BLOCK)


@pytest.fixture(scope="module")
def rates():
    return kernels_of(cuda_rates)


@pytest.fixture(scope="module")
def link():
    return kernels_of(link_rates)


@pytest.fixture(scope="module")
def updates():
    return kernels_of(lonestar)


PARAMETERS = "const Id* ends, const float* x, float* y, unsigned char* flags, Count edges, float by"


@pytest.fixture(scope="module")
def works():
    """Return the kernels of pushes and pulls, which macros define, as kernels named after them."""
    calls = [
        f'extern "C" __global__ void call_{name}({PARAMETERS})\n{{\n    {name}(ends, x, y, flags, edges, by);\n}}\n'
        for name in onyx.KERNELS[:-2]
    ]
    return kernels_of(onyx, "\n" + "".join(calls))


@pytest.mark.parametrize(("count", "blocks"), [(1, 1), (255, 1), (257, 1), (1000, 3)])
def test_every_value_is_read_in_each_pass_by_one_thread(rates, count, blocks):
    repeats = 4
    for at in {0, 1, 63, 64, count // 2, count - 1} & set(range(count)):
        for part in range(4):
            source = np.zeros((count, 4), np.float32)
            source[at, part] = 0.5 / repeats
            given = (np.zeros(1, np.float32), np.int64(count), np.int32(repeats))
            assert rates("read", blocks, source, *given)[1].tolist() == [0.5]
            source[at, part] = 0.25 / repeats
            assert rates("read", blocks, source, *given)[1].tolist() == [0.0]


@pytest.mark.parametrize(("count", "blocks"), [(1, 1), (255, 1), (257, 1), (1000, 3)])
def test_every_value_is_copied_and_added_to(rates, updates, count, blocks):
    source = np.arange(4.0 * count).astype(np.float32)
    for kernels, name, more in ((rates, "copy", (np.int32(2),)), (updates, "copied", ())):
        assert np.array_equal(kernels(name, blocks, source, np.zeros_like(source), np.int64(count), *more)[1], source)
    (added,) = rates("add", blocks, source, np.int64(count), np.int32(3))
    assert np.array_equal(added, source + 3 * (np.arange(4 * count) < count))
    (added,) = rates("add4", blocks, source, np.int64(count), np.int32(3))
    assert np.array_equal(added, source + 3)


@pytest.mark.parametrize("words", [8, 16, 24, 32])
@pytest.mark.parametrize(("lines", "blocks"), [(1, 1), (7, 1), (13, 2)])
def test_the_first_words_of_every_line_are_read(link, words, lines, blocks):
    mark = 0xA5A5A5A5
    for line in {0, 3, 4, lines - 1} & set(range(lines)):
        for word in (0, 1, 7, 8, 15, 16, 23, 24, 31):
            source = np.zeros((lines, 32), np.uint32)
            source[line, word] = mark
            given = (np.int64(lines), np.uint32(words), np.zeros(1, np.uint32))
            assert link("read_in_place", blocks, source, *given)[1].tolist() == [mark if word < words else 0]


@pytest.mark.parametrize("features", [32, 70])
def test_pairs_of_rows_are_updated_one_after_another(updates, features):
    rows, count = 3, 5
    x = np.random.default_rng(1).random((rows, features), np.float32) / features
    wanted = x.astype(np.float64)
    for i in range(count):
        u, v = i % rows, (i + 1) % rows
        a, b = wanted[u].copy(), wanted[v].copy()
        error = 1 - a @ b
        wanted[u] += 0.01 * (error * b - 0.05 * a)
        wanted[v] += 0.01 * (error * a - 0.05 * b)
    warp = Kernels(Path(lonestar.SOURCE).read_text(encoding="utf-8"), {}, 32)
    (found,) = warp("updates", 1, x, np.int32(features), np.int32(rows), np.int32(count))
    np.testing.assert_allclose(found, wanted, rtol=1e-5)


def test_locks_are_taken_and_released(updates):
    one = Kernels(Path(lonestar.SOURCE).read_text(encoding="utf-8"), {}, 1)
    locks = np.array([0, 0, 1, 0, 0], np.uint32)
    assert np.array_equal(one("free_locks", 1, locks, np.int32(5), np.int32(9))[0], locks)
    assert one("same_atomics", 1, np.ones(1, np.uint32), np.zeros(1, np.uint32), np.int32(1))[1].tolist() == [1]
    for blocks in (1, 3):
        word, seen = np.array([5], np.uint32), np.zeros(1, np.uint32)
        added, _ = updates("same_atomics", blocks, word, seen, np.int32(4))
        assert added.tolist() == [5 + 4 * blocks * BLOCK * 3 // 2]
        for held in (0, 1):
            lock, taken = updates(
                "same_locks", blocks, np.array([held], np.uint32), np.zeros(1, np.uint64), np.int32(4)
            )
            assert (lock.tolist(), taken.tolist()) == ([held], [0 if held else 4 * blocks * BLOCK // 32])
    assert updates("barriers", 1, np.zeros(1, np.uint32), np.int32(7))[0].tolist() == [7]


@pytest.mark.parametrize("features", [1, 16])
@pytest.mark.parametrize(("vertices", "blocks"), [(1, 1), (17, 1), (100, 3)])
def test_rows_are_pulled_and_pushed_along_every_edge(works, features, vertices, blocks):
    rng = np.random.default_rng(vertices)
    edges, by = DEGREE * vertices, np.float32(2)
    ends = rng.integers(0, vertices, edges).astype(np.int32)
    ends[ends == vertices // 2] = 0  # nothing is sent to it
    x = rng.integers(10, 50, (vertices, features)).astype(np.float32)
    y = rng.integers(10, 50, (vertices, features)).astype(np.float32)
    flags = np.zeros(vertices, np.uint8)
    given = (flags, np.int64(edges), by)
    gathered = x[ends].reshape(vertices, DEGREE, features)
    for work, pulled in (("gather", gathered.sum(1)), ("least", gathered.min(1))):
        _, _, found, marks = works(f"call_{work}_{features}", blocks, ends, x, np.zeros_like(y), *given)
        assert np.array_equal(found, pulled)
        assert not marks.any()
    sent = np.repeat(x, DEGREE, 0) - by
    sums, least, moved = y.copy(), y.copy(), np.zeros(vertices, np.bool_)
    np.add.at(sums, ends, sent)
    np.minimum.at(least, ends, sent)
    _, _, found, marks = works(f"call_add_{features}", blocks, ends, x, y, *given)
    assert np.array_equal(found, sums)
    assert np.array_equal(marks, np.bincount(ends, minlength=vertices) > 0)
    _, _, found, marks = works(f"call_offer_{features}", blocks, ends, x, y, *given)
    moved = (least < y).any(1)
    assert np.array_equal(found, least)
    assert np.array_equal(marks, moved)
    given = (np.zeros(4 * vertices, np.float32), np.int64(vertices))
    source = rng.random(4 * vertices, np.float32)
    assert np.array_equal(works("copied", blocks, source, *given)[1], source)
