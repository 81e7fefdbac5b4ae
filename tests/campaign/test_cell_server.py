"""Cells are forked from a server that has imported the harness; they share nothing else with it or with each other."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys

import psutil
import pytest

from harness.campaign import spawn
from harness.campaign.errors import CampaignError
from harness.campaign.process import run_process
from harness.campaign.spawn import Server
from harness.campaign.supervisor import run_beside
from harness.records.outcome import Outcome
from tests.campaign.conftest import SERVED
from tests.conftest import ROOT
from tests.processes import gone, never_ending


def test_cells_of_one_environment_come_from_one_server(run_module):
    source = "import os, sys, psutil; print(psutil.Process(os.getppid()).ppid(), 'numba' in sys.modules)"
    first, second = run_module(source)[1], run_module(source)[1]
    assert first == second == f"{spawn._local.server.process} True"


def test_another_environment_has_a_separate_server(run_module):
    source = "import os, psutil; print(psutil.Process(os.getppid()).ppid(), os.environ.get('OMP_NUM_THREADS'))"
    before = run_module(source, OMP_NUM_THREADS="1")[1].split()
    after = run_module(source, OMP_NUM_THREADS="2")[1].split()
    assert (before[1], after[1]) == ("1", "2")
    assert before[0] != after[0]
    assert not never_ending([int(before[0])])


def test_a_cell_runs_in_the_folder_of_its_sweep_whatever_server_it_comes_from(run_module, tmp_path, monkeypatch):
    source = "import os, psutil; print(psutil.Process(os.getppid()).ppid(), os.getcwd())"
    first, folder = run_module(source)[1].split()
    assert folder == os.getcwd()
    monkeypatch.chdir(tmp_path)
    assert run_module(source)[1].split() == [first, str(tmp_path)]


def test_a_cell_changes_nothing_for_the_next_one(run_module):
    changes = "import os, sys, numpy\nos.environ['LEFT'] = 'yes'\nnumpy.left = True\nos.chdir('/')\nsys.path.clear()"
    assert run_module(changes)[0].status == 0
    _, output = run_module("import os, numpy; print(os.environ.get('LEFT'), hasattr(numpy, 'left'), os.getcwd())")
    assert output == f"None False {os.getcwd()}"


def test_the_server_has_imported_the_modules_that_engines_import(run_module):
    source = "import sys\nbefore = set(sys.modules)\nimport engines.onyx.engine, engines.libraries.scipy_engine\n"
    source += "import engines.onyx.cpu_engine\n"
    source += "print([name for name in sys.modules.keys() - before if name.startswith(('harness', 'numba', 'scipy'))])"
    assert run_module(source)[1] == "[]"


def test_the_server_has_no_plugins_of_others_and_no_open_driver(run_module):
    source = "import os, sys\nprint([name for name in sys.modules if name.startswith('onyx_fake')], [to for number in "
    source += "os.listdir('/proc/self/fd') if 'nvidia' in (to := os.path.realpath(f'/proc/self/fd/{number}'))])"
    assert run_module(source)[1] == "[] []"


# Functions through which CUDA's runtime and CuPy reach a driver. Each writes its name and reports no device.
DRIVER = """
#include <stdio.h>
#define FAILS(name) int name(void) { puts(#name); return 100; }
FAILS(cuInit) FAILS(cuDriverGetVersion) FAILS(cuGetProcAddress) FAILS(cuGetProcAddress_v2) FAILS(cuGetExportTable)
FAILS(cuDeviceGetCount) FAILS(cuCtxGetCurrent)
"""
PRELOADS = """
import os, sys
from harness.campaign.cell_server import preload

threads = lambda: len(os.listdir("/proc/self/task"))
preload(gpu=False)
before = threads()
preload(gpu=True)
print("preloaded", "cupy" in sys.modules, threads() - before, flush=True)
import cupy
try:
    cupy.cuda.runtime.getDeviceCount()
except cupy.cuda.runtime.CUDARuntimeError:
    print("refused")
"""


def test_the_preload_calls_no_driver_and_starts_no_thread(tmp_path, harness_environment):
    pytest.importorskip("cupy")
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (tmp_path / "driver.c").write_text(DRIVER)
    subprocess.run(
        [compiler, "-shared", "-fPIC", "-o", str(tmp_path / "libcuda.so.1"), str(tmp_path / "driver.c")], check=True
    )
    done = subprocess.run(
        [sys.executable, "-c", PRELOADS], env={**harness_environment, "LD_LIBRARY_PATH": str(tmp_path)},
        stdout=subprocess.PIPE, text=True, check=True,
    )  # fmt: skip
    first, *rest = done.stdout.splitlines()
    assert first == "preloaded True 0"
    assert any(line.startswith("cu") for line in rest)  # the first call reaches the driver
    assert "refused" in rest


def test_random_numbers_differ_from_cell_to_cell(run_module):
    source = "import numpy; print(numpy.random.random())"
    assert run_module(source)[1] != run_module(source)[1]


def test_a_server_that_a_cell_kills_is_replaced(run_module):
    kills = "import os, signal, psutil, threading\nserver = psutil.Process(os.getppid()).ppid()\n"
    kills += "print(server, flush=True)\nos.kill(server, signal.SIGKILL)\nthreading.Event().wait()"
    ending, output = run_module(kills)
    assert ending.signal_name == "SIGKILL"
    assert not never_ending([int(output)])
    ending, output = run_module("print('again')")
    assert (ending.status, output) == (0, "again")


def test_a_limit_is_met_with_the_server_alive(run_module):
    ending, _ = run_module("import threading; threading.Event().wait()", time_s=0.3)
    assert ending.limit is Outcome.TIMEOUT
    assert psutil.pid_exists(spawn._local.server.process)


def test_a_server_that_cannot_start_is_an_error(monkeypatch, run_module):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    monkeypatch.setattr(spawn._local, "server", None)
    with pytest.raises(CampaignError, match="no process can be started for a cell"):
        run_module("pass")


def test_a_server_ends_when_its_socket_is_closed():
    server = Server({**os.environ, "PYTHONPATH": str(ROOT)})
    server._connection.close()
    assert os.waitstatus_to_exitcode(os.waitpid(server.process, 0)[1]) == 0


def test_a_forked_process_does_not_end_its_parents_server(run_module):
    run_module("pass")
    server = spawn._local.server
    child = os.fork()
    if child == 0:
        alone = not server.serves(server.environment)
        server.close()
        os._exit(0 if alone else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert psutil.Process(server.process).status() != psutil.STATUS_ZOMBIE


def test_a_module_that_the_server_has_imported_runs_without_a_warning(run_module, modules):
    run_module("pass")
    output = modules / "child.txt"
    run_process("harness.campaign.child", [], output=output, environment=SERVED, time_s=60.0, memory_bytes=10**9)
    assert "IndexError" in output.read_text()  # it takes no arguments
    assert "RuntimeWarning" not in output.read_text()


BESIDE = """
import os, sys, numpy
from harness.campaign.supervisor import run_beside

os.environ["A_VARIABLE"] = "changed"
os.chdir("/")
numpy.changed = True
given, printed = (os.fdopen(os.memfd_create("file"), "wb+") for _ in range(2))
given.write(b"a request")
given.seek(0)
status = run_beside(MODULE, given.fileno(), printed.fileno())
printed.seek(0)
print(status, numpy.random.random(), printed.read().decode())
"""


def beside(run_module, modules, source):
    """Return the status of a module that runs beside a cell, a random number of the cell, and the module's output."""
    name = f"beside_{len(list(modules.iterdir()))}"
    (modules / f"{name}.py").write_text(source)
    ending, output = run_module(BESIDE.replace("MODULE", repr(name)))
    assert ending.status == 0, output
    return output.split(" ", 2)


def test_a_process_beside_a_cell_has_the_cells_initial_state(run_module, modules):
    source = "import os, sys, numpy\nfacts = (sys.stdin.read(), os.environ['A_VARIABLE'], os.getcwd(), "
    source += "hasattr(numpy, 'changed'), 'numba' in sys.modules)\nsys.stderr.write(repr(facts))"
    status, _, printed = beside(run_module, modules, source)
    assert (status, printed) == ("0", repr(("a request", "set", os.getcwd(), False, True)))


def test_a_process_beside_a_cell_draws_other_random_numbers(run_module, modules):
    status, drawn, printed = beside(
        run_module, modules, "import numpy, sys; sys.stderr.write(str(numpy.random.random()))"
    )
    assert status == "0"
    assert drawn != printed


@pytest.mark.parametrize(("ends", "status"), [("sys.exit(5)", "5"), ("os.kill(os.getpid(), 9)", "-9")])
def test_the_end_of_a_process_beside_a_cell_is_reported(run_module, modules, ends, status):
    assert beside(run_module, modules, f"import os, sys; {ends}")[0] == status


@pytest.mark.parametrize("name", ["SIGPIPE", "SIGINT", "SIGXFSZ", "SIGTERM", "SIGABRT", "SIGKILL"])
def test_a_cell_ends_by_the_signal_that_killed_it(run_module, name):
    """Python itself ignores some of them, and handles one."""
    resets = f"signal.signal(signal.{name}, signal.SIG_DFL)\n" if name != "SIGKILL" else ""
    ending, _ = run_module(f"import os, signal\n{resets}os.kill(os.getpid(), signal.{name})")
    assert (ending.signal_name, ending.limit) == (name, None)


def test_a_process_beside_a_cell_ends_with_the_cell(run_module, modules):
    (modules / "beside_endless.py").write_text(
        "import os, threading; print(os.getpid(), flush=True); threading.Event().wait()"
    )
    ending, output = run_module(BESIDE.replace("MODULE", "'beside_endless'"), time_s=0.3, words=1)
    assert ending.limit is Outcome.TIMEOUT
    assert gone(int(output))


def test_without_a_supervisor_nothing_runs_beside():
    assert run_beside("no_module", 0, 2) is None


REFEREE = """
import json, subprocess
from types import SimpleNamespace
from harness.campaign.cell import Cell
from harness.campaign.reference_process import Referee

subprocess.run = None
referee = Referee(Cell.from_plain(json.loads(CELL)))
try:
    program = SimpleNamespace(phases=[None])
    referee(SimpleNamespace(key="of another problem", program=program, carried={}), "reference")
except Exception as error:
    print(f"{type(error).__name__}: {error}")
"""


def test_the_reference_of_a_cell_is_computed_beside_it(run_module, plan):
    [planned] = plan(
        "engine=scipy", "algorithm=pagerank", "graph=grid", "graph.rows=4", "graph.columns=4", "features=1"
    ).cells
    source = REFEREE.replace("CELL", repr(json.dumps(planned.cell.plain())))
    last_line = run_module(source)[1].splitlines()[-1]
    assert last_line.startswith("CampaignError: the reference cannot be computed: ")
    assert "gives a different problem each time" in last_line


SLOW_SERVER = """
import ctypes, os, signal, sys, time
from harness.campaign import cell_server

ours, theirs = os.pipe()
reader, writer = os.pipe()
if os.fork():  # the parent: its death closes the pipe, and then sends the death signal
    os.close(reader), os.close(writer), os.close(ours)
    sys.stdin.readline()
    os.close(theirs)
    time.sleep(0.2)
    os._exit(0)
os.close(theirs)
libc = ctypes.CDLL(None)
libc.prctl(1, signal.SIGKILL)
libc.prctl(36, 1)
if os.fork() == 0:  # a supervisor
    if os.fork() == 0:
        os.setsid()
    os.write(writer, b"%d\\n" % os.getpid())
    signal.pause()
numbers = b""
while numbers.count(b"\\n") < 2:
    numbers += os.read(reader, 100)
os.write(1, numbers.replace(b"\\n", b" ") + b"\\n")
os.read(ours, 1)  # the parent has closed its end
kill = os.kill
def slowly(process, number):
    kill(process, number)
    time.sleep(0.5)
os.kill = slowly
cell_server._end_everything()
"""


def test_a_server_that_ends_with_its_parent_ends_all_of_its_descendants_first():
    """The parent's death signal arrives when the server has killed the supervisor, but not its descendant."""
    with subprocess.Popen([sys.executable, "-c", SLOW_SERVER], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        numbers = [int(number) for number in parent.stdout.readline().split()]
        parent.stdin.write(b"\n")
        parent.stdin.close()
        assert len(numbers) == 2
    assert not never_ending(numbers)
