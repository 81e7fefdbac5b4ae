"""Fences order the accesses of locks, tickets and barriers. The emulated device is in order without them, so the order
in which one thread executes fences and atomic operations is noted here."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import engines
import harness
from engines.lonestar import cuda_plan as lonestar
from engines.lonestar import cuda_probe
from tests.emulation.kernels import EMULATED, Kernels, headers, heading

pytestmark = EMULATED

NOTED = """
static char trace[32];
static int traced;
static inline void note(char event) { if (threadIdx.x == 0 && traced < 31) trace[traced++] = event; }
#define __threadfence() note('f')
#define atomicCAS(...) (note('a'), atomicCAS(__VA_ARGS__))
#define atomicExch(...) (note('a'), atomicExch(__VA_ARGS__))
#define atomicInc(...) (note('a'), atomicInc(__VA_ARGS__))
#define atomicAdd(...) (note('a'), atomicAdd(__VA_ARGS__))
"""
CALLS = {
    "last_block(words)": "faf",
    "try_lock(group, words, 0)": "af",  # rows are read after the lock is taken
    "try_lock(group, words, 1)": "a",
    "try_both(group, words, 0, 2)": "afaf",
    "try_both(group, words, 0, 1)": "afaa",  # the second one is held, and the first is released
    "unlock(group, words, 1)": "fa",  # and written before it is released
    "unlock_both(group, words, 1, 3)": "faa",
    "lock_sources<2>(group, words, done, sources, 0, 2, missing)": "aaf",
    "lock_sources<1>(group, words, done, sources, 1, 2, missing)": "a",
    "unlock_sources<2>(group, words, done, sources, 0, 3u)": "faa",
    "lock_listed<2>(group, words, listed, sources, 0, 2, later, sizes)": "aaaf",  # one is held, and listed again
    "lock_listed<1>(group, words, listed, sources, 1, 2, later, sizes)": "aa",
    "unlock_listed<2>(group, words, listed, sources, 0, 3u)": "faa",
    "GlobalBarrier(lock).wait([] { note('b'); })": "fafbff",
}
PROBES = {
    "free_locks(words, 1, 2)": "affaaffa",
    "same_locks(words, lock, 2)": "afaafaa",
    "barriers(words, 2)": "faffaf",
}


BEGIN = re.compile(r"^(?=extern|__device__|template|class|struct|//)", re.MULTILINE)  # of a function, or of others
ORDERED = re.compile(r"\b(?:__threadfence|fence|take)\(")
WITHIN_OTHERS = {"fence", "take"}  # called by those that are listed


def test_every_function_with_a_fence_is_listed():
    """A fence elsewhere needs a line in the tables below."""
    found = set()
    for folder in (engines, harness):
        for path in Path(folder.__path__[0]).rglob("*.cu*"):
            text = path.read_text(encoding="utf-8")
            if not ORDERED.search(text) or "emulation" in path.parts:
                continue
            if path.name == "barrier.cuh":  # the functions of a class
                assert text.count("__threadfence()") == CALLS["GlobalBarrier(lock).wait([] { note('b'); })"].count("f")
                continue
            bodies = [one for one in BEGIN.split(text) if ORDERED.search(one)]
            found |= {re.search(r"(\w+)\(", re.sub(r"__launch_bounds__\(\w+\)", "", body))[1] for body in bodies}
    assert found - WITHIN_OTHERS == {re.match(r"\w+", call)[0] for call in {**CALLS, **PROBES}} - {"GlobalBarrier"}


def test_fences_are_between_atomic_operations_and_the_accesses_that_these_guard():
    calls = {**CALLS, **PROBES}
    cases = "\n".join(f"        case {number}: {call}; break;" for number, call in enumerate(calls))
    source = f"""
extern "C" __global__ void ordered(
    int number, Id* words, bool* done, const Id* sources, Number* lock, Number* sizes, EdgeId* later, char* found)
{{
    const LaneGroup group;
    Number missing = 0;
    const EdgeId listed[] = {{0, 1}};
    switch (number) {{
{cases}
    }}
    if (threadIdx.x != 0) return;
    for (int i = 0; i < traced; ++i) found[i] = trace[i];
    traced = 0;
}}
"""
    probe = Path(cuda_probe.SOURCE).read_text(encoding="utf-8")
    head = heading("in_place.cuh", lanes=32, block=32)
    kernels = Kernels(NOTED + head + probe + source, headers(Path(lonestar.__file__).parent), 32)
    words, sources = np.array([0, 1, 0, 1], np.uint32), np.array([0, 1], np.uint32)
    for number, (call, events) in enumerate(calls.items()):
        given = (words, np.zeros(2, np.bool_), sources, np.zeros(64, np.uint64), np.zeros(4, np.uint64))
        given = (*given, np.zeros(2, np.uint32), np.zeros(32, np.int8))
        *_, found = kernels("ordered", 1, np.int32(number), *given)
        assert found.tobytes().rstrip(b"\0").decode() == events, call
