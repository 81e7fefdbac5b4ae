"""The plugin registry: one group of entry points for built-in and third-party plugins, a block list, a quarantine."""

from __future__ import annotations

import dataclasses
import difflib
import functools
import os
import signal
import threading
import tomllib
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from importlib.metadata import Distribution, EntryPoint, PackageNotFoundError, distribution, entry_points
from pathlib import Path
from types import FrameType
from typing import Any, TypeVar

import pluggy

from harness import hookspecs
from harness.contract import AlgorithmSpec, EngineSpec, GraphSpec
from harness.import_watch import import_watch
from harness.plain_text import describe_error, one_line, printable

GROUP = "onyx_harness"
DISTRIBUTION = "onyx-harness"
BLOCK_VARIABLE = "ONYX_HARNESS_BLOCK"
_MOST_REASON = 2_000  # characters of a plugin's exception that its warning quotes

Spec = TypeVar("Spec", EngineSpec, AlgorithmSpec, GraphSpec)


class PluginWarning(UserWarning):
    """A plugin, or one of its specifications, was skipped; the message names it, its distribution and the reason."""


class UnknownName(ValueError):
    """No plugin offers the requested engine, algorithm or graph; the message gives the closest known name."""


@dataclass
class Registry:
    """The engines, algorithms and graphs of all plugins, by name.

    ``plugins`` maps the name of each loaded plugin to its distribution. ``quarantined`` maps the name of each plugin
    that failed to load to the reason.
    """

    engines: dict[str, EngineSpec] = field(default_factory=dict)
    algorithms: dict[str, AlgorithmSpec] = field(default_factory=dict)
    graphs: dict[str, GraphSpec] = field(default_factory=dict)
    config_folders: list[str] = field(default_factory=list)
    plugins: dict[str, str] = field(default_factory=dict)
    quarantined: dict[str, str] = field(default_factory=dict)

    def engine(self, name: str) -> EngineSpec:
        """Return the engine called ``name``. Raises UnknownName."""
        return _named("engine", self.engines, name)

    def algorithm(self, name: str) -> AlgorithmSpec:
        """Return the algorithm called ``name``. Raises UnknownName."""
        return _named("algorithm", self.algorithms, name)

    def graph(self, name: str) -> GraphSpec:
        """Return the graph called ``name``. Raises UnknownName."""
        return _named("graph", self.graphs, name)


def closest(name: str, known: Iterable[str]) -> str:
    """Return ``"; did you mean 'NAME'?"`` with the known name closest to ``name``, or "" if none is close."""
    matches = difflib.get_close_matches(name, list(known), n=1)
    return f"; did you mean {matches[0]!r}?" if matches else ""


def _named(kind: str, known: Mapping[str, Spec], name: str) -> Spec:
    if name not in known:
        installed = ", ".join(sorted(known)) or "none"
        raise UnknownName(f"there is no {kind} called {name!r}{closest(name, known)} (installed: {installed})")
    return known[name]


def blocked_names(configured: Iterable[str] = ()) -> frozenset[str]:
    """Return the plugins to block: ``configured`` and those in the environment variable ONYX_HARNESS_BLOCK (a,b,c)."""
    from_environment = os.environ.get(BLOCK_VARIABLE, "").split(",")
    return frozenset(name.strip() for name in (*configured, *from_environment) if name.strip())


def load_plugins(
    block: Iterable[str] = (),
    found: Iterable[EntryPoint] | None = None,
    importing: Callable[[str], None] = lambda name: None,
) -> Registry:
    """Load every installed plugin that is not blocked, one by one.

    A plugin that cannot be imported, raises SystemExit at import, is invalid, or offers a name already in use causes a
    PluginWarning and does not affect the others. ``found`` replaces the search for entry points. ``importing`` is
    called with the name of each plugin before its import. A message on standard error names a plugin whose import
    takes longer than 10 s.
    """
    blocked = blocked_names(block)
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    registry = Registry()
    for entry in _in_order(_known or _installed() if found is None else found):
        if entry.name not in blocked and entry.name not in registry.plugins:
            importing(printable(entry.name))
            _load(entry, manager, registry)
    return registry


_known: list[EntryPoint] = []  # the plugins that were installed at the call of load_own_plugins
_preloaded: set[str] = set()  # the modules that it imported


def load_own_plugins() -> None:
    """Import the modules of this distribution's own plugins, without those in ONYX_HARNESS_BLOCK.

    A plugin that cannot be imported is skipped; :func:`load_plugins` reports it. From then on :func:`load_plugins`
    loads the plugins that are installed now, and does not search for them again.
    """
    _known[:] = _in_order(_installed())
    for entry in _known:
        if _distribution_of(entry) == DISTRIBUTION and entry.name not in blocked_names():
            with suppress(Exception):
                entry.load()
                _preloaded.add(entry.module)


def _installed() -> Iterator[EntryPoint]:
    yield from entry_points(group=GROUP)
    try:
        distribution(DISTRIBUTION)
    except PackageNotFoundError:
        # A checkout that is not installed: read the same entry points from their declaration.
        declaration = Path(__file__).parent.parent / "pyproject.toml"
        declared = tomllib.loads(declaration.read_text())["project"]["entry-points"][GROUP]
        for name, value in declared.items():
            yield EntryPoint(name=name, value=value, group=GROUP)


def _in_order(entries: Iterable[EntryPoint]) -> list[EntryPoint]:
    """Sort built-in plugins first, which protects their names; then by name, for an order independent of the disk."""
    return sorted(entries, key=lambda entry: (_distribution_of(entry) != DISTRIBUTION, entry.name))


def _distribution_of(entry: EntryPoint) -> str:
    return _name_of(entry.dist) if entry.dist is not None else DISTRIBUTION


@functools.cache
def _name_of(installed: Distribution) -> str:
    return installed.name  # read from a file at every access


def _load(entry: EntryPoint, manager: pluggy.PluginManager, registry: Registry) -> None:
    """Import one plugin and register its specifications, or quarantine it."""
    hint = f"{BLOCK_VARIABLE}={entry.name} in the environment leaves it out"
    with _interrupts() as interrupted:
        try:
            what = f"plugin {entry.name!r} of distribution {_distribution_of(entry)!r}"
            with nullcontext() if entry.module in _preloaded else import_watch(what, hint):
                module = entry.load()
                manager.register(module, name=entry.name)
                _check_hooks(manager, module)
                offered = {name: _offered(manager, module, name) for name in _TABLES}
                folders = _offered(manager, module, "onyx_config_folders")
        except BaseException as error:  # an import can raise anything, SystemExit included
            if interrupted:
                raise
            manager.set_blocked(entry.name)
            if manager.get_plugin(entry.name) is not None:
                manager.unregister(name=entry.name)
            reason = one_line(describe_error(error)[:_MOST_REASON])
            registry.quarantined[entry.name] = reason
            _warn(entry, f"is left out: {reason}")
            return
    registry.plugins[entry.name] = _distribution_of(entry)
    registry.config_folders.extend(str(folder) for folder in folders)
    for hook, specs in offered.items():
        _, table = _TABLES[hook]
        _add(entry, specs, table(registry))


@contextmanager
def _interrupts() -> Iterator[list[int]]:
    """Collect received SIGINTs, to distinguish Ctrl-C from a KeyboardInterrupt that a plugin raises."""
    met: list[int] = []
    if (
        threading.current_thread() is not threading.main_thread()
        or signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    ):
        yield met
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        met.append(number)
        signal.default_int_handler(number, frame)

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield met
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


_TABLES: dict[str, tuple[type, Callable[[Registry], dict[str, Any]]]] = {
    "onyx_engines": (EngineSpec, lambda registry: registry.engines),
    "onyx_algorithms": (AlgorithmSpec, lambda registry: registry.algorithms),
    "onyx_graphs": (GraphSpec, lambda registry: registry.graphs),
}


def _check_hooks(manager: pluggy.PluginManager, module: object) -> None:
    """Raise TypeError if a plugin implements a hook that does not exist."""
    known = [name for name in vars(hookspecs) if name.startswith("onyx_")]
    for caller in manager.get_hookcallers(module) or []:
        if not caller.has_spec():
            raise TypeError(
                f"there is no hook {caller.name!r}{closest(caller.name, known)} (hooks: {', '.join(known)})"
            )


def _offered(manager: pluggy.PluginManager, module: object, hook: str) -> list[Any]:
    """Return the result of one plugin's implementation of one hook. Raises TypeError if it has the wrong type."""
    caller = manager.subset_hook_caller(hook, [other for other in manager.get_plugins() if other is not module])
    answers = caller()
    wanted = _TABLES[hook][0] if hook in _TABLES else str
    if not answers and any(one.name == hook for one in manager.get_hookcallers(module) or []):
        raise TypeError(f"{hook} must return a list of {wanted.__name__}, not None")  # pluggy omits it
    for answer in answers:
        if not isinstance(answer, list) or not all(isinstance(item, wanted) for item in answer):
            raise TypeError(f"{hook} must return a list of {wanted.__name__}, not {answer!r}")
    return [_checked(hook, item) for answer in answers for item in answer]


def _checked(hook: str, item: Any) -> Any:
    """Return a specification with one printable line of help. Raises TypeError for a field of the wrong type."""
    if isinstance(item, str):
        return item
    for name in ("name", "factory"):
        text = getattr(item, name)
        if not isinstance(text, str) or not text or not text.isprintable():
            raise TypeError(f"{hook}: {name} is {text!r}; it must be printable text, not empty")
    if not isinstance(item.help, str):
        raise TypeError(f"{hook}: help of {item.name!r} is {item.help!r}; it must be text")
    return item if item.help.isprintable() else dataclasses.replace(item, help=one_line(item.help))


def _add(entry: EntryPoint, specs: list[Any], table: dict[str, Any]) -> None:
    for spec in specs:
        if spec.name in table:
            _warn(entry, f"offers {spec.name!r}, a name already taken by {table[spec.name].factory}; it is refused")
        else:
            table[spec.name] = spec


def _warn(entry: EntryPoint, what: str) -> None:
    message = f"plugin {entry.name!r} of distribution {_distribution_of(entry)!r} {what}"
    warnings.warn(message, PluginWarning, stacklevel=4)
