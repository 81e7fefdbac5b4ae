"""The locks of a device between processes: shared and exclusive uses, and shares of its memory."""

from __future__ import annotations

import os
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from harness.campaign.device_use import MEMORY_PARTS, DeviceUse, take_memory_parts
from harness.campaign.lock import device_lock, device_lock_path, file_lock
from harness.contract import Device, Phases
from tests.processes import HANGS_S

GPU = Device("cuda")


@pytest.fixture(autouse=True)
def locks(tmp_path, monkeypatch):
    """Return a folder of locks that no other test uses."""
    monkeypatch.setenv("ONYX_HARNESS_LOCKS", str(tmp_path / "locks"))
    device_lock_path(GPU).parent.mkdir(parents=True, exist_ok=True)


@contextmanager
def held(lock):
    """Enter a lock in a thread; yield an event that is set once it is held, until the end."""
    entered, over = threading.Event(), threading.Event()

    def hold():
        with lock:
            entered.set()
            assert over.wait(HANGS_S)

    thread = threading.Thread(target=hold, daemon=True)
    thread.start()
    try:
        yield entered
    finally:
        over.set()
        thread.join(HANGS_S)


def lock(*, shared):
    return device_lock(GPU, "a cell", HANGS_S, shared=shared)


def is_free(path, *, shared=False):
    try:
        with file_lock(path, wait=False, shared=shared):
            return True
    except BlockingIOError:
        return False


def wait_at(path):
    """Return once a process waits at a lock whose holder is known to hold it."""
    while is_free(path):
        pass


def test_shared_uses_coexist_and_delay_an_exclusive_one():
    path = device_lock_path(GPU)
    with held(lock(shared=True)) as first, held(lock(shared=True)) as second:
        assert first.wait(HANGS_S)
        assert second.wait(HANGS_S)
        assert not is_free(path)
        assert is_free(path, shared=True)


def test_an_exclusive_use_delays_all_others():
    path = device_lock_path(GPU)
    with held(lock(shared=False)) as alone:
        assert alone.wait(HANGS_S)
        assert not is_free(path, shared=True)


def wait_for_requests(path, kind, count):
    """Return once this many requests for a lock are held or waiting; ``kind``: READ (shared) or WRITE."""
    inode = f":{path.stat().st_ino} "
    while sum(inode in line and kind in line.split() for line in Path("/proc/locks").read_text().splitlines()) < count:
        pass


def test_a_request_to_share_waits_for_one_to_be_alone_that_waits_for_others_that_share():
    gate = device_lock_path(GPU).with_suffix(".gate")
    with ExitStack() as later:
        with ExitStack() as sooner:
            with held(lock(shared=True)) as first:
                assert first.wait(HANGS_S)
                alone = sooner.enter_context(held(lock(shared=False)))
                wait_at(gate)
                second = later.enter_context(held(lock(shared=True)))
                wait_for_requests(gate, "WRITE", 1)
                assert not alone.is_set()
                assert not second.is_set()
            assert alone.wait(HANGS_S)
            assert not second.is_set()
        assert second.wait(HANGS_S)
    assert is_free(gate)


def test_exclusive_uses_follow_each_other_before_others_share():
    gate = device_lock_path(GPU).with_suffix(".gate")
    with ExitStack() as last, ExitStack() as next_:
        with held(lock(shared=False)) as first:
            assert first.wait(HANGS_S)
            sharing = last.enter_context(held(lock(shared=True)))
            wait_for_requests(gate, "WRITE", 1)
            second = next_.enter_context(held(lock(shared=False)))
            wait_for_requests(gate, "READ", 2)
            assert not second.is_set()
        assert second.wait(HANGS_S)
        assert not sharing.is_set()
        next_.close()
        assert sharing.wait(HANGS_S)


def reserved(wanted):
    @contextmanager
    def taken():
        with ExitStack() as locks:
            take_memory_parts(GPU, wanted, locks)
            yield

    return taken()


def free_parts():
    path = device_lock_path(GPU)
    return sum(is_free(path.with_suffix(f".part{number}")) for number in range(MEMORY_PARTS))


def test_engines_share_the_memory_as_far_as_it_goes():
    with held(reserved(3)) as small, held(reserved(MEMORY_PARTS - 3)) as large:
        assert small.wait(HANGS_S)
        assert large.wait(HANGS_S)
        assert free_parts() == 0
    assert free_parts() == MEMORY_PARTS


def test_small_engines_do_not_delay_a_large_one_that_came_before():
    order = device_lock_path(GPU).with_suffix(".parts")
    with ExitStack() as later:
        with held(reserved(1)) as small:
            assert small.wait(HANGS_S)
            large = later.enter_context(held(reserved(MEMORY_PARTS)))
            wait_at(order)
            assert not large.is_set()  # later requests wait behind it
        assert large.wait(HANGS_S)
        assert free_parts() == 0


class Quiet:
    """A report that is never read."""

    def waits(self, behind):
        pass

    waited = waits


def device_use():
    cell = SimpleNamespace(device=GPU, title="a cell", limits=SimpleNamespace(time_s=HANGS_S))
    return DeviceUse(cell, Quiet(), Phases())


@pytest.mark.parametrize("shares_between", [False, True])
def test_cells_that_use_a_gpu_at_random_are_alone_when_they_ask_for_it(shares_between):
    inside, disturbed, most = [], [], []

    def work(number):
        use, draw = device_use(), random.Random(number)
        with use.shared() if shares_between else ExitStack():
            for _ in range(20):
                alone = draw.random() < 0.3
                with use.alone() if alone else use.shared(), use.shared():  # a call within a use takes no lock
                    inside.append(alone)
                    os.sched_yield()
                    if any(inside) and len(inside) > 1:
                        disturbed.append(number)
                    most.append(len(inside))
                    inside.remove(alone)

    with ThreadPoolExecutor(4) as threads:
        list(threads.map(work, range(4)))
    assert disturbed == []
    assert len(most) == 80


@pytest.mark.parametrize("left", ["alone", "away"])
def test_a_shared_use_is_left_for_a_time(left):
    use, path = device_use(), device_lock_path(GPU)
    with use.shared():
        assert not is_free(path)
        with getattr(use, left)():
            assert is_free(path, shared=True) == (left == "away")
            with use.alone(), use.away():  # nothing to leave
                assert not is_free(path, shared=True)
            assert is_free(path) == (left == "away")
        assert not is_free(path)
        assert is_free(path, shared=True)
    assert is_free(path)


def test_a_shared_use_continues_after_a_failure_alone():
    use, path = device_use(), device_lock_path(GPU)
    with use.shared():
        with pytest.raises(ZeroDivisionError), use.alone():
            _ = 1 / 0
        assert not is_free(path)
        assert is_free(path, shared=True)


def test_a_shared_use_that_cannot_be_taken_again_ends_with_the_reason(monkeypatch):
    """Nothing is left of it, whatever was to be left later."""
    use, path = device_use(), device_lock_path(GPU)

    def refused(*_, **__):
        raise OSError("no more locks")

    with pytest.raises(OSError, match="no more locks"), use.shared(), use.away():
        monkeypatch.setattr("harness.campaign.device_use.device_lock", refused)
    assert is_free(path)
