"""Progress in a notebook is one display that replaces itself; elsewhere it is lines."""

from __future__ import annotations

import os
import subprocess
import sys
import types

import pytest

from onyx_harness import sweep
from onyx_harness.comparing import _follow
from onyx_harness.progress import in_notebook

LINES = [
    "sweep s123: 4 cells, 1 on record (rerun=all measures them again)",
    "a note that is not progress",
    "begins: grid · pagerank · k=1 · scipy",
    "begins: grid · pagerank · k=1 · <b>odd</b>",
    "[1/3] grid · pagerank · k=1 · scipy  ok 1.2 ms, about 8 s left",
    "[2/3] grid · pagerank · k=1 · <b>odd</b>  engine_error, about 4 s left",
    "begins: grid · pagerank · k=auto · onyx · round 2",
    "[3/3] grid · pagerank · k=1 · onyx · round 2  ok 3 ms",
]


class Notebook:
    """The used part of IPython: a shell, and the successive states of each output."""

    def __init__(self):
        self.outputs = []
        self.shell = types.SimpleNamespace(kernel=object())

    def display(self, shown, *, display_id):
        assert display_id is True
        states = [(repr(shown), shown._repr_html_())]
        self.outputs.append(states)
        return types.SimpleNamespace(update=lambda new: states.append((repr(new), new._repr_html_())))


@pytest.fixture
def notebook(monkeypatch):
    made = Notebook()
    ipython, displays = types.ModuleType("IPython"), types.ModuleType("IPython.display")
    ipython.get_ipython = lambda: made.shell
    displays.display = made.display
    monkeypatch.setitem(sys.modules, "IPython", ipython)
    monkeypatch.setitem(sys.modules, "IPython.display", displays)
    return made


def followed(lines, *, progress=True, status=0):
    source = f"import sys; print({chr(10).join(lines)!r}, flush=True); sys.exit({status})"
    return _follow([sys.executable, "-c", source], os.environ, subprocess.DEVNULL, progress=progress)


def test_a_notebook_has_one_output_that_is_replaced(notebook, capsys):
    assert followed(LINES) == 0
    (states,) = notebook.outputs
    texts = [text.splitlines() for text, _ in states]
    odd = "  grid · pagerank · k=1 · <b>odd</b>: engine_error"
    assert texts == [
        ["0 of 0 cells; starting"],
        ["0 of 3 cells, 1 on record; between two cells"],
        ["0 of 3 cells, 1 on record; running grid · pagerank · k=1 · scipy"],
        ["0 of 3 cells, 1 on record; running grid · pagerank · k=1 · scipy, grid · pagerank · k=1 · <b>odd</b>"],
        ["1 of 3 cells, 1 on record, 1 ok; running grid · pagerank · k=1 · <b>odd</b>, about 8 s left"],
        ["2 of 3 cells, 1 on record, 1 ok, 1 engine_error; between two cells, about 4 s left", odd],
        [
            "2 of 3 cells, 1 on record, 1 ok, 1 engine_error; running grid · pagerank · k=auto · onyx · round 2, "
            "about 4 s left",
            odd,
        ],
        ["3 of 3 cells, 1 on record, 2 ok, 1 engine_error; between two cells", odd],
        ["3 of 3 cells, 1 on record, 2 ok, 1 engine_error; finished", odd],
    ]
    html = states[-1][1]
    assert html.startswith('<div><progress value="3" max="3"></progress> 3 of 3 cells')
    assert "&lt;b&gt;odd&lt;/b&gt;: engine_error</li>" in html
    assert "<b>" not in html
    assert capsys.readouterr().err == ""


def test_an_interrupted_comparison_says_so(notebook):
    assert followed(LINES[:5], status=130) == 130
    assert notebook.outputs[0][-1][0] == "1 of 3 cells, 1 on record, 1 ok; interrupted; the same call continues"


def test_lines_elsewhere(notebook, capsys):
    notebook.shell = types.SimpleNamespace()  # IPython on a terminal has no kernel
    assert not in_notebook()
    followed(LINES)
    assert notebook.outputs == []
    assert capsys.readouterr().err.splitlines() == [line for line in LINES if line[:1] in "s["]
    notebook.shell = None
    followed(LINES)
    assert capsys.readouterr().err.splitlines() == [line for line in LINES if line[:1] in "s["]


def test_progress_can_be_turned_off(notebook, capsys):
    followed(LINES, progress=False)
    assert notebook.outputs == []
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_the_command_tells_a_notebook_what_runs(notebook, tmp_path):
    quick = ("measure.budget_s=0.05", "measure.warmup_s=0", "measure.accuracy=false")
    cell = ("engine=scipy", "algorithm=pagerank", "graph=grid", "graph.rows=8", "features=1")
    sweep([*cell, *quick], folder=tmp_path)
    (states,) = notebook.outputs
    texts = [text for text, _ in states]
    assert any(text.startswith("0 of 1 cells; running grid (rows=8) · pagerank · k=1 · scipy") for text in texts), texts
    assert texts[-1] == "1 of 1 cells, 1 ok; finished"
