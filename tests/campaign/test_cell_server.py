"""Cells are forked from a server that has imported the harness; they share nothing else with it or with each other."""

from __future__ import annotations

import os
import sys

import psutil
import pytest

from harness.campaign import spawn
from harness.campaign.errors import CampaignError
from harness.campaign.process import run_process
from harness.campaign.spawn import Server
from harness.records.outcome import Outcome
from tests.conftest import ROOT
from tests.processes import never_ending

SERVED = {"PYTEST_CURRENT_TEST": ""}  # the only variable that differs from test to test


@pytest.fixture(scope="module")
def modules(tmp_path_factory):
    return tmp_path_factory.mktemp("modules")


@pytest.fixture
def run(modules, monkeypatch):
    """Run a module's source in a process of its own; return how it ended and what it printed."""
    monkeypatch.setenv("PYTHONPATH", str(modules))

    def one(source, **environment):
        name = f"cell_{len(list(modules.iterdir()))}"
        (modules / f"{name}.py").write_text(source)
        ending = run_process(
            name, [], output=modules / f"{name}.txt", environment={**SERVED, **environment}, time_s=60.0,
            memory_bytes=10**9,
        )  # fmt: skip
        return ending, (modules / f"{name}.txt").read_text().strip()

    return one


def test_cells_of_one_environment_come_from_one_server(run):
    source = "import os, sys, psutil; print(psutil.Process(os.getppid()).ppid(), 'numba' in sys.modules)"
    first, second = run(source)[1], run(source)[1]
    assert first == second == f"{spawn._local.server.process} True"


def test_another_environment_has_a_server_of_its_own(run):
    source = "import os, psutil; print(psutil.Process(os.getppid()).ppid(), os.environ.get('OMP_NUM_THREADS'))"
    before = run(source, OMP_NUM_THREADS="1")[1].split()
    after = run(source, OMP_NUM_THREADS="2")[1].split()
    assert (before[1], after[1]) == ("1", "2")
    assert before[0] != after[0]
    assert not never_ending([int(before[0])])


def test_a_cell_changes_nothing_for_the_next_one(run):
    changes = "import os, sys, numpy\nos.environ['LEFT'] = 'yes'\nnumpy.left = True\nos.chdir('/')\nsys.path.clear()"
    assert run(changes)[0].status == 0
    _, output = run("import os, numpy; print(os.environ.get('LEFT'), hasattr(numpy, 'left'), os.getcwd())")
    assert output == f"None False {os.getcwd()}"


def test_the_server_has_neither_cuda_nor_plugins_of_others(run):
    source = "import sys\nprint([name for name in sys.modules if name.startswith(('cupy', 'cuda', 'onyx_fake'))])"
    assert run(source)[1] == "[]"


def test_random_numbers_differ_from_cell_to_cell(run):
    source = "import numpy; print(numpy.random.random())"
    assert run(source)[1] != run(source)[1]


def test_a_server_that_a_cell_kills_is_replaced(run):
    kills = "import os, signal, psutil, threading\nserver = psutil.Process(os.getppid()).ppid()\n"
    kills += "print(server, flush=True)\nos.kill(server, signal.SIGKILL)\nthreading.Event().wait()"
    ending, output = run(kills)
    assert ending.signal_name == "SIGKILL"
    assert not never_ending([int(output)])
    ending, output = run("print('again')")
    assert (ending.status, output) == (0, "again")


def test_a_limit_is_met_with_the_server_alive(run, modules):
    (modules / "endless.py").write_text("import threading; threading.Event().wait()")
    ending = run_process(
        "endless", [], output=modules / "endless.txt", environment=SERVED, time_s=0.3, memory_bytes=10**9
    )
    assert ending.limit is Outcome.TIMEOUT
    assert psutil.pid_exists(spawn._local.server.process)


def test_a_server_that_cannot_start_is_an_error(monkeypatch, run):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr(spawn._local, "server", None)
    with pytest.raises(CampaignError, match="no process can be started for a cell"):
        run("pass")


def test_a_server_ends_when_its_socket_is_closed(tmp_path):
    server = Server({**os.environ, "PYTHONPATH": str(ROOT)}, tmp_path)
    server._connection.close()
    assert os.waitstatus_to_exitcode(os.waitpid(server.process, 0)[1]) == 0


def test_a_forked_process_leaves_the_server_of_its_parent_alone(run):
    run("pass")
    server = spawn._local.server
    child = os.fork()
    if child == 0:
        alone = not server.serves(server.environment, server.folder)
        server.close()
        os._exit(0 if alone else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert psutil.Process(server.process).status() != psutil.STATUS_ZOMBIE
