from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from harness.campaign import process
from harness.campaign.child_report import WAIT_STAGE, ChildReport, read_report, waited_s
from harness.campaign.environment import Bystanders
from harness.campaign.lock import file_lock
from harness.campaign.process import run_process
from harness.records.outcome import Outcome
from tests.processes import HANGS_S, gone, never_ending

GIGABYTE = 10**9


def test_a_child_has_its_arguments_its_environment_and_no_input(run_module):
    ending, output = run_module("import os, sys; print(sys.argv[1], os.environ['A_VARIABLE'], repr(sys.stdin.read()))")
    assert (ending.status, ending.limit, ending.signal_name) == (0, None, None)
    assert output == "argument set ''"


def test_a_child_has_a_separate_session(run_module):
    _, output = run_module("import os; print(os.getsid(0))")
    assert int(output) != os.getsid(0)


def test_the_exit_status_is_reported(run_module):
    ending, output = run_module("import sys; print('out'); sys.exit('the last words')")
    assert ending.status == 1
    assert "the last words" in output


def test_the_signal_is_reported_by_name(run_module):
    ending, output = run_module("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert ending.signal_name == "SIGSEGV"
    assert "Segmentation fault" in output


def test_a_signal_that_a_child_sends_to_its_group_is_not_mistaken_for_lack_of_memory(run_module):
    interrupt = """
import os, signal, sys
signal.signal(signal.SIGINT, lambda *_: sys.exit(5))
os.killpg(os.getpgrp(), signal.SIGINT)
signal.pause()
"""
    ending, _ = run_module(interrupt)
    assert (ending.status, ending.signal_name) == (5, None)
    ending, _ = run_module("import os, signal; os.killpg(os.getpgrp(), signal.SIGTERM); signal.pause()")
    assert ending.signal_name == "SIGTERM"


def test_a_child_that_does_not_end_is_ended_with_all_that_it_started(run_module):
    source = "import os, threading\nos.fork()\nos.write(1, b'%d ' % os.getpid())\nthreading.Event().wait()"
    ending, output = run_module(source, time_s=1.0)
    assert ending.limit is Outcome.TIMEOUT
    assert all(map(gone, map(int, output.split())))


def test_processes_of_a_child_end_with_it(run_module):
    source = "import os, threading\nif os.fork() == 0:\n    threading.Event().wait()\nprint('done', flush=True)"
    ending, output = run_module(source)
    assert ending.status == 0
    assert output == "done"


STOPS = """
import os, signal, threading
supervisor = os.getppid()
os.write(1, b"%d " % os.getpid())
os.kill(supervisor, signal.SIGSTOP)
"""
AGAIN_AND_AGAIN = "while True: os.kill(supervisor, signal.SIGSTOP)\n"
DAEMON = f"""
if os.fork() == 0:
    os.setsid()
    os.write(1, b"%d " % os.getpid())
    {AGAIN_AND_AGAIN}
os._exit(0)
"""


@pytest.mark.parametrize(
    ("then", "processes"),
    [("threading.Event().wait()", 1), (AGAIN_AND_AGAIN, 1), (DAEMON, 2)],
    ids=["once", "again and again", "again and again by a daemon"],
)
def test_a_supervisor_that_is_stopped_holds_up_no_limit(run_module, monkeypatch, then, processes):
    monkeypatch.setattr(process, "_GRACE_S", 0.5)
    ending, output = run_module(STOPS + then, time_s=0.3, words=processes)
    assert ending.limit is Outcome.TIMEOUT
    assert len(output.split()) == processes
    assert all(map(gone, map(int, output.split())))


def test_a_server_that_a_child_stops_continues_once_the_child_has_ended(run_module):
    server = "server = int(open(f'/proc/{os.getppid()}/stat').read().rpartition(')')[2].split()[1])\n"
    source = f"import os, signal\n{server}os.kill(server, signal.SIGSTOP)\nprint('done', flush=True)"
    ending, output = run_module(source)
    assert ending.status == 0
    assert output == "done"


def test_a_child_that_takes_too_much_memory_is_ended(run_module):
    source = "import mmap, threading\nheld = mmap.mmap(-1, 300_000_000)\n"
    source += "held.write(b'1' * 300_000_000)\nthreading.Event().wait()"
    ending, _ = run_module(source, memory_bytes=200_000_000)
    assert ending.limit is Outcome.OUT_OF_MEMORY
    assert ending.peak_bytes > 200_000_000


@pytest.mark.parametrize("daemon", [False, True], ids=["child", "daemon"])
def test_everything_dies_with_a_parent_that_is_killed(tmp_path, daemon):
    leaves = "if os.fork() == 0:\n    os.setsid()\n    os.fork()\n" if daemon else ""
    (tmp_path / "a_child.py").write_text(
        f"import os, threading\n{leaves}open(f'pid-{{os.getpid()}}', 'w').close()\nthreading.Event().wait()"
    )
    parent = "from pathlib import Path\nfrom harness.campaign.process import run_process\n"
    parent += "run_process('a_child', [], output=Path('out'), environment={}, time_s=60, memory_bytes=10**9)"
    process = subprocess.Popen(
        [sys.executable, "-c", parent],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *filter(None, sys.path)])},
    )
    count = 3 if daemon else 1
    while len(found := [int(path.name[4:]) for path in tmp_path.glob("pid-*")]) < count:
        assert process.poll() is None
        os.sched_yield()
    process.kill()
    process.wait()
    assert not never_ending(found)


def test_a_daemon_of_a_child_ends_with_it(run_module):
    source = "import os, threading\nr, w = os.pipe()\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0:\n"
    source += "        os.write(w, str(os.getpid()).encode())\n        threading.Event().wait()\n    os._exit(0)\n"
    source += "print(os.read(r, 20).decode())"
    ending, output = run_module(source)
    assert ending.status == 0
    assert not psutil.pid_exists(int(output))


def test_a_daemon_ends_with_a_supervisor_that_is_killed(run_module):
    source = "import os, signal, threading\nsupervisor = os.getppid()\nif os.fork() == 0:\n    os.setsid()\n"
    source += "    os.write(1, b'%d' % os.getpid())\n    os.kill(supervisor, signal.SIGKILL)\nthreading.Event().wait()"
    ending, output = run_module(source)
    assert ending.signal_name == "SIGKILL"
    assert not never_ending([int(output)])


def test_endless_output_is_kept_at_both_ends_and_costs_no_disk(run_module):
    source = (
        "import sys\nprint('first')\nfor _ in range(50):\n    sys.stdout.write('x' * 200_000 + '\\n')\nprint('last')"
    )
    _, output = run_module(source)
    assert output.startswith("first\n")
    assert output.endswith("last")
    assert "bytes left out" in output
    assert len(output) < 2_200_000


def test_time_that_is_forgiven_does_not_count(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "a_child.py").write_text("import threading; threading.Event().wait(1.5)")
    calls = []

    def forgiven() -> float:
        calls.append(True)
        return 60.0

    out = tmp_path / "out"
    ending = run_process(
        "a_child", [], output=out, environment={}, time_s=0.3, memory_bytes=GIGABYTE, forgiven_s=forgiven
    )
    assert (ending.status, ending.limit) == (0, None)
    assert calls == [True]


def test_forgiven_time_is_added_to_the_limit_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    (tmp_path / "a_child.py").write_text("import threading; threading.Event().wait(20)")
    ending = run_process(
        "a_child", [], output=tmp_path / "out", environment={}, time_s=0.3, memory_bytes=GIGABYTE,
        forgiven_s=lambda: 0.5,
    )  # fmt: skip
    assert ending.limit is Outcome.TIMEOUT
    assert 0.8 <= ending.seconds < 15


def test_waiting_for_the_device_is_shown_during_and_after_it(tmp_path):
    path = tmp_path / "report.jsonl"
    with path.open("wb", buffering=0) as file:
        report = ChildReport(file)
        assert waited_s(read_report(path)) == 0.0
        report.stage("prepare")
        for already, then in ((0.0, 2.5), (2.5, 4.0)):
            report.waits("process 1: another cell")
            assert waited_s(read_report(path)) > already
            assert read_report(path)["stage"] == WAIT_STAGE
            report.waited(then)
            assert waited_s(read_report(path)) == then
            assert read_report(path)["stage"] == "prepare"


def test_a_report_keeps_the_last_values_and_drops_a_truncated_line(tmp_path):
    path = tmp_path / "report.jsonl"
    with path.open("wb", buffering=0) as file:
        report = ChildReport(file)
        report.stage("prepare")
        report.tell(features=8)
        report.stage("solve")
        report.end(Outcome.WRONG, "off by one")
        file.write(b'{"outcome": "o')
    assert read_report(path) == {"stage": "solve", "features": 8, "outcome": "wrong", "reason": "off by one"}


def test_no_draft_is_an_empty_one(tmp_path, monkeypatch):
    assert read_report(tmp_path / "report.jsonl") == {}
    monkeypatch.setattr(Path, "exists", lambda _: True)  # it existed a moment ago, before the cell ended
    assert read_report(tmp_path / "report.jsonl") == {}


def test_a_lock_is_held_by_one_process_at_a_time(tmp_path):
    path = tmp_path / "locks" / "cpu.lock"
    attempt = f"import fcntl, os; fcntl.flock(os.open({str(path)!r}, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)"

    def taken() -> bool:
        return subprocess.run([sys.executable, "-c", attempt], capture_output=True, check=False).returncode != 0

    with file_lock(path):
        assert taken()
    assert not taken()
    assert Path(path).exists()


def test_load_of_others_is_seen_and_our_own_is_not():
    source = "import sys, time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
    began, bystanders = time.perf_counter(), Bystanders()
    subprocess.run([sys.executable, "-c", source], check=True)
    assert bystanders.cores() * (time.perf_counter() - began) > 0.3


MISSED = """
import os, signal, socket
from harness.campaign import supervisor
listed, calls = supervisor.descendants, []

def missing_at_first():
    calls.append(None)
    return listed() if len(calls) > 1 else []

supervisor.descendants = missing_at_first
signal.pthread_sigmask(signal.SIG_BLOCK, supervisor._SIGNALS)
supervisor.ctypes.CDLL(None).prctl(supervisor._PR_SET_CHILD_SUBREAPER, 1)
child = os.fork()
if child == 0:
    if os.fork() == 0:
        signal.pause()
    os._exit(0)
supervisor._Watch(child, socket.socketpair()[0]).wait()
try:
    print("left", os.waitpid(-1, os.WNOHANG))
except ChildProcessError:
    print("none left")
"""


def test_a_process_that_a_list_misses_is_ended_too():
    done = subprocess.run([sys.executable, "-c", MISSED], capture_output=True, text=True, timeout=HANGS_S, check=True)
    assert done.stdout == "none left\n"


def test_pages_of_mapped_files_are_not_counted(tmp_path):
    size = 50_000_000
    (tmp_path / "data").write_bytes(bytes(size))
    me = psutil.Process()
    before = process._resident_bytes([me])
    mapped = np.memmap(tmp_path / "data", np.uint8, "r")
    assert mapped.sum() == 0  # every page is resident now
    assert me.memory_info().rss > size
    assert process._file_bytes(me.pid) > 0.9 * size
    assert process._resident_bytes([me]) - before < 0.5 * size
