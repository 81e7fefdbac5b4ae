"""What plugins register: light descriptions of engines, algorithms and graphs, with the names of what they load."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class EngineSpec:
    """What a plugin registers for an engine; light enough to build at start-up.

    ``schedule`` is a frozen dataclass whose fields (each with ``metadata={"help": ...}``) are the engine's options;
    ``factory`` is ``"package.module:Class"``, imported only when a cell needs it; ``requires`` names the modules it
    imports.
    """

    name: str
    help: str
    schedule: type
    factory: str
    requires: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("cpu",)


@dataclass(frozen=True)
class AlgorithmSpec:
    """What a plugin registers for an algorithm: ``factory`` is ``"package.module:Class"``, an ``Algorithm``."""

    name: str
    help: str
    factory: str


@dataclass(frozen=True)
class GraphSpec:
    """What a plugin registers for a graph: ``factory`` is ``"package.module:function"``; ``parameters``: defaults.

    ``check``, if given, is such a function too. It is called once, before a sweep starts any process, with those
    parameters that its signature names, and raises GraphError for values that the factory would refuse. It must be
    cheap, and its module must not import numerical libraries beside NumPy.
    """

    name: str
    help: str
    factory: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    check: str = ""
