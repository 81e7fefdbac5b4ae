"""The CUDA code of engines, as the tests compile it without a device.

An engine takes part by one call of :func:`declare`: its class (a ``CudaEngine``), its schedule, and the values of
its options. Every accepted pair of values is compiled for every algorithm.
"""

from __future__ import annotations

import importlib
import itertools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

from engines.onyx.policy import Policy
from harness.contract import No
from harness.facts import GraphFacts
from harness.graph import Graph
from harness.graph.generators import random_ratings, rmat
from harness.language import Program, trace
from harness.lowering.cuda.engine import CudaEngine
from harness.lowering.cuda.modules import headers
from harness.lowering.setting import LoweredProgram
from harness.plugins import Registry, load_plugins

Schedule = tuple[tuple[str, Any], ...]  # options by name, in the order of their declaration

FEATURES = (1, 4, 8, 32, 100)
CHIPS = {"sm_90": FEATURES, "sm_80": (8,), "sm_100": (8,)}
# Parameters that change the generated code, in addition to an algorithm's defaults.
VARIANTS: dict[str, tuple[str, dict[str, Any]]] = {
    "als sides=all": ("als", {"sides": "all"}),
    "belief_propagation rule=max potentials=edge": ("belief_propagation", {"rule": "max", "potentials": "edge"}),
}


@cache
def registry() -> Registry:
    """Return the registry of the plugins."""
    return load_plugins()


@dataclass(frozen=True)
class Declared:
    """An engine that generates CUDA C++; ``options``: the values of every schedule option that are compiled;
    ``attributes``: attributes set on the engine, so that small graphs need all of its kernels."""

    engine: str
    factory: str
    options: Mapping[str, tuple[Any, ...]]
    attributes: Mapping[str, Any]

    def build(self, schedule: Schedule) -> CudaEngine:
        """Return the engine under a schedule."""
        module, _, attribute = self.factory.partition(":")
        made: CudaEngine = getattr(importlib.import_module(module), attribute)(
            registry().engine(self.engine).schedule(**dict(schedule))
        )
        for name, value in self.attributes.items():
            setattr(made, name, value)
        return made

    @property
    def planning(self) -> str:
        """Return the module that makes the engine's plans."""
        package, _, _ = self.factory.rpartition(".cuda_engine:")
        return f"{package}.cuda_plan"

    def schedules(self) -> Iterator[Schedule]:
        """Return every combination of the options' values."""
        for values in itertools.product(*self.options.values()):
            yield tuple(zip(self.options, values, strict=True))


DECLARED: dict[str, Declared] = {}
TABLES: dict[str, Declared] = {}  # DECLARED, and further options of these engines, by the names of the tables


def declare(
    table: str, factory: str, attributes: Mapping[str, Any] | None = None, *, of: str = "", **options: tuple[Any, ...]
) -> None:
    """Register an engine whose kernels are compiled; ``factory`` is ``"package.module:Class"``.

    ``of``: the engine, if this is a second table of it; by default the table has its name.
    """
    TABLES[table] = Declared(of or table, factory, options, attributes or {})
    if not of:
        DECLARED[table] = TABLES[table]


# Small graphs have all lists of vertices.
ONYX_POLICY = Policy(hub_edges=(2, 2), middle_edges=1, fewest_owners=1, middle_share=0, measured_edges=0)
declare(
    "onyx",
    "engines.onyx.cuda_engine:OnyxCudaEngine",
    {"policy": ONYX_POLICY},
    feature_aware=(True, False),
    change_driven=(False, True),
    fold=(True, False),
    pipeline=(True, False),
    direction=("pull", "push"),
    balance=("warp", "edge"),
    vector_width=(4, 2, 1),
    block_size=(256, 64, 512),
)
declare(
    "onyx_adaptive",
    "engines.onyx.cuda_engine:OnyxCudaEngine",
    {"policy": ONYX_POLICY},
    of="onyx",
    change_driven=(True,),
    direction=("adaptive",),
    feature_aware=(True, False),
    fold=(True, False),
    pipeline=(True, False),
    balance=("warp", "edge"),
    vector_width=(4, 1),
    block_size=(256, 512),
)
declare(
    "simdx",
    "engines.pullbaseline.simdx.cuda_engine:SimdxCudaEngine",
    fusion=("push_pull", "none", "all"),
    filter=(None, "ballot", "online"),  # None: jit
)
declare("tigr", "engines.pushbaseline.tigr.cuda_engine:TigrCudaEngine", degree_bound=(8,))
declare("gunrock", "engines.pushbaseline.gunrock.cuda_engine:GunrockCudaEngine", balance=("block", "merge_path"))
declare(  # lists and counters: tests/engines/test_emogi.py
    "emogi",
    "engines.outofmemory.emogi.cuda_engine:EmogiCudaEngine",
    access=("aligned", "naive", "merged", "chunk", "tiled"),
)
declare(  # others: tests/engines/test_scaph_on_cuda.py
    "scaph",
    "engines.outofmemory.scaph.cuda_engine:ScaphCudaEngine",
    access=("tiled",),
)


@dataclass(frozen=True)
class Module:
    """A generated module; ``shared``: bytes of dynamic shared memory of a launch, in addition to each kernel's
    static shared memory."""

    source: str
    headers: Mapping[str, str]
    shared: Mapping[str, int]


# sgd_mf updates both ends of edges (tests/engines/test_lonestar_on_cuda.py); mf_gd has the operations of others.
OMITTED = ("sgd_mf", "mf_gd")


def algorithms() -> tuple[str, ...]:
    """Return every algorithm of the plugins that runs on CUDA, and the variants."""
    return tuple(name for name in (*registry().algorithms, *VARIANTS) if name not in OMITTED)


@cache
def problem(algorithm: str) -> tuple[Program, Graph]:
    """Return the program of an algorithm or a variant, and a small graph for it, with about 16 edges per vertex."""
    name, parameters = VARIANTS.get(algorithm, (algorithm, {}))
    module, _, attribute = registry().algorithm(name).factory.partition(":")
    chosen = getattr(importlib.import_module(module), attribute)(**parameters)
    ratings = getattr(chosen, "sides", "") == "alternate"
    graph = random_ratings(users=40, items=30, num_ratings=500) if ratings else rmat(7, 12, symmetric=True)
    return trace(chosen), chosen.prepare_graph(graph)


def generated(declared: Declared, algorithm: str, schedule: Schedule, features: int) -> Module | No:
    """Return the module of an algorithm under a schedule, or the reason why there is none."""
    program, graph = problem(algorithm)
    return module_of(declared.build(schedule), program, graph.facts, features)


def module_of(engine: CudaEngine, program: Program, facts: GraphFacts, features: int) -> Module | No:
    """Return the module that an engine would compile for a program, or the reason why there is none."""
    plan = engine.plan(program, facts, features)
    if isinstance(plan, No):
        return plan
    shared = {kernel.name: plan.shared_of(kernel) for kernel in plan.kernels}
    return Module(plan.source, headers(plan.templates), shared)


def accepted(declared: Declared, algorithm: str) -> list[Schedule]:
    """Return the schedules under which an engine runs an algorithm, if its matrices fit."""
    program, graph = problem(algorithm)
    lowered, facts = LoweredProgram.of(program, masked=True).program, graph.facts
    planning = importlib.import_module(declared.planning)
    made = ((options, registry().engine(declared.engine).schedule(**dict(options))) for options in declared.schedules())
    return [options for options, schedule in made if not planning.refused(lowered, schedule, facts, FEATURES[0])]


def pairs(schedule: Schedule) -> set[tuple[tuple[str, Any], ...]]:
    """Return every pair of options with their values; a single option is returned as it is."""
    return set(itertools.combinations(schedule, min(2, len(schedule))))
