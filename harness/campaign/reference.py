"""What answers are held against, computed once for all engines and kept in the cache folder."""

from __future__ import annotations

import dataclasses
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from harness.cache import cache_folder, filling_cache
from harness.campaign.lock import file_lock
from harness.language.algorithm import Answer

if TYPE_CHECKING:
    from harness.campaign.problem import Problem

_METHOD_FILE = "method.txt"
_ALLOWANCE = "-allowance"
# A converged answer: at this share of the program's tolerance, within so many times the most supersteps of a run.
_CONVERGED, _LONGER = 0.01, 2


def expected(problem: Problem, *, settled: bool) -> Answer:
    """What the outputs should be, in float64: of a ``settled`` run by a method of the algorithm's own where it has one,
    else by the reference, after as many supersteps as the problem allows at most.

    Another process that wants the same meanwhile waits for it.
    """
    answer = library_answer(problem) if settled else None
    if answer is None:
        answer = _kept(problem.key, problem.program.outputs, lambda: _reference(problem))
    assert answer is not None
    return answer


def library_answer(problem: Problem) -> Answer | None:
    """What a settled run gives, by the algorithm's own method; None where it has none."""
    return _kept(f"{problem.key}-settled", problem.program.outputs, lambda: _settled_answer(problem))


def converged(problem: Problem) -> Answer | None:
    """Return the float64 answer at a tolerance of a hundredth of the program's; None where it does not converge.

    It is nearer to the fixed point than any engine that stops at the program's own tolerance.
    """
    answer = _kept(f"{problem.key}-converged", problem.program.outputs, lambda: _converged(problem))
    assert answer is not None
    return answer if answer.method else None


def _kept(key: str, names: Sequence[str], compute: Callable[[], Answer | None]) -> Answer | None:
    """The answer in the cache under ``key``, which stands for all that it depends on; computed and put there, if it can
    be had, the first time. Raises CacheError when it cannot be put there."""
    folder = cache_folder() / "references" / key
    with ExitStack() as held:
        with filling_cache():
            held.enter_context(file_lock(folder.with_suffix(".lock")))
        if not folder.is_dir():
            answer = compute()
            if answer is None:
                return None
            with filling_cache(), _folder_in_the_making(folder) as making:
                for number, name in enumerate(names):
                    np.save(making / f"{number}.npy", answer.values[name], allow_pickle=False)
                    if name in answer.allowances:
                        np.save(making / f"{number}{_ALLOWANCE}.npy", answer.allowances[name], allow_pickle=False)
                lines = f"{answer.least_supersteps}\n{answer.method}"
                (making / _METHOD_FILE).write_text(lines, encoding="utf-8")

    def arrays(suffix: str) -> dict[str, Any]:
        files = {name: folder / f"{number}{suffix}.npy" for number, name in enumerate(names)}
        return {name: np.load(file, mmap_mode="r", allow_pickle=False) for name, file in files.items() if file.exists()}

    least, _, method = (folder / _METHOD_FILE).read_text(encoding="utf-8").partition("\n")
    return Answer(arrays(""), method, arrays(_ALLOWANCE), int(least))


def _settled_answer(problem: Problem) -> Answer | None:
    return problem.algorithm.settled_answer(problem.graph, problem.features)


def _reference(problem: Problem) -> Answer:
    from harness.language.reference import ReferenceRun

    run = ReferenceRun(problem.program, problem.graph, problem.features)
    run.reset(problem.inputs)
    run.run(problem.max_supersteps)
    return Answer({name: run.values(name) for name in problem.program.outputs}, "the float64 reference")


def _converged(problem: Problem) -> Answer:
    """Return the converged answer; its method is empty where the reference did not converge."""
    from harness.language.reference import ReferenceRun

    program, inputs = problem.program, problem.inputs
    name = program.control.tolerance
    assert name is not None
    tolerance = dict(program.parameters) | dict(inputs.parameters)
    tighter = dataclasses.replace(inputs, parameters={**inputs.parameters, name: _CONVERGED * tolerance[name]})
    run = ReferenceRun(program, problem.graph, problem.features)
    run.reset(tighter)
    settled = run.run(_LONGER * problem.max_supersteps).settled
    method = f"the float64 reference at {_CONVERGED:g} of the tolerance" if settled else ""
    return Answer({name: run.values(name) for name in program.outputs}, method)


@contextmanager
def _folder_in_the_making(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``folder`` when all went well."""
    making = Path(tempfile.mkdtemp(prefix="writing-", dir=folder.parent))
    try:
        yield making
        os.rename(making, folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
