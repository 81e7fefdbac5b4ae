"""Fork cells from a process that has imported the harness: ``python -m harness.campaign.cell_server PARENT SOCKET``.

Starting an interpreter and importing what a cell needs takes 1.4 to 2.2 s; forking a process that has done so takes
10 ms. The server imports the harness, its libraries and its own plugins, and CuPy where there is an NVIDIA driver. It
imports no plugin of another distribution and calls no function of the driver, so that a cell's process starts without
such plugins and can initialise the driver: a process that is forked after its initialisation cannot.

SOCKET is the descriptor of a connected SOCK_SEQPACKET socket. Each message is a JSON object:

- ``{"run": [module, *arguments], "folder": path}`` with a descriptor for the output: fork a supervisor
  (:mod:`harness.campaign.supervisor`) for the module in that working folder; the answer is ``{"process": number}``.
- ``{"end": true}``, once that supervisor has ended: kill what it left behind, and reap it; the answer is
  ``{"status": wait status}``. Until then its number is not reused.

The server ends when its parent dies or closes the socket. Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import json
import os
import signal
import socket
import sys
import time
import warnings
from typing import Any, NoReturn

from harness.campaign import supervisor
from harness.campaign.bytecode import replace_damaged_bytecode

MOST_BYTES = 1 << 20  # of a message
_PR_SET_PDEATHSIG, _PR_SET_CHILD_SUBREAPER = 1, 36
# Modules that cells import, in the order in which they import them.
_MODULES = (
    "harness.campaign.child", "harness.campaign.problem", "harness.campaign.measurement",
    "harness.campaign.least_work",
    "harness.campaign.accuracy", "harness.campaign.sampled_check", "harness.campaign.judgement",
    "harness.campaign.scrutiny", "harness.campaign.lock", "harness.campaign.warm_cell",
    "harness.campaign.fingerprint", "harness.campaign.preflight", "harness.campaign.inputs_cache",
    "harness.campaign.resolution", "harness.campaign.solve_window", "harness.language.explain",
    "harness.transactions.profiler", "mmap", "platformdirs", "scipy.sparse", "scipy.sparse.csgraph", "numba",
)  # fmt: skip
# Some export lazily.
_FOR_ENGINES = (
    "harness.api", "harness.api.cpu", "harness.api.directions", "harness.api.figures", "harness.api.forwarding",
    "harness.api.library",
)  # fmt: skip
# None of them calls the driver.
_FOR_GPUS = ("pynvml", "cupy", "cupy_backends.cuda.api.driver", "cupy_backends.cuda.libs.nvrtc", "harness.api.cuda")
_DRIVER_FILES = ("/dev/nvidiactl", "/dev/dxg")  # on Linux, in Windows' subsystem for Linux


def main(arguments: list[str]) -> None:
    """Serve until the parent ends; return in processes that became a cell's, once its module has run."""
    parent, connection = int(arguments[0]), socket.socket(fileno=int(arguments[1]))
    libc = ctypes.CDLL(None)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)  # adopts the descendants of a killed supervisor
    if os.getppid() != parent:
        os._exit(1)  # the parent died before the death signal was set
    replace_damaged_bytecode()
    server, environment = os.getpid(), dict(os.environ)
    preload(gpu=any(map(os.path.exists, _DRIVER_FILES)))
    folder, module, *rest = _serve(connection)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    supervisor.supervise(server, module, rest)


def preload(*, gpu: bool) -> None:
    """Import what every cell needs, on a GPU if ``gpu``; a cell itself reports a module that cannot be imported."""
    from harness.campaign.sources import source_hash
    from harness.plugins import load_own_plugins

    for name in _MODULES:
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    if gpu:
        with contextlib.suppress(Exception):  # CuPy warns of some installations by exceptions of its own
            for name in _FOR_GPUS:
                importlib.import_module(name)
    load_own_plugins()
    source_hash([])
    for name in _FOR_ENGINES:
        with contextlib.suppress(ImportError):
            _import_exports(name)
    gc.collect()
    gc.freeze()  # a collection in a cell would write to the pages of all these objects, and so copy them


def _import_exports(name: str) -> None:
    """Import a module and all that it exports."""
    interface = importlib.import_module(name)
    for exported in interface.__all__:
        with contextlib.suppress(ImportError):
            getattr(interface, exported)


def _serve(connection: socket.socket) -> list[str]:
    """Answer requests; return, in a forked process, its working folder, the module to supervise, and the arguments."""
    child = 0
    while True:
        message, descriptors, _, _ = socket.recv_fds(connection, MOST_BYTES, 1)
        if not message:
            _end_everything()
        request: dict[str, Any] = json.loads(message)
        if "run" in request:
            child = _fork()
            if child == 0:
                connection.close()
                _become(descriptors[0])
                return [request["folder"], *request["run"]]
            os.close(descriptors[0])
            answer = {"process": child}
        else:
            answer = {"status": _reaped(child)}
        connection.send(json.dumps(answer).encode())


def _fork() -> int:
    with warnings.catch_warnings():
        # OpenBLAS, which NumPy has loaded, ends its threads before a fork and starts them again when they are needed.
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _become(output: int) -> None:
    """Set what ``subprocess.Popen`` would set: session, input and output."""
    os.setsid()
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, number in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(descriptor, number)
    for descriptor in (nothing, output):
        os.close(descriptor)
    importlib.invalidate_caches()  # modules may have been written since the preload


def _reaped(child: int) -> int:
    """Kill every descendant but ``child``, which has ended; return the wait status of ``child``."""
    while family := [process for process in supervisor.descendants() if process != child]:
        for process in family:
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        for process in family:
            with contextlib.suppress(ChildProcessError):
                os.waitpid(process, os.WNOHANG)
        time.sleep(0.001)
    return os.waitpid(child, 0)[1]


def _end_everything() -> NoReturn:
    """End the server, after all its descendants: the parent has closed the socket.

    A parent that dies closes its files before its death signal is sent. That signal must not end the server when it has
    killed a supervisor, which then kills nothing, but not yet the others.
    """
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, 0)
    while not supervisor.childless():
        for process in supervisor.descendants():
            with contextlib.suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        time.sleep(0.001)
    os._exit(0)


if __name__ == "__main__":
    main(sys.argv[1:])
