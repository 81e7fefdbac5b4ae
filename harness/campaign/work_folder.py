"""The folder in which a cell runs. Its engine may damage it without affecting the cell's record."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
from pathlib import Path
from typing import Any, BinaryIO

from harness.campaign.child_report import REPORT_FILE, parse_report
from harness.records import RECORD_FILE

OUTPUT_FILE = "output.txt"
_OWN_FILES = (RECORD_FILE, OUTPUT_FILE)


class WorkFolder:
    """A new folder at ``path``, replacing anything there.

    ``made`` receives the cell's artefacts, ``request`` describes the run, ``report`` and ``output`` receive its fields
    and its printed output. The last two stay readable here if the engine removes or replaces them. Raises OSError if
    the folder cannot be written.
    """

    def __init__(self, path: Path) -> None:
        discard(path)
        self.path = path
        self.request, self.report, self.output = path / "request.json", path / REPORT_FILE, path / OUTPUT_FILE
        self.made, self.aside = path / "made", path / "aside"
        self.made.mkdir(parents=True)
        # While they are open, the file system gives their numbers to no other file, such as a link in their place.
        self._folders = {
            folder: os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC) for folder in (self.path, self.made)
        }
        self._report, self._output = self.report.open("xb+"), self.output.open("xb+")

    def reported(self) -> tuple[dict[str, Any], bool]:
        """Return the fields that the cell has written, and whether its report contains anything else."""
        self._report.seek(0)
        return parse_report(self._report)

    def without_request(self) -> bool:
        """Return whether the request has been deleted and the folder has not."""
        return self._intact(self.path) and not self.request.exists()

    def printed(self, most_bytes: int) -> str:
        """Return the end of the cell's printed output."""
        self._output.seek(max(0, os.fstat(self._output.fileno()).st_size - most_bytes))
        return self._output.read().decode("utf-8", errors="replace")

    def collect(self) -> tuple[Path, list[str]]:
        """Return a new folder with the artefacts and the output, and a list of damage by the engine, for the reason.

        Call this once, after the last process of the cell has ended. Artefacts are files and folders, not links.
        """
        damage = []
        if not self._intact(self.path):
            damage.append("removed or replaced its work folder")
            discard(self.path)
        self.path.mkdir(exist_ok=True)
        self.path.chmod(0o700)
        kept = self.path / "kept"
        for unexpected in (kept, self.aside):
            discard(unexpected)
        kept.mkdir()
        if self._intact(self.made):
            damage += _move_artefacts(self.made, kept)
        elif not damage:
            damage.append("removed or replaced the folder of its artefacts")
        self._keep_output(kept / OUTPUT_FILE)
        return kept, damage

    def close(self) -> None:
        """Delete the folder."""
        self._report.close()
        self._output.close()
        for handle in self._folders.values():
            os.close(handle)
        self._folders.clear()
        discard(self.path)

    def _intact(self, folder: Path) -> bool:
        with contextlib.suppress(OSError):
            return os.path.samestat(os.fstat(self._folders[folder]), os.lstat(folder))
        return False

    def _keep_output(self, place: Path) -> None:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            if os.path.samestat(os.fstat(self._output.fileno()), os.lstat(self.output)):
                os.rename(self.output, place)
                return
        with place.open("xb") as file:
            _copy(self._output, file)


def discard(path: Path) -> None:
    """Delete ``path``, a folder with all its contents; a link is deleted and not followed.

    Raises OSError if something cannot be deleted.
    """
    try:
        kind = os.lstat(path).st_mode
    except (FileNotFoundError, NotADirectoryError):
        return
    if not stat.S_ISDIR(kind):
        path.unlink()
        return
    for folder, _, _ in os.walk(path):  # top-down: each folder is listed after it has been made readable
        os.chmod(folder, 0o700)
    shutil.rmtree(path)


def _move_artefacts(made: Path, kept: Path) -> list[str]:
    """Move the artefacts of a cell; return descriptions of those that cannot be kept."""
    damage = []
    made.chmod(0o700)
    with os.scandir(made) as entries:
        for entry in sorted(entries, key=lambda one: one.name):
            name = ascii(entry.name)[1:-1]
            if entry.name in _OWN_FILES:
                damage.append(f"left a {name}, a name reserved for the harness")
            elif name != entry.name and not entry.name.isprintable():
                damage.append(f"left an artefact whose name, {name}, is not text")
            elif entry.is_file(follow_symlinks=False) or entry.is_dir(follow_symlinks=False):
                os.rename(entry.path, kept / entry.name)
            else:
                damage.append(f"left {name}, which is neither a file nor a folder")
    return damage


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    source.seek(0)
    shutil.copyfileobj(source, target)
