"""End the processes that a killed sweep's launcher has started, and delete their shared memory.

Run as a file, ``python -I -S orphans.py OWNER``, this first waits for the death of OWNER. It uses only the standard
library, so that the process is small. Linux only.
"""

from __future__ import annotations

import contextlib
import os
import re
import select
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

# Inherited by every process that a sweep starts on its machine, through any launcher; contains `this_process`.
OWNER_VARIABLE = "ONYX_HARNESS_OWNER"
_GRACE_S = 5.0  # for processes to clean up after themselves, such as the resource tracker of joblib's workers
_LOOK_S = 0.01
_WATCHERS: dict[str, int] = {}  # processes that wait for the death of an owner: one for all sweeps of a process
_SHARED_MEMORY = Path("/dev/shm")
# joblib's names: semaphores of its workers, and the folder of arrays passed to them.
_LEFT_BEHIND = re.compile(r"sem\.loky-(\d+)-\w+|joblib_memmapping_folder_(\d+)_\w+")


def this_process() -> str:
    """Return a unique name of this process: boot of the machine, process space, number, start time."""
    return "/".join([this_space(), str(os.getpid()), start_of(os.getpid())])


def this_space() -> str:
    """Return a name for the boot of the machine and the space of process numbers."""
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    return f"{boot}:{os.stat('/proc/self/ns/pid').st_ino}"


def start_of(process: int) -> str:
    """Return the start time of a process, in ticks since boot. Raises OSError if there is no such process."""
    # The second field is the program's name in brackets, which may contain any character.
    return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[19]


def watched(owner: str) -> int | None:
    """Return a handle that is readable once the owner is dead; None if it is dead. The owner must be of this process
    space."""
    _, number, start = owner.rsplit("/", 2)
    try:
        handle = os.pidfd_open(int(number))
        if start_of(int(number)) == start:
            return handle
        os.close(handle)
    except OSError:
        pass
    return None


def wait_for_end(handle: int, most_s: float | None = None) -> bool:
    """Wait for the death of the process of a handle from `watched`, then close the handle; return whether it is
    dead."""
    readiness = select.poll()
    readiness.register(handle, select.POLLIN)
    dead = bool(readiness.poll(None if most_s is None else 1000 * most_s))
    os.close(handle)
    return dead


@contextmanager
def marking_children() -> Iterator[str]:
    """Mark all processes started while entered as children of this one, so that `end_orphans` ends them after its
    death.

    Yields `this_process`.
    """
    owner, before = this_process(), os.environ.get(OWNER_VARIABLE)
    if not _runs(_WATCHERS.get(owner)):
        _WATCHERS[owner] = _start_watcher(owner)
    os.environ[OWNER_VARIABLE] = owner
    try:
        yield owner
    finally:
        if before is None:
            del os.environ[OWNER_VARIABLE]
        else:
            os.environ[OWNER_VARIABLE] = before


def _runs(child: int | None) -> bool:
    """Return whether a child of this process has not ended."""
    if child is None:
        return False
    with contextlib.suppress(ChildProcessError):
        return os.waitpid(child, os.WNOHANG) == (0, 0)
    return False


def _start_watcher(owner: str) -> int:
    """Start a process that ends the owner's children after its death; return its number."""
    unmarked = {name: value for name, value in os.environ.items() if name != OWNER_VARIABLE}
    # A separate session: signals to the process group of a sweep, such as Ctrl-C, do not reach it.
    nothing = [(os.POSIX_SPAWN_OPEN, number, os.devnull, os.O_RDWR, 0) for number in range(3)]
    arguments = [sys.executable, "-I", "-S", __file__, owner]
    return os.posix_spawn(sys.executable, arguments, unmarked, file_actions=nothing, setsid=True)


def end_orphans(owner: str) -> None:
    """End every process that a dead owner has marked, and delete its files in shared memory.

    Nothing happens while the owner lives, or if it is on another machine or in another process space.
    """
    space, number, _ = owner.rsplit("/", 2)
    if space != this_space() or not _dead(owner, 0.0):
        return
    signalled, until = {int(number)}, time.monotonic() + _GRACE_S
    while found := marked(OWNER_VARIABLE, owner):
        late = time.monotonic() > until
        for process in found:
            with contextlib.suppress(ProcessLookupError):
                if late:
                    os.kill(process, signal.SIGKILL)
                elif process not in signalled:
                    os.kill(process, signal.SIGTERM)
                    os.kill(process, signal.SIGCONT)
        signalled.update(found)
        time.sleep(_LOOK_S)
    for folder in {_SHARED_MEMORY, Path(tempfile.gettempdir())}:
        _clear(folder, signalled)


def _dead(owner: str, most_s: float | None = None) -> bool:
    handle = watched(owner)
    return handle is None or wait_for_end(handle, most_s)


def marked(variable: str, value: str) -> list[int]:
    """Return the processes of this user that were started with an environment variable, except this one."""
    mark, found = f"{variable}={value}".encode(), []
    for entry in os.scandir("/proc"):
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            with contextlib.suppress(OSError):  # another user's, or just ended
                if mark in Path(entry.path, "environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
    return found


def _clear(folder: Path, processes: set[int]) -> None:
    """Delete the files of dead processes of this user in a folder of temporary files."""
    for entry in os.scandir(folder) if folder.is_dir() else ():
        named = _LEFT_BEHIND.fullmatch(entry.name)
        maker = int(named[1] or named[2]) if named else 0
        with contextlib.suppress(OSError):
            if maker in processes and _gone(maker) and entry.stat(follow_symlinks=False).st_uid == os.getuid():
                _delete(entry)


def _gone(process: int) -> bool:
    """Return whether a process has ended, reaped or not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in "ZX"
    except OSError:
        return True


def _delete(entry: os.DirEntry[str]) -> None:
    if entry.is_dir(follow_symlinks=False):
        shutil.rmtree(entry.path)
    else:
        os.unlink(entry.path)


def main(owner: str) -> None:
    """Wait for the owner's death, then end its orphans."""
    _dead(owner)
    end_orphans(owner)


if __name__ == "__main__":
    main(sys.argv[1])
