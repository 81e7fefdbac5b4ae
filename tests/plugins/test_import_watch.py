"""Exits of the process during an import."""

from __future__ import annotations

import subprocess
import sys

import pytest

START = """
import os, sys, threading
from harness.import_watch import ProcessExit, import_watch
with import_watch("plugin 'x'", "leave it out"):
    pass
before = os._exit
"""
SAID = "onyx-harness: plugin 'x' ends the process: os._exit(5); leave it out\n"
CASES = {
    "the import raises": (
        """
try:
    with import_watch("plugin 'x'"):
        os._exit(5)
except ProcessExit as error:
    print(error, os._exit is before)
""",
        (0, "os._exit(5) would end the process True\n", ""),
    ),
    "another thread": (
        """
with import_watch("plugin 'x'", "leave it out"):
    thread = threading.Thread(target=os._exit, args=(5,))
    thread.start()
    thread.join()
""",
        (5, "", SAID),
    ),
    "a forked process": (
        """
with import_watch("plugin 'x'"):
    child = os.fork()
    if not child:
        os._exit(6)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
""",
        (0, "6\n", ""),
    ),
    "after the import": (
        """
with import_watch("plugin 'x'"):
    from os import _exit as kept
kept(7)
""",
        (7, "", ""),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_an_exit(case):
    source, expected = CASES[case]
    run = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", START + source]  # of a fork beside a thread
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == expected
