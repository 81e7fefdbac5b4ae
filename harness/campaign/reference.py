"""What answers are held against, computed once for all engines and kept in the cache folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from harness.cache import cache_folder, filling_cache
from harness.campaign.lock import file_lock
from harness.language.algorithm import Answer

if TYPE_CHECKING:
    from harness.campaign.problem import Problem

_METHOD_FILE = "method.txt"


def expected(problem: Problem, *, settled: bool) -> Answer:
    """What the outputs should be, in float64: of a ``settled`` run by a method of the algorithm's own where it has one,
    else by the reference, after as many supersteps as the problem allows at most.

    Another process that wants the same meanwhile waits for it.
    """
    names = problem.program.outputs
    if settled:
        answer = _kept(f"{problem.key}-settled", names, lambda: _settled_answer(problem))
        if answer is not None:
            return answer
    answer = _kept(problem.key, names, lambda: _reference(problem))
    assert answer is not None
    return answer


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
                (making / _METHOD_FILE).write_text(answer.method, encoding="utf-8")
    values = {
        name: np.load(folder / f"{number}.npy", mmap_mode="r", allow_pickle=False) for number, name in enumerate(names)
    }
    return Answer(values, (folder / _METHOD_FILE).read_text(encoding="utf-8"))


def _settled_answer(problem: Problem) -> Answer | None:
    return problem.algorithm.settled_answer(problem.graph, problem.features)


def _reference(problem: Problem) -> Answer:
    from harness.language.reference import ReferenceRun

    run = ReferenceRun(problem.program, problem.graph, problem.features)
    run.reset(problem.inputs)
    run.run(problem.max_supersteps)
    return Answer({name: run.values(name) for name in problem.program.outputs}, "the float64 reference")


@contextmanager
def _folder_in_the_making(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``folder`` when all went well."""
    making = Path(tempfile.mkdtemp(prefix="writing-", dir=folder.parent))
    try:
        yield making
        os.rename(making, folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
