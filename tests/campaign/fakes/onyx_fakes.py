"""A plugin for the tests: engines with every outcome, small graphs, an algorithm with a metric."""

from __future__ import annotations

from harness.contract import AlgorithmSpec, EngineSpec, GraphSpec
from harness.hookspecs import hookimpl

BEHAVIOURS = (
    "right",
    "wrong",
    "nan",
    "raises",
    "segfault",
    "exits",
    "hangs",
    "hungry",
    "refuses",
    "pulls",
    "wants_much",
    "slow",
    "shouting",
    "verbose",
    "binary",
    "straying",
    "deserting",
    "misshapen",
    "listing",
    "overwriting",
    "quitting",
    "warped",
    "lingering",
    "verbose_error",
    "moving",
)


@hookimpl
def onyx_engines() -> list[EngineSpec]:
    from onyx_fakes_schedule import Damage, Schedule

    from engines.onyx.schedule import OnyxSchedule

    engines = [
        EngineSpec(
            f"fake_{name}", f"an engine that is {name}", Schedule, f"onyx_fakes_engines:{name.title().replace('_', '')}"
        )
        for name in BEHAVIOURS
    ]
    absent = EngineSpec(
        "fake_absent", "needs a module", Schedule, "onyx_fakes_engines:Right", requires=("no_such_module",)
    )
    damaging = EngineSpec("fake_damaging", "damages its work folder", Damage, "onyx_fakes_engines:Damaging")
    broken = EngineSpec("fake_broken", "its module is not there", Schedule, "onyx_fakes_engines:Nothing")
    cuda = EngineSpec("fake_cuda", "runs on GPUs", Schedule, "onyx_fakes_engines:Right", devices=("cuda",))
    uncompiled = EngineSpec(
        "fake_uncompiled", "its kernel is no C++", OnyxSchedule, "onyx_fakes_cuda:Uncompiled", devices=("cuda",)
    )
    return [*engines, absent, damaging, broken, cuda, uncompiled]


@hookimpl
def onyx_algorithms() -> list[AlgorithmSpec]:
    return [
        AlgorithmSpec("fake_spread", "sums over in-edges", "onyx_fakes_problem:Spread"),
        AlgorithmSpec("fake_phases", "levels, then as many sums", "onyx_fakes_problem:Phases"),
    ]


@hookimpl
def onyx_graphs() -> list[GraphSpec]:
    return [
        GraphSpec("fake_ring", "a ring", "onyx_fakes_problem:ring", {"vertices": 12}),
        GraphSpec("fake_path", "a path", "onyx_fakes_problem:path", {"vertices": 9}),
        GraphSpec("fake_file", "a file", "onyx_fakes_problem:from_file", {"path": ""}),
        GraphSpec("fake_gated", "a ring, once its gate opens", "onyx_fakes_problem:gated", {"log": "", "gate": ""}),
        GraphSpec("fake_[bold]", "a name like markup", "onyx_fakes_problem:ring", {"vertices": 5}),
    ]
