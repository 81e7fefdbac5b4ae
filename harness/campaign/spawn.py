"""Start processes by forking a server that has imported the harness (:mod:`harness.campaign.cell_server`)."""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import secrets
import select
import signal
import socket
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harness.campaign.bytecode import bytecode_folder, discard_bytecode
from harness.campaign.cell_server import MOST_BYTES
from harness.campaign.errors import CampaignError
from harness.plain_text import printable

MARK_VARIABLE = "ONYX_HARNESS_PROCESS"  # inherited by all processes that a server and its supervisors start
_SERVER = "harness.campaign.cell_server"
_local = threading.local()  # a server dies with the thread that started it


class Server:
    """A server for processes with one environment."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment, self.mark = dict(environment), secrets.token_hex(8)
        self._owner = os.getpid()
        self._connection, served = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with served:
            os.set_inheritable(served.fileno(), True)
            arguments = ["-P", "-X", "faulthandler", "-m", _SERVER, str(os.getpid()), str(served.fileno())]
            marked = {**self.environment, MARK_VARIABLE: self.mark}
            # A session of its own: signals to the group of a sweep, as by Ctrl-C, do not reach it.
            self.process = os.posix_spawn(
                sys.executable, [sys.executable, *arguments], marked, setsid=True,
                file_actions=[(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(2)],
            )  # fmt: skip

    def serves(self, environment: Mapping[str, str]) -> bool:
        """Return whether processes of that environment can come from this server.

        Libraries read environment variables when they are loaded, so all variables must agree. After a fork, the server
        belongs only to the process that started it.
        """
        return (self.environment, self._owner) == (environment, os.getpid())

    def run(self, module: str, arguments: Sequence[str], output: int) -> int:
        """Fork a supervisor that runs a module in the working folder; return its process number.

        ``output``: the descriptor that receives its output.
        """
        request = {"run": [module, *arguments], "folder": str(Path.cwd())}
        return int(self._answer(request, [output])["process"])

    def end(self) -> int:
        """Return the wait status of the supervisor, which has ended; none of its descendants is left."""
        return int(self._answer({"end": True})["status"])

    def close(self) -> None:
        """Kill the server. A supervisor that it has forked ends with it, after all of its descendants."""
        if self._owner == os.getpid():
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.process, signal.SIGKILL)
        self._connection.close()  # afterwards: a server that finds it closed kills its descendants itself
        if self._owner != os.getpid():
            return
        with contextlib.suppress(ChildProcessError):
            os.waitpid(self.process, 0)

    def _answer(self, request: dict[str, Any], descriptors: Sequence[int] = ()) -> dict[str, Any]:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.process, signal.SIGCONT)  # a cell may have stopped it
        socket.send_fds(self._connection, [json.dumps(request).encode()], descriptors)
        message = self._connection.recv(MOST_BYTES)
        if not message:
            raise ConnectionResetError("the server has ended")
        answer: dict[str, Any] = json.loads(message)
        return answer


class Spawned:
    """A supervisor that runs ``python -m module``, in a session of its own."""

    def __init__(self, module: str, arguments: Sequence[str], output: int, environment: Mapping[str, str]) -> None:
        """Start it, again if damaged compiled modules may have ended its server. Raises CampaignError if it cannot be
        started."""
        try:
            self.server, self.process = _started(module, arguments, output, environment)
        except OSError as error:
            if not isinstance(error, ConnectionError) or not discard_bytecode(environment):
                raise _not_started(error) from error
            folder = bytecode_folder()
            _say(f"the process that starts cells has ended; trying again without the compiled modules in {folder}")
            try:
                self.server, self.process = _started(module, arguments, output, environment)
            except OSError as again:
                raise _not_started(again) from again
        self._handle = os.pidfd_open(self.process)

    def wait(self) -> None:
        """Wait until it has ended. Its number is not reused before :meth:`status`."""
        readiness = select.poll()
        readiness.register(self._handle, select.POLLIN)
        readiness.poll()

    def status(self) -> int:
        """Reap it; return its exit status, or the negative number of the signal that killed it.

        Killing the server also kills the supervisor, whose status is then that of SIGKILL.
        """
        os.close(self._handle)
        try:
            return os.waitstatus_to_exitcode(self.server.end())
        except OSError:
            _drop(self.server)
            return -signal.SIGKILL
        except BaseException:
            _drop(self.server)
            raise


def _started(module: str, arguments: Sequence[str], output: int, environment: Mapping[str, str]) -> tuple[Server, int]:
    """Return the server and the number of a new supervisor. Raises OSError."""
    server = _server_for(environment)
    try:
        return server, server.run(module, arguments, output)
    except BaseException:
        _drop(server)
        raise


def _not_started(error: OSError) -> CampaignError:
    return CampaignError(f"no process can be started for a cell: {error}")


def _say(text: str) -> None:
    sys.stderr.write(f"onyx-harness: {printable(text)}\n")


def _server_for(environment: Mapping[str, str]) -> Server:
    """Return the server of this thread; one for another environment is ended first."""
    known: Server | None = getattr(_local, "server", None)
    if known is not None and known.serves(environment):
        return known
    if known is not None:
        _drop(known)
    server = _local.server = Server(environment)
    return server


@atexit.register
def _end() -> None:
    """End the server of the main thread with this process."""
    known: Server | None = getattr(_local, "server", None)
    if known is not None:
        _drop(known)


def _drop(server: Server) -> None:
    _local.server = None
    server.close()
