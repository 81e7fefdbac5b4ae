"""Options of schedules, parameters of algorithms and of graphs: defaults, help texts, accepted values and ranges."""

from __future__ import annotations

import dataclasses
import re
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, cast

T = TypeVar("T")
_INTERVAL = re.compile(r"([\[(])\s*(\S+)\s*,\s*(\S+)\s*([\])])")


_TYPES = {int: "an integer", float: "a number", str: "text", tuple: "a list"}


def wanted_like(default: object) -> str:
    """Return what a value must be to replace a default, such as ``"an integer, like 14"``."""
    if isinstance(default, bool):
        return "true or false"
    shown = list(default) if isinstance(default, tuple) else default  # as a command writes it
    return f"{_TYPES.get(type(default), f'a {type(default).__name__}')}, like {shown!r}"


@dataclass(frozen=True)
class Option:
    """One option, as ``describe`` shows it.

    ``type``: the annotation as text. ``default``: ``dataclasses.MISSING`` if a value is required. ``values``: every
    accepted value other than None, empty if they are not enumerable. ``within``: an interval such as ``"[0, 1)"``, or
    "". ``partial``: values that the engine refuses by name on some devices or for many programs.
    """

    name: str
    type: str
    default: object
    help: str = ""
    values: tuple[object, ...] = ()
    within: str = ""
    partial: tuple[object, ...] = ()

    def problem(self, value: object) -> str:
        """Return what is wrong with a value, such as ``"alpha=2: give a number in (0, 1)"``; "" if it is accepted.

        None is accepted by every option, and so is a value of another type than the range's: types are not checked
        here.
        """
        if value is None:
            return ""
        if self.values and value not in self.values:
            return f"{self.name}={value!r}: give one of {', '.join(map(str, self.values))}"
        number = isinstance(value, (int, float)) and not isinstance(value, bool)
        if self.within and number and not _contains(self.within, cast("float", value)):
            return f"{self.name}={value!r}: give a number in {self.within}"
        return ""


def option(
    default: T, text: str, partial: tuple[T, ...] = (), *, values: Iterable[object] = (), within: str = "",
    instead: Iterable[object] = (),
) -> T:  # fmt: skip
    """Define an option: a field of a schedule, a parameter of an algorithm (both dataclasses), or of a ``GraphSpec``.

    ``text``: one line of help. ``values``: the accepted values, in addition to None; omitted for a ``Literal`` type,
    which names them. ``within``: the interval of accepted numbers, such as ``"[0, 1)"`` or ``"[1, inf)"``. The harness
    refuses other values. ``partial``: values of a ``Literal`` type that the engine refuses by name on some devices or
    for many programs; enumerations of all schedules, and suggestions, omit them. ``instead``: values that the harness
    gives the option, if the user has not, where the plan that the engine chose by default cannot run a cell. They are
    tried before all other changes of a schedule.

    Raises ValueError for an interval that cannot be read.
    """
    if within:
        _bounds(within)
    made: Any = field(
        default=default,
        metadata={
            "help": text, "partial": partial, "values": tuple(values), "within": within, "instead": tuple(instead),
        },
    )  # fmt: skip
    return cast("T", made)


def options_in(described: type) -> tuple[Option, ...]:
    """Return the options that the fields of a dataclass define, in their order."""
    try:
        hints = typing.get_type_hints(described)
    except NameError:  # an annotation names something that is imported for type checkers only
        hints = {}
    return tuple(
        _from_field(item, item.name, hints.get(item.name, item.type)) for item in dataclasses.fields(described)
    )


def split_parameters(parameters: typing.Mapping[str, object]) -> tuple[dict[str, object], tuple[Option, ...]]:
    """Return the defaults of a graph's parameters, and the options that those made by :func:`option` define."""
    fields = {
        name: item if isinstance(item, dataclasses.Field) else cast("dataclasses.Field[Any]", field(default=item))
        for name, item in parameters.items()
    }
    options = tuple(_from_field(item, name, _kind(item)) for name, item in fields.items())
    return {name: item.default for name, item in fields.items()}, options


def problems(options: Iterable[Option], values: typing.Mapping[str, object]) -> Iterator[str]:
    """Yield what is wrong with each value that its option does not accept."""
    for item in options:
        if item.name in values and (problem := item.problem(values[item.name])):
            yield problem


def _from_field(item: dataclasses.Field[Any], name: str, hint: object) -> Option:
    default = item.default if item.default_factory is dataclasses.MISSING else item.default_factory()
    known = item.metadata
    values = tuple(known.get("values", ())) or _closed(hint)
    partial = tuple(known.get("partial", ()))
    return Option(name, _text(hint), default, known.get("help", ""), values, known.get("within", ""), partial)


def _closed(hint: object) -> tuple[object, ...]:
    """Return the values of a ``Literal`` type, also of one with None."""
    if typing.get_origin(hint) is Literal:
        return typing.get_args(hint)
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return tuple(value for part in typing.get_args(hint) for value in _closed(part))
    return ()


def _kind(item: dataclasses.Field[Any]) -> object:
    """Return the type of a default, as far as it is known."""
    if item.default is None:
        values = item.metadata.get("values", ())
        return type(values[0]) if values else "number" if item.metadata.get("within") else object
    return type(item.default)


def _text(hint: object) -> str:
    """Return a type as users write it: ``text`` for str, ``any`` if the type is not known."""
    parts = str(hint).split("|") if isinstance(hint, str) else [getattr(p, "__name__", str(p)) for p in _parts(hint)]
    names = {"str": "text", "NoneType": "null", "None": "null", "object": "any", "bool": "bool"}
    return " or ".join(dict.fromkeys(names.get(part.strip(), part.strip()) for part in parts))


def _parts(hint: object) -> Iterator[object]:
    """Yield the members of a union; a ``Literal`` as the types of its values."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        for part in typing.get_args(hint):
            yield from _parts(part)
    elif typing.get_origin(hint) is Literal:
        yield from dict.fromkeys(type(value) for value in typing.get_args(hint))
    else:
        yield hint


def _contains(interval: str, value: float) -> bool:
    opening, low, high, closing = _bounds(interval)
    return (value > low or (opening == "[" and value == low)) and (value < high or (closing == "]" and value == high))


def _bounds(interval: str) -> tuple[str, float, float, str]:
    """Return the brackets and the ends of an interval. Raises ValueError if it cannot be read."""
    found = _INTERVAL.fullmatch(interval)
    if found is None:
        raise ValueError(f"within={interval!r} is not an interval; write it as in '[0, 1)' or '[1, inf)'")
    return found[1], float(found[2]), float(found[3]), found[4]
