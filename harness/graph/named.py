"""Open a graph by its factory and parameters, through the cache.

A factory is a function "package.module:function" that takes plain parameters and returns a Graph. It may be marked:
`uses` names the data packages it reads. With `caches_itself` it calls the cache itself, with a key of what it opens.
With `not_cached` its graphs are made in less time than the cache takes to write and check them.
"""

from __future__ import annotations

import difflib
import functools
import hashlib
import importlib
import importlib.metadata
import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness.graph.cache import cached, fill
from harness.graph.errors import GraphError
from harness.graph.graph import Graph
from harness.options import problems

if TYPE_CHECKING:
    from harness.specifications import GraphSpec

Factory = TypeVar("Factory", bound=Callable[..., Any])


def uses(*packages: str, extra: str) -> Callable[[Factory], Factory]:
    """Mark a factory, or a check of its parameters, as needing `packages` (distribution names) of the extra `extra`.

    The packages' versions are part of the cache key. The marked function raises GraphError, naming the extra, if a
    package is missing.
    """

    def mark(factory: Factory) -> Factory:
        @functools.wraps(factory)
        def checked(*args: object, **parameters: object) -> Any:
            _versions(packages, extra, factory.__name__)
            return factory(*args, **parameters)

        checked.data_packages = (packages, extra)  # type: ignore[attr-defined]
        return checked  # type: ignore[return-value]

    return mark


def caches_itself(factory: Factory) -> Factory:
    """Mark a factory that calls `cached` itself, because its graphs depend on more than its parameters."""
    factory.caches_itself = True  # type: ignore[attr-defined]
    return factory


def not_cached(factory: Factory) -> Factory:
    """Mark a factory whose graphs are never stored: each process that opens one makes it again."""
    factory.not_cached = True  # type: ignore[attr-defined]
    return factory


def open_graph(graph: GraphSpec | str, parameters: Mapping[str, object] | None = None) -> Graph:
    """Return the graph of a specification or of a factory "package.module:function", from the cache if possible.

    parameters: plain data; they override the specification's parameters, which override the function's defaults. The
    cache key is the factory, all its parameters, the versions of its data packages and the source files in its folder.
    Raises GraphError for an unknown factory or parameter, and any error of the factory.
    """
    function, complete, key = _request(graph, parameters or {})
    return function(**complete) if key is None else cached(key, lambda: function(**complete))


def build_graph(graph: GraphSpec | str, parameters: Mapping[str, object] | None = None) -> None:
    """Put the graph that :func:`open_graph` returns into the cache, unless it is there. Raises the same errors.

    Does nothing for a factory that is marked as `not_cached`.
    """
    function, complete, key = _request(graph, parameters or {})
    if getattr(function, "not_cached", False):
        return
    if key is None:
        function(**complete)
    else:
        fill(key, lambda: function(**complete))


def _request(
    graph: GraphSpec | str, parameters: Mapping[str, object]
) -> tuple[Callable[..., Graph], dict[str, object], list[object] | None]:
    """Return the factory, all its parameters, and its cache key; None if it calls the cache itself or never does."""
    factory, given = (graph, {}) if isinstance(graph, str) else (graph.factory, dict(graph.parameters))
    function = resolve(factory)
    complete = _complete(factory, function, given | dict(parameters))
    if getattr(function, "caches_itself", False) or getattr(function, "not_cached", False):
        return function, complete, None
    packages, extra = getattr(function, "data_packages", ((), ""))
    versions = _versions(packages, extra, factory)
    return function, complete, ["named", factory, complete, versions, source_digest(function)]


def check_parameters(graph: GraphSpec, parameters: Mapping[str, object]) -> None:
    """Check the parameters of a graph without building it: by their ranges, and by the specification's check, if any.

    Raises GraphError for a value that the factory would refuse, a missing file or a missing data package.
    """
    given = dict(graph.parameters) | dict(parameters)
    for problem in problems(graph.options, given):
        raise GraphError(f"{graph.name}: {problem}")
    if not graph.check:
        return
    check = resolve(graph.check)
    named = inspect.signature(check).parameters
    try:
        check(**{name: value for name, value in given.items() if name in named})
    except TypeError as error:
        raise GraphError(f"{graph.name}: a parameter is of the wrong type ({error})") from error


def resolve(factory: str) -> Callable[..., Any]:
    """Return the function that "package.module:function" names. Raises GraphError if it does not exist."""
    module, _, name = factory.partition(":")
    try:
        function = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        raise GraphError(
            f"graph factory {factory!r} cannot be found ({error}); it must be 'package.module:function'"
        ) from error
    if not callable(function):
        raise GraphError(f"graph factory {factory!r} is not a function; it must be 'package.module:function'")
    return function  # type: ignore[no-any-return]


def source_digest(function: Callable[..., Graph]) -> str:
    """Hash the source of `function`: the Python files of its package's folder, or its own file outside a package."""
    file = inspect.getsourcefile(inspect.unwrap(function))
    if file is None:
        return ""
    beside = [Path(file)]
    if (Path(file).parent / "__init__.py").exists():
        beside = sorted(Path(file).parent.glob("*.py"))
    digest = hashlib.blake2b(digest_size=16)
    for path in beside:
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


def _complete(factory: str, function: Callable[..., Graph], parameters: Mapping[str, object]) -> dict[str, object]:
    """Return the parameters with the function's defaults. Raises GraphError for unknown or missing parameters."""
    signature = inspect.signature(function)
    for name in parameters:
        if name not in signature.parameters:
            close = difflib.get_close_matches(name, signature.parameters, n=1)
            hint = f"did you mean {close[0]!r}?" if close else f"it has: {', '.join(signature.parameters)}"
            raise GraphError(f"graph {factory!r} has no parameter {name!r}; {hint}")
    bound = signature.bind_partial(**parameters)
    bound.apply_defaults()
    missing = [name for name in signature.parameters if name not in bound.arguments]
    if missing:
        raise GraphError(f"graph {factory!r} needs the parameter {missing[0]!r}; set it")
    return dict(bound.arguments)


def _versions(packages: tuple[str, ...], extra: str, name: str) -> dict[str, str]:
    versions = {}
    for package in packages:
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError as error:
            raise GraphError(
                f"graph {name}: the package {package} is missing; pip install 'onyx-harness[{extra}]'"
            ) from error
    return versions
