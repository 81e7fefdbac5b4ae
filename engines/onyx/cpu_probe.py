"""Figures of a CPU by which a push and a pull are estimated: seconds of an edge, in loops like those of the kernels.

One thread runs them on random edges, of which a few vertices have many, as in social networks. Measuring takes about
0.3 s; the first time the loops are compiled.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from engines.onyx.direction_costs import FLOAT, LONG, SHORT
from harness.api.cpu import Kernel, compiled_kernel, raised

Array = NDArray[Any]
NEAR, FAR = (1 << 13, 1 << 17), (1 << 17, 1 << 19)  # vertices and edges; LONG floats for each take 512 KiB and 8 MiB
SKEW = 3  # ends are the numbers of vertices to this power
COPIED = 1 << 24  # bytes of each of two arrays
CALLS, SAMPLES = 1000, 3

PULL = """
@njit(nogil=True, error_model="numpy", _nrt=False)
def _{work}_{k}(offsets, neighbours, x, y):
    one = float32(1.0)
    for v in range(len(offsets) - 1):
        total = _splat{k}(float32({start}))
        for e in range(at(offsets, v), at(offsets, v + 1)):
            found = _load{k}(x, int64(at(neighbours, e)) * {k})
            total = {step}
        store(y, v * {k}, total)
"""
PUSH = """
@njit(nogil=True, error_model="numpy", _nrt=False)
def _{work}_{k}(offsets, neighbours, x, y, flags, flags_blocks):
    one = float32(1.0)
    for u in range(len(offsets) - 1):
        found = _load{k}(x, u * {k})
        sent = found + one
        for e in range(at(offsets, u), at(offsets, u + 1)):
            v = at(neighbours, e)
            kept = _load{k}(y, int64(v) * {k})
            joined = {step}
            {test}
                store(y, int64(v) * {k}, joined)
                {flag}
"""
DRIVER = """
@njit(
    int64(int64, int64, int64[::1], int32[::1], float32[::1], float32[::1], boolean[::1], boolean[::1]),
    nogil=True, cache=True, no_cfunc_wrapper=True, error_model="numpy", _nrt=False,
)
def run_probe(work, features, offsets, neighbours, x, y, flags, flags_blocks):
    if work < 0:
        return -work
{calls}
    return features
"""
STEPS = {
    "gather": ("0.0", "total + found"), "least": ("np.inf", "minimum(total, found + one)"),
    "add": ("", "kept + sent"), "offer": ("", "minimum(kept, sent)"),
}  # fmt: skip
NUMBERS = {work: number for number, work in enumerate(STEPS)}


def _source() -> str:
    """Return the source of the loops and of the function that runs one of them."""
    loops, calls = [], []
    for work, (start, step) in STEPS.items():
        for k in (SHORT, LONG):
            more = "" if start else ", flags, flags_blocks"
            test = "if True:" if work == "add" else "if reduce_any(joined != kept):"
            template = PULL if start else PUSH
            loops.append(template.format(work=work, k=k, start=start, step=step, test=test, flag=raised("flags", "v")))
            calls.append(f"    if work == {NUMBERS[work]} and features == {k}:")
            calls.append(f"        _{work}_{k}(offsets, neighbours, x, y{more})")
    return "\n".join([*loops, DRIVER.format(calls="\n".join(calls))])


def fastest(work: Callable[[], object], before: Callable[[], object] = lambda: None) -> float:
    """Return the processor's seconds of the fastest of some calls, each after ``before``, which is not timed.

    One more call comes first. Other work only slows calls down.
    """
    seconds = []
    for _ in range(1 + SAMPLES):
        before()
        began = time.thread_time()
        work()
        seconds.append(time.thread_time() - began)
    return min(seconds[1:])


def cpu_figures(cache: int) -> dict[str, float]:
    """Measure one thread of a CPU: the figures of :class:`engines.onyx.direction_costs.Costs`.

    ``cache``: bytes of a core's own cache.
    """
    made = tuple((name, k) for name in ("load", "splat") for k in (SHORT, LONG))
    run = compiled_kernel(Kernel("probe", _source(), (), 0, made=made))
    random, found = np.random.default_rng(0), {"cache": float(cache)}
    for place, (vertices, edges) in (("near", NEAR), ("far", FAR)):
        names = random.permutation(vertices)

        def ends(vertices: int = vertices, edges: int = edges, names: Array = names) -> Array:
            drawn: Array = names[(vertices * random.random(edges) ** SKEW).astype(np.int64)]
            return drawn

        degrees = np.bincount(ends(), minlength=vertices)
        offsets = np.concatenate([[0], np.cumsum(degrees)]).astype(np.int64)
        neighbours = ends().astype(np.int32)
        for features in (SHORT, LONG) if place == "near" else (LONG,):
            x, start = (random.random(vertices * features, np.float32) + np.float32(lift) for lift in (0, 1))
            y, flags, blocks = start.copy(), np.zeros(vertices, np.bool_), np.zeros(vertices, np.bool_)

            def again(y: Array = y, start: Array = start, flags: Array = flags) -> None:
                y[:], flags[:] = start, False

            for work, number in NUMBERS.items():
                arguments = (number, features, offsets, neighbours, x, y, flags, blocks)
                found[f"{work}_{place}_{features}"] = fastest(functools.partial(run, *arguments), again) / edges
    source, target = np.ones(COPIED // FLOAT, np.float32), np.zeros(COPIED // FLOAT, np.float32)
    found["stream"] = 2 * COPIED / fastest(lambda: np.copyto(target, source))
    found["launch"] = fastest(lambda: [run(-1, *arguments[1:]) for _ in range(CALLS)]) / CALLS
    return found
