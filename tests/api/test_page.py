"""The code blocks of docs/python-api.md run in order, and its first one is five lines."""

from __future__ import annotations

import linecache
import re

import pytest

import onyx_harness
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "python-api.md").read_text()
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


def test_pagerank_of_a_networkx_graph_is_a_dictionary_in_five_lines():
    first = re.search(r"<!-- example: pagerank -->\n```python\n(.*?)```", PAGE, re.DOTALL)[1]
    assert first == BLOCKS[0]
    assert len(first.strip().splitlines()) == 5
    namespace: dict = {}
    exec(first, namespace)
    assert set(namespace["ranks"]) == set(namespace["graph"])
    assert sum(namespace["ranks"].values()) == pytest.approx(1, abs=1e-4)


@pytest.mark.slow
def test_the_blocks_of_the_page_run_in_order(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    monkeypatch.chdir(tmp_path)
    namespace: dict = {"__name__": "__main__"}  # as in a notebook
    assert len(BLOCKS) == 12
    for number, source in enumerate(BLOCKS):
        file = f"<block {number}>"
        linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
        exec(compile(source, file, "exec"), namespace)
    assert "<svg" in (tmp_path / "active.svg").read_text()


def test_the_page_names_every_error():
    named = re.findall(r"^\| (`.*?`) \|", PAGE.partition("## Errors")[2], re.MULTILINE)
    errors = {name for names in named for name in re.findall(r"\w+", names)} - {"ImportError", "MemoryError"}
    offered = {name for name in onyx_harness.__all__ if isinstance(getattr(onyx_harness, name), type)}
    assert errors == {name for name in offered if issubclass(getattr(onyx_harness, name), Exception)}
