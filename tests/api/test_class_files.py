"""Classes of a notebook in isolated processes: what they use goes with them, and no other user can exchange them."""

from __future__ import annotations

import dataclasses
import functools
import linecache
import os
import subprocess
import sys
import textwrap
import threading

import networkx as nx
import pytest

from harness.cache import cache_folder
from onyx_harness import CampaignError, compare
from onyx_harness.class_files import importable, keep_class, kept_class
from tests.api.test_run import Spread
from tests.conftest import ROOT

QUICK = ("measure.budget_s=0.05", "measure.warmup_s=0", "measure.accuracy=false", "save=arrays")
CELL = '''
from harness.api import Algorithm, option

SCALE = 2.0

def scaled(value):
    return value * SCALE

class Walks(Algorithm):
    """Scaled number of walks."""

    name = "walks_of_a_cell"
    length: int = 1
    start: str = option("one", "the value at the beginning", values=("one", "two"))

    def build(self, p):
        p.vertex("walks", start=1.0 if self.start in {"one", "uno"} else 2.0)

        @p.over_edges(into="arriving", reduce="sum")
        def step(src):
            return src.walks

        @p.over_vertices
        def arrive(v):
            return {"walks": scaled(v.arriving)}

        p.repeat(self.length)
        p.output("walks", bound=1e-5)
'''


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path / "cache"))


def cell(source=CELL, file="<cell 1>"):
    """Return the namespace after a cell of a notebook, whose lines IPython registers."""
    namespace: dict = {"__name__": "__main__"}
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    exec(compile(source, file, "exec"), namespace)
    return namespace


def in_another_process(source, *arguments):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(source), *arguments],
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
    )


def test_another_process_loads_the_class_with_its_fields_and_what_it_uses():
    fingerprint = keep_class(cell()["Walks"])
    found = in_another_process(
        """
        import dataclasses, sys
        from harness.language import trace
        from onyx_harness.class_files import kept_class
        made = kept_class(sys.argv[1])
        missing = [field.default_factory is dataclasses.MISSING for field in dataclasses.fields(made)]
        print(made.name, made(length=3), missing, trace(made()).outputs)
        try:
            made(start="three")
        except ValueError as error:
            print(error)
        """,
        fingerprint,
    )
    assert found.stdout.splitlines() == [
        "walks_of_a_cell Walks(length=3, start='one') [True, True] ('walks',)",
        "walks_of_a_cell: start='three': give one of one, two",
    ], found.stderr


@functools.cache
def fingerprint_in_another_process():
    """Return the fingerprint of the class of ``CELL``, computed by another process."""
    program = (
        "import sys; sys.path[:0] = ['.']\nfrom tests.api.test_class_files import *\nprint(keep_class(cell()['Walks']))"
    )
    return in_another_process(program).stdout.strip()


@pytest.mark.parametrize(
    ("old", "new", "same"),
    [
        ("", "", True),
        ("\nSCALE", "\n\n\nSCALE", True),  # other lines
        ("SCALE = 2.0", "SCALE = 3.0", False),
        ("value * SCALE", "value + SCALE", False),
        ("length: int = 1", "length: int = 2", False),
        ('values=("one", "two")', 'values=("one", "two", "six")', False),
        ("src.walks", "src.walks + 1.0", False),
        ('"uno"', '"un"', False),
        ("p.repeat(self.length)", "p.repeat(1)", False),
    ],
)
@pytest.mark.short_run(rows=9)  # a row takes milliseconds
def test_the_fingerprint_is_that_of_the_code_in_every_process(old, new, same):
    assert old in CELL
    known = fingerprint_in_another_process()
    assert len(known) == 32
    assert (keep_class(cell(CELL.replace(old, new, 1), "<cell 7>")["Walks"]) == known) is same


def test_importable_classes_are_not_serialised():
    class Local(Spread):
        name = "local"

    assert importable(Spread) == "tests.api.test_run:Spread"
    assert importable(Local) == ""
    assert importable(cell()["Walks"]) == ""
    assert [field.name for field in dataclasses.fields(kept_class(keep_class(Local)))] == [
        "leak", "tolerance", "supersteps",
    ]  # fmt: skip


def test_a_value_that_cannot_be_serialised_is_named_with_its_place():
    lock = threading.Lock()

    def guarded(value):
        with lock:
            return value

    class Locked(Spread):
        name = "locked"

        def build(self, p):
            guarded(p)

    with pytest.raises(CampaignError, match=r"variable 'lock' in variable 'guarded' in Locked.build is a _thread.lock"):
        compare("scipy", Locked, "grid")
    namespace = cell(CELL.replace("2.0\n", "(n for n in 'ab')\n", 1))
    with pytest.raises(
        CampaignError,
        match=r"Walks is defined in __main__ as Walks.* global 'SCALE' in global 'scaled' in Walks.build is a "
        r"builtins.generator, which cannot be serialised .*; make that value inside a method, or move the class",
    ):
        compare("scipy", namespace["Walks"], "grid")


def test_only_files_that_the_user_alone_can_access_are_loaded():
    fingerprint = keep_class(cell()["Walks"])
    folder = cache_folder() / "classes"
    path = folder / fingerprint
    assert (folder.stat().st_mode & 0o777, path.stat().st_mode & 0o777) == (0o700, 0o600)
    for place in (folder, path):
        mode = place.stat().st_mode
        place.chmod(mode | 0o020)
        with pytest.raises(CampaignError, match=r"the mode [67]20; code is loaded only from files that only you"):
            kept_class(fingerprint)
        place.chmod(mode)
    other = path.rename(folder / "other")
    path.symlink_to(other)
    with pytest.raises(CampaignError, match="not in the cache any more"):
        kept_class(fingerprint)
    path.unlink()
    path.write_bytes(other.read_bytes()[:-1] + b"x")
    path.chmod(0o600)
    with pytest.raises(CampaignError, match="is damaged"):
        kept_class(fingerprint)
    keep_class(cell()["Walks"])
    assert kept_class(fingerprint).name == "walks_of_a_cell"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_file_of_another_user_is_not_loaded():
    fingerprint = keep_class(cell()["Walks"])
    os.chown(cache_folder() / "classes" / fingerprint, 12345, -1)
    with pytest.raises(CampaignError, match="has the owner 12345"):
        kept_class(fingerprint)


def measured(results):
    return [(record["started"], record["sources"]) for record in results]


@pytest.mark.slow
def test_engines_are_compared_on_a_class_of_a_notebook(tmp_path):
    def run(source, file):
        algorithm = cell(source, file)["Walks"](length=2)
        return compare("scipy", algorithm, nx.star_graph(4), folder=tmp_path / "kept", overrides=QUICK, progress=False)

    first = run(CELL, "<cell 1>")
    assert [record["outcome"] for record in first] == ["ok"]
    assert first.records[0]["labels"]["algorithm"] == "walks_of_a_cell (length=2)"
    assert first.answers(first.records[0])["walks"].ravel().tolist() == [16.0] * 5
    assert measured(run("\n" + CELL, "<cell 2>")) == measured(first)  # the same code: on record
    changed = run(CELL.replace("2.0", "3.0", 1), "<cell 3>")
    assert changed.answers(changed.records[-1])["walks"].ravel().tolist() == [36.0] * 5
    assert changed.records[0]["sources"] != first.records[0]["sources"]
    wrong = run(CELL.replace("v.arriving", "v.ariving"), "<cell 4>")
    assert wrong.records[0]["outcome"] == "invalid_input"
    line = CELL.splitlines().index('            return {"walks": scaled(v.arriving)}') + 1
    assert f'<cell 4>:{line}\n    return {{"walks": scaled(v.ariving)}}' in wrong.records[0]["reason"]
