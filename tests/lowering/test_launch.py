"""Compiled code runs parts on the thread pool."""

import threading

import numba
import numpy as np
import pytest
from numba import njit
from numba.core.errors import TypingError

from harness.lowering.cpu.parallel_for import launch, launch_dynamic
from harness.lowering.cpu.rows import atomic_add


@njit(nogil=True, error_model="numpy")
def note(t, worker, seen, workers, step, threshold):
    atomic_add(seen, t, step)
    workers[t] = worker
    if t < threshold:
        raise ValueError("requested by the test")


@njit
def in_order(parts, threads, seen, workers, step, threshold):
    return launch(note, parts, threads, (seen, workers, step, threshold))


@njit
def as_free(parts, threads, seen, workers, step, threshold):
    return launch_dynamic(note, parts, threads, (seen, workers, step, threshold))


@njit
def repeated(parts, threads, supersteps, seen, workers):
    for _ in range(supersteps):
        launch(note, parts, threads, (seen, workers, 1, 0))
        launch_dynamic(note, parts, threads, (seen, workers, 1, 0))


THREADS = numba.get_num_threads()


@pytest.mark.parametrize("parts", [0, 1, 2, 7, 64])
@pytest.mark.parametrize("threads", sorted({1, THREADS}))
@pytest.mark.parametrize("driver", [in_order, as_free])
def test_every_part_runs_once(driver, parts, threads):
    seen, workers = np.zeros(parts + 1, np.int64), np.full(parts + 1, -1)
    assert driver(parts, threads, seen, workers, 3, 0) == 0
    assert list(seen) == [3] * parts + [0]
    assert set(workers[:-1]) <= set(range(threads))
    assert workers[-1] == -1


@pytest.mark.parametrize("parts", [1, 5, 64])
def test_static_parts_keep_their_worker(parts):
    seen, workers = np.zeros(parts, np.int64), np.zeros(parts, np.int64)
    in_order(parts, THREADS, seen, workers, 1, 0)
    expected = [t for t in range(THREADS) for _ in range(t * parts // THREADS, (t + 1) * parts // THREADS)]
    assert list(workers) == expected


@pytest.mark.parametrize("driver", [in_order, as_free])
def test_failed_parts_are_counted_and_the_others_run(driver):
    seen, workers = np.zeros(10, np.int64), np.zeros(10, np.int64)
    assert driver(10, THREADS, seen, workers, 1, 4) == 4
    assert list(seen) == [1] * 10


def test_launches_repeat_within_one_compiled_function():
    seen, workers = np.zeros(9, np.int64), np.zeros(9, np.int64)
    repeated(9, THREADS, 200, seen, workers)
    assert list(seen) == [400] * 9


def test_launches_from_another_python_thread():
    seen, workers = np.zeros(9, np.int64), np.zeros(9, np.int64)
    thread = threading.Thread(target=repeated, args=(9, THREADS, 50, seen, workers))
    thread.start()
    thread.join()
    assert list(seen) == [100] * 9


def test_wrong_arguments_are_compile_time_errors():
    with pytest.raises(TypingError, match="compiled function"):
        njit(lambda x: launch(x, 1, 1, (x,)))(1)
    with pytest.raises(TypingError, match="tuple"):
        njit(lambda x: launch(note, 1, 1, x))(1)
