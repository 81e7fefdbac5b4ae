"""The pytest plugin of the suite: selects the engine and reports statements about it at the end.

It can also be used in the tests of an engine's own package::

    pytest -p harness.conformance.plugin --engine NAME --pyargs harness.conformance.suite
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import pytest

from harness.conformance.matrix import built_in, schedules
from harness.conformance.subject import Subject, options_of
from harness.contract import Device, EngineSpec
from harness.device.driver import cuda_unavailable
from harness.plugins import load_plugins

FEATURES = (1, 3, 8)
MORE_FEATURES = (1, 2, 3, 4, 5, 7, 8, 16, 32, 33)
STATEMENTS = pytest.StashKey[list[str]]()


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the options that select the engine under test."""
    group = parser.getgroup("conformance", "conformance of a graph engine")
    group.addoption("--engine", help="the installed engine under test")
    group.addoption("--engine-option", action="append", default=[], help="KEY=VALUE, an option of its schedule")
    group.addoption("--engine-device", choices=("cpu", "cuda"), default="cpu", help="where it runs")
    group.addoption("--thorough", action="store_true", help="every schedule, and more numbers of features")


def pytest_configure(config: pytest.Config) -> None:
    """Prepare the list of statements about the engine."""
    config.stash[STATEMENTS] = []


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise the tests of the suite.

    ``features``: several numbers. ``algorithm``: every built-in one. ``schedule``: the requested one, or every one
    under ``--thorough``.
    """
    thorough = metafunc.config.getoption("--thorough")
    if "features" in metafunc.fixturenames:
        numbers = MORE_FEATURES if thorough else FEATURES
        metafunc.parametrize("features", numbers, ids=[f"k{k}" for k in numbers])
    if "algorithm" in metafunc.fixturenames:
        metafunc.parametrize("algorithm", built_in())
    if "schedule" in metafunc.fixturenames:
        given = options_of(metafunc.config.getoption("--engine-option"))
        every = schedules(_spec(metafunc.config)) if thorough else [{}]
        wanted = [options for options in every if all(options.get(key, value) == value for key, value in given.items())]
        metafunc.parametrize("schedule", [{**options, **given} for options in wanted], ids=_words)


def _words(options: Mapping[str, object]) -> str:
    return ",".join(f"{key}={value}" for key, value in options.items()) or "default"


def pytest_terminal_summary(terminalreporter: Any, config: pytest.Config) -> None:
    """Report the statements about the engine, in addition to pass and fail."""
    if config.stash[STATEMENTS]:
        terminalreporter.section(f"engine {config.getoption('--engine')}")
        for statement in config.stash[STATEMENTS]:
            terminalreporter.write_line(statement)


@pytest.fixture(scope="session")
def described(pytestconfig: pytest.Config) -> Subject:
    """Return the engine under test with its schedule's options and its device, which may be missing."""
    kind: Literal["cpu", "cuda"] = pytestconfig.getoption("--engine-device")
    return Subject(_spec(pytestconfig), options_of(pytestconfig.getoption("--engine-option")), Device(kind))


def _spec(config: pytest.Config) -> EngineSpec:
    name = config.getoption("--engine")
    if not name:
        raise pytest.UsageError("name the engine under test: --engine NAME")
    return load_plugins().engine(name)


@pytest.fixture(scope="session")
def subject(described: Subject, statements: list[str]) -> Subject:
    """Return the engine under test on an available device; its tests are skipped without one."""
    if described.device.kind == "cuda":
        reason = cuda_unavailable(described.device.index)
        if reason:
            pytest.skip(reason)
    return described


@pytest.fixture(scope="session")
def statements(pytestconfig: pytest.Config) -> list[str]:
    """Return the list of lines for the end of the report."""
    return pytestconfig.stash[STATEMENTS]
