"""The report of a cell's process, and its output in a file of bounded size."""

from __future__ import annotations

import contextlib
import errno
import io
import json
import os
from types import SimpleNamespace

import pytest

from harness.cache import CacheError
from harness.campaign import child_report, output
from harness.campaign.child_report import (
    ChildReport,
    ReportDamaged,
    StoreError,
    keeping,
    parse_report,
    read_report,
    waited_s,
)
from harness.campaign.output import OutputFile
from harness.records.outcome import Outcome


class Failing(io.BytesIO):
    def __init__(self, error=None, written=None):
        super().__init__()
        self.error, self.written = error, written

    def write(self, data):
        if self.error is not None:
            raise self.error
        return self.written if self.written is not None else super().write(data)


def told(file):
    return [json.loads(line) for line in file.getvalue().splitlines()]


def test_a_report_has_a_line_for_every_message(monkeypatch):
    monkeypatch.setattr(child_report.time, "monotonic", lambda: 5.0)
    file = io.BytesIO()
    report = ChildReport(file)
    report.waited(0.5)
    report.stage("upload")
    report.waits("process 7")
    report.waited(2.0)
    report.end(Outcome.WRONG, "off by 3")
    assert told(file) == [
        {"stage": "start", "wait_began": None, "waited": 0.5},
        {"stage": "upload"},
        {"stage": "wait", "wait_began": 5.0, "behind": "process 7"},
        {"stage": "upload", "wait_began": None, "waited": 2.0},
        {"outcome": "wrong", "reason": "off by 3"},
    ]
    file.seek(0)
    assert parse_report(file) == (
        {
            "stage": "upload",
            "wait_began": None,
            "waited": 2.0,
            "behind": "process 7",
            "outcome": "wrong",
            "reason": "off by 3",
        },
        False,
    )


def test_texts_of_a_report_are_short_and_printable():
    file = io.BytesIO()
    ChildReport(file).end(Outcome.CRASHED, "\x1b" + "x" * 5000)
    [message] = told(file)
    assert len(message["reason"]) == 2000
    assert message["reason"].startswith("\N{REPLACEMENT CHARACTER}xxx")
    assert message["reason"].endswith("characters left out]")


@pytest.mark.parametrize(
    ("file", "error", "message"),
    [
        (Failing(OSError(errno.ENOSPC, "full")), StoreError, "full"),
        (Failing(OSError(errno.EDQUOT, "quota")), StoreError, "quota"),
        (Failing(OSError(errno.EFBIG, "too large")), StoreError, "too large"),
        (Failing(OSError(errno.EROFS, "read-only")), StoreError, "read-only"),
        (Failing(OSError(errno.EBADF, "closed")), ReportDamaged, "has closed a file that it did not open"),
        (Failing(written=3), StoreError, "only 3 of 14 bytes were written: the disk is full"),
    ],
)
def test_a_report_that_cannot_be_written(file, error, message):
    with pytest.raises(error, match=message):
        ChildReport(file).stage("")


def test_a_full_disk_is_recorded_and_other_errors_pass():
    for raised, field in ((OSError(errno.ENOSPC, "full"), "store_error"), (CacheError("cache: full"), "cache_error")):
        file = io.BytesIO()
        with pytest.raises(StoreError) as met, keeping(ChildReport(file)):
            raise raised
        assert told(file) == [{field: str(raised)}]
        assert str(met.value) == str(raised)
    file = io.BytesIO()
    with pytest.raises(FileNotFoundError), keeping(ChildReport(file)):
        raise FileNotFoundError(errno.ENOENT, "absent")
    assert told(file) == []


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [
        ({}, 0.0),
        ({"waited": 2.5}, 2.5),
        ({"wait_began": 3.0}, 7.0),
        ({"wait_began": 3.0, "waited": 2.5}, 9.5),
        ({"wait_began": None, "waited": 1.0}, 1.0),
        ({"wait_began": "now", "waited": "long"}, 0.0),
    ],
)
def test_how_long_a_run_has_waited(monkeypatch, fields, seconds):
    monkeypatch.setattr(child_report.time, "monotonic", lambda: 10.0)
    assert waited_s(fields) == seconds


def test_reports_are_read_from_regular_files_only(tmp_path):
    path = tmp_path / "report.jsonl"
    assert read_report(path) == {}
    path.write_text('{"a": 1}\nnonsense\n{"b": 2}\n{"c"')
    assert read_report(path) == {"a": 1, "b": 2}
    (tmp_path / "link").symlink_to(path)
    os.mkfifo(tmp_path / "pipe")
    assert read_report(tmp_path / "link") == read_report(tmp_path / "pipe") == read_report(tmp_path) == {}


@pytest.mark.parametrize(
    ("content", "damaged"),
    [
        (b"", False),
        (b'{"a": 1}\n', False),
        (b"[]\n", True),
        (b"x\n", True),
        (b"\xff\n", True),
        (b"x", False),
        (b"[" * 9000 + b"\n", True),
    ],
)
def test_malformed_lines_are_damage(content, damaged):
    assert parse_report(io.BytesIO(content))[1] is damaged


def test_a_report_may_not_be_endless(monkeypatch):
    monkeypatch.setattr(child_report, "_MOST_BYTES", 9)
    assert parse_report(io.BytesIO(b'{"a": 1}\n')) == ({"a": 1}, False)
    assert parse_report(io.BytesIO(b'{"a": 12}\n')) == ({}, True)


@pytest.mark.parametrize(
    ("chunks", "text"),
    [
        ([b"abc"], b"abc"),
        ([], b""),
        ([b"0123456789"], b"0123456789"),
        ([b"0123456789", b"ab"], b"0123456789ab"),
        ([b"0123456789", b"abcdefghij"], b"0123456789abcdefghij"),
        ([b"0123456789", b"abcde", b"fghij", b"XYZ"], b"0123456789abcdefghijXYZ"),
        ([b"0123456789", b"abcde", b"fghij", b"UVXYZ"], b"0123456789abcdefghijUVXYZ"),
        ([b"0123456789", b"abcde", b"fghij", b"UVXYZ", b"!"], b"0123456789\n[... 5 bytes left out ...]\nfghijUVXYZ!"),
        (
            [b"0123456789", b"abcde", b"fghij", b"UVXYZ", b"klmno", b"p"],
            b"0123456789\n[... 10 bytes left out ...]\nUVXYZklmnop",
        ),
        ([b"01234", b"56789ab", b"cdefghijklmnop", b"q"], b"0123456789\n[... 2 bytes left out ...]\ncdefghijklmnopq"),
    ],
)
def test_output_keeps_its_beginning_and_its_end(tmp_path, monkeypatch, chunks, text):
    monkeypatch.setattr(output, "_KEPT_BYTES", 10)
    file = OutputFile(tmp_path / "output.txt")
    with file._file, contextlib.ExitStack() as ends:
        ends.callback(os.close, file.writer)
        ends.callback(os.close, file._source)
        for chunk in chunks:
            file._take(chunk)
        if file._left_out:
            file._write(f"\n[... {file._left_out:,} bytes left out ...]\n".encode())
        file._write(b"".join(file._end))
    assert (tmp_path / "output.txt").read_bytes() == text


def test_output_is_copied_until_its_writers_are_gone(tmp_path):
    file = OutputFile(tmp_path / "output.txt")
    file.start()
    os.write(file.writer, b"first ")
    os.write(file.writer, b"second")
    os.close(file.writer)
    file.finish()
    assert (tmp_path / "output.txt").read_text() == "first second"


def test_output_does_not_wait_for_writers_that_outlive_the_process(tmp_path, monkeypatch):
    monkeypatch.setattr(output, "_LOOK_S", 0.01)
    file = OutputFile(tmp_path / "output.txt")
    file.start()
    os.write(file.writer, b"said")
    file.finish()
    assert (tmp_path / "output.txt").read_text() == "said"
    os.close(file.writer)


def test_output_that_cannot_be_written_is_an_error(tmp_path):
    file = OutputFile(tmp_path / "output.txt")
    file._file.close()
    file._file = SimpleNamespace(write=Failing(OSError(errno.ENOSPC, "full")).write, __enter__=None, __exit__=None)
    file._write(b"x")
    file._write(b"y")
    file._over.set()
    file.join = lambda: None
    with pytest.raises(OSError, match="full"):
        file.finish()
    os.close(file.writer)
    os.close(file._source)
