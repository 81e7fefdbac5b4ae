"""The command line as a function: it leaves the process as it was, and a closed output is no error."""

from __future__ import annotations

import os
import sys
import warnings

import pytest
from hydra._internal.hydra import Hydra
from hydra.core.global_hydra import GlobalHydra

from harness.campaign import application
from harness.campaign.completion import complete
from harness.campaign.configuration import register_configuration
from harness.plugins import load_plugins

NO_NAMES = None  # the words of these lines are found by Hydra alone


@pytest.fixture(scope="module")
def registry():
    found = load_plugins()
    register_configuration(found)
    return found


@pytest.fixture
def quick(registry, monkeypatch):
    """Search for plugins once for all tests."""
    monkeypatch.setattr(application, "_registry", lambda: registry)


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("closed", [("stdout",), ("stderr",), ("stdout", "stderr")])
def test_a_command_runs_without_its_standard_streams(monkeypatch, closed):
    for stream in closed:
        monkeypatch.setattr(sys, stream, None)
    assert application.main(["describe"]) == 0  # to the standard output
    assert application.main(["explain", "engine=[a,b]"]) == 2  # to the standard error
    for stream in closed:
        getattr(sys, stream).close()


@pytest.mark.usefixtures("quick")
def test_the_reader_of_a_list_may_stop_at_any_time(monkeypatch):
    """What is not read is dropped, and nothing is left to be written at the end of the process."""
    reader, writer = os.pipe()
    os.close(reader)
    with os.fdopen(writer, "w") as stream:
        monkeypatch.setattr(sys, "stdout", stream)
        assert application.main(["describe"]) == 0
        assert os.path.samestat(os.fstat(stream.fileno()), os.stat(os.devnull))
        assert stream.write("more") == 4
        stream.flush()


@pytest.mark.parametrize(("full_error", "shown"), [(None, None), ("1", "1"), ("0", None)])
def test_a_command_changes_nothing_of_the_process(plan, monkeypatch, full_error, shown):
    """Hydra reads an environment variable, which is set during the command."""
    monkeypatch.delenv("HYDRA_FULL_ERROR", raising=False)
    if full_error is not None:
        monkeypatch.setenv("HYDRA_FULL_ERROR", full_error)
    filters, mode = list(warnings.filters), Hydra.get_mode
    assert len(plan("engine=scipy", "graph=grid", "algorithm=bfs").cells) == 1
    assert warnings.filters == filters
    assert Hydra.get_mode is mode
    assert os.environ.get("HYDRA_FULL_ERROR") == shown


@pytest.mark.usefixtures("quick")
@pytest.mark.parametrize("flag", ["--run", "-r", "--multirun", "-m"])
def test_flags_of_hydra_for_a_run_leave_a_command_what_it_is(plan, monkeypatch, flag):
    """--run shows Hydra's refusal of a single run; --multirun is what every command is."""
    given = []
    monkeypatch.setattr(application.hydra, "main", lambda **_: lambda job: lambda: given.append(list(sys.argv)))
    assert application.main([flag, "engine=scipy"]) == 0
    assert given == [["onyx-harness", flag, "engine=scipy"]]


@pytest.mark.usefixtures("quick")
def test_a_sweep_is_one_without_a_flag(monkeypatch):
    given = []
    monkeypatch.setattr(application.hydra, "main", lambda **_: lambda job: lambda: given.append(list(sys.argv)))
    assert application.main(["engine=scipy", "features=1,2"]) == 0
    assert given == [["onyx-harness", "engine=scipy", "features=1,2", "--multirun"]]


@pytest.mark.usefixtures("registry")
def test_words_are_completed_by_what_hydra_composes_whatever_was_composed_before():
    for line, found in (
        ("algorithm=ss", ["algorithm=sssp"]),
        ("engine=no_such_engine measure.bud", []),  # the words before do not compose
        ("features=[3 measure.bud", []),  # cannot be read
        ("measure.bud", ["measure.budget_s="]),
    ):
        assert complete(line, NO_NAMES) == found
    assert not GlobalHydra.instance().is_initialized()
