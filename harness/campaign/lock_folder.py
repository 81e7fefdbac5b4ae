"""The folder of the locks that all processes of a user on a machine share.

It is in the user's cache folder, which, unlike a runtime folder, outlasts a login, as a sweep does. Its name contains
the boot id of the machine, because a home folder may be shared by several machines with different devices.
"""

from __future__ import annotations

import os
import stat
from pathlib import Path

from harness.cache import CACHE_VARIABLE, CacheError, cache_folder, chosen_folder, fix_folder, user_cache_folder

LOCKS_VARIABLE = "ONYX_HARNESS_LOCKS"


class LockError(CacheError):
    """A lock cannot be created or trusted; not a fault of a graph or an engine."""


def lock_folder() -> Path:
    """Return the folder of locks, created if missing: ONYX_HARNESS_LOCKS, or one in the user's cache folder.

    Raises LockError if it cannot be created, is a link, belongs to another user, or is open to others.
    """
    folder = _chosen()
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = os.lstat(folder)
    except OSError as error:
        raise LockError(f"the folder of locks {folder} cannot be created ({error.strerror}); {_other()}") from error
    if not stat.S_ISDIR(status.st_mode):
        raise LockError(f"the folder of locks {folder} is a link; remove it, or {_other()}")
    if status.st_uid != os.getuid():
        met = f"belongs to user {status.st_uid}, and this process runs as user {os.getuid()}"
        raise LockError(f"the folder of locks {folder} {met}; remove it, or {_other()}")
    if status.st_mode & 0o077:
        met = f"is open to other users (mode {stat.S_IMODE(status.st_mode):o})"
        raise LockError(f"the folder of locks {folder} {met}; make it private with chmod 700 {folder}")
    return folder


def fix_folders() -> None:
    """Fix the folders of the cache and of the locks for this process, before an engine can change the environment.

    Otherwise the process of a reference would fill another cache, and cells would not wait for each other.
    """
    fix_folder(CACHE_VARIABLE, cache_folder())
    fix_folder(LOCKS_VARIABLE, _chosen())


def open_lock(path: Path) -> int:
    """Return a handle of the file at ``path``, created if missing and never changed; links are not followed.

    Raises LockError for a link, a folder or anything else but a regular file, OSError if it cannot be opened.
    """
    try:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        if path.is_symlink():
            raise LockError(f"the lock {path} is a link; remove it") from error
        if path.is_dir():
            raise LockError(f"the lock {path} is a folder; remove it") from error
        raise
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise LockError(f"the lock {path} is not a file; remove it")
    return handle


def _chosen() -> Path:
    chosen = chosen_folder(LOCKS_VARIABLE)
    if chosen is not None:
        return chosen
    boot = Path("/proc/sys/kernel/random/boot_id").read_text()[:8]
    return user_cache_folder() / f"locks-{boot}"


def _other() -> str:
    return f"name another on a local disk with {LOCKS_VARIABLE}=FOLDER, the same for all of your processes"
