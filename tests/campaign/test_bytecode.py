"""Compiled modules of cells: where they are, and that damaged ones end nothing."""

from __future__ import annotations

import importlib
import os
import sys
import threading
from contextlib import nullcontext
from importlib.machinery import SourceFileLoader

import pytest

from harness.campaign import spawn
from harness.campaign.bytecode import bytecode_environment, replace_damaged_bytecode
from harness.campaign.errors import CampaignError

ENDED = "no process can be started for a cell: the server has ended"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Return the folder for compiled modules of a user who forbids Python to store them beside the sources."""
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONDONTWRITEBYTECODE", "1")
    monkeypatch.delenv("PYTHONPYCACHEPREFIX", raising=False)
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "bytecode"


def test_they_are_in_the_cache_where_they_may_not_be_beside_their_sources(run_module, modules, folder):
    """Otherwise every cell compiles all of Numba and SciPy again."""
    (modules / "imported.py").write_text("")
    ending, _ = run_module("import imported")
    assert ending.status == 0
    assert list(folder.rglob("imported.*.pyc"))
    assert not list(modules.rglob("imported.*.pyc"))


def test_they_stay_where_the_user_keeps_them(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    assert bytecode_environment() == {}
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    monkeypatch.setenv("PYTHONPYCACHEPREFIX", "/elsewhere")
    assert bytecode_environment() == {}


@pytest.fixture
def imported(tmp_path, folder, monkeypatch):
    """Import a module from ``folder``, whose imports replace damaged files; return the function and the stored file."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    monkeypatch.setattr(sys, "pycache_prefix", str(folder))
    monkeypatch.setattr(SourceFileLoader, "get_code", SourceFileLoader.get_code)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "just_imported.py").write_text("value = 7")

    def load():
        monkeypatch.delitem(sys.modules, "just_imported", raising=False)
        importlib.invalidate_caches()
        return importlib.import_module("just_imported").value

    assert load() == 7
    (stored,) = folder.rglob("just_imported.*.pyc")
    return load, stored


@pytest.mark.parametrize("end", [b"", b"\xff not marshal", b"N"], ids=["truncated", "garbage", "None"])
def test_a_damaged_one_is_compiled_again(imported, end):
    """``N`` is None as marshal stores it, which is no code."""
    load, stored = imported
    whole = stored.read_bytes()
    replace_damaged_bytecode()
    stored.write_bytes(whole[:16] + end)
    assert load() == 7
    assert stored.read_bytes() == whole


def test_damaged_ones_elsewhere_are_left_to_the_user(imported, monkeypatch, tmp_path):
    load, stored = imported
    replace_damaged_bytecode()
    stored.write_bytes(stored.read_bytes()[:16])
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path / "another"))
    with pytest.raises(EOFError):
        load()
    assert stored.stat().st_size == 16


def test_an_import_that_fails_otherwise_fails(imported, tmp_path):
    load, stored = imported
    replace_damaged_bytecode()
    stored.unlink()
    (tmp_path / "just_imported.py").write_text("raise ValueError('its own')")
    with pytest.raises(ValueError, match="its own"):
        load()


class Ending:
    """In place of a server: ends at the first requests."""

    def __init__(self, times):
        self.left = times

    def run(self, module, arguments, output):
        self.left -= 1
        if self.left >= 0:
            raise ConnectionResetError("the server has ended")
        return os.getpid()

    def close(self):
        pass


@pytest.mark.parametrize(("ends", "fails"), [(0, False), (1, False), (2, True)])
def test_a_server_that_ends_is_started_again_without_them(folder, monkeypatch, capsys, ends, fails):
    folder.mkdir(parents=True)
    server = Ending(ends)
    monkeypatch.setattr(spawn, "_local", threading.local())  # of a server that runs
    monkeypatch.setattr(spawn, "_server_for", lambda _: server)
    with pytest.raises(CampaignError, match=ENDED) if fails else nullcontext():
        os.close(spawn.Spawned("module", [], 1, bytecode_environment())._handle)
    assert folder.exists() == (ends == 0)
    assert ("trying again" in capsys.readouterr().err) == (ends > 0)


def test_a_server_that_ends_with_compiled_modules_of_the_user_is_an_error(folder, monkeypatch):
    folder.mkdir(parents=True)
    monkeypatch.setattr(spawn, "_local", threading.local())
    monkeypatch.setattr(spawn, "_server_for", lambda _: Ending(1))
    with pytest.raises(CampaignError, match=ENDED):
        spawn.Spawned("module", [], 1, {"PYTHONPYCACHEPREFIX": "/elsewhere"})
    assert folder.exists()


@pytest.mark.full
def test_an_interpreter_that_cannot_start_is_started_without_them(run_module, folder, capfd):
    assert run_module("")[0].status == 0
    stored = list(folder.rglob("*.pyc"))
    for path in stored:
        path.write_bytes(path.read_bytes()[:16])
    ending, output = run_module("print('started')", ANOTHER_ENVIRONMENT="1")  # by another server
    assert (ending.status, output) == (0, "started")
    said = f"the process that starts cells has ended; trying again without the compiled modules in {folder}"
    assert f"onyx-harness: {said}\n" in capfd.readouterr().err
    assert any(path.exists() and path.stat().st_size > 16 for path in stored)
