"""Compile generated modules for the CPU with g++, and load them."""

from __future__ import annotations

import _ctypes
import ctypes
import hashlib
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np

from harness.atomic_write import write_whole
from harness.device.compilation import cache_folder
from harness.emulation.arrays import DeviceArray, Order, Stream

COMPILER = "g++"
OLDEST = 11  # the first version that distinguishes volatile accesses
FOLDER = Path(__file__).parent
OPTIONS = ("-std=c++17", "-w", "-fPIC", "-fno-exceptions", "-fvisibility=hidden", "-U_FORTIFY_SOURCE")
# Without the libraries of C++, which take a third of the time to link and of which nothing is needed.
LINKED = ("-nodefaultlibs", "-Wl,-z,defs")
LIBRARIES = ("-lm", "-lc", "-lgcc")
PLAIN = (*OPTIONS, "-O0")
RUNTIME = (*OPTIONS, "-O2")
# Optimized as for a GPU: loops are unrolled and loads moved out of loops. Loads stay scalar: a thread is one lane.
COUNTING = (
    *OPTIONS, "-O3", "-DCOUNTING", "-fno-tree-vectorize", "-fno-tree-slp-vectorize", "-fno-reorder-blocks",
    "-fsanitize=thread", "--param=tsan-distinguish-volatile=1", "-fsanitize-coverage=trace-pc",
    *(("-mno-red-zone",) if platform.machine() == "x86_64" else ()),  # statements in assembly language call functions
)  # fmt: skip
CONCURRENT = (*PLAIN, "-DCONCURRENT")
# How a block waits for others: a host may have fewer cores than blocks, and a lost block is noticed in seconds.
WAITING = {"if (++looks ==": "if (sched_yield(), ++looks ==", "MOST_LOOKS = 1u << 26": "MOST_LOOKS = 1u << 22"}
RACING = (*PLAIN, "-DRACES", "-fsanitize=thread", "--param=tsan-distinguish-volatile=1")
KERNEL = re.compile(r'^extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\(([^()]*)\)$', re.MULTILINE)
DYNAMIC_SHARED = re.compile(r"extern __shared__ (\w+) (\w+)\[\];")
UNROLL = re.compile(r'_Pragma\("unroll ?([^"]*)"\)')
INSTRUCTION = re.compile(r'asm(?: volatile)?\("([\w.]+) [^"]*"\s*:([^;]*)\);')
OPERAND = re.compile(r'"=?[a-z]"\((\w+(?:\[\w+\])?)\)')
CHUNK = re.compile(r"struct alignas\(4 \* WIDTH\) Chunk \{[^}]*\};")
VECTOR = "typedef float Chunk __attribute__((vector_size(4 * WIDTH)));"
CHOOSE = re.compile(r"template <class Value> __device__ inline Value choose\(.*\n")
LAZY = "#define choose(first, a, b) ((first) ? (a) : (b))\n"
ENTRY = """
extern "C" __attribute__((visibility("default")))
const char* launch_{name}(const unsigned* grid, void** arguments, const unsigned* sizes)
{{
    return emulated::launch(static_cast<void (*)({types})>({name}), grid, arguments, sizes);
}}
"""


class EmulationError(RuntimeError):
    """A module does not compile for the CPU, or a kernel did something invalid; the message says which and what."""


def unavailable(least: int = 0) -> str:
    """Return why kernels cannot be emulated here; empty if they can. ``least``: the oldest suitable version of g++."""
    if not sys.platform.startswith("linux"):
        return "kernels are emulated on Linux only"
    if shutil.which(COMPILER) is None:
        return f"kernels are emulated with {COMPILER}, which is not installed: {_remedy()}"
    version = re.search(r"(\d+)\.\d+\.\d+", _version())
    if version is None or int(version[1]) < least:
        first = _version().partition("\n")[0]
        return f"kernels are emulated with {COMPILER} {least} or later, and the one on the PATH is {first}: {_remedy()}"
    return ""


def _remedy() -> str:
    packages = "apt install g++, dnf install gcc-c++, or conda install gxx"
    return f"install the C++ compiler of GCC {OLDEST} or later ({packages})"


class Kernel:
    """A kernel of a loaded module, launched as one of CuPy is; a launch returns when it is done."""

    def __init__(self, name: str, entry: Any, module: Module | None = None) -> None:
        self.name, self._entry, self._origin = name, entry, module
        entry.restype = ctypes.c_char_p

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int], arguments: Sequence[Any], shared_mem: int = 0,
        enable_cooperative_groups: bool = False,
    ) -> None:  # fmt: skip
        """Launch the kernel.

        Raises EmulationError if it fails (see runtime.cpp), has written beside an array, or is not ordered after writes
        by the host.
        """
        if Order.unordered():
            raise EmulationError(f"{self.name} does not wait for writes on the default stream; synchronize the device")
        if Stream.captured is None:
            self._run(grid, block, arguments, shared_mem, enable_cooperative_groups)
        else:
            given = (grid, block, tuple(arguments), shared_mem, enable_cooperative_groups)
            Stream.captured.append(partial(self._run, *given))

    def _run(
        self, grid: tuple[int, ...], block: tuple[int], arguments: Sequence[Any], shared_mem: int,
        enable_cooperative_groups: bool,
    ) -> None:  # fmt: skip
        together = self._origin if enable_cooperative_groups and grid != (1,) else None
        if enable_cooperative_groups and grid != (1,) and not (together and together.concurrent):
            raise EmulationError(f"{self.name}: of blocks that run one after another, {grid[0]} would wait forever")
        values = [a.__array_interface__["data"][0] if isinstance(a, DeviceArray) else a.item() for a in arguments]
        kinds = [
            ctypes.c_void_p if isinstance(a, DeviceArray) else np.ctypeslib.as_ctypes_type(a.dtype) for a in arguments
        ]
        held = [kind(value) for kind, value in zip(kinds, values, strict=True)]
        addresses = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
        sizes = (ctypes.c_uint * len(held))(*map(ctypes.sizeof, held))
        shape = (ctypes.c_uint * 4)(*grid, *(1,) * (2 - len(grid)), *block, shared_mem)
        if together:
            entries = together.entries(self.name, grid[0])
            with ThreadPoolExecutor(len(entries)) as pool:
                failures = list(pool.map(lambda entry: entry(shape, addresses, sizes), entries))
        else:
            failures = [self._entry(shape, addresses, sizes)]
        for failure in filter(None, failures):
            raise EmulationError(f"{self.name}: {failure.decode()}")
        for number, argument in enumerate(arguments):
            if isinstance(argument, DeviceArray) and not argument.unharmed():
                raise EmulationError(f"{self.name} wrote beside the array that is its argument {number}")


class Module:
    """The substitute for ``cupy.cuda.function.Module``; its code is the path of a library."""

    def load(self, code: bytes) -> None:
        """Load a library that :func:`library` has made."""
        self.path, self._copies = Path(code.decode()), list[ctypes.CDLL]()
        self.library = self._loaded(self.path)

    @staticmethod
    def _loaded(path: Path) -> ctypes.CDLL:
        library = ctypes.CDLL(str(path))
        # Kernels refer to the library. It is unloaded after the last of them; otherwise a process keeps thousands.
        weakref.finalize(library, _ctypes.dlclose, library._handle)
        return library

    @property
    def concurrent(self) -> bool:
        """Whether blocks may run at the same time."""
        return hasattr(self.library, "emulated_block")

    def entries(self, name: str, blocks: int) -> list[Any]:
        """Return a function for each of some blocks, which launches it. Each is of a copy of the library, since blocks
        share neither shared memory nor threads."""
        for block in range(len(self._copies), blocks):
            with tempfile.TemporaryDirectory() as folder:
                self._copies.append(self._loaded(Path(shutil.copy(self.path, Path(folder, f"{block}.so")))))
            ctypes.c_uint.in_dll(self._copies[-1], "emulated_block").value = block
        found = [getattr(copy, f"launch_{name}") for copy in self._copies[:blocks]]
        for entry in found:
            entry.restype = ctypes.c_char_p
        return found

    def get_function(self, name: str) -> Kernel:
        """Return the kernel with a name."""
        return Kernel(name, getattr(self.library, f"launch_{name}"), self)


def library(
    source: str, headers: Mapping[str, str], *, counting: bool = False, racing: bool = False, concurrent: bool = False
) -> Path:  # fmt: skip
    """Compile a module to a library for the CPU, or return the one compiled before.

    ``headers``: the text of every file that ``source`` can include, by name. ``counting``: launches count the requests
    to memory. ``racing``: the library finds races in a launch between ``begin_launch`` and ``end_launch`` (races.h).
    ``concurrent``: blocks that wait for each other run at the same time, in threads. Raises EmulationError.
    """
    text = _with_entries(source, headers, counting=counting)
    for waiting, yielding in WAITING.items() if concurrent and "class GlobalBarrier" in text else ():
        if waiting not in text:
            raise EmulationError(f"the global barrier does not have the text {waiting!r}, in whose place blocks yield")
        text = text.replace(waiting, yielding)
    options = COUNTING if counting else RACING if racing else CONCURRENT if concurrent else PLAIN
    built_ins = _text("cuda_on_cpu.h")
    runtime = _runtime((*RUNTIME, *(option for option in options if option.startswith("-D"))))
    made = _folder() / f"{_digest((*options, *LINKED, *LIBRARIES), built_ins, runtime.name, text)}.so"
    if not made.exists():
        _compile(text, "module.cpp", made, options, "-include", str(_built_ins(built_ins, options)), runtime=runtime)
    return made


def _runtime(options: Sequence[str]) -> Path:
    """Return the object of the runtime."""
    text = _text("runtime.cpp")
    for header in ("counting.h", "races.h"):
        text = text.replace(f'#include "{header}"', _text(header))
    made = _folder() / f"{_digest(options, text)}.o"
    if not made.exists():
        _compile(text, "runtime.cpp", made, options, "-c")
    return made


def _built_ins(text: str, options: Sequence[str]) -> Path:
    """Return a copy of the built-ins with a precompiled one beside it, which saves a quarter of each compilation."""
    header = _folder() / _digest(options, text) / "cuda_on_cpu.h"
    precompiled = header.with_name(f"{header.name}.gch")
    if not precompiled.exists():
        header.parent.mkdir(exist_ok=True)
        write_whole(header, text)
        _compile(text, header.name, precompiled, options, "-x", "c++-header")
    return header


def _compile(
    text: str, name: str, made: Path, options: Sequence[str], *more: str, runtime: Path | None = None
) -> None:  # fmt: skip
    """Compile a text, written to a file of this name, to ``made``, atomically; link it with ``runtime`` if given.

    Raises EmulationError.
    """
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        written, compiled, fresh = (Path(folder) / one for one in (name, "module.o", made.name))
        written.write_text(text, encoding="utf-8")
        if runtime is None:
            _called([*options, *more, str(written), "-o", str(fresh)])
        else:
            _called([*options, *more, "-c", str(written), "-o", str(compiled)])
            _called(["-shared", *LINKED, str(compiled), str(runtime), *LIBRARIES, "-o", str(fresh)])
        os.replace(fresh, made)


def _called(arguments: Sequence[str]) -> None:
    done = subprocess.run([COMPILER, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise EmulationError(f"{COMPILER} does not compile a generated module:\n{done.stderr[:4000]}")


@cache
def _version() -> str:
    return subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout


@cache
def _text(name: str) -> str:
    return (FOLDER / name).read_text(encoding="utf-8")


def _folder() -> Path:
    folder = cache_folder().with_name("emulated")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _digest(*texts: object) -> str:
    return hashlib.sha256(repr((_version(), texts)).encode()).hexdigest()[:32]


def _with_entries(source: str, headers: Mapping[str, str], *, counting: bool) -> str:
    """Return the source with the headers that it includes, and an entry for every kernel."""
    body = _with_includes(source, headers, set())
    body = DYNAMIC_SHARED.sub(r"\1* const \2 = reinterpret_cast<\1*>(emulated::dynamic_shared);", body)
    if counting:
        body = _as_on_a_gpu(body)
    entries = []
    for name, parameters in KERNEL.findall(body):  # types distinguish a kernel from a template of its name
        types = ", ".join(parameter.rpartition(" ")[0] for parameter in parameters.split(", "))
        entries.append(ENTRY.format(name=name, types=types))
    return "\n".join([body, *entries])


def _as_on_a_gpu(body: str) -> str:
    """Translate what only CUDA's compiler understands: unrolling, wide loads, instructions."""
    # GCC takes no count that depends on template parameters, and decides for itself.
    body = UNROLL.sub(lambda found: _unrolled(found[1]), body)
    # A wide load is one access, which the compiler can merge with others.
    body = CHUNK.sub(VECTOR, body).replace("chunk.at[", "chunk[")
    # CUDA's compiler moves a condition out of a loop over features, and then loads only the row that it chooses.
    body = CHOOSE.sub(LAZY, body)
    return INSTRUCTION.sub(_function_call, body)


def _unrolled(count: str) -> str:
    return f'_Pragma("GCC unroll {count or 1024}")' if count in ("", "UNROLL") or count.isdigit() else ""


def _function_call(found: re.Match[str]) -> str:
    return f"{found[1].replace('.', '_')}({', '.join(OPERAND.findall(found[2]))});"


def _with_includes(text: str, headers: Mapping[str, str], met: set[str]) -> str:
    lines = []
    for line in text.splitlines():
        match = re.match(r'#include "(.*)"', line)
        if match and match[1] not in met:
            met.add(match[1])
            lines.append(_with_includes(headers[match[1]], headers, met))
        elif not match and line != "#pragma once":
            lines.append(line)
    return "\n".join(lines)
