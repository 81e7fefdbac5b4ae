"""Kernels are compiled in several processes, and loaded from the cache by the process that runs them."""

import os
import subprocess
import sys

import pytest

from harness.cache import CACHE_VARIABLE
from harness.lowering.cpu.compile_beside import in_shares
from harness.lowering.cpu.kernels import Kernel

KERNELS = """
import numpy as np
from harness.lowering.cpu.compile_beside import compile_beside
from harness.lowering.cpu.kernels import Kernel
from harness.lowering.cpu.module_source import compiled

BODY = '''
@njit(int64(int64, int64, int64[::1]), nogil=True, cache=True)
def run_{name}(parts, threads, x):
    x[0] += {number}
    return 0
'''
kernels = [Kernel(f"add_{n}", BODY.format(name=f"add_{n}", number=n), (), 0) for n in range(1, 5)]
"""
RUN = """
x = np.zeros(1, np.int64)
functions = [compiled(kernel) for kernel in kernels]
assert [function(1, 1, x) for function in functions] == [0, 0, 0, 0]
assert x[0] == 10
print(sum(sum(function.stats.cache_hits.values()) for function in functions))
"""
SLEEPING = "import threading, time; threading.Thread(target=time.sleep, args=(5,), daemon=True).start()"


def run(source, folder):
    """Run Python code with the cache in a folder; return what it printed."""
    given = {**os.environ, CACHE_VARIABLE: str(folder)}
    given.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-c", source]
    finished = subprocess.run(command, capture_output=True, text=True, check=False, env=given, timeout=120)
    assert finished.returncode == 0, finished.stderr
    return finished.stdout.strip()


@pytest.mark.parametrize(("processes", "found"), [(1, 0), (2, 2), (9, 3)])
def test_other_processes_compile_their_share(tmp_path, processes, found):
    assert run(f"{KERNELS}\ncompile_beside(kernels, {processes}){RUN}", tmp_path) == str(found)


def test_a_process_with_threads_compiles_alone(tmp_path):
    assert run(f"{SLEEPING}\n{KERNELS}\ncompile_beside(kernels, 4){RUN}", tmp_path) == "0"


def test_kernels_in_the_cache_start_no_process(tmp_path):
    run(f"{KERNELS}{RUN}", tmp_path)
    forbidden = "import os\ndef fork(): raise AssertionError('a process was started')\nos.fork = fork"
    assert run(f"{forbidden}\n{KERNELS}\ncompile_beside(kernels, 4){RUN}", tmp_path) == "4"


def test_a_failure_of_another_process_is_met_here(tmp_path):
    broken = """
kernels[0] = Kernel("add_1", kernels[0].source.replace("+= 1", "+= no_such_name"), (), 0)
kernels[1] = Kernel("add_2", kernels[1].source + "#" * 999, (), 0)  # the longest: compiled here
compile_beside(kernels[:2], 2)
try:
    compiled(kernels[0])
except Exception as error:
    print(type(error).__name__)
"""
    assert run(f"{KERNELS}{broken}", tmp_path) == "TypingError"


def test_no_process_can_be_started(tmp_path):
    refused = "import os\ndef fork(): raise BlockingIOError('too many processes')\nos.fork = fork"
    assert run(f"{refused}\n{KERNELS}\ncompile_beside(kernels, 4){RUN}", tmp_path) == "0"


def test_shares_have_similar_lengths():
    kernels = [Kernel(str(length), "x" * length, (), 0) for length in (1, 9, 4, 5, 1)]
    shares = [[len(kernel.source) for kernel in share] for share in in_shares(kernels, 2)]
    assert shares == [[9, 1], [5, 4, 1]]
