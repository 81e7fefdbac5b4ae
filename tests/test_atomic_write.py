"""A reader sees a whole file or none."""

from __future__ import annotations

import os
import stat

import pytest

from harness.atomic_write import write_whole


@pytest.mark.parametrize("lasting", [False, True])
def test_a_file_takes_the_place_of_another_and_leaves_nothing_beside_it(tmp_path, lasting):
    path = tmp_path / "new folder" / "file"
    write_whole(path, "Prägung\n", lasting=lasting)
    assert path.read_bytes() == "Prägung\n".encode()
    write_whole(path, b"\0\1", lasting=lasting)
    assert path.read_bytes() == b"\0\1"
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("umask", "mode"), [(0o022, 0o644), (0o077, 0o600), (0o002, 0o664)])
def test_file_permissions_follow_the_umask(tmp_path, umask, mode):
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "file", "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == mode


def test_a_failure_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, "old")

    def full(*_):
        raise OSError("no space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space"):
        write_whole(path, "new")
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_is_named_with_the_file(tmp_path, monkeypatch):
    """A failed write, other than a failed open, does not know the name of its file."""
    path, opened = tmp_path / "file", os.open
    monkeypatch.setattr(os, "open", lambda *_: opened("/dev/full", os.O_WRONLY))
    with pytest.raises(OSError, match=rf"No space left on device: '{path}'"):
        write_whole(path, "text")
    assert not list(tmp_path.iterdir())


def test_readers_see_the_old_file_until_the_end(tmp_path, monkeypatch):
    path = tmp_path / "file"
    write_whole(path, "old")
    seen = []
    replace = os.replace

    def looked(source, target):
        seen.append((path.read_text(), source.name.startswith(".file-")))
        replace(source, target)

    monkeypatch.setattr(os, "replace", looked)
    write_whole(path, "new")
    assert seen == [("old", True)]
    assert path.read_text() == "new"
