"""Run compute-sanitizer over every kernel family on a GPU: ``python -m tests.engines.cuda_sanitizer``.

Tests marked ``gpu`` run under its tools memcheck (accesses out of bounds, or misaligned) and racecheck (races in
shared memory): a program under every schedule of every engine that generates kernels, and some of the tests of hubs,
panels, SIMD-X's lists, changing edges, supersteps without tracking and systems. The tools slow tests down many
times, so several processes run side by side. Options: ``--tool racecheck`` for one tool, ``--only test_panels`` for
tests with such names, ``--processes 2``. The exit status is 1 if a tool reports an error, a test fails or no test
was run.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

TOOLS = ("memcheck", "racecheck")
FAMILIES = (  # a file of tests, a pattern for names of tests, the number of these to run (0: all); the slowest first
    ("tests/engines/test_cuda.py", r"test_algorithms\[(als|multimodal)-.*-32\]", 6),
    ("tests/engines/test_solved_in_place.py", r"", 3),
    ("tests/engines/test_cuda.py", r"test_operations\[(?!gunrock).*-beliefs-", 0),
    ("tests/engines/test_cuda.py", r"test_operations\[gunrock.*-(power_iteration|whole_graph|shortest_paths)-", 0),
    ("tests/engines/test_cuda.py", r"test_vertices_of_many_edges\[", 20),
    ("tests/engines/test_panels.py", r"test_panels\[", 6),
    ("tests/engines/test_simdx_on_cuda.py", r"", 10),
    ("tests/engines/test_changing_edges_on_cuda.py", r"", 6),
    ("tests/engines/test_mapped_edges_on_cuda.py", r"test_every_superstep_is_right\[", 8),
    ("tests/engines/test_emogi_on_cuda.py", r"test_every_access_pattern_is_right\[.*-(bfs|label_propagation)-3\]", 10),
    ("tests/engines/test_scaph_on_cuda.py", r"test_every_superstep_is_right\[.*-(sssp|label_propagation)-3\]", 10),
    (
        "tests/engines/test_scaph_on_cuda.py",
        r"test_queued_subgraphs_settle_at_the_answer\[.*rounds.*-False-sssp-3\]",
        4,
    ),
    ("tests/engines/test_named_vertices_on_cuda.py", r"test_answers\[(pull|push|persistent|tigr)-program\d+-rmat", 8),
    ("tests/engines/test_persistent_on_cuda.py", r"test_the_run_is_the_same\[", 8),
    ("tests/engines/test_untracked_on_cuda.py", r"test_(programs|algorithms|an_update)", 10),
)
PYTEST = (sys.executable, "-m", "pytest", "-q", "-m", "gpu", "-p", "no:cacheprovider")
FOUND = 77  # the sanitizer's exit status if it has found an error
_SUMMARY = re.compile(r"(?:ERROR|RACECHECK) SUMMARY: (\d+)(.*)")
_ENDED = re.compile(r"^=*\s*(\d+ (?:passed|failed|skipped|error).*?)\s*=*$", re.MULTILINE)


def chosen() -> list[str]:
    """Return the tests to run."""
    collected = subprocess.run(
        [*PYTEST, "--collect-only", *dict.fromkeys(path for path, _, _ in FAMILIES)],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    names = [line for line in collected.stdout.splitlines() if "::" in line]
    found: list[str] = []
    for path, pattern, count in FAMILIES:
        family = [name for name in names if name.startswith(f"{path}::") and re.search(pattern, name)]
        if not family:
            raise LookupError(f"{path} has no tests like {pattern!r}:\n{collected.stdout}{collected.stderr}")
        found += spread(family, count or len(family))
    return list(dict.fromkeys(found))


def spread(names: Sequence[str], count: int) -> list[str]:
    """Return ``count`` of the names at equal distances, or all if there are fewer."""
    return list(names[:: max(1, len(names) // count)][:count])


def checked(tool: str, test: str) -> tuple[bool, str]:
    """Return whether a test passes under a tool without a report, and the output."""
    tools = ["--tool", tool, "--error-exitcode", str(FOUND), "--target-processes", "all", "--print-limit", "5"]
    done = subprocess.run(
        ["compute-sanitizer", *tools, *PYTEST, test], capture_output=True, text=True, check=False
    )  # fmt: skip
    return judged(done.returncode, done.stdout + done.stderr)


def judged(status: int, output: str) -> tuple[bool, str]:
    """Return whether a run of the sanitizer was clean in all of its processes, and its summary; otherwise its whole
    output."""
    summaries, ended = _SUMMARY.findall(output), _ENDED.findall(output)
    silent = bool(summaries) and all(int(count) == 0 for count, _ in summaries)
    clean = status == 0 and silent and bool(ended) and "passed" in ended[-1]
    return clean, f"{ended[-1]}; {''.join(summaries[-1])}" if clean else f"status {status}\n{output}"


def main() -> int:
    """Run all tests and report the result."""
    parser = argparse.ArgumentParser(prog="python -m tests.engines.cuda_sanitizer", description=__doc__)
    parser.add_argument("--tool", nargs="+", choices=TOOLS, default=list(TOOLS))
    parser.add_argument("--only", default="", metavar="PATTERN", help="tests whose names match, of those above")
    parser.add_argument("--processes", type=int, default=4, help="side by side (default 4)")
    given = parser.parse_args()
    began, tests = time.monotonic(), [test for test in chosen() if re.search(given.only, test)]
    fine = True
    with ThreadPoolExecutor(given.processes) as pool:
        running = {pool.submit(checked, tool, test): (tool, test) for tool in given.tool for test in tests}
        for ended in as_completed(running):
            (tool, test), (clean, summary) = running[ended], ended.result()
            print(f"{tool}, {test}: {summary}", flush=True)
            fine &= clean
    fine &= bool(tests)
    print(f"{len(tests)} tests, {'clean' if fine else 'NOT CLEAN'}, {time.monotonic() - began:.0f} s")
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
