"""Compile generated CPU modules outside the process that runs the tests.

Numba retains what it allocates during compilation, 1.5 MB of memory for a module, and a worker of the test suite
compiles thousands. A module that is loaded from the disk takes 0.15 MB. Therefore a process beside the worker
compiles and is replaced after some modules. The worker loads the compiled modules from the disk.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import subprocess
import sys
from types import ModuleType

from harness.lowering.cpu import executor, module_source, modules

MODULES_OF_A_PROCESS = 200
_LOOP = """
import json, sys
from harness.lowering.cpu.modules import load_module
for line in sys.stdin:
    try:
        load_module(*json.loads(line))
    except Exception:
        pass  # the worker meets the same error, and shows it
    print(flush=True)
"""


class Compiler:
    """Load a generated module; if it is not on the disk yet, compile it in another process first."""

    def __init__(self) -> None:
        self.compiled = 0
        self._process: subprocess.Popen[str] | None = None
        self._left = 0

    def __call__(self, source: str, stem: str) -> ModuleType:
        digest = hashlib.sha256(f"{modules.toolchain_fingerprint()}\0{source}".encode()).hexdigest()
        name = f"{stem}_{digest[: modules.HASH_LENGTH]}"
        machine_code = modules.cache_folder() / "__pycache__"
        if name not in sys.modules and not any(machine_code.glob(f"{name}.*.nbi")):
            self._compile(source, stem)
        return modules.load_module(source, stem)

    def close(self) -> None:
        """End the process."""
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def _compile(self, source: str, stem: str) -> None:
        if self._process is None or self._left == 0 or self._process.poll() is not None:
            self.close()
            self._process = subprocess.Popen(
                [sys.executable, "-c", _LOOP], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL, text=True,
            )  # fmt: skip
            self._left = MODULES_OF_A_PROCESS
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps([source, stem]) + "\n")
        self._process.stdin.flush()
        self._process.stdout.readline()  # empty if the process has died: the worker then compiles
        self._left -= 1
        self.compiled += 1


def install() -> None:
    """Make engines load their modules through a compiler of this process; further calls do nothing.

    Engines then start no processes that compile: they would copy the worker, and the workers keep all cores busy.
    """
    if not isinstance(module_source.load_module, Compiler):
        module_source.load_module = Compiler()
        executor.compile_beside = lambda kernels, processes: None
        atexit.register(module_source.load_module.close)
