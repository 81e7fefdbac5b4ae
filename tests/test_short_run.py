"""The short run: of long tests as many rows as fit, chosen such that every value of a parameter occurs."""

from __future__ import annotations

import re
from types import SimpleNamespace

import pytest

from tests import seconds, short_run

TESTS = """
import pytest

@pytest.mark.parametrize("b", range(4))
@pytest.mark.parametrize("a", "xyz")
def test_table(a, b):
    print(f"<table {a}{b}>")

@pytest.mark.short_run(rows=3, always="7")
@pytest.mark.parametrize("a", range(9))
def test_marked(a):
    print(f"<marked {a}>")

def test_endless():
    print("<endless>")

@pytest.mark.short_run(rows=1)
def test_important():
    print("<important>")

@pytest.mark.parametrize("a", [0, pytest.param(1, marks=pytest.mark.full)])
def test_short(a):
    print(f"<short {a}>")

def test_new():
    print("<new>")
"""
LIST = """0.17 test_it.py::test_table
0.01 test_it.py::test_marked
2.10 test_it.py::test_endless
9.00 test_it.py::test_important
0.30 test_it.py::test_short
"""


@pytest.fixture
def run(pytester, tmp_path, monkeypatch):
    """Run the tests above in process with the list above; return what ran."""
    pytester.makepyfile(test_it=TESTS)
    pytester.makeini("[pytest]\naddopts = -m 'not full'\nmarkers =\n  full: long\n  short_run(rows): rows\n")
    (tmp_path / "seconds").write_text(LIST, "utf-8")
    monkeypatch.setattr(short_run, "SECONDS", tmp_path / "seconds")
    monkeypatch.setattr(short_run, "MOST_S", 0.7)

    def run(*arguments):
        found = pytester.runpytest_inprocess("-s", "-p", "tests.short_run", "-p", "no:cacheprovider", *arguments)
        return re.findall(r"<(.*?)>", found.stdout.str())

    return run


def of(function, ran):
    return [one.removeprefix(function).strip() for one in ran if one.startswith(function)]


def test_as_many_rows_run_as_fit_and_show_every_value(run):
    rows = of("table", run())
    assert len(rows) == 4
    assert {row[0] for row in rows} == set("xyz")
    assert {row[1] for row in rows} == set("0123")


def test_a_marker_gives_the_number_of_rows(run):
    ran = run()
    assert len(of("marked", ran)) == 3
    assert "7" in of("marked", ran)
    assert "important" in ran


def test_a_row_that_is_too_long_does_not_run_unless_it_is_marked(run):
    assert "endless" not in run()


def test_one_row_of_a_long_function_runs():
    rows = [SimpleNamespace(get_closest_marker=lambda name: None)] * 3
    assert [short_run.rows_to_run(rows, seconds) for seconds in (0.15, 0.25, 0.5, 1.9, 2.1)] == [3, 2, 1, 1, 0]


def test_short_and_unknown_functions_run_whole_but_for_rows_marked_full(run):
    ran = run()
    assert of("short", ran) == ["0"]
    assert "new" in ran


def test_the_rest_runs_with_full(run):
    short, rest = run(), run("-m", "full")
    assert len(short) == len(set(short)) == 10
    assert not set(short) & set(rest)
    assert sorted(short + rest) == sorted(run("-m", "full or not full"))


def test_a_function_that_is_named_runs_whole(run):
    assert len(of("table", run("test_it.py::test_table"))) == 12


def test_the_list_is_written_from_a_report(tmp_path, monkeypatch):
    case = '<testcase classname="tests.test_short_run" name="{}" time="{}"/>'
    skipped = '<testcase classname="tests.test_short_run" name="c" time="9"><skipped/></testcase>'
    cases = [case.format("a[1]", 2.0), case.format("a[2]", 1.0), case.format("b", 0.6), skipped]
    (tmp_path / "report.xml").write_text(f"<r>{''.join(cases)}</r>", "utf-8")
    (tmp_path / "seconds").write_text("7.00 tests/test_short_run.py::b\n8.00 tests/other.py::d\n", "utf-8")
    monkeypatch.setattr(short_run, "SECONDS", tmp_path / "seconds")
    monkeypatch.setattr(short_run, "MOST_S", 0.7)
    seconds.main([str(tmp_path / "report.xml")])
    assert short_run.known_seconds() == {"tests/other.py::d": 8.0, "tests/test_short_run.py::a": 1.5}


def test_a_report_of_the_short_run_adds_functions_with_several_rows(tmp_path, monkeypatch):
    case = '<testcase classname="tests.test_short_run" name="{}" time="1.0"/>'
    cases = [case.format(name) for name in ("new[1]", "new[2]", "listed[1]", "listed[2]", "single")]
    (tmp_path / "report.xml").write_text(f"<r>{''.join(cases)}</r>", "utf-8")
    (tmp_path / "seconds").write_text("0.50 tests/test_short_run.py::listed\n", "utf-8")
    monkeypatch.setattr(short_run, "SECONDS", tmp_path / "seconds")
    seconds.main(["--short", str(tmp_path / "report.xml")])
    assert short_run.known_seconds() == {"tests/test_short_run.py::listed": 0.5, "tests/test_short_run.py::new": 1.0}


def test_the_list_names_functions_that_exist():
    for name in short_run.known_seconds():
        file, _, function = name.partition("::")
        text = (seconds.ROOT / file).read_text(encoding="utf-8")
        assert f"def {function.split('::')[-1]}(" in text, f"{name} is in tests/seconds.txt and not in the tests"
