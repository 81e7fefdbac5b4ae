"""Name the plugin whose import keeps a command waiting."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harness.plain_text import printable

PATIENCE_S = 10.0


def _to_stderr(message: str) -> None:
    sys.stderr.write(f"onyx-harness: {message}\n")
    sys.stderr.flush()


@contextmanager
def import_watch(what: str, hint: str = "") -> Iterator[None]:
    """Write once to standard error if ``what`` is still being imported after PATIENCE_S seconds; the import continues.

    ``hint``: what the user can do about it. A thread writes the message, so an import that holds the interpreter's
    lock delays it.
    """
    message = f"{what} is still being imported after {PATIENCE_S:g} s{f'; {hint}' if hint else ''}"
    timer = threading.Timer(PATIENCE_S, lambda: _to_stderr(printable(message)))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()
