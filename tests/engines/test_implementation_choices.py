"""The plans of the baselines and their generated code make the choices of the thesis's table 7.3."""

from __future__ import annotations

import pytest

from harness.lowering.buffers import Holds
from harness.lowering.refusals import unsupported
from tests.engines.cuda_schedules import plan_of
from tests.engines.implementation_choices import PAGE, TITLES, Choices, choices_of, engines, page
from tests.engines.problems import program, small

THESIS = {
    "Gunrock": Choices("push", True, False), "Tigr": Choices("push", False, True),
    "SIMD-X": Choices("pull", False, False),
}  # fmt: skip
ENGINES = dict(engines())


def planned(title, algorithm):
    return plan_of(ENGINES[title], program(algorithm), small("rmat"), 4)


def test_the_page_is_current():
    assert PAGE.read_text() == page(), "update it: python -m tests.engines.implementation_choices"


def test_the_choices_are_those_of_the_thesis():
    choices = {title: choices_of(engine) for title, engine in ENGINES.items()}
    assert choices == THESIS
    assert list(choices) == list(TITLES.values())


@pytest.mark.parametrize("title", ENGINES)
def test_values_of_steps_are_stored_where_planned(title):
    handed_on = {"vertex_n_aggr", "vertex_prob"} & {
        name for kernel in planned(title, "label_propagation").kernels for name in kernel.arguments
    }
    assert bool(handed_on) != THESIS[title].shared
    plan = planned(title, "als_all")
    solve = next(kernel for kernel in plan.kernels if "solve_spd" in kernel.source)
    assert ("extern __shared__ float scratch[]" in solve.source) == THESIS[title].shared
    assert bool(plan.shared_of(solve)) == THESIS[title].shared


@pytest.mark.parametrize("title", ENGINES)
def test_edges_are_gone_over_in_the_direction_that_is_said(title):
    kernels = planned(title, "label_propagation").kernels
    spread = next(
        kernel for kernel in kernels if kernel.name.startswith("spread") and "_neighbours[e]" in kernel.source
    )
    assert ("Add::into" in spread.source) == (THESIS[title].direction == "push")
    assert ("in_neighbours" in spread.arguments) == (THESIS[title].direction == "pull")


@pytest.mark.parametrize("title", ENGINES)
def test_only_change_driven_engines_refuse_programs_without_changes(title):
    reads_destination = program("label_propagation")
    assert not unsupported(reads_destination, small("rmat").facts, 4, change_driven=THESIS[title].change_driven)
    sent = any(buffer.holds is Holds.SENT for buffer in planned(title, "label_propagation").buffers)
    assert sent == THESIS[title].change_driven
