"""The tests that run under compute-sanitizer, and the parsing of its output."""

from __future__ import annotations

import re

import pytest

from tests.engines.cuda_sanitizer import FAMILIES, chosen, judged, spread
from tests.engines.cuda_schedules import SCHEDULES

CLEAN = "........ [100%]\n14 passed, 1 skipped in 65.28s (0:01:05)\n========= RACECHECK SUMMARY: 0 hazards displayed\n"


@pytest.mark.slow
def test_every_schedule_and_family_is_met():
    names = chosen()
    for schedule in SCHEDULES:
        assert any(f"test_operations[{schedule}-" in name for name in names)
    for path, pattern, count in FAMILIES:
        assert sum(name.startswith(path) and bool(re.search(pattern, name)) for name in names) >= (count or 1)


def test_some_names_are_taken_from_all_over():
    assert spread("abcdefghij", 3) == ["a", "d", "g"]
    assert spread("ab", 3) == ["a", "b"]


@pytest.mark.parametrize(
    ("status", "output", "clean"),
    [
        (0, CLEAN, True),
        (77, CLEAN, False),  # an error was found
        (0, CLEAN.replace("0 hazards displayed", "3 hazards displayed (0 errors, 3 warnings)"), False),
        (0, CLEAN + "========= RACECHECK SUMMARY: 5 hazards displayed\n", False),  # of another process
        (1, CLEAN.replace("14 passed", "1 failed, 13 passed"), False),
        (0, CLEAN.replace("14 passed, 1 skipped", "15 skipped"), False),
        (0, CLEAN.partition("=====")[0], False),  # the tool did not finish
        (5, "no tests ran in 0.1s\n========= ERROR SUMMARY: 0 errors\n", False),
    ],
)
def test_only_tests_that_passed_under_a_silent_tool_are_clean(status, output, clean):
    assert judged(status, output)[0] == clean
