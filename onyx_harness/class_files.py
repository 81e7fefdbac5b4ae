"""Algorithm classes that no other process can import, such as those of a notebook, in files for isolated processes.

    CACHE/classes/FINGERPRINT   a hash of the rest; then the class by value (cloudpickle) and the lines of its source

The fingerprint identifies the code and the values that the class uses. It is the same in another process, and does not
depend on where the code was typed. Loading such a file executes code: `kept_class` refuses files that another user
could have written.
"""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import io
import linecache
import os
import pickle
import pickletools
import types
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import cloudpickle

from harness.atomic_write import write_whole
from harness.cache import cache_folder, filling_cache
from harness.campaign.errors import CampaignError
from harness.language.algorithm import Algorithm

_HASH_BYTES = 32
# Compared by identity, so that a class by value must refer to them.
_SENTINELS = {
    id(getattr(dataclasses, name)): name
    for name in ("MISSING", "KW_ONLY", "_HAS_DEFAULT_FACTORY", "_FIELD", "_FIELD_CLASSVAR", "_FIELD_INITVAR")
}
# Members that describe where or how a class was made, not what it does.
_PLACES = {"__dict__", "__weakref__", "_abc_impl", "__firstlineno__", "__static_attributes__", "__annotate_func__"}


class _ByValue(cloudpickle.Pickler):  # type: ignore[misc]  # the library has no types
    """Serialise a class by value. ``files``: the names of the files of its code."""

    def __init__(self, file: io.BytesIO) -> None:
        super().__init__(file)
        self.files: dict[str, None] = {}

    def reducer_override(self, value: Any) -> Any:
        if id(value) in _SENTINELS:
            return getattr, (dataclasses, _SENTINELS[id(value)])
        if isinstance(value, types.CodeType):
            self.files[value.co_filename] = None
        return super().reducer_override(value)


class _Identifying(_ByValue):
    """Serialise what a class does, without places in files and random ids. The result is hashed, never read."""

    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, types.CodeType):
            constants = [sorted(map(repr, one)) if isinstance(one, frozenset) else one for one in value.co_consts]
            names = (value.co_names, value.co_varnames, value.co_freevars, value.co_cellvars)
            counts = (value.co_argcount, value.co_posonlyargcount, value.co_kwonlyargcount, value.co_flags)
            return tuple, ([value.co_code, value.co_exceptiontable, constants, names, counts],)
        reduced = super().reducer_override(value)
        if not isinstance(reduced, tuple) or len(reduced) == 2:  # not by value
            return reduced
        if isinstance(value, type):
            members = {name: member for name, member in vars(value).items() if name not in _PLACES}
            return types.SimpleNamespace, (), {"name": value.__name__, "bases": value.__bases__, "members": members}
        if isinstance(value, types.FunctionType):
            parts = (value.__code__, value.__defaults__, value.__kwdefaults__, value.__closure__, value.__dict__)
            return types.SimpleNamespace, (), {"parts": parts, "globals": _globals(value)}
        return reduced


def importable(made: type[Algorithm]) -> str:
    """Return ``module:Class``, or "" for a class that another process cannot import."""
    if made.__module__ == "__main__":
        return ""
    module = importlib.import_module(made.__module__)
    found = getattr(module, made.__qualname__, None) is made
    return f"{made.__module__}:{made.__qualname__}" if found else ""


def keep_class(made: type[Algorithm]) -> str:
    """Write a class to the cache and return its fingerprint, 32 hexadecimal digits.

    Raises CampaignError, which names the value, for a class that uses a value that cannot be serialised; CacheError.
    """
    try:
        identified, _ = _dumped(_Identifying, made)
        data, files = _dumped(_ByValue, made)
    except Exception as error:  # the own __reduce__ of a value may raise anything
        raise CampaignError(_refusal(made, error)) from error
    fingerprint = _fingerprint(identified)
    sources = {file: linecache.getlines(file) for file in files if not os.path.isfile(file)}
    content = pickle.dumps((data, sources))
    with filling_cache():
        folder = _folder()
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        write_whole(folder / fingerprint, hashlib.sha256(content).digest() + content, mode=0o600)
    return fingerprint


def kept_class(fingerprint: str) -> type[Algorithm]:
    """Load a class that `keep_class` wrote as this user. The lines of its source are shown in errors.

    Raises CampaignError if the file is missing, damaged, or accessible to other users.
    """
    path = _folder() / fingerprint
    try:
        _refuse_others(path.parent, os.stat(path.parent))
        with os.fdopen(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
            _refuse_others(path, os.fstat(file.fileno()))
            found = file.read()
    except OSError as error:
        raise CampaignError(f"the algorithm class is not in the cache any more ({error}); compare it again") from error
    content = found[_HASH_BYTES:]
    if hashlib.sha256(content).digest() != found[:_HASH_BYTES]:
        raise CampaignError(f"{path} is damaged; delete it and compare again")
    data, sources = pickle.loads(content)  # noqa: S301  only this user can have written it
    for name, lines in sources.items():
        linecache.cache.setdefault(name, (sum(map(len, lines)), None, lines, name))
    made: type[Algorithm] = pickle.loads(data)  # noqa: S301
    return made


def _folder() -> Path:
    return cache_folder() / "classes"


def _refuse_others(path: Path, status: os.stat_result) -> None:
    """Raise CampaignError for a file that another user owns or may access."""
    if status.st_uid != os.geteuid() or status.st_mode & 0o077:
        raise CampaignError(
            f"{path} has the owner {status.st_uid} and the mode {status.st_mode & 0o777:o}; code is loaded only from "
            "files that only you can access. Delete it and compare again"
        )


def _dumped(pickler: type[_ByValue], value: Any) -> tuple[bytes, list[str]]:
    """Return a value, serialised, and the files of its code."""
    file = io.BytesIO()
    writer = pickler(file)
    writer.dump(value)
    return file.getvalue(), list(writer.files)


def _fingerprint(identified: bytes) -> str:
    """Return a hash of a pickle that does not depend on which equal strings are one object."""
    digest = hashlib.sha256()
    memo: list[Any] = []  # texts themselves, other objects by their number
    others, last = 0, None
    for code, argument, _ in pickletools.genops(identified):
        if code.name == "MEMOIZE":
            memo.append(last if isinstance(last, (str, bytes)) else others)
            others += not isinstance(last, (str, bytes))
        elif code.name != "FRAME":
            last = memo[int(argument or 0)] if code.name.endswith("BINGET") else argument
            named = "TEXT" if isinstance(last, (str, bytes)) else code.name
            digest.update(repr((named, last)).encode())
    return digest.hexdigest()[:32]


def _refusal(made: type[Algorithm], error: Exception) -> str:
    """Return why a class cannot be serialised: the value that it uses, and where."""
    place, value, cause = _culprit(made.__name__, made, set()) or (made.__name__, made, error)
    return (
        f"algorithm class {made.__name__} is defined in {made.__module__} as {made.__qualname__}, so compare() "
        f"serialises it for its isolated processes, but {place} is a {type(value).__module__}."
        f"{type(value).__qualname__}, which cannot be serialised ({cause}); make that value inside a method, or move "
        "the class to a module and import it"
    )


def _culprit(place: str, value: Any, seen: set[int]) -> tuple[str, Any, Exception] | None:
    """Return the innermost value that cannot be serialised, where it is used, and why; None if ``value`` can be."""
    if id(value) in seen:
        return None
    seen.add(id(value))
    try:
        _dumped(_ByValue, value)
    except Exception as error:  # noqa: BLE001  the own __reduce__ of a value may raise anything
        for inner_place, inner in _parts(place, value):
            found = _culprit(inner_place, inner, seen)
            if found is not None:
                return found
        return place, value, error
    return None


def _parts(place: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a class or a function refers to, with a description of the place."""
    if isinstance(value, type):
        yield from ((f"{place}.{name}", member) for name, member in vars(value).items() if name not in _PLACES)
        yield from ((base.__name__, base) for base in value.__bases__)
    elif isinstance(value, (staticmethod, classmethod)):
        yield place, value.__func__
    elif isinstance(value, property):
        yield from ((place, one) for one in (value.fget, value.fset, value.fdel) if one is not None)
    elif isinstance(value, types.FunctionType):
        yield from ((f"global {name!r} in {place}", used) for name, used in _globals(value).items())
        for name, cell in zip(value.__code__.co_freevars, value.__closure__ or (), strict=True):
            with suppress(ValueError):  # a variable without a value
                yield f"variable {name!r} in {place}", cell.cell_contents


def _globals(function: types.FunctionType) -> dict[str, Any]:
    """Return the globals that a function and those within it use."""
    known = function.__globals__
    return {name: known[name] for name in _names(function.__code__) if name in known}


def _names(code: types.CodeType) -> Iterator[str]:
    """Yield the names that code and the functions within it use."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names(constant)
