"""Generated source as modules on disk, so that a second process finds the machine code of the first.

`load_module` names the file by a hash of all that the machine code depends on: the source, this package (whose code
is inlined into it, and of which Numba's own cache knows nothing), Numba, Python and the processor. A file that is
there with the right content is never touched, so Numba's index beside it stays valid; a new one is written under a
temporary name and then renamed. Machine code lies in `__pycache__` beside it, and is read in milliseconds where
compiling takes a second (functions need `cache=True` and, so that no call has to find out types, an explicit
signature).

The folder is `$ONYX_HARNESS_CACHE/cpu`, or `cpu` in the user's cache folder for "onyx-harness".  It may be deleted at
any time.
"""

from __future__ import annotations

import fcntl
import functools
import hashlib
import importlib.util
import os
import platform
import sys
from pathlib import Path
from types import ModuleType

import llvmlite.binding
import numba

from harness import cache
from harness.whole_files import write_whole

HASH_LENGTH = 20  # hex digits: 80 bits


def cache_folder() -> Path:
    """The folder of generated modules (not necessarily there yet)."""
    return cache.cache_folder() / "cpu"


@functools.cache
def toolchain_fingerprint() -> str:
    """Hash of what the machine code depends on besides the source: this package, Numba, LLVM, Python, the processor."""
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    processor = os.environ.get("NUMBA_CPU_NAME") or llvmlite.binding.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES") or llvmlite.binding.get_host_cpu_features().flatten()
    versions = (numba.__version__, llvmlite.__version__, platform.python_version(), sys.implementation.cache_tag)
    digest.update("\0".join((*versions, platform.machine(), processor, features)).encode())
    return digest.hexdigest()


def write_once(path: Path, text: str) -> None:
    """Make `path` hold `text`, atomically; a file that holds it already is left as it is, with its time stamp.

    So is one that another process writes meanwhile: Numba's index beside it, if written under another stamp, is void.
    """
    if _holds(path, text):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.parent.with_suffix(".lock").open("a") as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        if not _holds(path, text):
            write_whole(path, text)


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_bytes() == text.encode()


def load_module(source: str, stem: str) -> ModuleType:
    """The module with this source, named `stem` and a hash; the same source gives the same module object.

    `stem` is a Python identifier, for people who read profiles.  Errors in the source are raised as they are.
    CacheError when it, or the machine code beside it, cannot be written.
    """
    if not stem.isidentifier():
        raise ValueError(f"a module's stem is an identifier, not {stem!r}")
    digest = hashlib.sha256(f"{toolchain_fingerprint()}\0{source}".encode()).hexdigest()[:HASH_LENGTH]
    name = f"{stem}_{digest}"
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded
    path = cache_folder() / f"{name}.py"
    with cache.filling_cache():
        write_once(path, source)
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no loader for the generated module {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with cache.filling_cache():  # Numba compiles now, and keeps the machine code
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
