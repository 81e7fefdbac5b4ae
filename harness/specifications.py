"""Specifications that plugins register: cheap descriptions of engines, algorithms and graphs that name their code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from harness.options import Option, split_parameters


@dataclass(frozen=True)
class EngineSpec:
    """A plugin's specification of an engine, cheap to build at start-up.

    ``schedule`` is a frozen dataclass; its fields (each with ``metadata={"help": ...}``) are the engine's options.
    ``factory`` is ``"package.module:Class"``, imported only when a cell needs it. ``requires`` names the modules that
    the factory imports; ``install`` is the command that installs them, which the refusal of a cell names.
    """

    name: str
    help: str
    schedule: type
    factory: str
    requires: tuple[str, ...] = ()
    devices: tuple[str, ...] = ("cpu",)
    install: str = ""


@dataclass(frozen=True)
class AlgorithmSpec:
    """A plugin's specification of an algorithm: ``factory`` is ``"package.module:Class"``, an ``Algorithm``."""

    name: str
    help: str
    factory: str


@dataclass(frozen=True)
class GraphSpec:
    """A plugin's specification of a graph: ``factory`` is ``"package.module:function"``.

    ``parameters``: the default of each parameter, or :func:`harness.api.option` with default, help text and range.
    After construction ``parameters`` has the defaults, and ``options`` the descriptions.

    ``check``, if given, is also ``"package.module:function"``. It is called once, before a sweep starts any process,
    with the parameters that its signature names. It raises GraphError for values that the factory would refuse. It must
    be cheap, and its module must not import numerical libraries other than NumPy.
    """

    name: str
    help: str
    factory: str
    parameters: Mapping[str, object] = field(default_factory=dict)
    check: str = ""
    options: tuple[Option, ...] = field(default=(), repr=False)  # derived from parameters

    def __post_init__(self) -> None:
        defaults, options = split_parameters(self.parameters)
        object.__setattr__(self, "parameters", defaults)
        if not self.options:
            object.__setattr__(self, "options", options)

    def variant(self, name: str, text: str, **defaults: object) -> GraphSpec:
        """Return the specification of the same graph with another name, line of help and other defaults."""
        options = tuple(replace(item, default=defaults.get(item.name, item.default)) for item in self.options)
        parameters = {**self.parameters, **defaults}
        return replace(self, name=name, help=text, parameters=parameters, options=options)
