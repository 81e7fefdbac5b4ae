"""What the baselines declare of themselves is the thesis's table 7.3, and what their generated code does."""

from __future__ import annotations

import pytest

from harness.lowering.refusals import unsupported
from tests.engines.implementation_choices import PAGE, TITLES, engines, page
from tests.engines.problems import program, small

THESIS = {"Gunrock": ("push", True, False), "Tigr": ("push", False, True), "SIMD-X": ("pull", False, False)}
ENGINES = dict(engines())


def lowered(title, algorithm):
    engine = ENGINES[title]
    engine.lower(program(algorithm), small("rmat"), 4)
    return engine


def test_the_page_is_current():
    assert PAGE.read_text() == page(), "renew it: python -m tests.engines.implementation_choices"


def test_the_declarations_are_those_of_the_thesis():
    told = {title: (e.direction, e.change_driven, e.scratch == "shared") for title, e in ENGINES.items()}
    assert told == THESIS
    assert list(told) == list(TITLES.values())


@pytest.mark.parametrize("title", ENGINES)
def test_what_steps_hand_on_is_where_it_is_said_to_be(title):
    engine = lowered(title, "label_propagation")
    handed_on = {f"vertex_{name}" for step in ("n_aggr", "prob") for name in (step,)} & engine.array_names()
    assert bool(handed_on) == (engine.scratch == "global")
    solve = next(kernel for kernel in lowered(title, "als_all").kernels if "solve_spd" in kernel.source)
    assert ("extern __shared__ float scratch[]" in solve.source) == (engine.scratch == "shared")
    assert bool(engine.shared_of(solve)) == (engine.scratch == "shared")


@pytest.mark.parametrize("title", ENGINES)
def test_edges_are_gone_over_in_the_direction_that_is_said(title):
    engine = lowered(title, "label_propagation")
    spread = next(
        kernel for kernel in engine.kernels if kernel.name.startswith("spread") and "_neighbours[e]" in kernel.source
    )
    assert ("Add::into" in spread.source) == (engine.direction == "push")
    assert ("in_neighbours" in spread.arguments) == (engine.direction == "pull")


@pytest.mark.parametrize("title", ENGINES)
def test_only_what_is_change_driven_refuses_what_has_no_changes_to_send(title):
    engine, reads_destination = ENGINES[title], program("label_propagation")
    assert not unsupported(reads_destination, small("rmat").facts, 4, change_driven=engine.change_driven)
    assert any(name.startswith("sent_") for name in lowered(title, "label_propagation").own_arrays()) == (
        engine.change_driven
    )
