"""The folder of a cell: what it keeps when an engine damages it, and what it reports of the damage."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from harness.campaign.work_folder import WorkFolder, discard


@pytest.fixture
def work(tmp_path):
    """Return a folder with an artefact, a line of output and a report."""
    made = WorkFolder(tmp_path / "work")
    (made.made / "picture.png").write_text("pixels")
    made.output.write_text("hello\n")
    made.report.write_text('{"a": 1}\n{"b": 2, "a": 3}\n{"cut')
    yield made
    made.close()
    assert not made.path.exists()


def kept_by(work):
    """Return the names and texts of what is kept, and the damage."""
    kept, damage = work.collect()
    return {path.name: path.read_text() for path in sorted(kept.iterdir()) if path.is_file()}, damage


WHOLE = {"output.txt": "hello\n", "picture.png": "pixels"}


def test_artefacts_and_output_are_kept(work):
    (work.made / "more").mkdir()
    (work.made / "more" / "a.txt").write_text("x")
    assert work.reported() == ({"a": 3, "b": 2}, False)
    assert work.printed(100) == "hello\n"
    assert work.printed(3) == "lo\n"
    assert kept_by(work) == (WHOLE, [])
    assert (work.path / "kept" / "more" / "a.txt").read_text() == "x"


def remove_all(work):
    shutil.rmtree(work.path)


def replace_all(work):
    remove_all(work)
    work.path.mkdir()
    (work.path / "mine").touch()


def replace_all_by_a_file(work):
    remove_all(work)
    work.path.write_text("a file")


def remove_made(work):
    shutil.rmtree(work.made)


def replace_made(work):
    """Put a link to another folder in the place of the artefacts."""
    other = work.path.parent / "other"
    other.mkdir()
    (other / "file").write_text("not of the cell")
    remove_made(work)
    work.made.symlink_to(other)


def lock(work):
    work.made.chmod(0)
    work.path.chmod(0)


def replace_output(work):
    work.output.unlink()
    work.output.write_text("another")


def occupy_kept(work):
    (work.path / "kept").mkdir()
    (work.path / "kept" / "forged.txt").write_text("x")
    work.aside.mkdir()


@pytest.mark.parametrize(
    ("harm", "kept", "damage"),
    [
        (remove_all, {"output.txt": "hello\n"}, ["removed or replaced its work folder"]),
        (replace_all, {"output.txt": "hello\n"}, ["removed or replaced its work folder"]),
        (replace_all_by_a_file, {"output.txt": "hello\n"}, ["removed or replaced its work folder"]),
        (remove_made, {"output.txt": "hello\n"}, ["removed or replaced the folder of its artefacts"]),
        (replace_made, {"output.txt": "hello\n"}, ["removed or replaced the folder of its artefacts"]),
        (lock, WHOLE, []),
        (replace_output, WHOLE, []),
        (occupy_kept, WHOLE, []),
    ],
)
def test_damage_is_reported_and_the_output_is_kept(work, harm, kept, damage):
    harm(work)
    assert kept_by(work) == (kept, damage)
    assert not work.aside.exists()


@pytest.mark.parametrize("place", ["made", "path"])
def test_a_link_in_the_place_of_a_folder_is_never_followed(tmp_path, place):
    """The file system may give the link the number of the folder that was removed."""
    other = tmp_path / "other"
    (other / "made").mkdir(parents=True)
    for inner in (other, other / "made"):
        (inner / "file").write_text("not of the cell")
        inner.chmod(0o755)
    for number in range(20):
        work = WorkFolder(tmp_path / f"work-{number}")
        folder = getattr(work, place)
        shutil.rmtree(folder)
        folder.symlink_to(other)
        kept, damage = work.collect()
        assert len(damage) == 1
        assert [path.name for path in kept.iterdir()] == ["output.txt"]
        work.close()
    for inner in (other, other / "made"):
        assert (inner / "file").read_text() == "not of the cell"
        assert inner.stat().st_mode & 0o777 == 0o755


def test_artefacts_that_cannot_be_kept_are_named_in_order(work):
    for name in ("record.json", "output.txt", "b\x07c"):
        (work.made / name).write_text("forged")
    (work.made / "link").symlink_to(work.output)
    os.mkfifo(work.made / "pipe")
    assert kept_by(work) == (
        WHOLE,
        [
            "left an artefact whose name, b\\x07c, is not text",
            "left link, which is neither a file nor a folder",
            "left a output.txt, a name reserved for the harness",
            "left pipe, which is neither a file nor a folder",
            "left a record.json, a name reserved for the harness",
        ],
    )


def test_a_report_with_other_lines_is_damaged(work):
    for line in ("[1]\n", "no json\n", "3\n"):
        work.report.write_text('{"a": 1}\n' + line + '{"b": 2}\n')
        assert work.reported() == ({"a": 1, "b": 2}, True)


def test_a_new_folder_replaces_what_is_there(tmp_path):
    (tmp_path / "work").write_text("a file")
    first = WorkFolder(tmp_path / "work")
    (first.path / "old").touch()
    second = WorkFolder(tmp_path / "work")
    assert sorted(path.name for path in second.path.iterdir()) == ["made", "output.txt", "report.jsonl"]
    for one in (first, second):
        one.close()


def test_links_are_deleted_and_not_followed(tmp_path):
    (tmp_path / "target").mkdir()
    (tmp_path / "target" / "file").touch()
    link = tmp_path / "link"
    link.symlink_to("target")
    discard(link)
    assert not link.is_symlink()
    inner = tmp_path / "folder" / "inner"
    inner.mkdir(parents=True)
    (inner / "link").symlink_to(tmp_path / "target")
    inner.chmod(0)
    discard(tmp_path / "folder")
    discard(tmp_path / "absent")
    discard(tmp_path / "target" / "file" / "below a file")
    assert [path.name for path in Path(tmp_path).iterdir()] == ["target"]
    assert (tmp_path / "target" / "file").exists()


def test_a_closed_folder_leaves_no_descriptor_open(tmp_path):
    def open_below():
        return sum(str(tmp_path) in os.path.realpath(f"/proc/self/fd/{one}") for one in os.listdir("/proc/self/fd"))

    work = WorkFolder(tmp_path / "work")
    assert open_below() == 4
    work.close()
    assert open_below() == 0
