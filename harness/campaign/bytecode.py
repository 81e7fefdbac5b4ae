"""The compiled modules of the processes of cells: a folder in the cache, and what happens if its files are damaged."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping
from importlib.machinery import SourceFileLoader
from importlib.util import cache_from_source
from pathlib import Path
from types import CodeType

from harness.cache import cache_folder

PREFIX_VARIABLE = "PYTHONPYCACHEPREFIX"


def bytecode_folder() -> Path:
    """Return the folder of compiled modules. It may not exist yet, and may be deleted at any time."""
    return cache_folder() / "bytecode"


def bytecode_environment() -> dict[str, str]:
    """Return variables that give children :func:`bytecode_folder` if the user forbids Python to store compiled modules
    beside the sources.

    A child imports about 800 modules (Numba, SciPy). Compiling them takes 1.5 s, as much as the rest of a small cell.
    """
    if not sys.dont_write_bytecode or PREFIX_VARIABLE in os.environ:
        return {}
    return {"PYTHONDONTWRITEBYTECODE": "", PREFIX_VARIABLE: str(bytecode_folder())}


def discard_bytecode(environment: Mapping[str, str]) -> bool:
    """Delete :func:`bytecode_folder` if processes with an environment use it; return whether it was there.

    A damaged file in it can keep an interpreter from starting, before any code of the harness runs.
    """
    folder = bytecode_folder()
    if environment.get(PREFIX_VARIABLE) != str(folder) or not folder.is_dir():
        return False
    shutil.rmtree(folder, ignore_errors=True)
    return True


def replace_damaged_bytecode() -> None:
    """Make imports of this process compile a module again whose file in :func:`bytecode_folder` is damaged."""
    read = SourceFileLoader.get_code

    def get_code(self: SourceFileLoader, fullname: str) -> CodeType | None:
        try:
            return read(self, fullname)
        except (EOFError, ImportError, MemoryError, TypeError, ValueError):  # marshal reads anything
            stored = Path(cache_from_source(self.get_filename(fullname)))
            if sys.pycache_prefix != str(bytecode_folder()):
                raise
            stored.unlink(missing_ok=True)  # another cell may have removed it
            return read(self, fullname)

    SourceFileLoader.get_code = get_code  # type: ignore[assignment, method-assign]
