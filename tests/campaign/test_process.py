from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from harness.campaign.draft import Draft, read_draft
from harness.campaign.environment import Bystanders
from harness.campaign.lock import file_lock
from harness.campaign.process import run_process
from harness.records.outcome import Outcome

GIGABYTE = 10**9


@pytest.fixture
def module(tmp_path, monkeypatch):
    """Write a module that a child process can run; what runs it and gives its ending and its output."""
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    def run(source: str, time_s: float = 60.0, memory: int = GIGABYTE):
        (tmp_path / "a_child.py").write_text(source)
        output = tmp_path / "output.txt"
        ending = run_process(
            "a_child",
            ["argument"],
            output=output,
            environment={"A_VARIABLE": "set"},
            time_s=time_s,
            memory_bytes=memory,
        )
        return ending, output.read_text()

    return run


def test_a_child_has_its_arguments_its_environment_and_no_input(module):
    ending, output = module("import os, sys; print(sys.argv[1], os.environ['A_VARIABLE'], repr(sys.stdin.read()))")
    assert (ending.status, ending.limit, ending.signal_name) == (0, None, None)
    assert output.strip() == "argument set ''"


def test_a_child_is_in_a_session_of_its_own(module):
    _, output = module("import os; print(os.getsid(0) == os.getpid())")
    assert output.strip() == "True"


def test_the_exit_status_is_told(module):
    ending, output = module("import sys; print('out'); sys.exit('the last words')")
    assert ending.status == 1
    assert "the last words" in output


def test_the_signal_is_told_by_name(module):
    ending, output = module("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    assert ending.signal_name == "SIGSEGV"
    assert "Segmentation fault" in output


def test_a_child_that_does_not_end_is_ended_with_all_that_it_started(module):
    source = "import os, threading\nos.fork()\nprint(os.getpid(), flush=True)\nthreading.Event().wait()"
    ending, output = module(source, time_s=1.0)
    assert ending.limit is Outcome.TIMEOUT
    for number in output.split():
        assert not psutil.pid_exists(int(number)) or psutil.Process(int(number)).status() == psutil.STATUS_ZOMBIE


def test_what_a_child_leaves_running_is_ended_with_it(module):
    source = "import os, threading\nif os.fork() == 0:\n    threading.Event().wait()\nprint('done', flush=True)"
    ending, output = module(source)
    assert ending.status == 0
    assert output.strip() == "done"


def test_a_child_that_takes_too_much_memory_is_ended(module):
    source = "import mmap, threading\nheld = mmap.mmap(-1, 300_000_000)\n"
    source += "held.write(b'1' * 300_000_000)\nthreading.Event().wait()"
    ending, _ = module(source, memory=200_000_000)
    assert ending.limit is Outcome.OUT_OF_MEMORY
    assert ending.peak_bytes > 200_000_000


@pytest.mark.skipif(sys.platform != "linux", reason="the death of a parent is signalled by Linux alone")
def test_a_child_dies_with_its_parent(tmp_path):
    child = "import os, sys, threading\nfrom harness.campaign.process import die_with_parent\n"
    child += "die_with_parent(int(sys.argv[1]))\nprint(os.getpid(), flush=True)\nthreading.Event().wait()"
    parent = "import os, subprocess, sys\n"
    parent += f"subprocess.run([sys.executable, '-c', {child!r}, str(os.getpid())])"
    process = subprocess.Popen(
        [sys.executable, "-c", parent],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert process.stdout is not None
    number = int(process.stdout.readline())
    grandchild = psutil.Process(number)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    psutil.wait_procs([grandchild], timeout=20)
    assert not grandchild.is_running() or grandchild.status() == psutil.STATUS_ZOMBIE


def test_a_draft_keeps_what_was_told_last_and_drops_a_line_cut_short(tmp_path):
    path = tmp_path / "draft.jsonl"
    with path.open("w") as file:
        draft = Draft(file)
        draft.stage("prepare")
        draft.tell(features=8)
        draft.stage("solve")
        draft.end(Outcome.WRONG, "off by one")
        file.write('{"outcome": "o')
    assert read_draft(path) == {"stage": "solve", "features": 8, "outcome": "wrong", "reason": "off by one"}


def test_no_draft_is_an_empty_one(tmp_path):
    assert read_draft(tmp_path / "draft.jsonl") == {}


def test_a_lock_is_held_by_one_process_at_a_time(tmp_path):
    path = tmp_path / "locks" / "cpu.lock"
    attempt = f"import fcntl, os; fcntl.flock(os.open({str(path)!r}, os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)"

    def taken() -> bool:
        return subprocess.run([sys.executable, "-c", attempt], capture_output=True, check=False).returncode != 0

    with file_lock(path):
        assert taken()
    assert not taken()
    assert Path(path).exists()


def test_what_others_do_is_seen_and_what_we_do_is_not():
    source = "import sys, time\nend = time.process_time() + 0.4\nwhile time.process_time() < end: pass"
    bystanders = Bystanders()
    subprocess.run([sys.executable, "-c", source], check=True)
    assert bystanders.cores() > 0.1
