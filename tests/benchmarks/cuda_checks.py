"""Answers on large graphs held against float64 at vertices of all degrees, in processes of their own: so that the one
that times on the device has nothing else to do. What is checked is handed over in files."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass
from functools import lru_cache
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from harness.campaign.sampled_check import Transition
from harness.graph import Graph
from harness.graph.adjacency import Adjacency
from harness.language import Algorithm, Inputs, trace
from harness.language.sampled import Sample
from harness.language.validation import Comparison

T = TypeVar("T")
Values = dict[str, NDArray[Any]]
EACH, CLASS_ARCS = 64, 1 << 14  # vertices and in-arcs of a class of degrees; of each class of hubs one vertex still
ONE_THREAD = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


@dataclass(frozen=True)
class Verdict:
    """Whether an answer is right, and in words what was looked at, or what is wrong."""

    ok: bool
    told: str


class Checker:
    """Checks in the background. ``workers``: processes; 0: at once, in this one."""

    def __init__(self, workers: int) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="checks_"))
        self.number = 0
        self.pool: ProcessPoolExecutor | None = None
        if workers:
            os.environ.update(ONE_THREAD)  # of the processes that are begun from here on
            self.pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"))

    def problem(self, sample: Sample, inputs: Inputs) -> Path:
        """Keep a sample with the inputs of its part, for the checks of many engines."""
        graph = sample.graph
        arrays = {"vertices": sample.vertices, "near": sample.near, "arcs": sample.arcs, "rows": sample.rows}
        arrays |= {"offsets": graph.csr.offsets, "neighbours": graph.csr.neighbours}
        arrays |= {} if graph.weights is None else {"weights": graph.weights}
        return self._saved(arrays | _named("input", inputs.properties))

    def inputs_ahead(self, algorithm: Algorithm, vertices: int, features: int) -> Future[list[Path]]:
        """Have inputs made that depend on the vertices alone; the files of the properties."""
        self.number += 1
        given = (algorithm, vertices, features, self.folder / f"{self.number}")
        return self._done(vertex_inputs, *given)

    def check(
        self, problem: Path, algorithm: Algorithm, parameters: Mapping[str, float], features: int,
        transitions: list[Transition],
    ) -> Future[Verdict]:  # fmt: skip
        """Have supersteps checked; the file of what an engine had is gone then."""
        arrays: Values = {}
        for at, one in enumerate(transitions):
            arrays |= _named(f"before{at}", one.before or {}) | _named(f"after{at}", one.after)
        steps = [(one.superstep, one.before is not None) for one in transitions]
        given = (problem, self._saved(arrays), algorithm, dict(parameters), features, steps)
        return self._done(judged, *given)

    def _done(self, work: Callable[..., T], *given: Any) -> Future[T]:
        if self.pool is not None:
            return self.pool.submit(work, *given)
        future: Future[T] = Future()
        future.set_result(work(*given))
        return future

    def _saved(self, arrays: Mapping[str, NDArray[Any]]) -> Path:
        self.number += 1
        path = self.folder / f"{self.number}.npz"
        np.savez(path, **arrays)
        return path

    def close(self) -> None:
        """End the processes and remove all files."""
        if self.pool is not None:
            self.pool.shutdown(wait=False, cancel_futures=True)
        shutil.rmtree(self.folder, ignore_errors=True)


def judged(
    problem: Path, answers: Path, algorithm: Algorithm, parameters: dict[str, float], features: int,
    steps: list[tuple[int, bool]],
) -> Verdict:  # fmt: skip
    """Whether supersteps (their numbers, and whether there is something that they go on from) are right."""
    sample, inputs = _problem(problem, algorithm)
    given = Inputs(inputs, parameters)
    with np.load(answers) as file:
        values = dict(file)
    answers.unlink()
    compared: list[Comparison] = []
    for at, (superstep, goes_on) in enumerate(steps):
        before = _with_prefix(values, f"before{at}") if goes_on else None
        found = sample.judged(given, features, before, _with_prefix(values, f"after{at}"))
        if not found.ok:
            return Verdict(False, f"superstep {superstep}: {found.detail}")
        compared.append(found)
    worst = max(one.error for one in compared)
    numbers = " and ".join(str(superstep) for superstep, _ in steps)
    return Verdict(True, f"supersteps {numbers} at {len(sample.vertices):,} vertices, off by {worst:.0e} at most")


def vertex_inputs(algorithm: Algorithm, vertices: int, features: int, folder: Path) -> list[Path]:
    """The inputs of an algorithm that asks nothing of the arcs, made on a graph without any; a file for each."""
    nothing = Graph(Adjacency(np.zeros(vertices + 1, np.int64), np.empty(0, np.uint32)), name="vertices alone")
    folder.mkdir()
    paths = []
    for name, values in algorithm.inputs(nothing, features).properties.items():
        paths.append(folder / f"{name}.npy")
        np.save(paths[-1], values)
    return paths


@lru_cache(2)
def _problem(path: Path, algorithm: Algorithm) -> tuple[Sample, Values]:
    with np.load(path) as file:
        arrays = dict(file)
    graph = Graph(Adjacency(arrays["offsets"], arrays["neighbours"]), name="a part", weights=arrays.get("weights"))
    parts = (arrays[name] for name in ("vertices", "near", "arcs"))
    return Sample(trace(algorithm), *parts, graph, arrays["rows"]), _with_prefix(arrays, "input")


def _named(prefix: str, arrays: Mapping[str, NDArray[Any]]) -> Values:
    return {f"{prefix}_{name}": np.asarray(values) for name, values in arrays.items()}


def _with_prefix(arrays: Mapping[str, NDArray[Any]], prefix: str) -> Values:
    return {name.removeprefix(f"{prefix}_"): values for name, values in arrays.items() if name.startswith(f"{prefix}_")}
