"""Sweeps whose processes are killed at random, and resumed.

``ONYX_HARNESS_KILLS=200 pytest -s -m full tests/campaign/test_kills.py`` prints how many of which kind were killed.
"""

from __future__ import annotations

import importlib.util
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

import psutil
import pytest

from harness.campaign.lock import file_lock
from harness.records import read_records
from tests.processes import HANGS_S, LOOK_EVERY_S, never_ending

KILLS = int(os.environ.get("ONYX_HARNESS_KILLS", "60"))  # for all launchers together
FEATURES = (1, 2, 3)
SERVER = "harness.campaign.cell_server"  # forks supervisors, which fork cells
SWEEP = (
    "algorithm=fake_spread", "graph=fake_ring", "engine=fake_right", f"features={','.join(map(str, FEATURES))}",
    "measure.budget_s=0.001", "measure.warmup_s=0.001", "measure.repetitions=1", "validate=false",
)  # fmt: skip
LAUNCHERS = {
    "basic": [],
    "joblib": ["hydra.launcher.n_jobs=2"],
    "submitit_local": [],
    "ray": ["+hydra.launcher.ray.init.num_cpus=2"],
}
PRESENT = [
    name
    for name in LAUNCHERS
    if name == "basic" or importlib.util.find_spec(f"hydra_plugins.hydra_{name.partition('_')[0]}_launcher") is not None
]


class Killed:
    """Sweeps of one launcher in a separate folder, and their processes."""

    def __init__(
        self, folder: Path, temporary: Path, environment: dict[str, str], launcher: str, seed: int
    ) -> None:  # fmt: skip
        self.folder, self.temporary, self.draw = folder, temporary, random.Random(seed)
        self.options = [*SWEEP, f"hydra/launcher={launcher}", *LAUNCHERS[launcher]]
        self.locks = folder / "locks"
        # Ray keeps the logs of its sessions, and folders that the module multiprocessing makes for it.
        self.logs = ("ray", "pymp-") if launcher == "ray" else ()
        own = {"SWEEP_MARK": str(folder), "ONYX_HARNESS_LOCKS": str(self.locks), "TMPDIR": str(self.temporary)}
        self.environment = {**environment, **own}
        self.mains: list[int] = []
        self.kinds: Counter[str] = Counter()

    def start(self, sweep: str) -> subprocess.Popen[bytes]:
        with (self.folder / "printed.txt").open("ab") as printed:
            process = subprocess.Popen(
                [sys.executable, "-m", "harness", *self.options, f"sweep.id={sweep}"],
                cwd=self.folder, env=self.environment, stdout=printed, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self.mains.append(process.pid)
        return process

    def processes(self) -> dict[str, list[psutil.Process]]:
        """Return the running processes by kind."""
        found: dict[str, list[psutil.Process]] = {}
        for process in psutil.process_iter():
            try:
                if process.environ().get("SWEEP_MARK") == str(self.folder) and process.status() != "zombie":
                    found.setdefault(self.kind(process), []).append(process)
            except (psutil.NoSuchProcess, psutil.AccessDenied):
                continue
        return found

    def kind(self, process: psutil.Process) -> str:
        line = " ".join(process.cmdline())
        if process.pid in self.mains:
            return "main"
        if "orphans.py" in line:
            return "watch"
        if SERVER in line:
            above = [SERVER in " ".join(one.cmdline()) for one in process.parents()]
            return ("server", "supervisor", "child")[min(sum(above), 2)]
        return "worker"

    def kill_one(self) -> None:
        """Kill a process of a random kind."""
        found = self.processes()
        if found:
            kind = self.draw.choice(sorted(found))
            self.draw.choice(found[kind]).kill()
            self.kinds[kind] += 1

    def run_killed(self, sweep: str, kills: int, typical_s: float) -> None:
        """Run a sweep to its end with resumption and at most ``kills`` kills."""
        while True:
            process, before = self.start(sweep), self.kinds.total()
            # Every second kill is early: a sweep has many short states while it starts.
            while kills > 0 and not ended(process, typical_s * self.draw.random() * self.draw.choice((0.1, 1.5))):
                self.kill_one()
                kills -= 1
            status = process.wait(timeout=HANGS_S)
            if status == 0:
                return
            printed = (self.folder / "printed.txt").read_text()
            assert status in (-9, 1, 2), printed
            assert self.kinds.total() > before, printed  # it failed although nothing was killed

    def check(self, sweep: str) -> None:
        """Check that every planned cell has one record and that nothing else is left."""
        folder = self.folder / "results" / sweep
        planned = [cell["cell"] for cell in json.loads((folder / "sweep.json").read_text())["cells"]]
        found = [record for _, record in read_records(folder)]
        assert sorted(record["cell"] for record in found) == sorted(planned)
        assert sorted((record["features"], record["outcome"]) for record in found) == [(k, "ok") for k in FEATURES]
        assert [path.name for path in (folder / ".running").iterdir()] == ["sweep.lock"]
        assert sorted(path.name for path in folder.iterdir()) == sorted(
            [*planned, ".running", "report.html", "sweep.json"]
        )
        left = self.processes()
        assert not never_ending(one.pid for processes in left.values() for one in processes), left
        shared = [path.name for path in Path("/dev/shm").iterdir()]
        assert not [name for name in shared for main in self.mains if f"-{main}-" in name or f"_{main}_" in name]
        assert [path.name for path in self.temporary.iterdir() if not path.name.startswith(self.logs)] == []
        for lock in self.locks.iterdir():
            with file_lock(lock, wait=False):
                pass


def ended(process: subprocess.Popen[bytes], most_s: float) -> bool:
    try:
        process.wait(timeout=max(LOOK_EVERY_S, most_s))
    except subprocess.TimeoutExpired:
        return False
    return True


@pytest.mark.full
@pytest.mark.parametrize("launcher", PRESENT)
def test_kills_neither_lose_nor_leave_anything(tmp_path, harness_environment, launcher):
    with tempfile.TemporaryDirectory(prefix="kills") as temporary:  # a short path, since Ray puts sockets below it
        killed = Killed(tmp_path, Path(temporary), harness_environment, launcher, seed=KILLS)
        run_all(killed, launcher)


def run_all(killed: Killed, launcher: str) -> None:
    """Run one sweep to its end, then sweeps with kills until there were enough."""
    began = time.monotonic()
    killed.run_killed("sweep-0", 0, 0.0)
    killed.check("sweep-0")
    typical_s = time.monotonic() - began
    wanted, number = KILLS // len(PRESENT), 0
    while (left := wanted - killed.kinds.total()) > 0:
        number += 1
        killed.run_killed(f"sweep-{number}", min(left, 12), typical_s)
        killed.check(f"sweep-{number}")
        print(f"{launcher}: {killed.kinds.total()} kills in {number} sweeps: {dict(killed.kinds)}", flush=True)
    assert killed.kinds.total() == wanted
