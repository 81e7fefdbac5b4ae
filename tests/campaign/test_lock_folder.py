"""Lock files that other users cannot exploit, shared by all processes of a user."""

from __future__ import annotations

import fcntl
import os
import resource
import stat
from pathlib import Path

import pytest

from harness.cache import cache_folder
from harness.campaign import lock_folder as locks
from harness.campaign.lock import device_holder, device_lock, device_lock_path, file_lock, share_until_end
from harness.campaign.lock_folder import LockError, lock_folder
from harness.contract import Device

CPU = Device("cpu", threads=1)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv("ONYX_HARNESS_LOCKS", str(tmp_path / "locks"))
    return tmp_path / "locks"


def test_the_folder_is_private(folder):
    before = os.umask(0)
    try:
        assert lock_folder() == folder
    finally:
        os.umask(before)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    with device_lock(CPU, "a cell", 60.0):
        assert stat.S_IMODE(device_lock_path(CPU).stat().st_mode) & 0o077 == 0


def test_the_folder_is_in_no_folder_that_users_share(monkeypatch, tmp_path):
    monkeypatch.delenv("ONYX_HARNESS_LOCKS", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path / "another"))  # processes with other caches share the locks
    assert lock_folder().parent == tmp_path / "onyx-harness"


def test_a_link_in_the_place_of_a_lock_is_not_followed(folder, tmp_path):
    lock_folder()
    (tmp_path / "victim").write_text("precious")
    device_lock_path(CPU).symlink_to(tmp_path / "victim")
    with pytest.raises(LockError, match=r"cpu\.lock is a link; remove it"), device_lock(CPU, "a cell", 60.0):
        pass
    assert (tmp_path / "victim").read_text() == "precious"


def test_a_folder_in_the_place_of_a_lock_is_refused(folder):
    lock_folder()
    device_lock_path(CPU).mkdir()
    assert device_holder(CPU) == ""  # a waiting cell reads the holder first
    with pytest.raises(LockError, match=r"cpu\.lock is a folder; remove it"), device_lock(CPU, "a cell", 60.0):
        pass


def test_a_pipe_in_the_place_of_a_lock_is_refused(tmp_path):
    os.mkfifo(tmp_path / "a.lock")
    with pytest.raises(LockError, match="is not a file; remove it"), file_lock(tmp_path / "a.lock"):
        pass


def test_a_lock_that_was_removed_while_a_process_waited_is_taken_on_the_new_file(tmp_path, monkeypatch):
    """The previous holder removes the file, and another process makes a new one, before the wait ends."""
    path, waits, flock = tmp_path / "a.lock", [], fcntl.flock

    def replaced(handle: int, kind: int) -> None:
        if not waits:
            path.rename(tmp_path / "removed")
            path.touch()
        waits.append(kind)
        flock(handle, kind)

    monkeypatch.setattr(fcntl, "flock", replaced)
    with file_lock(path, keep=False) as handle:
        assert os.path.samestat(os.fstat(handle), path.stat())
        with pytest.raises(BlockingIOError), file_lock(path, wait=False):
            pass
    assert len(waits) == 3
    assert not path.exists()


def test_a_lock_is_held_until_its_file_is_removed(tmp_path, monkeypatch):
    """Else a process that waited would hold the removed file, and a later one a new file."""
    path, held, unlink = tmp_path / "a.lock", [], Path.unlink

    def removed(self: Path, missing_ok: bool = False) -> None:
        with pytest.raises(BlockingIOError), file_lock(path, wait=False):
            pass
        held.append(self)
        unlink(self, missing_ok)

    monkeypatch.setattr(Path, "unlink", removed)
    with file_lock(path, keep=False):
        pass
    assert held == [path]
    assert not path.exists()


def test_a_folder_that_is_a_link_is_refused(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir(0o700)
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LockError, match=r"is a link; remove it, or name another .* with ONYX_HARNESS_LOCKS=FOLDER"):
        lock_folder()


def test_a_folder_that_is_open_to_others_is_refused(folder):
    folder.mkdir()
    folder.chmod(0o755)
    with pytest.raises(LockError, match=rf"\(mode 755\); make it private with chmod 700 {folder}"):
        lock_folder()


def test_a_folder_of_another_user_is_refused(folder, monkeypatch):
    folder.mkdir(0o700)
    monkeypatch.setattr(locks.os, "getuid", lambda: 12345)
    with pytest.raises(LockError, match=r"belongs to user \d+, and this process runs as user 12345; remove it, or"):
        lock_folder()


def test_a_folder_that_cannot_be_made_says_so(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("ONYX_HARNESS_LOCKS", str(tmp_path / "file" / "locks"))
    with pytest.raises(LockError, match="cannot be created"):
        lock_folder()


def test_a_file_system_without_locks_is_named(monkeypatch, tmp_path):
    def fails(*_):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr("fcntl.flock", fails)
    with pytest.raises(LockError, match="its file system has no locks"), file_lock(tmp_path / "a.lock"):
        pass
    assert not [handle for handle in Path("/proc/self/fd").iterdir() if handle.resolve() == tmp_path / "a.lock"]


def test_a_refused_folder_ends_the_command_before_any_cell(folder, command, tmp_path):
    folder.mkdir()
    folder.chmod(0o777)
    finished = command("algorithm=fake_spread", "graph=fake_ring", "engine=fake_right")
    assert finished.returncode == 2
    assert f"the folder of locks {folder} is open to other users (mode 777)" in finished.stderr
    assert not (tmp_path / "results").exists()


def test_without_its_driver_a_gpu_is_locked_by_its_name_or_its_number(folder, monkeypatch):
    """Cells on two GPUs do not wait for each other."""
    monkeypatch.setattr("harness.campaign.lock.gpu_uuid", lambda index: None)

    def names():
        return [device_lock_path(Device("cuda", index)).name for index in range(3)]

    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    assert names() == ["cuda-0.lock", "cuda-1.lock", "cuda-2.lock"]
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "5, MIG-a/1")
    assert names() == ["cuda-5.lock", "cuda-MIG-a_1.lock", "cuda-2.lock"]
    monkeypatch.setattr("harness.campaign.lock.gpu_uuid", lambda index: f"GPU-{7 - index}")
    assert names() == ["cuda-GPU-7.lock", "cuda-GPU-6.lock", "cuda-GPU-5.lock"]


@pytest.mark.parametrize("keep", [True, False])
def test_a_lock_is_freed_although_its_file_is_gone(tmp_path, keep):
    path = tmp_path / "of a cell.lock"
    with file_lock(path, keep=keep):
        path.unlink()
    with file_lock(path, wait=False, keep=keep):
        assert path.is_file()
    assert path.is_file() == keep


@pytest.mark.parametrize("named", [True, False])
def test_the_folders_are_those_from_before_an_engine_changed_the_environment(monkeypatch, tmp_path, named):
    """Folders that no variable names are fixed too."""
    monkeypatch.setattr("harness.cache._fixed", {})
    variables = {"XDG_CACHE_HOME": "user", "ONYX_HARNESS_CACHE": "cache", "ONYX_HARNESS_LOCKS": "locks"}
    for variable, name in variables.items():
        if named or name == "user":
            monkeypatch.setenv(variable, str(tmp_path / name))
        else:
            monkeypatch.delenv(variable, raising=False)
    folders = cache_folder(), lock_folder()
    assert folders[0] == (tmp_path / "cache" if named else tmp_path / "user" / "onyx-harness")
    locks.fix_folders()
    for variable in variables:
        monkeypatch.setenv(variable, str(tmp_path / "elsewhere"))
    assert (cache_folder(), lock_folder()) == folders
    assert not (tmp_path / "elsewhere").exists()


@pytest.mark.parametrize("soft", [300, 8192])
def test_a_gpu_is_shared_until_the_end_of_the_process_above_other_descriptors(folder, soft):
    """The descriptor is the last one that the process may open, or 4095."""
    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limits[1] != resource.RLIM_INFINITY and limits[1] <= soft:
        pytest.skip(f"needs a hard limit of more than {soft} open files")
    gpu, last = Device("cuda"), min(soft, 4096) - 1
    lock_folder()
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, limits[1]))
    try:
        share_until_end(gpu)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    path = device_lock_path(gpu)
    assert os.path.samestat(os.fstat(last), path.stat())
    assert not os.get_inheritable(last)
    with pytest.raises(BlockingIOError), file_lock(path, wait=False):
        pass
    with file_lock(path, wait=False, shared=True):
        pass
    os.close(last)
    with file_lock(path, wait=False):
        pass
