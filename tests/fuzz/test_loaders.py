"""For every input a loader returns a graph or refuses it, within the allowed memory."""

from __future__ import annotations

import gzip
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from harness.graph.formats import FORMATS, format_of
from tests.fuzz import __main__ as driver
from tests.fuzz.files import FOUND, MATRIX, TARGETS, archive, inside, read_or_refused

PIECES = st.one_of(
    st.text("0123456789 \t\r\n.-+eanif%#:,\0é", max_size=5).map(str.encode),
    st.binary(max_size=4),
    st.sampled_from([b"9" * 20, b"9" * 5000, b"1e999", b"-1", b"4294967296", b"\xc2\xb2", b"\n" * 9]),
)
CHANGES = st.lists(st.tuples(st.integers(0, 2**16), st.integers(0, 4), PIECES), min_size=1, max_size=3)


def changed(content, changes):
    for start, length, inserted in changes:
        start %= len(content) + 1
        content = content[:start] + inserted + content[start + length :]
    return content


def test_every_format_is_fuzzed():
    formats = {format_of(driver.Path(target.name)) for target in TARGETS.values()}
    assert formats == set(FORMATS)


@pytest.mark.parametrize("name", TARGETS)
def test_examples_are_read(tmp_path, name):
    for example in TARGETS[name].examples:
        assert read_or_refused(TARGETS[name], example, tmp_path) == ""


@pytest.mark.parametrize("name", TARGETS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow], max_examples=60)
@given(st.data(), CHANGES, st.integers(0, 9), st.booleans())
def test_a_mutilated_file_is_read_or_refused(tmp_path, name, data, changes, turn, within):
    example = data.draw(st.sampled_from(TARGETS[name].examples))
    packed = within and name in ("gzip", "npz")
    content = inside(example, lambda part: changed(part, changes), turn) if packed else changed(example, changes)
    read_or_refused(TARGETS[name], content, tmp_path)


@pytest.mark.parametrize(("name", "content", "message"), FOUND)
def test_found_inputs_are_refused_with_their_reason(tmp_path, name, content, message):
    assert message in read_or_refused(TARGETS[name], content, tmp_path)


NONE = np.zeros(0, int)
GREEDY = {  # files that declare much more data than they have
    "vertices of a matrix": (
        "matrix_market",
        MATRIX % (b"pattern symmetric", b"1600000 1600000 100000") + b"1 2\n" * 100_000,
    ),
    "vertices of roads": ("dimacs", b"p sp 3000000 50000\n" + b"a 1 2 3\n" * 50_000),
    "one great id": ("edge_list", b"0 1\n0 120000000\n"),
    "pairs of many states": ("uai", b"MARKOV\n3\n700 1 700\n2\n2 0 1\n2 1 2\n" + (b"700 " + b"1 " * 700) * 2),
    "one variable of many states": ("uai", b"MARKOV\n90000\n" + b"1 " * 89_999 + b"65536 0"),
    "one long word": ("uai", b"MARKOV\n1\n5000\n1\n1 0\n5000 0." + b"1" * 50_000 + b" 1" * 4999),
    "wide features": (
        "npz",
        archive(indptr=[0, 0], indices=NONE, feat_indptr=[0, 0], feat_indices=NONE, feat_shape=[1, 2**30]),
    ),
    "a bomb": ("gzip", gzip.compress(b"0 1\n" * 5_000_000)),
}


@pytest.mark.parametrize("case", GREEDY)
def test_memory_is_a_stated_multiple_of_the_file(tmp_path, case):
    name, content = GREEDY[case]
    read_or_refused(TARGETS[name], content, tmp_path)


def test_the_driver_starts_every_target_and_tells_which_failed(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(driver.importlib.util, "find_spec", lambda name: ModuleSpec(name, None))
    monkeypatch.setattr(sys, "argv", ["fuzz", "--seconds", "100", "--corpus", str(tmp_path)])
    started = []

    def run(command, check):
        started.append(command[3:])
        done = ModuleType("done")
        done.returncode = int("uai" in command)
        return done

    monkeypatch.setattr(driver.subprocess, "run", run)
    assert driver.main() == 1
    assert started == [[name, str(tmp_path), "10"] for name in TARGETS]
    assert "failed: uai;" in capsys.readouterr().out
