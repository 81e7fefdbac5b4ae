"""Probes of a CPU take the fastest of several calls, and none of them is the one that compiles."""

from types import SimpleNamespace

import pytest

from engines.lonestar import cpu_probe as lonestar
from engines.onyx import cpu_probe as onyx
from engines.outofmemory.scaph import cuda_rates


class Clock:
    """A clock that work advances."""

    def __init__(self, seconds):
        self.now, self.seconds, self.calls = 0.0, list(seconds), 0

    def perf_counter(self):
        """Return the time."""
        return self.now

    def work(self, *_):
        """Take the next of the given times."""
        self.now += self.seconds[self.calls]
        self.calls += 1


def test_the_fastest_call_after_the_first_counts(monkeypatch):
    clock = Clock([0.5, 3.0, 2.0, 1.0, 4.0, 5.0, 0.1])
    monkeypatch.setattr(lonestar, "time", SimpleNamespace(perf_counter=clock.perf_counter))
    assert lonestar.fastest(clock.work) == 1.0
    assert clock.calls == 1 + lonestar.SAMPLES == 6


def test_work_before_each_call_is_not_timed(monkeypatch):
    clock, before = Clock([0.5, 3.0, 2.0, 4.0, 0.1]), []

    def prepare():
        before.append(clock.calls)
        clock.now += 100.0

    monkeypatch.setattr(onyx, "time", SimpleNamespace(thread_time=clock.perf_counter))
    assert onyx.fastest(clock.work, prepare) == 2.0
    assert before == [0, 1, 2, 3]


LAUNCH, READING = 3e-6, 1e-7  # seconds of an empty call, and between two readings of the clock


def rate(work, features, vertices):
    """Return the seconds of an edge on a made machine."""
    return 1e-9 * (1 + work) * (1 + features) * (10 if vertices == onyx.FAR[0] else 1)


def test_figures_of_directions_are_the_rates_of_the_machine(monkeypatch):
    now = 0.0

    def thread_time():
        nonlocal now
        now += READING
        return now

    def run(work, features, offsets, neighbours, x, y, flags, blocks):
        nonlocal now
        if work < 0:
            now += LAUNCH
            return
        vertices = len(offsets) - 1
        assert (vertices, len(neighbours)) in (onyx.NEAR, onyx.FAR)
        assert offsets[-1] == len(neighbours)
        assert len(x) == len(y) == vertices * features
        assert not flags.any()
        assert (y >= 1).all(), "the start of each pass is above what the sources send"
        assert (x < 1).all()
        assert 0 <= neighbours.min() <= neighbours.max() < vertices
        now += len(neighbours) * rate(work, features, vertices)
        y[:], flags[:] = 0.0, True

    monkeypatch.setattr(onyx, "time", SimpleNamespace(thread_time=thread_time))
    monkeypatch.setattr(onyx, "compiled_kernel", lambda kernel: run)
    found = onyx.cpu_figures(1 << 20)
    known = {
        f"{work}_{place}_{features}": rate(number, features, vertices)
        for work, number in (("gather", 0), ("least", 1), ("add", 2), ("offer", 3))
        for place, features, vertices in (("near", 1, 1 << 13), ("near", 16, 1 << 13), ("far", 16, 1 << 17))
    }
    known |= {"launch": LAUNCH, "stream": 2 * (1 << 24) / READING, "cache": float(1 << 20)}
    assert found == pytest.approx(known, rel=1e-2)


@pytest.mark.parametrize(("sizes", "wanted"), [([10, 90, 80, 10, 70], 45.0), ([0] * 5, 0.0)])
def test_a_rate_is_that_of_the_best_sample(sizes, wanted):
    samples, seconds = [], [1.0, 2.0, 4.0, 1.0, 2.0]

    def work(sample):
        samples.append(sample)
        return sizes[sample], seconds[sample]

    assert cuda_rates.rate_of(work) == wanted
    assert samples == [0, 1, 2, 3, 4]
