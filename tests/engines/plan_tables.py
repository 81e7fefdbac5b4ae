"""The plans of engines as text: what an engine decides before it runs, for the tables of ``test_plans.py``.

``python -m tests.engines.plan_tables [ENGINE]`` writes the tables again; ``git diff`` then shows what the engines plan
otherwise. A plan that is refused has its reason. Of a plan, a table has the options that were filled in, the bytes, the
groups of stages, estimates and missed fast paths, the arrays by dtype, shape and first value, the parts of a superstep,
and of each kernel the arrays it takes (``!``: it writes them) and how often its source calls each function: loads and
stores of rows, atomic operations, barriers. Names of variables and the order of statements are not compared.
"""

from __future__ import annotations

import importlib
import re
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import MISSING, fields, is_dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harness.algorithms.sgd_mf import SGDMatrixFactorisation
from harness.contract import No, options_of, schedule_from_options
from harness.facts import Degrees, DeviceFacts, GraphFacts
from harness.graph import Graph
from harness.language import Algorithm, Program, trace
from harness.lowering.cpu.plan import CpuPlan
from harness.lowering.cuda.plan import CudaPlan
from tests.engines.problems import ALGORITHMS, ELSEWHERE, IN_PLACE, NETWORKS, SPECS, new_engine, small

FOLDER = Path(__file__).parent / "plans"
DEVICES = {"cpu": DeviceFacts("cpu", 2, cache_bytes=1 << 20), "cuda": DeviceFacts("cuda")}
PROBLEMS = {
    "bfs": (1, "rmat"), "sssp": (4, "rmat"), "pagerank": (4, "rmat"), "kcore": (1, "rmat"), "components": (1, "grid"),
    "label_propagation": (8, "grid"), "manifold_ranking": (3, "scattered"), "hits": (2, "rmat"),
    "belief_propagation": (3, "picture"), "als": (4, "ratings"), "multimodal": (2, "grid"),
    "feature_diffusion": (3, "grid"), "mst": (1, "grid"), "mf_gd": (2, "ratings"), "sgd_mf": (4, "ratings"),
    "sgd_mf lossy": (4, "ratings"),
}  # fmt: skip
ENGINES = ("onyx", "gunrock", "tigr", "simdx", "emogi", "scaph", "lonestar")
LARGE = GraphFacts(1 << 20, 1 << 24, 1 << 12)  # of a graph whose vertices differ in their degrees
HUGE = GraphFacts(1 << 28, 1 << 33, 1 << 20)  # more edges than 32 bits number
LOSSY = SGDMatrixFactorisation(conflicts="lossy")
FEW_HUBS = Degrees(((0, 500), (2, 3000), (10, 1000), (60, 480), (300, 19), (4000, 1)))
SKEWED = GraphFacts(5000, 54_500, 4000, in_degrees=FEW_HUBS, out_degrees=FEW_HUBS, paired=True)
FACTS = {"large": LARGE, "huge": HUGE, "skewed": SKEWED}
ROWS = Path(__file__).with_name("plan_rows.txt")

_CALL = re.compile(r"\b([A-Za-z_]\w*)(?:<[^<>()]*(?:<[^<>()]*>)?[^<>()]*>)?\(")
_WORDS = ("range", "float", "int64", "float32", "size_t", "int", "def", "njit", "unsigned")
_OMITTED = ("body", "source", "parameters", "arguments", "before", "facts", "graph", "policy", "parts", "partition")


def rows() -> Iterator[tuple[str, str, str, dict[str, Any], str, str]]:
    """Return the rows of all tables: the line, the engine, the device, its options, the algorithm, and the graph."""
    for line in ROWS.read_text().splitlines():
        if line and not line.startswith("#"):
            words, _, posed = line.partition("|")
            engine, device, *given = words.split()
            algorithm, _, graph = posed.strip().partition(" on ")
            options = {name: yaml.safe_load(value) for name, _, value in (one.partition("=") for one in given)}
            yield line, engine, device, options, algorithm, graph


def table(engine: str) -> dict[str, list[str]]:
    """Return the lines of each plan of an engine, by its row."""
    return {line: list(lines(*row)) for line, *row in rows() if row[0] == engine}


def written(engine: str) -> dict[str, list[str]]:
    """Return the table of an engine as it is on the disk."""
    parts = (FOLDER / f"{engine}.txt").read_text().strip("\n").split("\n\n")
    return {first: rest for first, *rest in (part.split("\n") for part in parts)}


def lines(engine: str, device: str, options: Mapping[str, Any], algorithm: str, graph: str) -> Iterator[str]:
    """Return the plan of an algorithm as text."""
    plan = planned(engine, device, options, algorithm, facts_of(algorithm, graph))
    if isinstance(plan, No):
        yield f"    refused: {plan.reason}"
    else:
        yield from (f"    {line}" for line in (of_cpu(plan) if isinstance(plan, CpuPlan) else of_cuda(plan)))


def planned(engine: str, device: str, options: Mapping[str, Any], algorithm: str, facts: GraphFacts) -> Any:
    """Return the plan of an algorithm, or the reason of its refusal."""
    package, _, name = new_engine(engine, options).class_for(device).partition(":")
    made = getattr(importlib.import_module(package), name)(schedule_from_options(SPECS[engine], options))
    return made.plan(traced(algorithm), facts, PROBLEMS[algorithm][0], DEVICES[device])


def facts_of(algorithm: str, graph: str) -> GraphFacts:
    """Return the facts of the graph of a row; "": of the one of the algorithm."""
    if graph in FACTS:
        return FACTS[graph]
    return graph_of(graph, PROBLEMS[algorithm][0]).facts if graph else own_graph(algorithm).facts


@cache
def own_graph(algorithm: str) -> Graph:
    """Return the graph on which the tables plan an algorithm."""
    features, name = PROBLEMS[algorithm]
    return posed(algorithm).prepare_graph(graph_of(name, features))


def posed(algorithm: str) -> Algorithm:
    """Return an algorithm of the tables."""
    return LOSSY if algorithm == "sgd_mf lossy" else {**ALGORITHMS, **IN_PLACE, **ELSEWHERE}[algorithm]


@cache
def traced(algorithm: str) -> Program:
    """Return the program of an algorithm of the tables."""
    return trace(posed(algorithm))


def graph_of(name: str, features: int) -> Graph:
    """Return a graph of the tests."""
    return NETWORKS[name](features) if name in NETWORKS else small(name)


def of_cpu(plan: CpuPlan) -> Iterator[str]:
    """Return the lines of a plan on the CPU."""
    yield f"options: {brief(options_of(plan.schedule))}"
    yield f"bytes: {plan.bytes_needed:,}; edges {plan.place.value}; windows {brief(plan.windows)}"
    yield from (f"kernel {name}: {', '.join(stages)}" for name, stages in plan.groups)
    yield from (f"estimate: {one}" for one in plan.estimates)
    yield from (f"missed: {one}" for one in plan.missed)
    yield f"rules: {brief(plan.rules)}; narrowing: {brief(plan.narrowing)}; criterion: {brief(plan.criterion)}"
    yield from (f"part: {brief(one)}" for one in plan.passes)
    yield f"tables: {', '.join(f'{brief(one)} {one.nbytes(plan.rules.graph)}' for one in plan.tables)}"
    yield from arrays(plan.buffers)
    for kernel in plan.kernels:
        more = {"scratch": kernel.scratch_floats, "selects": kernel.selects, "items": kernel.items}
        shown = brief({name: value or None for name, value in more.items()})
        yield f"{kernel.name}({', '.join(kernel.arguments)}) {shown}: {calls(kernel.source, kernel.name)}"


def of_cuda(plan: CudaPlan) -> Iterator[str]:
    """Return the lines of a plan on a CUDA device."""
    yield f"options: {brief(options_of(plan.schedule))}"
    yield f"bytes: {plan.bytes_needed:,}, of the host {plan.host_bytes:,}; edges {plan.place.value} {plan.advice}"
    yield f"teams: {brief(plan.lane_group)}; {plan.threads} threads; {plan.direction}; {plan.adds_per_visit} additions"
    yield f"windows: {brief(plan.windows)}; prefix: {brief(plan.prefix)}; {plan.edge_bytes} bytes of an edge"
    yield f"thresholds: {brief(plan.thresholds)}; sides: {plan.sides}; {brief(plan.accumulators)}"
    yield f"extension: {brief(plan.extension)}; {plan.extension.explanation}"
    yield from (f"kernel {stages[0]}: {', '.join(stages)}" for stages in plan.groups)
    parts = {"launch": plan.launches, "ahead": plan.measuring.ahead, "behind": plan.measuring.behind}
    parts["step"] = plan.combined.steps if plan.combined else ()
    for part, launches in parts.items():
        yield from (f"{part}: {brief(one)}" for one in launches)
    yield f"tables: {', '.join(f'{brief(one)} {one.nbytes(plan.facts)}' for one in plan.tables)}"
    yield from arrays(plan.buffers)
    for kernel in plan.kernels:
        takes = ", ".join(f"{one.name}{'!' * one.written}{'~' * (not one.restricted)}" for one in kernel.parameters)
        yield f"{kernel.name}({takes}), shared {plan.shared_of(kernel)}: {calls(kernel.source, kernel.name)}"


def arrays(buffers: Iterable[Any]) -> Iterator[str]:
    """Return the names of the arrays by their other fields."""
    groups: dict[str, list[str]] = defaultdict(list)
    for one in buffers:
        more = brief(one, omitted=("name", "of", "dtype", "rows", "stride", "source"))
        groups[f"{one.dtype} {one.rows} x {one.stride} {more}"].append(one.name)
    for what, names in sorted(groups.items()):
        yield f"{what}: {', '.join(sorted(names))}"


def calls(source: str, name: str) -> str:
    """Return how often a source calls each function, and its loops and branches."""
    source = re.sub(rf"\b\w*{name}\w*\(", "(", source)
    found = Counter(one for one in _CALL.findall(source) if one not in _WORDS)
    return ", ".join(f"{one} {count}" for one, count in sorted(found.items()))


def brief(value: Any, omitted: Iterable[str] = ()) -> str:
    """Return a value as text, dataclasses with the fields that differ from their defaults."""
    if is_dataclass(value) and not isinstance(value, type):
        shown = {}
        for one in fields(value):
            found = getattr(value, one.name)
            default = one.default_factory() if one.default_factory is not MISSING else one.default
            if one.name not in (*_OMITTED, *omitted) and one.compare and found != default:
                shown[one.name] = found
        kernel = f"{value.name} " if type(value).__name__ == "CudaKernel" else ""
        return f"{type(value).__name__}({kernel}{brief(shown)})"
    if isinstance(value, Mapping):
        return " ".join(f"{name}={brief(one)}" for name, one in value.items() if one is not None)
    if isinstance(value, (tuple, list)):
        return f"[{', '.join(map(brief, value))}]"
    if isinstance(value, Enum):
        return value.name.lower()
    if isinstance(value, float):
        return f"{value:.6g}"
    return value.__name__ if isinstance(value, type) else str(value)


def main(engines: Iterable[str]) -> None:
    """Write the tables of engines."""
    for engine in engines:
        text = "\n\n".join("\n".join([row, *found]) for row, found in table(engine).items())
        (FOLDER / f"{engine}.txt").write_text(f"{text}\n", encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:] or ENGINES)
