from __future__ import annotations

import os
import signal
import sys
import threading
import tomllib
from importlib.metadata import EntryPoint, PackageNotFoundError
from types import ModuleType

import pytest

from harness import hookspecs, plugins
from harness.contract import AlgorithmSpec, EngineSpec, GraphSpec
from harness.hookspecs import hookimpl
from harness.plugins import PluginWarning, Registry, UnknownName, load_plugins
from tests.conftest import ROOT


class Nothing:
    """A schedule without options."""


def engine(name: str, factory: str = "somewhere:Engine") -> EngineSpec:
    return EngineSpec(name, "an engine", Nothing, factory)


@pytest.fixture
def plugin(monkeypatch: pytest.MonkeyPatch):
    """Install a module with the given hook implementations; return its entry point."""

    def install(name: str, **hooks) -> EntryPoint:
        module = ModuleType(f"plugin_{name}")
        for hook, function in hooks.items():
            function.__name__ = hook
            setattr(module, hook, hookimpl(function))
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return EntryPoint(name=name, value=module.__name__, group="onyx_harness")

    return install


def test_contributions_of_plugins_are_found_by_name(plugin):
    first = plugin("first", onyx_engines=lambda: [engine("fast")], onyx_config_folders=lambda: ["pkg://somewhere.conf"])
    second = plugin(
        "second",
        onyx_algorithms=lambda: [AlgorithmSpec("flood", "", "somewhere:Flood")],
        onyx_graphs=lambda: [GraphSpec("ring", "", "somewhere:ring", {"vertices": 3})],
    )
    registry = load_plugins(found=[second, first])
    assert registry.engine("fast").factory == "somewhere:Engine"
    assert registry.algorithm("flood").factory == "somewhere:Flood"
    assert registry.graph("ring").parameters == {"vertices": 3}
    assert registry.config_folders == ["pkg://somewhere.conf"]
    assert list(registry.plugins) == ["first", "second"]


@pytest.mark.parametrize("kind", ["engine", "algorithm", "graph"])
def test_an_unknown_name_is_met_with_the_closest(plugin, kind):
    spec = {
        "engine": engine("gunrock"),
        "algorithm": AlgorithmSpec("gunrock", "", "a:b"),
        "graph": GraphSpec("gunrock", "", "a:b"),
    }
    registry = load_plugins(found=[plugin("one", **{f"onyx_{kind}s": lambda: [spec[kind]]})])
    with pytest.raises(UnknownName, match=f"no {kind} called 'gunrok'; did you mean 'gunrock'"):
        getattr(registry, kind)("gunrok")


def test_a_plugin_that_cannot_be_imported_is_left_out_and_named(plugin):
    broken = EntryPoint(name="broken", value="no_such_module_anywhere", group="onyx_harness")
    with pytest.warns(PluginWarning, match=r"'broken' of distribution .* No module named 'no_such_module_anywhere'"):
        registry = load_plugins(found=[broken, plugin("good", onyx_engines=lambda: [engine("fast")])])
    assert list(registry.engines) == ["fast"]
    assert "no_such_module_anywhere" in registry.quarantined["broken"]


def _raise() -> list[EngineSpec]:
    raise ZeroDivisionError("on call")


@pytest.mark.parametrize(
    ("hooks", "message"),
    [
        ({"onyx_engines": _raise}, "ZeroDivisionError: on call"),
        ({"onyx_engines": lambda: [3]}, "must return a list of EngineSpec"),
        ({"onyx_engines": lambda: engine("x")}, "must return a list of EngineSpec"),
        ({"onyx_engines": lambda: None}, "onyx_engines must return a list of EngineSpec, not None"),
        ({"onyx_engine": lambda: [engine("x")]}, "there is no hook 'onyx_engine'; did you mean 'onyx_engines'?"),
        ({"onyx_engines": lambda nonsense: []}, "nonsense"),
        ({"onyx_config_folders": lambda: [1]}, "must return a list of str"),
    ],
)
def test_a_plugin_that_answers_wrongly_is_left_out_and_the_others_work(plugin, hooks, message):
    with pytest.warns(PluginWarning, match="'bad'.*left out"):
        registry = load_plugins(found=[plugin("bad", **hooks), plugin("good", onyx_engines=lambda: [engine("fast")])])
    assert list(registry.engines) == ["fast"]
    assert message in registry.quarantined["bad"]
    assert "bad" not in registry.plugins


def test_a_name_already_taken_is_refused_and_the_rest_of_the_plugin_kept(plugin):
    first = plugin("a", onyx_engines=lambda: [engine("fast", "first:Engine")])
    second = plugin("b", onyx_engines=lambda: [engine("fast", "second:Engine"), engine("other")])
    with pytest.warns(PluginWarning, match="'b'.*offers 'fast', a name already taken by first:Engine"):
        registry = load_plugins(found=[second, first])
    assert registry.engine("fast").factory == "first:Engine"
    assert "other" in registry.engines


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (SystemExit(3), "SystemExit: 3"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (type("Mute", (Exception,), {"__str__": lambda _: None})(), "Mute: (no message: its __str__ raised TypeError)"),
        (RuntimeError("\x1b[2J" + "x" * 50_000), "RuntimeError: \ufffd[2Jxxx"),
    ],
)
def test_a_plugin_that_ends_the_process_or_cannot_say_why_is_left_out(monkeypatch, plugin, error, message):
    def fail(name, *_):
        if name == "ending_plugin":
            raise error

    monkeypatch.setattr(sys, "meta_path", [type("Finder", (), {"find_spec": staticmethod(fail)}), *sys.meta_path])
    ending = EntryPoint(name="ending", value="ending_plugin", group="onyx_harness")
    with pytest.warns(PluginWarning, match="'ending'.*left out"):
        registry = load_plugins(found=[ending, plugin("good", onyx_engines=lambda: [engine("fast")])])
    assert list(registry.engines) == ["fast"]
    assert registry.quarantined["ending"].startswith(message)
    assert len(registry.quarantined["ending"]) <= 2_000


def test_a_plugin_that_exits_at_its_import_is_left_out(plugin):
    def exiting():
        os._exit(0)

    found = [plugin("exiting", onyx_engines=exiting), plugin("good", onyx_engines=lambda: [engine("fast")])]
    with pytest.warns(PluginWarning, match=r"'exiting'.*left out: ProcessExit: os\._exit\(0\) would end the process"):
        registry = load_plugins(found=found)
    assert list(registry.engines) == ["fast"]


def test_a_real_interrupt_ends_the_loading_of_plugins(plugin, monkeypatch):
    monkeypatch.setattr(signal, "getsignal", lambda _: signal.default_int_handler)
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            load_plugins(found=[plugin("slow", onyx_engines=lambda: signal.raise_signal(signal.SIGINT))])
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_plugin_that_is_long_in_being_imported_is_named(plugin, monkeypatch):
    """The import continues once the message has been written: here it waits for that."""
    written = threading.Event()
    said = []

    def say(message):
        said.append(message)
        written.set()

    def engines():
        assert written.wait(60)
        return [engine("fast")]

    monkeypatch.setattr("harness.import_watch.PATIENCE_S", 0.001)
    monkeypatch.setattr("harness.import_watch._to_stderr", say)
    registry = load_plugins(found=[plugin("slow", onyx_engines=engines)])
    assert list(registry.engines) == ["fast"]
    [message] = said
    assert "plugin 'slow' of distribution 'onyx-harness' is still being imported after 0.001 s" in message
    assert "ONYX_HARNESS_BLOCK=slow" in message


def test_each_plugin_is_announced_before_its_import(plugin):
    announced = []
    plugins = [plugin("a", onyx_engines=lambda: announced.append("hook of a") or []), plugin("b")]
    load_plugins(found=plugins, importing=announced.append)
    assert announced == ["a", "hook of a", "b"]


@pytest.mark.parametrize("kind", [EngineSpec, AlgorithmSpec, GraphSpec])
@pytest.mark.parametrize(("field", "value"), [("name", "a\x1b[2Jb"), ("name", 3), ("factory", None), ("help", b"help")])
def test_a_specification_with_a_malformed_field_leaves_its_plugin_out(plugin, kind, field, value):
    values = {"name": "n", "help": "h", "factory": "a:b", **({"schedule": Nothing} if kind is EngineSpec else {})}
    hook = {EngineSpec: "onyx_engines", AlgorithmSpec: "onyx_algorithms", GraphSpec: "onyx_graphs"}[kind]
    with pytest.warns(PluginWarning, match="'bad'.*left out"):
        registry = load_plugins(found=[plugin("bad", **{hook: lambda: [kind(**{**values, field: value})]})])
    assert registry.quarantined["bad"].startswith(f"TypeError: {hook}: {field}")


def test_control_characters_in_a_line_of_help_are_replaced(plugin):
    spec = EngineSpec("fast", "\x1b[31mred\nand green", Nothing, "a:b")
    registry = load_plugins(found=[plugin("one", onyx_engines=lambda: [spec])])
    assert registry.engine("fast").help == "\ufffd[31mred and green"


@pytest.mark.parametrize("blocked_by", ["argument", "environment"])
def test_blocked_plugins_are_not_even_imported(plugin, monkeypatch, blocked_by):
    broken = EntryPoint(name="broken", value="no_such_module_anywhere", group="onyx_harness")
    if blocked_by == "environment":
        monkeypatch.setenv("ONYX_HARNESS_BLOCK", "other, broken")
    registry = load_plugins(["broken"] if blocked_by == "argument" else [], [broken, plugin("good")])
    assert list(registry.plugins) == ["good"]
    assert not registry.quarantined


@pytest.mark.parametrize("environment", ["", "one", " one , two,", "two"])
@pytest.mark.parametrize("argument", [[], ["two"], ["one", "three"], [" three "]], ids=str)
def test_plugins_that_the_argument_or_the_environment_names_are_blocked(plugin, monkeypatch, argument, environment):
    monkeypatch.setenv("ONYX_HARNESS_BLOCK", environment)
    argument = list(argument)
    blocked = {name.strip() for name in [*argument, *environment.split(",")] if name.strip()}
    assert plugins.blocked_names(iter(argument)) == blocked
    registry = load_plugins(argument, [plugin(name) for name in ("one", "two", "three", "four")])
    assert set(registry.plugins) == {"one", "two", "three", "four"} - blocked
    assert not registry.quarantined


def test_the_built_in_plugins_come_through_entry_points_and_none_is_broken(monkeypatch):
    monkeypatch.delenv("ONYX_HARNESS_BLOCK", raising=False)
    registry = load_plugins()
    ours = {name for name, distribution in registry.plugins.items() if distribution == "onyx-harness"}
    assert ours == {
        "onyx",
        "pushbaseline",
        "pullbaseline",
        "libraries",
        "lonestar",
        "outofmemory",
        "algorithms",
        "graphs",
    }
    assert registry.engines
    assert registry.algorithms
    assert registry.graphs


def _hooks() -> list[str]:
    return [name for name in vars(hookspecs) if name.startswith("onyx_")]


@pytest.mark.parametrize("hook", _hooks())
def test_every_hook_is_documented_and_called(plugin, hook):
    called = []
    load_plugins(found=[plugin("listening", **{hook: lambda: called.append(hook) or []})])
    assert called, f"nothing calls {hook}"
    assert (getattr(hookspecs, hook).__doc__ or "").strip()


def test_there_are_hooks():
    assert len(_hooks()) == 4


def test_without_any_plugin_nothing_is_installed():
    for kind in ("engine", "algorithm", "graph"):
        with pytest.raises(UnknownName) as met:
            getattr(Registry(), kind)("fast")
        assert str(met.value) == f"there is no {kind} called 'fast' (installed: none)"


def test_a_checkout_that_is_not_installed_has_its_own_plugins(monkeypatch):
    def missing(name):
        raise PackageNotFoundError(name)

    monkeypatch.setattr(plugins, "entry_points", lambda group: [])
    monkeypatch.setattr(plugins, "distribution", missing)
    found = {entry.name: (entry.value, entry.group) for entry in plugins._installed()}
    declared = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["entry-points"]["onyx_harness"]
    assert found == {name: (value, "onyx_harness") for name, value in declared.items()}
    assert len(found) > 3
