"""Reference values, computed once for all engines and kept in the cache folder."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from harness.campaign.lock import file_lock
from harness.graph.cache import cache_folder

if TYPE_CHECKING:
    from harness.graph import Graph
    from harness.language import Inputs, Program


def reference_values(
    key: str, program: Program, graph: Graph, features: int, inputs: Inputs, max_supersteps: int
) -> dict[str, NDArray[Any]]:
    """The outputs of ``program`` in float64 after at most ``max_supersteps``, by name.

    ``key`` stands for everything they depend on. Another process that wants the same values meanwhile waits for them.
    """
    folder = cache_folder() / "references" / key
    with file_lock(folder.with_suffix(".lock")):
        if not folder.is_dir():
            with _folder_in_the_making(folder) as making:
                values = _evaluate(program, graph, features, inputs, max_supersteps)
                for number, name in enumerate(program.outputs):
                    np.save(making / f"{number}.npy", values[name], allow_pickle=False)
    return {
        name: np.load(folder / f"{number}.npy", mmap_mode="r", allow_pickle=False)
        for number, name in enumerate(program.outputs)
    }


def _evaluate(
    program: Program, graph: Graph, features: int, inputs: Inputs, max_supersteps: int
) -> dict[str, NDArray[Any]]:
    from harness.language.reference import ReferenceRun

    run = ReferenceRun(program, graph, features)
    run.reset(inputs)
    run.run(max_supersteps)
    return {name: run.values(name) for name in program.outputs}


@contextmanager
def _folder_in_the_making(folder: Path) -> Iterator[Path]:
    """A temporary folder that becomes ``folder`` when all went well."""
    making = Path(tempfile.mkdtemp(prefix="writing-", dir=folder.parent))
    try:
        yield making
        os.rename(making, folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
