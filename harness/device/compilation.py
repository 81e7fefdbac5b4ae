"""Compile CUDA C++ to machine code with NVRTC, which needs no GPU, and cache it on disk across processes.

The name of a compiled module is a hash of its source, its headers, the architecture, the options and the compiler's
version. The folder is ``$ONYX_HARNESS_CACHE/cuda``, or ``cuda`` in the user's cache folder for "onyx-harness". It may
be deleted at any time.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harness import cache, digests
from harness.atomic_write import write_whole
from harness.device.errors import CompilationFailed

logger = logging.getLogger(__name__)
MADE_OF = "made of"
# Division is accurate to 2 ulp (--prec-div=false): correctly rounded division takes several times the instructions.
OPTIONS = ("-std=c++17", "-default-device", "--prec-div=false", "--ptxas-options=-v")
# From this version on, NVRTC takes equal code from a cache of the driver. The log then lacks the resources, and the
# time is not that of a compilation.
CACHING = (12, 9)
# All figures follow "Compiling entry function"; older compilers list spills under "Function properties for NAME".
_ENTRY = re.compile(
    r"Compiling entry function '(?P<name>\w+)'(?P<report>.*?)(?=Compiling entry function|\Z)", re.DOTALL
)
_FIGURES = {
    "registers": re.compile(r"Used (\d+) registers"),
    "stack": re.compile(r"(\d+) bytes stack frame"),
    "spills": re.compile(r"(\d+) bytes spill stores"),
    "shared": re.compile(r"(\d+) bytes smem"),
}


@dataclass(frozen=True)
class Compiled:
    """Machine code for one architecture, and the compiler's log, which has the resources of each kernel."""

    code: bytes
    log: str

    def to_bytes(self) -> bytes:
        """Return the number of bytes of the code in a line, the code, and the log."""
        return b"%d\n%b%b" % (len(self.code), self.code, self.log.encode())

    @classmethod
    def from_bytes(cls, content: bytes) -> Compiled:
        """Return what :meth:`to_bytes` stored."""
        count, _, rest = content.partition(b"\n")
        return cls(rest[: int(count)], rest[int(count) :].decode())

    def resources(self) -> dict[str, dict[str, int]]:
        """Return for each kernel: registers per thread, stack and spilled bytes, static shared bytes per block."""
        found = {}
        for entry in _ENTRY.finditer(self.log):
            figures = {name: pattern.search(entry["report"]) for name, pattern in _FIGURES.items()}
            found[entry["name"]] = {name: int(match[1]) if match else 0 for name, match in figures.items()}
        return found


def cache_folder() -> Path:
    """Return the folder of compiled modules. It may not exist yet."""
    return cache.cache_folder() / "cuda"


def compiled(source: str, headers: Mapping[str, str], architecture: str) -> Compiled:
    """Compile ``source`` for ``architecture`` ("sm_90"), or read the result of an earlier compilation from disk.

    ``headers``: the text of every file that ``source`` can include, by name. A damaged result, as after a power
    failure, is compiled again: it differs from the digest in its file. Raises CompilationFailed, and CacheError if the
    result cannot be written.
    """
    from cupy.cuda import nvrtc

    digest = hashlib.sha256(repr((nvrtc.getVersion(), OPTIONS, architecture, source, sorted(headers.items()))).encode())
    path = cache_folder() / f"{digest.hexdigest()[:32]}_{architecture}.compiled"
    if path.exists():
        stored = digests.read_checked(path)
        if stored is not None:
            return Compiled.from_bytes(stored)
        logger.warning("%s: this machine code is damaged; compiling it again", path)
    try:
        result = _compile(source, headers, architecture)
    except CompilationFailed as error:
        failed = path.with_suffix(".failed.cu")
        with cache.filling_cache():
            write_whole(failed, source)
        raise CompilationFailed(f"{error}\nthe generated source: {failed}") from error
    with cache.filling_cache():
        digests.write_checked(path, result.to_bytes())  # one file, which processes replace as a whole
    return result


def nvrtc_version() -> tuple[int, int]:
    """Return the version of the compiler, such as (13, 0). Raises ImportError without CuPy or its libraries."""
    from cupy.cuda import nvrtc

    major, minor = nvrtc.getVersion()
    return int(major), int(minor)


def _compile(source: str, headers: Mapping[str, str], architecture: str) -> Compiled:
    from cupy.cuda import nvrtc

    apart = ("--no-cache",) if nvrtc_version() >= CACHING else ()
    options = (*OPTIONS, *apart, f"--gpu-architecture={architecture}")
    texts, names = (tuple(word.encode() for word in words) for words in (headers.values(), headers))
    program = nvrtc.createProgram(source, "generated.cu", texts, names)
    try:
        nvrtc.compileProgram(program, options)
        log = nvrtc.getProgramLog(program)
        return Compiled(_whole(nvrtc.getCUBIN(program)), log)
    except nvrtc.NVRTCError as error:
        raise CompilationFailed(f"{error}\n{explained(nvrtc.getProgramLog(program), source)}") from error
    finally:
        nvrtc.destroyProgram(program)


def _whole(code: bytes) -> bytes:
    """Restore the trailing zero byte that CuPy 14.2 cuts off: it pads the last table of the ELF file."""
    return code if len(code) % 8 == 0 else code + b"\0" * (-len(code) % 8)


def explained(log: str, source: str) -> str:
    """Annotate the compiler's errors.

    Each error is followed by the source line that it names, and by the comment above that line that names its origin
    in the program (``// NAME: ...``).
    """
    lines = source.splitlines()
    shown = []
    for line in log.splitlines():
        shown.append(line)
        match = re.match(r"generated\.cu\((\d+)\): error", line)
        if match and int(match[1]) <= len(lines):
            shown.append(f"    {lines[int(match[1]) - 1].strip()}")
            shown += _origin(lines[: int(match[1])])
    return "\n".join(shown)


def _origin(lines: Sequence[str]) -> list[str]:
    """Return the origin of the last line, from the nearest comment above it in its kernel; empty if there is none."""
    for line in reversed(lines):
        if line.startswith('extern "C"'):
            break
        comment = re.match(r"\s*// (\w+: .*)", line)
        if comment:
            return [f"    {MADE_OF} {comment[1]}"]
    return []
