"""Expected answers: computed once for all engines, in a separate process, and cached on disk.

    CACHE/references/KEY/   answer.json (method, digests of the arrays and of itself) and one .npy file per array

KEY identifies everything that the answer depends on. The process that runs an engine never computes a reference, since
an engine may have written to the graph or the inputs in its memory.
"""

from __future__ import annotations

import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.cache import cache_folder, filling_cache
from harness.campaign.lock import file_lock
from harness.graph.digest import array_digests, text_digest
from harness.language.algorithm import Algorithm, Allowance, Answer
from harness.language.converged import answer_at_limit, fixed_point

if TYPE_CHECKING:
    from harness.campaign.problem import Kind, Problem
    from harness.graph import Graph
    from harness.language import Inputs, Program

_ANSWER_FILE = "answer.json"
_GROUPS = ("values", "entries", "totals")  # the arrays of an answer: its values, and its allowances
_HEALED = "computed again, as the cached one was damaged"
logger = logging.getLogger(__name__)


class Damaged(ValueError):
    """A cached reference is not what was written; the message names the file."""


def expected(problem: Problem, *, settled: bool) -> Answer:
    """Return the expected outputs in float64, with the allowed error of each entry.

    A run that claims to be ``settled`` is compared with the algorithm's own method if there is one. Other answers are
    compared with the fixed point of the reference if it settles within a tolerance, otherwise with the reference after
    the same number of supersteps. A warm run is never compared with an algorithm's own method, which would draw new
    sources on the changed graph. Another process that needs the same answer waits for it. Raises CacheError if the
    answer cannot be cached, CampaignError if it cannot be computed.
    """
    cold = problem.start is None
    answer = library_answer(problem) if settled and cold else None
    if answer is None and problem.program.control.tolerance is not None:
        answer = _kept(problem, "converged" if cold else "warm")
    if answer is None:
        answer = _kept(problem, "reference")
    assert answer is not None
    return answer


def library_answer(problem: Problem) -> Answer | None:
    """Return the answer of a settled run by the algorithm's own method; None if there is none, or for a phase."""
    if problem.several_phases or type(problem.algorithm).settled_answer is Algorithm.settled_answer:
        return None
    return _kept(problem, "settled")


def converged(problem: Problem) -> Answer | None:
    """Return the fixed point in float64 of a program with a tolerance; None where the reference does not converge."""
    return _kept(problem, "converged")


def varied_answer(problem: Problem) -> Answer:
    """Return the float64 answer to the other inputs of :mod:`harness.campaign.variation` after its first supersteps."""
    answer = _kept(problem, "varied")
    assert answer is not None
    return answer


def in_random_orders(problem: Problem) -> Answer:
    """Return the metrics of float64 runs in random orders, by name (:mod:`harness.campaign.random_orders`)."""
    answer = _kept(problem, "sweeps")
    assert answer is not None
    return answer


def compute(problem: Problem, kind: Kind) -> None:
    """Compute an answer in this process and put it into the cache. The caller holds the lock of its folder."""
    folder = _folder(problem, kind)
    answer = _METHODS[kind](problem)
    with filling_cache(), _folder_in_the_making(folder) as making:
        described: dict[str, Any] = {"method": None}
        if answer is not None:
            described = {"method": answer.method, "least_supersteps": answer.least_supersteps}
            for group, given in _groups(answer).items():
                arrays = {name: np.ascontiguousarray(given[name]) for name in given}
                described[group] = array_digests(arrays)
                for number, array in enumerate(arrays.values()):
                    np.save(making / f"{group}-{number}.npy", array, allow_pickle=False)
        described = {"digest": text_digest(described), **described}
        (making / _ANSWER_FILE).write_text(json.dumps(described), encoding="utf-8")


def compute_if_free(problem: Problem, kind: Kind) -> None:
    """Compute an answer in this process unless it is in the cache or another process holds the lock of its folder."""
    folder = _folder(problem, kind)
    with suppress(BlockingIOError), file_lock(folder.with_suffix(".lock"), wait=False):
        if not folder.is_dir():
            compute(problem, kind)


def _kept(problem: Problem, kind: Kind) -> Answer | None:
    """Return the cached answer; compute and cache it first if it is missing or damaged.

    None if the algorithm's own method gives no answer, or the reference does not converge.
    """
    folder = _folder(problem, kind)
    with ExitStack() as held:
        with filling_cache():
            held.enter_context(file_lock(folder.with_suffix(".lock")))
        damaged = False
        if folder.is_dir():
            try:
                return _read(folder)
            except Damaged as error:
                logger.warning("%s; the reference is computed again", error)
                damaged = True
                with filling_cache():
                    shutil.rmtree(folder)
        (problem.compute or compute)(problem, kind)
        answer = _read(folder)
    return replace(answer, method=f"{answer.method} ({_HEALED})") if damaged and answer is not None else answer


def _read(folder: Path) -> Answer | None:
    """Map the answer in a folder. Raises Damaged."""
    try:
        described: dict[str, Any] = json.loads((folder / _ANSWER_FILE).read_text(encoding="utf-8"))
        if described.pop("digest") != text_digest(described):
            raise ValueError(f"{_ANSWER_FILE} has changed since it was written")
        if described["method"] is None:
            return None
        values, entries, totals = (_mapped(folder, group, described[group]) for group in _GROUPS)
        allowances = {name: Allowance(most, totals.get(name)) for name, most in entries.items()}
        return Answer(values, described["method"], allowances, int(described["least_supersteps"]))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise Damaged(f"{folder}: the cached reference is damaged ({error})") from error


def _mapped(folder: Path, group: str, digests: Mapping[str, str]) -> dict[str, NDArray[Any]]:
    """Map the arrays of a group by name. Raises ValueError or OSError if one is not what was written."""
    files = {name: folder / f"{group}-{number}.npy" for number, name in enumerate(digests)}
    arrays = {name: np.load(file, mmap_mode="r", allow_pickle=False) for name, file in files.items()}
    changed = [files[name].name for name, digest in array_digests(arrays).items() if digest != digests[name]]
    if changed:
        raise ValueError(f"{', '.join(changed)} changed since it was written")
    return arrays


def _groups(answer: Answer) -> dict[str, Mapping[str, NDArray[Any]]]:
    """Return the arrays of an answer by group and output."""
    entries = {name: allowance.entries for name, allowance in answer.allowances.items()}
    totals = {name: one.totals for name, one in answer.allowances.items() if one.totals is not None}
    return dict(zip(_GROUPS, (answer.values, entries, totals), strict=True))


def _folder(problem: Problem, kind: Kind) -> Path:
    return cache_folder() / "references" / (problem.key if kind == "reference" else f"{problem.key}-{kind}")


def _settled_answer(problem: Problem) -> Answer | None:
    return problem.algorithm.settled_answer(problem.graph, problem.features)


def _posed(problem: Problem) -> tuple[Program, Graph, int, Inputs, int]:
    return problem.program, problem.graph, problem.features, problem.inputs, problem.max_supersteps


def _reference(problem: Problem) -> Answer:
    return answer_at_limit(*_posed(problem))


def _converged(problem: Problem) -> Answer | None:
    return fixed_point(*_posed(problem))


def _warm(problem: Problem) -> Answer | None:
    return fixed_point(*_posed(problem), cold=False)


def _varied(problem: Problem) -> Answer:
    from harness.campaign.variation import CHECKED_SUPERSTEPS, varied_inputs
    from harness.language.reference import ReferenceRun

    run = ReferenceRun(problem.program, problem.graph, problem.features)
    run.reset(varied_inputs(problem.program, problem.graph, problem.features, problem.inputs))
    run.run(min(CHECKED_SUPERSTEPS, problem.max_supersteps))
    return Answer({name: run.values(name) for name in problem.program.outputs}, "the float64 reference, other inputs")


def _orders(problem: Problem) -> Answer:
    from harness.campaign.random_orders import metrics_in_random_orders

    return metrics_in_random_orders(problem)


_METHODS: dict[Kind, Callable[[Problem], Answer | None]] = {
    "reference": lambda problem: _reference(problem),  # looked up at the call: tests replace it
    "settled": _settled_answer,
    "converged": _converged,
    "warm": _warm,
    "varied": _varied,
    "sweeps": _orders,
}


@contextmanager
def _folder_in_the_making(folder: Path) -> Iterator[Path]:
    """Yield a temporary folder that becomes ``folder`` on success."""
    making = Path(tempfile.mkdtemp(prefix="writing-", dir=folder.parent))
    try:
        yield making
        os.rename(making, folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
