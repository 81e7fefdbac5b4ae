from __future__ import annotations

import atexit
import ctypes
import itertools
import mmap
import os
import shutil
import signal
import sys
import threading
from pathlib import Path

import numpy as np

from harness import clock
from harness.contract import Engine, No, Yes
from harness.language.reference import ReferenceRun


class Right(Engine):
    """The reference, as an engine."""

    def supports(self, program, graph, features, device):
        return Yes(1000)

    def prepare(self, program, graph, features, device, phases):
        if "FAKE_RUN_LOG" in os.environ:  # log the features and the process
            with open(os.environ["FAKE_RUN_LOG"], "a") as log:
                log.write(f"{features} {os.getpid()}\n")
        with phases("compile"):
            self.inner = ReferenceRun(program, graph, features)

    def reset(self, inputs, state=None):
        self.inner.reset(inputs, state)

    def run(self, max_supersteps):
        return self.inner.run(max_supersteps)

    def values(self, name):
        return self.inner.values(name).astype(np.float32)

    def close(self):
        print("closed")


class Pulls(Right):
    def supports(self, program, graph, features, device):
        return No("nothing pushes here") if self.schedule.direction == "push" else Yes(1000)

    def explain(self):
        return f"schedule {self.schedule!r}"


class Wrong(Right):
    def values(self, name):
        return super().values(name) * 1.5


class Nan(Right):
    def values(self, name):
        return super().values(name) * np.float32("nan")


class Raises(Right):
    def run(self, max_supersteps):
        raise RuntimeError("the [red]kernel[/red] was refused")


class Moving(Right):
    """Moves the folders of the harness to one that does not exist, by the environment."""

    def prepare(self, program, graph, features, device, phases):
        super().prepare(program, graph, features, device, phases)
        os.environ["ONYX_HARNESS_CACHE"] = os.environ["ONYX_HARNESS_LOCKS"] = os.environ["FAKE_ELSEWHERE"]


class Segfault(Right):
    def run(self, max_supersteps):
        os.kill(os.getpid(), signal.SIGSEGV)


class Exits(Right):
    def run(self, max_supersteps):
        os._exit(7)


class Hangs(Right):
    """Waits forever, like the process that it starts, whose process id it writes to a file on request."""

    def run(self, max_supersteps):
        child = os.fork()
        if child and "FAKE_PID_FILE" in os.environ:
            Path(os.environ["FAKE_PID_FILE"]).write_text(f"{os.getpid()} {child}\n")
        threading.Event().wait()


class Hungry(Right):
    def run(self, max_supersteps):
        raise MemoryError("no room for 8 arrays")


class Refuses(Right):
    def supports(self, program, graph, features, device):
        return No("this engine takes no sums")


class WantsMuch(Right):
    def supports(self, program, graph, features, device):
        return Yes(10**18)


class Slow(Right):
    """Holds memory outside the limits of the system, and waits."""

    def run(self, max_supersteps):
        self.held = mmap.mmap(-1, 600_000_000)
        for _ in range(600):
            self.held.write(b"1" * 1_000_000)
        threading.Event().wait()


class Shouting(Right):
    """Prints forever."""

    def run(self, max_supersteps):
        while True:
            print("x" * 99_999)


class Verbose(Right):
    """Prints two million bytes at its end."""

    def run(self, max_supersteps):
        for _ in range(20):
            print("x" * 99_999)
        return super().run(max_supersteps)


class Binary(Right):
    """Writes bytes that are not text and control sequences of a terminal, and dies."""

    def run(self, max_supersteps):
        os.write(1, bytes(range(256)) * 100 + b"\x1b[2J\x1b]0;title\x07\n")
        os._exit(3)


class Straying(Right):
    """Changes the working directory and leaves a file there."""

    def run(self, max_supersteps):
        os.chdir(os.environ["FAKE_ELSEWHERE"])
        Path("record.json").write_text("not a record")
        return super().run(max_supersteps)


class Deserting(Right):
    """Leaves processes behind, one of them in a separate session."""

    def close(self):
        for daemon in (False, True):
            if os.fork() == 0:
                if daemon:
                    os.setsid()
                with open(os.environ["FAKE_LEFT_BEHIND"], "a") as file:
                    file.write(f"{os.getpid()}\n")
                threading.Event().wait()
        while not (left := Path(os.environ["FAKE_LEFT_BEHIND"])).exists() or left.read_text().count("\n") < 2:
            os.sched_yield()


class Misshapen(Right):
    def values(self, name):
        return super().values(name)[:-1]


class Listing(Right):
    def values(self, name):
        return super().values(name).tolist()


class Lingering(Right):
    """Leaves a thread and an exit handler that never end."""

    def close(self):
        threading.Thread(target=threading.Event().wait).start()
        atexit.register(threading.Event().wait)


class VerboseError(Right):
    def run(self, max_supersteps):
        raise RuntimeError("x" * 50_000_000)


class Damaging(Right):
    """Damages its work folder in the way that its option names."""

    def __init__(self, schedule):
        super().__init__(schedule)
        self.way = getattr(self, schedule.direction)

    def close(self):
        work = Path(sys.argv[1]).parent
        self.way(work, work / "made", work / "report.jsonl")

    def record(self, work, made, report):
        (made / "record.json").mkdir()

    def garbage(self, work, made, report):
        with report.open("ab") as file:
            file.write(b"\xff\x00 garbage\n[1]\n")

    def truncated(self, work, made, report):
        os.truncate(report, 0)

    def fifo(self, work, made, report):
        report.unlink()
        os.mkfifo(report)

    def removed(self, work, made, report):
        print("on the way out", flush=True)
        shutil.rmtree(work)

    def linked(self, work, made, report):
        shutil.rmtree(work)
        work.symlink_to(os.environ["FAKE_ELSEWHERE"])

    def unmade(self, work, made, report):
        shutil.rmtree(made)

    def links(self, work, made, report):
        (made / "link").symlink_to("/")
        (made / "closed").mkdir(0)

    def closing(self, work, made, report):
        os.closerange(3, 100)

    def full(self, work, made, report):
        os._exit(74)


class Overwriting(Right):
    """Writes to an input through a pointer."""

    def reset(self, inputs, state=None):
        start = inputs.properties["start"]
        ctypes.memset(start.ctypes.data, 0, start.nbytes)
        super().reset(inputs, state)


class Quitting(Right):
    def run(self, max_supersteps):
        sys.exit(0)


class Warped(Right):
    """Advances the harness's clock by an hour at each reading; only the system's clock reveals it."""

    def prepare(self, program, graph, features, device, phases):
        super().prepare(program, graph, features, device, phases)
        hours = itertools.count()
        clock.perf_counter = lambda: 3600.0 * next(hours)
