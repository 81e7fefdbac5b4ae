"""Store generated source as modules on disk, so that a second process finds the machine code of the first.

`load_module` names the file by a hash of everything that the machine code depends on: the source, this package (its
code is inlined into the machine code, and Numba's own cache does not track it), Numba, Python and the processor. An
existing file with the right content is never written, so Numba's index beside it stays valid. A new file is written
under a temporary name and then renamed. Machine code is in `__pycache__` beside it and is read in milliseconds;
compiling takes a second. Functions need `cache=True` and an explicit signature, so that no call has to infer types.

The folder is `$ONYX_HARNESS_CACHE/cpu`, or `cpu` in the user's cache folder for "onyx-harness".  It may be deleted at
any time.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import gc
import hashlib
import importlib.util
import logging
import os
import platform
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import llvmlite.binding
import numba

from harness import cache, digests
from harness.atomic_write import write_whole

logger = logging.getLogger(__name__)
HASH_LENGTH = 20  # hex digits: 80 bits


def cache_folder() -> Path:
    """Return the folder of generated modules, which need not exist yet."""
    return cache.cache_folder() / "cpu"


@functools.cache
def toolchain_fingerprint() -> str:
    """Return a hash of what the machine code depends on besides the source.

    That is this package, Numba, LLVM, Python and the processor.
    """
    digest = hashlib.sha256()
    for path in sorted(Path(__file__).parent.glob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    versions = (numba.__version__, llvmlite.__version__, platform.python_version(), sys.implementation.cache_tag)
    digest.update("\0".join((*versions, platform.machine(), *processor())).encode())
    return digest.hexdigest()


def processor() -> tuple[str, str]:
    """Return the processor that Numba compiles for: LLVM's name, and its features as "+avx2,-avx512f,..."."""
    name = os.environ.get("NUMBA_CPU_NAME") or llvmlite.binding.get_host_cpu_name()
    features = os.environ.get("NUMBA_CPU_FEATURES") or llvmlite.binding.get_host_cpu_features().flatten()
    return name, features


def write_once(path: Path, text: str) -> None:
    """Make `path` hold `text`, atomically; a file that already holds it keeps its time stamp.

    A file that another process writes at the same time is also kept: an index of Numba's written for another time stamp
    is invalid.
    """
    if _holds(path, text):
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    with _locked(path.parent.with_suffix(".lock")):
        if not _holds(path, text):
            write_whole(path, text)


@contextlib.contextmanager
def _locked(path: Path, mode: str = "a") -> Iterator[None]:
    """Wait until no other process has locked a file; lock it for the block. ``mode``: in which it is opened."""
    with path.open(mode) as handle:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield


def _holds(path: Path, text: str) -> bool:
    return path.exists() and path.read_bytes() == text.encode()


@contextlib.contextmanager
def rare_collections() -> Iterator[None]:
    """Collect garbage rarely: Numba allocates many objects that live on.

    Measured: 39 kernels take 21.1 s of processor time to compile, and 26.3 s with Python's default thresholds. If two
    threads compile at the same time, the higher thresholds may stay.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, 50, 100)
    try:
        yield
    finally:
        gc.set_threshold(*before)


def with_machine_code() -> set[str]:
    """Return the names of modules that are loaded, or whose machine code is in the cache."""
    folder = cache_folder() / "__pycache__"
    stored = os.listdir(folder) if folder.is_dir() else []
    return {*sys.modules, *(name.partition(".")[0] for name in stored if name.endswith(".nbi"))}


def module_name(source: str, stem: str) -> str:
    """Return the name of the module with this source."""
    if not stem.isidentifier():
        raise ValueError(f"a module's stem is an identifier, not {stem!r}")
    digest = hashlib.sha256(f"{toolchain_fingerprint()}\0{source}".encode()).hexdigest()[:HASH_LENGTH]
    return f"{stem}_{digest}"


def load_module(source: str, stem: str) -> ModuleType:
    """Return the module with this source, named `stem` and a hash; the same source gives the same module object.

    `stem` is a Python identifier that makes profiles readable. Damaged machine code, as after a power failure, is
    compiled again: it differs from the digest that the process which compiled it has stored beside it. Another process
    that compiles the module meanwhile is waited for. Errors in the source are raised unchanged. Raises CacheError if
    the module, or the machine code beside it, cannot be written.
    """
    name = module_name(source, stem)
    loaded = sys.modules.get(name)
    if loaded is not None:
        return loaded
    path = cache_folder() / f"{name}.py"
    with contextlib.ExitStack() as held:
        with cache.filling_cache():
            write_once(path, source)
            if not digests.matches(_record(path), _machine_code(path)):
                # Another process may be storing machine code and its digest. The cache may be read-only.
                held.enter_context(_locked(path, "rb"))
                if digests.matches(_record(path), _machine_code(path)) is False:
                    _drop(path)
        try:
            module = _executed(name, path)
        except (MemoryError, cache.CacheError):
            raise
        except Exception:  # the source has an error, or a stored file is damaged, whose pickles raise anything
            if not _stored(path):
                raise
            with cache.filling_cache():
                _drop(path)
            module = _executed(name, path)
        with cache.filling_cache():
            stored = _machine_code(path)
            if stored and not digests.matches(_record(path), stored):
                digests.record_digest(_record(path), stored)
    return module


def _stored(path: Path, suffixes: str | tuple[str, ...] = "") -> list[Path]:
    """Return what Python, Numba and this module have stored for a module of generated functions."""
    folder = path.parent / "__pycache__"
    names = os.listdir(folder) if folder.is_dir() else []  # glob takes five times as long
    return [folder / name for name in names if name.startswith(f"{path.stem}.") and name.endswith(suffixes)]


def _machine_code(path: Path) -> list[Path]:
    """Return the files of Numba among them; none if NUMBA_CACHE_DIR names another folder."""
    return _stored(path, (".nbi", ".nbc"))


def _record(path: Path) -> Path:
    """Return the file with the digest of a module's machine code."""
    return path.parent / "__pycache__" / f"{path.stem}.digest"


def _drop(path: Path) -> None:
    logger.warning("%s: its machine code is damaged; compiling it again", path)
    for file in _stored(path):
        file.unlink(missing_ok=True)


def _executed(name: str, path: Path) -> ModuleType:
    """Execute a module of generated functions, which Numba loads or compiles and stores; register it by its name."""
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"no loader for the generated module {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        with cache.filling_cache(), rare_collections():
            spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
