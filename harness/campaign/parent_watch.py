"""Jobs in other processes of the same machine end with the process that owns their sweep."""

from __future__ import annotations

import functools
import os
import threading

from harness.campaign.orphans import this_space, wait_for_end, watched


@functools.cache
def end_with(owner: str) -> None:
    """End this process, and so every cell that it runs, as soon as the owner has died.

    If the owner is on another machine, such as the login node of a cluster, ending the job is left to its scheduler.
    """
    space, number, _ = owner.rsplit("/", 2)
    if space != this_space() or int(number) == os.getpid():
        return
    handle = watched(owner)
    if handle is None:
        os._exit(1)
    threading.Thread(target=_end_after, args=(handle,), daemon=True).start()


def _end_after(handle: int) -> None:
    wait_for_end(handle)
    os._exit(1)
