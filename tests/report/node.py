"""Run parts of a page's script in Node.js, without a browser."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from harness.report import page
from tests.processes import HANGS_S

SCRIPTS = Path(page.__file__).with_name("script")
WITHOUT_NODE = "Node.js is not installed (apt-get install nodejs)"


def evaluated(names: Sequence[str], expressions: Sequence[str], *, before: str = "") -> list[Any]:
    """Return the values of JavaScript expressions, as JSON, after some files of the folder script were run.

    ``before``: code that runs before the files, which provides what they expect of a browser. Skip the test, with the
    reason, if there is no Node.js.
    """
    found = shutil.which("node")
    if found is None:
        pytest.skip(WITHOUT_NODE)
    files = [(SCRIPTS / f"{name}.js").read_text(encoding="utf-8") for name in names]
    values = ",\n".join(f"({one})" for one in expressions)
    code = "\n".join(['"use strict";', before, *files, f"console.log(JSON.stringify([{values}]));"])
    done = subprocess.run([found, "-"], input=code, capture_output=True, text=True, timeout=HANGS_S, check=False)
    assert done.returncode == 0, done.stderr
    return list(json.loads(done.stdout))
