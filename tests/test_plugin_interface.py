"""The interface of plugins is small and documented."""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from unittest.mock import create_autospec

import pytest

from harness import api
from harness.api import cpu, cuda
from harness.campaign.guarded_engine import GuardedEngine
from harness.contract import Engine
from harness.device.synchronizing import Finishing
from harness.forwarding import Forwarding
from harness.per_device import PerDevice

CONSTANTS = {"ELEMENTWISE", "K"}
TYPE_ALIASES = {"Direction", "Stage"}
PAGE = Path(__file__).parents[1] / "docs" / "api.md"


def test_the_interface_has_fewer_than_sixty_names():
    assert len(api.__all__) == len(set(api.__all__)) < 60


def test_the_page_describes_every_name_once():
    described = re.findall(r"^\| `(\w+)` \| \S", PAGE.read_text(), re.MULTILINE)
    assert sorted(described) == sorted(api.__all__)


@pytest.mark.parametrize("name", sorted(set(api.__all__) - CONSTANTS - TYPE_ALIASES))
def test_every_class_and_function_of_the_interface_is_documented(name):
    value = getattr(api, name)
    generated = f"{name}("  # dataclass() generates a docstring that is only the signature
    assert inspect.isroutine(value) or inspect.isclass(value) or name == "hookimpl"
    assert value.__doc__
    assert not value.__doc__.startswith(generated)


@pytest.mark.parametrize("wrapper", [PerDevice, Finishing, GuardedEngine])
def test_wrappers_of_engines_forward_every_method(wrapper):
    """A method that is not forwarded falls back to its default without notice."""
    methods = [name for name, _ in inspect.getmembers(Engine, inspect.isfunction) if not name.startswith("_")]
    if wrapper is Finishing:
        methods.remove("memory_model")  # the engine itself answers it, because it needs no device
    assert {"build", "rows"} < set(methods)
    assert [name for name in methods if getattr(wrapper, name) is getattr(Engine, name)] == []


@pytest.mark.parametrize("toolkit", [cpu, cuda], ids=["cpu", "cuda"])
def test_every_name_of_a_toolkit_exists(toolkit):
    assert len(toolkit.__all__) == len(set(toolkit.__all__))
    assert all(hasattr(toolkit, name) for name in toolkit.__all__)


class Outer(Forwarding, Engine):
    """An engine that runs another one, and adds nothing."""

    def supports(self, program, graph, features, device): ...

    def prepare(self, program, graph, features, device, phases):
        self._prepared = create_autospec(Engine, instance=True)

    def reset(self, inputs, state=None): ...

    def close(self): ...


@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("run", (3,)), ("ordered_superstep", ()), ("values", ("x",)), ("rows", ("x", [1])), ("device_values", ("x",)),
        ("operations", ("statistics",)),
    ],
)  # fmt: skip
def test_an_engine_that_runs_another_returns_its_results(name, arguments):
    outer = Outer(None)
    with pytest.raises(AssertionError, match=r"prepare\(\) comes first"):
        getattr(outer, name)(*arguments)
    outer.prepare(None, None, 1, None, None)
    assert getattr(outer, name)(*arguments) is getattr(outer.prepared, name).return_value
    getattr(outer.prepared, name).assert_called_once_with(*arguments)


def test_an_engine_that_runs_another_narrows_it():
    outer = Outer(None)
    outer.prepare(None, None, 1, None, None)
    outer.narrow("stale", "senders")
    outer.prepared.narrow.assert_called_once_with("stale", "senders")
