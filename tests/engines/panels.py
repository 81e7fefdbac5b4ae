"""What is gathered panel by panel: programs and schedules."""

from __future__ import annotations

from engines.onyx.cuda_panels import panel_of
from tests.engines.programs import PROGRAMS, arcs_and_loops, inputs_for, program_named, two_sides
from tests.engines.test_cuda import SUPERSTEPS, check_every_superstep

SCHEDULES = ("pull-edges", "pull-edges-unfolded", "changes-pull-edges", "changes-pull-edges-sparse")


def divided():
    """The names of programs all of whose messages keep features apart."""
    return [name for name in PROGRAMS if panel_of(program_named(name), 128)]


def check_panels(schedule, name, features, device):
    """Every superstep of a run against the float64 reference."""
    program = program_named(name)
    graph = two_sides() if name in ("sides", "beliefs") else arcs_and_loops()
    inputs = inputs_for(program, graph, features, seed=features)
    check_every_superstep(schedule, program, graph, inputs, features, device, SUPERSTEPS)
