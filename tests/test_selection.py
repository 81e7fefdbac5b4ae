"""The selection of tests: without a GPU no test marked gpu, and of long tests a sample that depends on the seed."""

from __future__ import annotations

import re

import pytest

from harness.device.driver import cuda_unavailable

TESTS = """
import pytest

@pytest.mark.gpu
@pytest.mark.parametrize("number", range(3))
def test_on_a_gpu(number):
    pass

@pytest.mark.parametrize("number", range(8))
def test_anywhere(number):
    print(f"<{number}>")
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Run the tests above in process; ``reason`` says why there is no GPU."""
    pytester.makepyfile(TESTS)
    pytester.makeini("[pytest]\nmarkers = gpu: needs a device")

    def run(*arguments, reason="no CUDA device: none here"):
        monkeypatch.setattr("tests.selection.cuda_unavailable", lambda index: reason)
        return pytester.runpytest_inprocess("-p", "tests.selection", "-p", "no:cacheprovider", *arguments)

    return run


def numbers(result):
    return re.findall(r"<(\d)>", result.stdout.str())


def test_tests_of_a_gpu_are_deselected_with_the_reason(run):
    result = run()
    result.assert_outcomes(passed=8, deselected=3)
    assert result.outlines.count("3 tests marked gpu were deselected: no CUDA device: none here") == 1


def test_tests_of_a_gpu_run_where_there_is_one(run):
    result = run(reason="")
    result.assert_outcomes(passed=11)
    assert "deselected" not in result.stdout.str()


def test_only_tests_that_would_run_are_counted(run):
    result = run("-k", "anywhere or on_a_gpu and 1")
    result.assert_outcomes(passed=8, deselected=3)
    assert "1 tests marked gpu were deselected: no CUDA device: none here" in result.outlines


def test_workers_report_to_the_controller(run):
    """The workers are separate processes, which look for a real device."""
    reason = cuda_unavailable(0)
    result = run("-n", "2", "--sample-full", "600")
    left = 8 if reason else 11
    result.assert_outcomes(passed=left)
    assert f"{left} of {left} selected tests were started within 600 s" in result.outlines
    assert (f"3 tests marked gpu were deselected: {reason}" in result.outlines) == bool(reason)


def test_the_seed_orders_a_sample(run):
    orders = [numbers(run("-s", "--sample-full", "600", "--sample-seed", seed)) for seed in ("a", "b", "a")]
    assert orders[0] == orders[2] != orders[1]
    assert sorted(orders[0]) == sorted(orders[1]) == list("01234567")


def test_a_sample_stops_when_its_time_is_up(run, monkeypatch):
    monkeypatch.setattr("tests.selection.time.monotonic", iter(range(100)).__next__)
    result = run("--sample-full", "4")  # read once at the start, then before every test
    result.assert_outcomes(passed=3)
    assert result.ret == 0
    assert "3 of 8 selected tests were started within 4 s" in result.outlines


def test_workers_and_later_runs_share_a_cache(pytester, monkeypatch):
    monkeypatch.delenv("ONYX_HARNESS_CACHE", raising=False)
    pytester.makeconftest("from tests.conftest import _own_cache")
    pytester.makepyfile(
        "import os\n\ndef test_cache():\n    print('in', os.environ['ONYX_HARNESS_CACHE'])\n    assert 0"
    )
    result = pytester.runpytest_inprocess("-p", "tests.selection", "-n", "2", "--dist", "each")
    result.assert_outcomes(failed=2)
    folder = pytester.path / ".pytest_cache" / "d" / "onyx-harness"
    assert result.outlines.count(f"in {folder}") == 2
    assert folder.is_dir()
