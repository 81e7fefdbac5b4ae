"""The specification of an engine by its plugin, before anything is run."""

from __future__ import annotations

import dataclasses
import importlib.util
import inspect
from collections.abc import Iterator
from dataclasses import replace

import pytest

from harness.conformance.graphs import two_sides
from harness.conformance.programs import PROGRAMS, program_named
from harness.conformance.subject import Subject
from harness.contract import Engine, No, ScheduleError, schedule_from_options


def option_fields(described: Subject) -> Iterator[dataclasses.Field[object]]:
    """Yield the options of the schedule."""
    yield from dataclasses.fields(described.spec.schedule)


def test_it_is_described(described: Subject) -> None:
    """A name without spaces, a line of help, and known devices."""
    spec = described.spec
    assert spec.name
    assert spec.name.split() == [spec.name]
    assert spec.help
    assert "\n" not in spec.help
    assert spec.devices
    assert set(spec.devices) <= {"cpu", "cuda"}


def test_required_modules_are_installed(described: Subject) -> None:
    """If a required module is missing, the suite cannot run."""
    missing = [name for name in described.spec.requires if importlib.util.find_spec(name) is None]
    assert not missing, f"install {', '.join(missing)}"


def test_the_schedule_is_a_frozen_dataclass_whose_options_are_explained(described: Subject) -> None:
    """Every option has a default and a help text, and is immutable."""
    schedule = described.spec.schedule
    assert dataclasses.is_dataclass(schedule)
    for field in option_fields(described):
        given = field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
        assert given, f"option {field.name!r} has no default"
    instance = schedule()
    assert repr(instance).startswith(schedule.__name__)
    for field in option_fields(described):
        assert field.metadata.get("help"), f"option {field.name!r} has no help: make it with harness.api.option"
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(instance, field.name, field.default)
    assert hash(instance) == hash(schedule())


def test_the_factory_is_an_engine(described: Subject) -> None:
    """``package.module:Class`` names a class that implements every method of the contract."""
    cls = type(described.new())
    assert issubclass(cls, Engine)
    assert not inspect.isabstract(cls)


def test_an_unknown_option_is_refused_by_name(described: Subject) -> None:
    """No option is ignored, not even by the schedule itself."""
    with pytest.raises(TypeError, match="no_such_option"):
        described.spec.schedule(no_such_option=1)
    with pytest.raises(ScheduleError, match="no_such_option"):
        schedule_from_options(described.spec, {"no_such_option": 1})


def test_a_value_of_the_wrong_type_is_refused_by_name(described: Subject) -> None:
    """Otherwise ``fold=flase`` would enable folding."""
    for field in option_fields(described):
        if field.default is not None and field.default is not dataclasses.MISSING:
            with pytest.raises(ScheduleError, match=field.name):
                schedule_from_options(described.spec, {field.name: object()})


def test_an_unknown_word_is_refused_by_name(described: Subject) -> None:
    """Expect ScheduleError, or no support: ``direction=sideways`` must not mean the default direction."""
    for field in option_fields(described):
        if isinstance(field.default, str) or "str" in str(field.type):
            wrong = replace(described, options={**described.options, field.name: "no_such_word"})
            message = taken(wrong)
            assert field.name in message, f"{field.name}=no_such_word: {message}"


def taken(subject: Subject) -> str:
    """Return why a schedule is refused, or what is supported under it."""
    try:
        answers = {name: subject.says(program_named(name), two_sides(), 3) for name in PROGRAMS}
    except ScheduleError as error:
        return str(error)
    supported = [name for name, answer in answers.items() if not isinstance(answer, No)]
    return f"supported are {', '.join(supported)}" if supported else str(answers)
