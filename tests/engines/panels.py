"""Programs and schedules whose rows are gathered panel by panel."""

from __future__ import annotations

from engines.onyx import cuda_panels
from harness.contract import No
from tests.engines.cuda_schedules import cuda_engine
from tests.engines.programs import PROGRAMS, graph_for, inputs_for, program_named
from tests.engines.test_cuda import SUPERSTEPS, check_every_superstep, prepared

SCHEDULES = ("pull-edges", "pull-edges-unfolded", "changes-pull-edges", "changes-pull-edges-sparse")
WHOLE = 1024  # more features per panel than any row has


def panels_of(schedule, name, features):
    """Return the largest number of panels of a program's kernels; 0 if the schedule cannot run it."""
    engine = cuda_engine(schedule)
    plan = engine.plan(program_named(name), graph_for(name).facts, features)
    return 0 if isinstance(plan, No) else max(kernel.panels for kernel in plan.kernels)


def divided(schedule):
    """Return the names of the programs whose kernels have panels under a schedule, which takes a second."""
    return [name for name in PROGRAMS if panels_of(schedule, name, 128) > 1]


def check_panels(schedule, name, features, device):
    """Compare every superstep of a run with the float64 reference."""
    program, graph = program_named(name), graph_for(name)
    assert panels_of(schedule, name, features) > 1
    inputs = inputs_for(program, graph, features, seed=features)
    check_every_superstep(schedule, program, graph, inputs, features, device, SUPERSTEPS)


def check_statistics(schedule, name, device, monkeypatch):
    """Check that the statistics of a run equal those with whole rows."""
    program, graph = program_named(name), graph_for(name)
    inputs = inputs_for(program, graph, 128, seed=5)
    histories = []
    for panel in (cuda_panels.PANEL, WHOLE):
        monkeypatch.setattr(cuda_panels, "PANEL", panel)
        engine = prepared(schedule, program, graph, 128, device)
        assert (max(kernel.panels for kernel in engine.planned.kernels) > 1) is (panel != WHOLE)
        engine.reset(inputs)
        done = engine.run(6)
        histories.append((done.settled, [(one.active, one.edges, one.direction) for one in done.supersteps]))
        engine.close()
    assert histories[0] == histories[1]
