"""What a kernel says about itself holds in its text: the arrays that it writes, the frontiers that it reads and counts.

Persistent kernels decide by these facts which of their steps need a barrier between them.
"""

from __future__ import annotations

import re
from functools import cache

import pytest

from harness.contract import No
from tests.covering import covering
from tests.engines.cuda_modules import DECLARED, accepted, algorithms, pairs, problem

OPAQUE = ("Run*", "TaskManager*")  # whose parts kernels write, but no arrays of a plan
READS_FRONTIER = re.compile(r"run->sparse\(|\bsparse_rows\(run,")
COUNTS_FRONTIER = re.compile(r"&run->frontier\[\d+\]\[\(run->superstep\) & 1\]")


TODAY = {("onyx", "belief_propagation"), ("emogi", "pagerank"), ("simdx", "bfs")}
ROWS = [
    pytest.param(engine, algorithm, marks=() if (engine, algorithm) in TODAY else (pytest.mark.full,))
    for engine in DECLARED
    for algorithm in algorithms()
]


@cache
def planned(engine, algorithm):
    """Return the kernels of an engine's plans for an algorithm: under every accepted pair of options."""
    declared, (program, graph) = DECLARED[engine], problem(algorithm)
    plans = [
        declared.build(schedule).plan(program, graph.facts, 4)
        for schedule in covering(accepted(declared, algorithm), pairs)
    ]
    kernels = [kernel for plan in plans if not isinstance(plan, No) for kernel in plan.kernels]
    return {kernel.source: kernel for kernel in kernels if "past" not in kernel.arguments}.values()


def increments(name, body):
    """Return whether the text counts in an array: by a statement, or by the sum of a variable of all threads."""
    return f"++{name}[" in body or re.search(rf"add_counts\({name} \+ \d+,", body) is not None


@pytest.mark.parametrize(("engine", "algorithm"), ROWS)
def test_kernels_say_what_they_read_count_and_write(engine, algorithm):
    for kernel in planned(engine, algorithm):
        assert kernel.reads_frontier == bool(READS_FRONTIER.search(kernel.body)), kernel.name
        assert kernel.counts_frontier == bool(COUNTS_FRONTIER.search(kernel.body)), kernel.name
        assert kernel.unless.frontier == bool(READS_FRONTIER.search(kernel.unless.text)), kernel.name
        assert ("parameters" in kernel.arguments) == ("parameters[" in kernel.source), kernel.name
        for one in kernel.parameters:
            if one.type == "Count*":
                assert one.written == increments(one.name, kernel.body), (kernel.name, one.name)
            elif one.type.endswith("*") and one.type not in OPAQUE:
                assert one.written != one.type.startswith("const "), (kernel.name, one.name)


def test_kernels_of_edge_updates_read_and_count_frontiers():
    """The rows above are of no use where no kernel does."""
    found = {(kernel.reads_frontier, kernel.counts_frontier) for kernel in planned("onyx", "belief_propagation")}
    assert found == {(False, False), (True, False), (False, True)}
