"""Download published files once; check them against a known checksum or that of the first download."""

from __future__ import annotations

import json
import logging
import tarfile
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harness.atomic_write import write_whole
from harness.cache import CacheError, cache_folder, filling_cache
from harness.graph.errors import GraphError

MOST_MEMBERS = 1000
CHUNK = 2**20


def fetch(url: str, file_name: str, sha256: str | None = None) -> tuple[Path, str]:
    """Return the path and the SHA-256 of the file at `url`, which is cached as `file_name`.

    A cached file is trusted if its size and modification time are those recorded, and hashed again otherwise.
    Raises GraphError if the file cannot be fetched or has another checksum, CacheError if it cannot be recorded.
    """
    import pooch
    import requests

    folder = cache_folder() / "downloads"
    path, record_path = folder / file_name, folder / f"{file_name}.json"
    record = json.loads(record_path.read_text()) if record_path.is_file() else {}
    expected = sha256 or record.get("sha256")
    if path.is_file() and record.get("stamp") == _stamp(path) and record["sha256"] == expected:
        return path, record["sha256"]
    pooch.get_logger().setLevel(logging.WARNING)
    try:
        with _progress(file_name) as progress:
            downloader = pooch.HTTPDownloader(progressbar=progress, timeout=60)
            pooch.retrieve(
                url, known_hash=expected and f"sha256:{expected}", fname=file_name, path=folder, downloader=downloader
            )
    except ValueError as error:
        raise GraphError(
            f"{url}: the checksum of the file fetched is not {expected}; "
            f"if a new version was published, delete {record_path} and fetch it again"
        ) from error
    except (requests.RequestException, OSError) as error:
        raise GraphError(
            f"{url}: it cannot be fetched ({error}); try again, or fetch it by hand and save it as {path}"
        ) from error
    digest = pooch.file_hash(str(path), alg="sha256")
    with filling_cache():
        write_whole(record_path, json.dumps({"url": url, "sha256": digest, "stamp": _stamp(path)}, indent=1))
    return path, digest


@contextmanager
def extracted(archive: Path, member_name: str, max_expansion: float = 100.0) -> Iterator[Path]:
    """Extract the regular file whose last path component is `member_name` from a .tar.gz; delete it on exit.

    Paths of the archive are not used, so none can lead outside the temporary folder. Raises GraphError if the file is
    missing or the archive is damaged. Raises it also if the archive unpacks to more than `max_expansion` times its size
    (1 MiB is always allowed) or has more than MOST_MEMBERS files. Raises CacheError if there is no space for the file.
    """
    limit = max(2**20, int(archive.stat().st_size * max_expansion))
    with tempfile.TemporaryDirectory(prefix="extracting-", dir=archive.parent) as folder:
        target = Path(folder) / Path(member_name).name
        try:
            with tarfile.open(archive, "r:gz") as tar:
                _copy_member(tar, target, archive, limit)
        except CacheError:
            raise
        except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
            raise GraphError.in_file(
                archive, f"the archive is damaged ({error})", "delete it and fetch it again"
            ) from error
        yield target


def _copy_member(tar: tarfile.TarFile, target: Path, archive: Path, limit: int) -> None:
    total = 0
    for number, member in enumerate(tar):
        total += member.size
        if total > limit or number >= MOST_MEMBERS:
            raise GraphError.in_file(
                archive, f"it unpacks to more than {limit} bytes or {MOST_MEMBERS} files", "do not trust it"
            )
        if member.isreg() and member.name.replace("\\", "/").split("/")[-1] == target.name:
            source = tar.extractfile(member)
            assert source is not None
            with source:
                target.touch()
                while chunk := source.read(CHUNK):
                    with filling_cache(), target.open("ab") as file:
                        file.write(chunk)
            return
    raise GraphError.in_file(archive, f"it contains no file {target.name}", "check that it is the right archive")


def _stamp(path: Path) -> list[int]:
    status = path.stat()
    return [status.st_size, status.st_mtime_ns]


class _Progress:
    """Pooch's progress-bar interface, displayed by Rich."""

    def __init__(self, bars: object, description: str) -> None:
        from rich.progress import Progress

        assert isinstance(bars, Progress)
        self.bars = bars
        self.task = bars.add_task(description)
        self._total = 0.0

    @property
    def total(self) -> float:
        return self._total

    @total.setter
    def total(self, size: float) -> None:
        self._total = size
        self.bars.update(self.task, total=size)

    def update(self, count: float) -> None:
        self.bars.update(self.task, advance=count)

    def reset(self) -> None:
        self.bars.reset(self.task)

    def close(self) -> None:
        """Do nothing: the bars close with their context."""


@contextmanager
def _progress(description: str) -> Iterator[_Progress]:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True), transient=True) as bars:
        yield _Progress(bars, description)
