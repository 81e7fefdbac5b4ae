"""What is measured of the thesis's tables 7.2 and 7.4: as conf/ has it, so that the harness measures the same."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from omegaconf import OmegaConf

from harness.campaign.configuration import configuration_folder
from harness.contract import Engine, EngineSpec, schedule_from_options
from harness.graph.catalogue.stand_ins import ROADS, SOCIAL
from harness.language import Algorithm
from harness.lowering.cuda.engine import CudaEngine
from harness.plugins import Registry, load_plugins
from tests.benchmarks.cuda_libraries import OfLibrary
from tests.benchmarks.cuda_shared import Shared
from tests.engines.cuda_schedules import loaded

MESHES = {"delaunay_16m": 1 << 24}  # points, as conf/graph has it
ORDER = ("LP", "MML", "MMR", "BP", "ALS")  # of measuring: what takes longest comes last


@cache
def _sharing(made: type) -> type:
    return made if issubclass(made, CudaEngine) else type(made.__name__, (OfLibrary, made), {})


@dataclass(frozen=True)
class EngineColumn:
    """A column of the tables: an engine under a schedule."""

    label: str
    spec: EngineSpec
    options: dict[str, Any]

    def engine(self, shared: Shared | None = None) -> Engine:
        """A new engine for CUDA devices; one of a library begins with what is shared."""
        made = loaded(self.spec.factory)
        made = loaded(made.engines["cuda"]) if hasattr(made, "engines") else made
        schedule = schedule_from_options(self.spec, self.options)
        engine: Any = _sharing(made)(schedule)
        if isinstance(engine, OfLibrary):
            engine.shared = shared
        return engine


@dataclass(frozen=True)
class Size:
    """Of a graph: an R-MAT graph of ``arcs``, a grid of ``rows`` x ``columns``, or a mesh."""

    name: str
    vertices: int
    arcs: int
    rows: int = 0
    columns: int = 0

    @property
    def work(self) -> float:
        """What a superstep goes through, roughly, and what there is to do for any graph."""
        return self.arcs + 5 * self.vertices + 6e7


@dataclass(frozen=True)
class Preset:
    """The experiment thesis_tables of conf/."""

    columns: tuple[EngineColumn, ...]
    algorithms: dict[str, Algorithm]  # by their short names
    graphs: tuple[str, ...]
    features: tuple[int, ...]
    supersteps: int


def preset(registry: Registry | None = None) -> Preset:
    """As conf/ has it: conf/experiment/thesis_tables.yaml and what it names, at scale=stand_ins."""
    registry = registry or load_plugins()
    given: Any = _plain("experiment/thesis_tables")
    swept = given["hydra"]["sweeper"]["params"]
    labels, engines = list(given["layout"]["columns"]), str(swept["engine"]).split(",")
    columns = tuple(_column(label, name, registry) for label, name in zip(labels, engines, strict=True))
    algorithms = {
        name.removeprefix("thesis_").upper(): _algorithm(name, registry) for name in _words(swept["algorithm"])
    }
    features = tuple(int(word) for word in _words(swept["features"]))
    graphs = tuple(_words(_plain("paper_graphs/vaz2021")["stand_ins"]))
    return Preset(columns, algorithms, graphs, features, int(given["max_supersteps"]))


def _words(text: object) -> list[str]:
    return [word.strip() for word in str(text).split(",")]


def _plain(name: str, **more: Any) -> Any:
    """A file of conf/, resolved against ``more``; references into what is not there stay as they are."""
    config = OmegaConf.load(configuration_folder() / f"{name}.yaml")
    return OmegaConf.to_container(OmegaConf.merge(config, more), resolve=bool(more))


def _column(label: str, name: str, registry: Registry) -> EngineColumn:
    path = configuration_folder() / "engine" / f"{name}.yaml"
    options = dict(_plain(f"engine/{name}", device={"kind": "cuda"})["engine"]) if path.exists() else {"name": name}
    return EngineColumn(label, registry.engine(options.pop("name")), options)


def _algorithm(name: str, registry: Registry) -> Algorithm:
    parameters = dict(_plain(f"algorithm/{name}"))
    made: Algorithm = loaded(registry.algorithm(parameters.pop("name")).factory)(**parameters)
    return made


def sizes(graphs: tuple[str, ...], down: int = 1) -> Iterator[Size]:
    """How large the graphs are, ``down`` times smaller than the thesis's table 7.1 has them."""
    for name in graphs:
        bare = name.removeprefix("like_")
        if bare in SOCIAL:
            vertices, arcs = (number // down for number in SOCIAL[bare])
            yield Size(name, vertices, arcs // 2 * 2)
        elif bare in ROADS:
            rows, columns = (max(2, int(number / down**0.5)) for number in ROADS[bare])
            yield Size(name, rows * columns, int(2.4 * rows * columns), rows, columns)
        else:
            yield Size(name, MESHES[name] // down, 6 * (MESHES[name] // down))
