"""Workers whose process is replaced when it has grown: everything else is as without."""

from __future__ import annotations

import re

import pytest

from harness.device.driver import cuda_unavailable

pytestmark = pytest.mark.skipif(not cuda_unavailable(0), reason="processes that use a CUDA device are not copied")
TESTS = """
import os
import pytest

@pytest.fixture(scope="module", autouse=True)
def counted():
    yield
    with open("torn_down", "a") as file:
        file.write(f"{os.getpid()}\\n")

@pytest.mark.parametrize("a", range(6))
def test_processes(a, record_property):
    with open("processes", "a") as file:
        file.write(f"{os.getpid()} {os.getppid()}\\n")
    if a == 2:
        grown.append(b"x" * SIZE)
    print(f"printed {a}")

def test_fails():
    print("seen")
    assert [1, 2] == [1, 3]

@pytest.mark.skip(reason="not today")
def test_skipped():
    pass

@pytest.mark.xfail(strict=True)
def test_wrong():
    assert False

grown = []
"""


@pytest.fixture
def run(pytester, monkeypatch):
    """Run test functions in one worker that grows by ``size`` bytes in its third test; return the result."""

    def run(source, size=0):
        pytester.makepyfile(test_it=f"SIZE = {size}\n{source}")
        pytester.makeconftest("from tests import renewal\nrenewal.MOST_MB = 300\n")
        pytester.makeini("[pytest]\nfilterwarnings = error")
        monkeypatch.setenv("PYTEST_ADDOPTS", "")
        return pytester.runpytest_subprocess("-n", "1", "-p", "tests.renewal", "-p", "no:cacheprovider", "-rA")

    return run


def test_outcomes_reach_the_controller(run, pytester):
    found = run(TESTS)
    found.assert_outcomes(passed=6, failed=1, skipped=1, xfailed=1)
    text = found.stdout.str()
    assert "At index 1 diff: 2 != 3" in text
    assert all(f"printed {number}" in text for number in range(6))
    assert "not today" in text
    processes = set((pytester.path / "processes").read_text().splitlines())
    assert len(processes) == 1
    assert (pytester.path / "torn_down").read_text().split() == [processes.pop().split()[0]]


def test_a_process_that_has_grown_is_replaced(run, pytester):
    found = run(TESTS, size=300_000_000)
    found.assert_outcomes(passed=6, failed=1, skipped=1, xfailed=1)
    processes = [line.split() for line in (pytester.path / "processes").read_text().splitlines()]
    first, second = processes[0][0], processes[-1][0]
    assert [process for process, _ in processes] == [first] * 3 + [second] * 3
    assert len({worker for _, worker in processes}) == 1
    assert (pytester.path / "torn_down").read_text().split() == [first, second]


def test_a_crash_is_reported_and_the_other_tests_run(run):
    found = run("import os\ndef test_dies():\n    os._exit(3)\ndef test_lives():\n    pass\n")
    found.assert_outcomes(passed=1, failed=1)
    assert re.search(r"worker 'gw0' crashed while running .*test_dies", found.stdout.str())


@pytest.mark.full
def test_errors_while_fixtures_end_are_reported(run):
    source = (
        "import pytest\n@pytest.fixture(scope='session')\ndef ends():\n    yield\n    raise RuntimeError('at end')\n"
    )
    found = run(source + "def test_it(ends):\n    pass\ndef test_other():\n    pass\n")
    found.assert_outcomes(passed=2, errors=1)
    assert "at end" in found.stdout.str()


@pytest.mark.full
def test_warnings_are_errors_in_the_copied_process(run):
    source = "import pytest, warnings\ndef test_bad():\n    warnings.warn('mine')\n"
    marked = "@pytest.mark.filterwarnings('ignore')\ndef test_marked():\n    warnings.warn('mine')\n"
    run(source + marked).assert_outcomes(passed=1, failed=1)


@pytest.mark.full
def test_numba_has_its_threads_in_each_process(run):
    kernel = (
        "@numba.njit(parallel=True)\ndef total(n):\n    found = 0\n    for i in numba.prange(n):\n        found += i\n"
    )
    body = "    return found\nnumba.get_num_threads()\ndef test_it():\n    assert total(10) == 45\n"
    run("import numba\n" + kernel + body).assert_outcomes(passed=1)
