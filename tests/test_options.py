"""Options read from annotations and defaults, by hand: types, values, ranges; schedules as text."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any, Literal, Optional, Union

import pytest

from harness.contract import Device, Engine, No, Operations, RunStatistics, schedule_text
from harness.options import Option, option, options_in, split_parameters, wanted_like
from harness.per_device import PerDevice

if TYPE_CHECKING:
    from somewhere import Unknown

Way = Literal["up", "down"]


@dataclasses.dataclass
class Typed:
    required: int
    plain: float = option(0.5, "a share", within="[0, 1)")
    text: str = option("a", "a text", values=("a", "b"))
    way: Way = option("up", "a way", partial=("down",))  # noqa: RUF009
    maybe: Way | None = option(None, "a way, or none")  # noqa: RUF009
    old: Optional[Literal[1, 2]] = option(None, "a number")  # noqa: UP045
    mixed: Union[Literal["auto"], int, None] = option(None, "a number, or auto")  # noqa: UP007
    both: Literal["auto", 3] | bool = option("auto", "two literals")
    anything: Any = option(None, "anything")  # noqa: RUF009
    many: tuple[int, ...] = dataclasses.field(default=(1, 2))
    made: list[int] = dataclasses.field(default_factory=lambda: [3])


def test_options_have_the_types_and_the_values_of_their_annotations():
    assert options_in(Typed) == (
        Option("required", "int", dataclasses.MISSING),
        Option("plain", "float", 0.5, "a share", (), "[0, 1)"),
        Option("text", "text", "a", "a text", ("a", "b")),
        Option("way", "text", "up", "a way", ("up", "down"), partial=("down",)),
        Option("maybe", "text or null", None, "a way, or none", ("up", "down")),
        Option("old", "int or null", None, "a number", (1, 2)),
        Option("mixed", "text or int or null", None, "a number, or auto", ("auto",)),
        Option("both", "text or int or bool", "auto", "two literals", ("auto", 3)),
        Option("anything", "Any", None, "anything"),
        Option("many", "tuple", (1, 2)),
        Option("made", "list", [3]),
    )


def test_an_annotation_that_cannot_be_evaluated_is_shown_as_it_is_written():
    @dataclasses.dataclass
    class Late:
        graph: Unknown | None = None
        name: str | None = None
        number: int = 3

    assert [(item.name, item.type) for item in options_in(Late)] == [
        ("graph", "Unknown or null"), ("name", "text or null"), ("number", "int"),
    ]  # fmt: skip


def test_parameters_of_a_graph_have_the_types_of_their_defaults():
    given = {
        "scale": 16, "share": option(0.5, "a share", within="(0, 1)"), "path": "", "seed": option(0, "a seed"),
        "kind": option(None, "a kind", values=("a", "b")), "limit": option(None, "a limit", within="[1, inf)"),
        "size": option(None, "a size", values=(3, 5)), "any": None, "on": option(True, "on"),
    }  # fmt: skip
    defaults, options = split_parameters(given)
    assert defaults == {
        "scale": 16, "share": 0.5, "path": "", "seed": 0, "kind": None, "limit": None, "size": None, "any": None,
        "on": True,
    }  # fmt: skip
    assert options == (
        Option("scale", "int", 16), Option("share", "float", 0.5, "a share", (), "(0, 1)"), Option("path", "text", ""),
        Option("seed", "int", 0, "a seed"), Option("kind", "text", None, "a kind", ("a", "b")),
        Option("limit", "number", None, "a limit", (), "[1, inf)"), Option("size", "int", None, "a size", (3, 5)),
        Option("any", "any", None), Option("on", "bool", True, "on"),
    )  # fmt: skip


@pytest.mark.parametrize(
    ("within", "value", "accepted"),
    [
        ("[1, 2]", 1, True), ("[1, 2]", 2, True), ("[1, 2]", 0.999, False), ("[1, 2]", 2.001, False),
        ("(1, 2)", 1, False), ("(1, 2)", 2, False), ("(1, 2)", 1.5, True), ("[0, inf)", 1e300, True),
        ("[0, inf)", float("inf"), False), ("[0, 1]", float("nan"), False), ("[0, 1]", None, True),
        ("[0, 1]", True, True), ("[0, 1]", "auto", True),
    ],
)  # fmt: skip
def test_a_number_must_lie_in_the_range(within, value, accepted):
    item = Option("alpha", "float", None, "", (), within)
    assert item.problem(value) == ("" if accepted else f"alpha={value!r}: give a number in {within}")


@pytest.mark.parametrize(
    ("default", "text"),
    [
        (14, "an integer, like 14"), (0.5, "a number, like 0.5"), (False, "true or false"), ("a", "text, like 'a'"),
        ((1, 2), "a list, like [1, 2]"), ({}, "a dict, like {}"),
    ],
)  # fmt: skip
def test_what_a_value_must_be_like(default, text):
    assert wanted_like(default) == text


@dataclasses.dataclass(frozen=True)
class Schedule:
    width: int | None = None
    way: str = "push"


class Resolved(Engine):
    """An engine with given resolved options."""

    options: dict[str, Any]

    def supports(self, program, graph, features, device): ...

    def prepare(self, program, graph, features, device, phases): ...

    def reset(self, inputs, state=None): ...

    def run(self, max_supersteps): ...

    def values(self, name): ...

    def close(self): ...

    def resolved_options(self):
        return self.options


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"way": "push"}, "schedule Schedule(way='push') on 3 threads"),
        (
            {"width": 8, "way": "pull"},
            "schedule Schedule(width=8, way='pull') on 3 threads\nchosen by the engine: width, way",
        ),
        (
            {"way": "push", "bounds": list(range(99))},
            "schedule Schedule(way='push', bounds=[99 entries]) on 3 threads\nchosen by the engine: bounds",
        ),
        (
            {"way": "x" * 90, "bounds": [1] * 27},  # 81 characters, and a text is shown whole
            f"schedule Schedule(way='{'x' * 90}', bounds=[27 entries]) on 3 threads\nchosen by the engine: way, bounds",
        ),
        (
            {"way": "push", "bounds": (1,) * 26 + (10,)},
            "schedule Schedule(way='push', bounds=[27 entries]) on 3 threads\nchosen by the engine: bounds",
        ),
        (
            {"way": "push", "bounds": [1] * 26},
            f"schedule Schedule(way='push', bounds={[1] * 26!r}) on 3 threads\nchosen by the engine: bounds",
        ),
    ],
)
def test_a_schedule_is_shown_with_what_the_engine_chose(options, text):
    engine = Resolved(Schedule())
    engine.options = options
    assert schedule_text(engine, " on 3 threads") == text


def test_an_engine_promises_nothing_by_default():
    engine = Resolved(Schedule(width=3))
    assert (engine.deterministic, engine.stepwise, engine.tunes) == (False, True, False)
    assert engine.operations(RunStatistics(True)) == Operations(0, 0, False)
    assert Engine.resolved_options(engine) == {"width": 3, "way": "push"}
    assert Engine.resolved_options(Resolved(None)) == {}
    assert isinstance(engine.memory_model(None, None, 1, None), No)
    assert engine.device_values("x") is None
    assert engine.explain() == "Schedule(width=3, way='push')"


class OnCpu(PerDevice):
    engines = {"cpu": f"{__name__}:Resolved"}  # noqa: RUF012


class OnBoth(OnCpu):
    engines = {"cpu": f"{__name__}:Resolved", "cuda": f"{__name__}:Modelled"}  # noqa: RUF012


class Modelled(Resolved):
    def memory_model(self, program, graph, features, inputs):
        return "counted", program, graph, features, inputs


def test_the_memory_model_is_that_of_the_code_for_gpus_on_any_device():
    given = "program", "graph", 3, "inputs"
    assert OnBoth(Schedule()).memory_model(*given) == ("counted", *given)
    engine = OnCpu(Schedule())
    assert engine.memory_model(*given) == No("the engine has no kernels whose accesses can be counted")
    assert engine._made == {}
    assert engine.on(Device("cpu")) is engine.on(Device("cpu"))
