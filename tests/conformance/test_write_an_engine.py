"""Follow the page "write an engine in ten minutes" in an environment of its own, without a network."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.processes import HANGS_S

PAGE = ROOT / "docs" / "write-an-engine.md"
BLOCK = re.compile(r"<!-- (file: (?P<file>\S+)|run|shows) -->\n```\w+\n(?P<text>.*?)```", re.DOTALL)
COMMAND = "#!{python}\nimport sys\nfrom harness.__main__ import main\nsys.exit(main())\n"


@pytest.fixture
def environment(tmp_path) -> dict[str, str]:
    """Return an environment with the packages of this one, into which others can be installed. Variables tell pip
    what the page leaves to the network."""
    home = tmp_path / "venv"
    venv.create(home, with_pip=False)
    [site] = home.glob("lib/python*/site-packages")
    (site / "libraries.pth").write_text(sysconfig.get_path("purelib"))
    for name, text in {"onyx-harness": COMMAND, "pip": COMMAND.replace("harness.__main__", "pip")}.items():
        (home / "bin" / name).write_text(text.format(python=home / "bin" / "python"))
        (home / "bin" / name).chmod(0o755)
    offline = {"PIP_NO_INDEX": "1", "PIP_NO_DEPS": "1", "PIP_NO_BUILD_ISOLATION": "0", "PIP_QUIET": "1"}
    path = os.pathsep.join([str(home / "bin"), os.environ["PATH"]])
    return {**os.environ, **offline, "PATH": path, "PYTHONPATH": str(ROOT), "COLUMNS": "200"}


def in_words(text: str) -> str:
    """Return the text without lines of tables, with each run of blanks as one."""
    return " ".join(re.sub("[│┃]", " ", text).split())


@pytest.mark.slow
def test_the_page_works_as_it_is_written(environment, tmp_path):
    folder = tmp_path / "gather"
    folder.mkdir()
    output, seen = "", []
    for block in BLOCK.finditer(PAGE.read_text()):
        kind, text = block[1].partition(":")[0], block["text"]
        seen.append(kind)
        if kind == "file":
            (folder / block["file"]).write_text(text)
        elif kind == "run":
            finished = subprocess.run(
                ["bash", "-e", "-c", text],
                cwd=folder, env=environment, capture_output=True, text=True, check=False, timeout=HANGS_S,
            )  # fmt: skip
            output = finished.stdout + finished.stderr
            assert finished.returncode == 0, f"{text}\n{output}"
        else:
            for line in text.splitlines():
                assert in_words(line) in in_words(output), f"{line!r} is not in\n{output}"
    assert seen == ["file", "file", "file", "run", "run", "shows", "run", "shows", "run", "shows"]
    assert (folder / "results").is_dir()
    installed = Path(sys.prefix)
    assert not list(installed.glob("lib/python*/site-packages/*gather*")), "it was installed in the running environment"


def test_every_block_of_the_page_is_followed():
    marked = len(BLOCK.findall(PAGE.read_text()))
    assert PAGE.read_text().count("```") == 2 * marked
