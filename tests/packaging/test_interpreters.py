"""The versions of Python that the metadata names are those that `tests.packaging.interpreters` checks."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet

from tests.packaging import interpreters
from tests.packaging.interpreters import checked_versions, interpreter, main, parsed

RUNNING = "{}.{}".format(*sys.version_info)


def test_the_metadata_names_versions_from_the_lowest_allowed_one():
    text = (interpreters.ROOT / "pyproject.toml").read_text()
    allowed = SpecifierSet(text.partition('requires-python = "')[2].partition('"')[0])
    versions = checked_versions()
    assert versions[0] == "3.11"
    assert all(version in allowed for version in versions)
    assert "3.10" not in allowed
    assert parsed([]).versions == versions
    assert parsed(["3.12"]).versions == ["3.12"]


def test_the_running_interpreter_is_found():
    assert interpreter(RUNNING) == Path(sys.executable)


def test_an_interpreter_of_pyenv_is_found_and_a_shim_without_its_version_is_not(monkeypatch, tmp_path):
    for folder, code in {"versions/9.9.1/bin": "echo 9.9", "shims": "exit 127"}.items():
        program = tmp_path / folder / "python9.9"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\n{code}\n")
        program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path / "shims"))
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path / "elsewhere"))
    assert interpreter("9.9") is None
    monkeypatch.setenv("PYENV_ROOT", str(tmp_path))
    assert interpreter("9.9") == tmp_path / "versions" / "9.9.1" / "bin" / "python9.9"


def test_a_version_without_an_interpreter_is_skipped_with_that_reason(monkeypatch, capsys):
    checked = []
    monkeypatch.setattr(interpreters, "build", lambda folder: {"wheel": folder / "a.whl"})
    monkeypatch.setattr(interpreters, "check", lambda python, distribution, folder, tests: (
        folder.mkdir(), checked.append((python, distribution.name, tests))
    ))  # fmt: skip
    main([RUNNING, "9.9"])
    main([RUNNING, "--tests"])
    assert checked == [(Path(sys.executable), "a.whl", False), (Path(sys.executable), "a.whl", True)]
    printed = capsys.readouterr().out
    assert f"Python {RUNNING}, wheel: ok" in printed
    assert "Python 9.9: skipped: this machine has no interpreter of this version" in printed
    with pytest.raises(SystemExit, match="no distribution was checked"):
        main(["9.9"])


def test_a_failing_command_ends_the_check(tmp_path):
    with pytest.raises(SystemExit, match="exit status 3"):
        interpreters._run([sys.executable, "-c", "raise SystemExit(3)"], cwd=tmp_path)


def test_the_page_of_the_installation_names_the_checked_versions():
    page = (interpreters.ROOT / "docs" / "install.md").read_text()
    first, *others, last = checked_versions()
    assert f"it is tested with {', '.join([first, *others])} and {last}." in page
