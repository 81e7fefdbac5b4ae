"""Name the plugin whose import keeps a command waiting, or would end its process."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

from harness.plain_text import printable

PATIENCE_S = 10.0


class ProcessExit(SystemExit):
    """An import called os._exit, which would have ended the process without a message."""


def _to_stderr(message: str) -> None:
    sys.stderr.write(f"onyx-harness: {message}\n")
    sys.stderr.flush()


@contextmanager
def import_watch(what: str, hint: str = "") -> Iterator[None]:
    """Write once to standard error if ``what`` is still being imported after PATIENCE_S seconds; the import continues.

    ``hint``: what the user can do about it. A thread writes the message, so an import that holds the interpreter's
    lock delays it.

    A call of ``os._exit`` in the block raises ProcessExit. Processes that the block forks may call it. If another
    thread calls it, the process ends after a message.
    """
    message = f"{what} is still being imported after {PATIENCE_S:g} s{f'; {hint}' if hint else ''}"
    timer = threading.Timer(PATIENCE_S, lambda: _to_stderr(printable(message)))
    timer.daemon = True
    timer.start()
    try:
        with _without_exit(what, hint):
            yield
    finally:
        timer.cancel()
        timer.join()


@contextmanager
def _without_exit(what: str, hint: str) -> Iterator[None]:
    """Replace ``os._exit`` for the calls of this thread."""
    end, process, thread = os._exit, os.getpid(), threading.get_ident()
    over = threading.Event()  # modules may keep the replacement

    def refused(status: int) -> NoReturn:
        if os.getpid() == process and not over.is_set() and threading.get_ident() == thread:
            raise ProcessExit(f"os._exit({status!r}) would end the process")
        try:
            if os.getpid() == process and not over.is_set():
                _to_stderr(printable(f"{what} ends the process: os._exit({status!r}){f'; {hint}' if hint else ''}"))
        finally:  # also if nobody reads the messages any more
            end(status)

    os._exit = refused
    try:
        yield
    finally:
        over.set()
        os._exit = end
