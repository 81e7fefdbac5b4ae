"""The profiler's output, and the message if there is no profiler."""

from __future__ import annotations

import os
import stat

import pytest

from harness.transactions import Atomics, Loads
from harness.transactions.profiler import (
    ATOMICS,
    BOUNDARY,
    LOADS,
    METRICS,
    ProfilerError,
    find_profiler,
    profile,
    read_counters,
)

HEADER = '"ID","Process ID","Kernel Name","Metric Name","Metric Unit","Metric Value"'
VALUES = {LOADS["requests"][0]: "1,024", LOADS["sectors"][0]: "8,192", LOADS["bytes"][0]: "131,072"}
VALUES |= dict(zip([names[0] for names in ATOMICS.values()], ["2", "64", "16"], strict=True))


def printed(*launches, without=""):
    lines = ["==PROF== Connected to process 7", "label propagation", HEADER]
    for number, name in enumerate(launches):
        for metric in METRICS:
            if metric != without:
                lines.append(f'"{number}","7","{name}(Run *, unsigned int)","{metric}","","{VALUES.get(metric, "1")}"')
    return "\n".join([*lines, "==PROF== Disconnected"])


def test_counters_are_read_by_kernel_and_run():
    first, second = read_counters(printed("clear", "spread", "spread", BOUNDARY, "spread", BOUNDARY))
    assert list(first.kernels) == ["clear", "spread"]
    assert first.kernels["clear"].loads == Loads(1024, 8192, 131_072)
    assert first.kernels["clear"].loads.efficiency == 0.5
    assert first.kernels["spread"].atomics == Atomics(6, 130, 34)  # twice, and one more of the kind that returns
    assert first.whole.loads.requests == 3072
    assert (first.source, first.share) == ("counters", 1.0)
    assert second.whole.loads.requests == 1024


def test_a_run_without_a_following_kernel_counts_too():
    [only] = read_counters(printed("spread"))
    assert list(only.kernels) == ["spread"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("==ERROR== no kernels were profiled", "counted nothing.*no kernels were profiled"),
        (printed("spread", without=LOADS["bytes"][0]), f"reported no {LOADS['bytes'][0]} for kernel 'spread'"),
        (printed("spread").replace("8,192", "n/a"), "reported 'n/a' for l1tex__t_sectors.*not a number"),
    ],
)
def test_an_invalid_count_is_an_error(text, message):
    with pytest.raises(ProfilerError, match=f"(?s){message}"):
        read_counters(text)


def test_a_missing_profiler_is_reported_with_the_remedy(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ProfilerError, match="not on the PATH.*memory=model"):
        find_profiler()


def fake_profiler(folder, body):
    path = folder / "ncu"
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def test_the_profiler_is_started_on_the_command(monkeypatch, tmp_path):
    (tmp_path / "printed").write_text(printed("spread", BOUNDARY))
    fake_profiler(tmp_path, f'echo "$@" > {tmp_path}/arguments; cp {tmp_path}/printed {tmp_path}/log')
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    [found] = profile(["python", "-m", "something"], tmp_path / "log")
    assert found.whole.loads.sectors == 8192
    arguments = (tmp_path / "arguments").read_text()
    assert arguments.strip().endswith("python -m something")
    assert all(metric in arguments for metric in METRICS)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("echo the driver is too old; exit 9", "status 9.*too old"),
        ("echo ==ERROR== ERR_NVGPUCTRPERM; exit 1", "only an administrator"),
    ],
)
def test_a_failing_profiler_is_reported(monkeypatch, tmp_path, body, message):
    fake_profiler(tmp_path, body)
    monkeypatch.setenv("PATH", str(tmp_path) + os.pathsep + os.environ["PATH"])
    with pytest.raises(ProfilerError, match=f"(?s){message}"):
        profile(["true"], tmp_path / "log")
