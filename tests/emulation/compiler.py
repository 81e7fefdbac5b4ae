"""Generated modules compiled for the CPU by g++, with cuda_on_cpu.h in the place of CUDA's built-ins."""

from __future__ import annotations

import _ctypes
import ctypes
import hashlib
import os
import re
import subprocess
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from functools import cache, partial
from pathlib import Path
from typing import Any

from harness.atomic_write import write_whole
from harness.device.compilation import cache_folder
from tests.emulation.arrays import DeviceArray, Stream

COMPILER = "g++"
OPTIONS = ("-std=c++17", "-O0", "-w", "-fPIC", "-fvisibility=hidden", "-U_FORTIFY_SOURCE")
BUILT_INS = Path(__file__).with_name("cuda_on_cpu.h")
KERNEL = re.compile(r'^extern "C" __global__ void (?:__launch_bounds__\([^)]*\) )?(\w+)\((.*)\)$', re.MULTILINE)
DYNAMIC_SHARED = re.compile(r"extern __shared__ (\w+) (\w+)\[\];")
ENTRY = """
extern "C" __attribute__((visibility("default")))
const char* launch_{name}(const unsigned* grid, void** arguments, const unsigned* sizes)
{{
    return emulated::launch(static_cast<void (*)({types})>({name}), grid, arguments, sizes);
}}
"""


class EmulationError(RuntimeError):
    """A kernel does not compile for the CPU, or did what no kernel may; the message says which and what."""


class Kernel:
    """A kernel of a compiled module, launched as CuPy's are; returns when it is done."""

    def __init__(self, name: str, entry: Any) -> None:
        self.name, self._entry = name, entry
        entry.restype = ctypes.c_char_p

    def __call__(
        self, grid: tuple[int, ...], block: tuple[int], arguments: Sequence[Any], shared_mem: int = 0,
        enable_cooperative_groups: bool = False,
    ) -> None:  # fmt: skip
        """Raises EmulationError: see the header, and where a kernel has written beside an array."""
        if Stream.captured is None:
            self._run(grid, block, arguments, shared_mem, enable_cooperative_groups)
        else:
            given = (grid, block, tuple(arguments), shared_mem, enable_cooperative_groups)
            Stream.captured.append(partial(self._run, *given))

    def _run(
        self, grid: tuple[int, ...], block: tuple[int], arguments: Sequence[Any], shared_mem: int,
        enable_cooperative_groups: bool,
    ) -> None:  # fmt: skip
        if enable_cooperative_groups and grid != (1,):
            raise EmulationError(f"{self.name}: of blocks that run one after another, {grid[0]} would wait forever")
        values = [a.__array_interface__["data"][0] if isinstance(a, DeviceArray) else a.item() for a in arguments]
        kinds = [
            ctypes.c_void_p if isinstance(a, DeviceArray) else getattr(ctypes, f"c_{a.dtype.name}") for a in arguments
        ]
        held = [kind(value) for kind, value in zip(kinds, values, strict=True)]
        addresses = (ctypes.c_void_p * len(held))(*map(ctypes.addressof, held))
        sizes = (ctypes.c_uint * len(held))(*map(ctypes.sizeof, held))
        failure = self._entry((ctypes.c_uint * 4)(*grid, *(1,) * (2 - len(grid)), *block, shared_mem), addresses, sizes)
        if failure:
            raise EmulationError(f"{self.name}: {failure.decode()}")
        for number, argument in enumerate(arguments):
            if isinstance(argument, DeviceArray) and not argument.unharmed():
                raise EmulationError(f"{self.name} wrote beside the array that is its argument {number}")


class Module:
    """What stands in for ``cupy.cuda.function.Module``; its code is the path of a library."""

    def load(self, code: bytes) -> None:
        """Load what :func:`library` has made."""
        self._library = ctypes.CDLL(code.decode())
        # Kernels refer to the library; it is unloaded after the last of them, or a worker keeps thousands.
        weakref.finalize(self._library, _ctypes.dlclose, self._library._handle)

    def get_function(self, name: str) -> Kernel:
        """The kernel of this name."""
        return Kernel(name, getattr(self._library, f"launch_{name}"))


def library(source: str, headers: Mapping[str, str]) -> Path:
    """A module as a library for the CPU, from disk where it has been compiled before. Raises EmulationError."""
    text = _with_entries(source, headers)
    made = _folder() / f"{_digest(BUILT_INS.read_text(encoding='utf-8'), text)}.so"
    if not made.exists():
        _compile(text, "module.cpp", made, "-shared", "-include", str(_built_ins()))
    return made


def _built_ins() -> Path:
    """Return a copy of the built-ins with a precompiled one beside it, which saves a quarter of each compilation."""
    text = BUILT_INS.read_text(encoding="utf-8")
    header = _folder() / _digest(text) / BUILT_INS.name
    precompiled = header.with_name(f"{header.name}.gch")
    if not precompiled.exists():
        header.parent.mkdir(exist_ok=True)
        write_whole(header, text)
        _compile(text, header.name, precompiled, "-x", "c++-header")
    return header


def _compile(text: str, name: str, made: Path, *options: str) -> None:
    """Compile a text, written to a file of this name, to ``made``, atomically. Raises EmulationError."""
    with tempfile.TemporaryDirectory(dir=_folder()) as folder:
        written, fresh = Path(folder) / name, Path(folder) / made.name
        written.write_text(text, encoding="utf-8")
        command = [COMPILER, *OPTIONS, *options, str(written), "-o", str(fresh)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise EmulationError(f"{COMPILER} does not compile {name}:\n{done.stderr[:4000]}")
        os.replace(fresh, made)


def _folder() -> Path:
    folder = cache_folder().with_name("emulated")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _digest(*texts: str) -> str:
    return hashlib.sha256(repr((_version(), OPTIONS, texts)).encode()).hexdigest()[:32]


@cache
def _version() -> str:
    return subprocess.run([COMPILER, "--version"], capture_output=True, text=True, check=True).stdout


def _with_entries(source: str, headers: Mapping[str, str]) -> str:
    """Return the source with the headers that it includes, and an entry for every kernel."""
    body = _with_includes(source, headers, set())
    body = DYNAMIC_SHARED.sub(r"\1* const \2 = reinterpret_cast<\1*>(emulated::dynamic_shared);", body)
    entries = []
    for name, parameters in KERNEL.findall(body):  # types tell a kernel from a template of its name
        types = ", ".join(parameter.rpartition(" ")[0] for parameter in parameters.split(", "))
        entries.append(ENTRY.format(name=name, types=types))
    return "\n".join([body, *entries])


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
