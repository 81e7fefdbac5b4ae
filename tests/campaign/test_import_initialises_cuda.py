"""A package that initialises CUDA when it is imported harms no cell: no cell is forked from a process that imported it.

Without a GPU, the driver is a library that behaves as CUDA's does after a fork.
"""

from __future__ import annotations

import os
import shutil
import subprocess

import pytest

from harness.records import read_records

# CUDA's driver does not work in a process that is forked after its initialisation.
DRIVER = """
#include <unistd.h>
static int owner;
int cuInit(unsigned flags) {
    if (!owner) owner = getpid();
    return owner == getpid() ? 0 : 3; /* CUDA_ERROR_NOT_INITIALIZED */
}
"""
PLUGIN = """
import ctypes, os
from harness.contract import EngineSpec
from harness.hookspecs import hookimpl
from onyx_fakes_schedule import Schedule

driver = ctypes.CDLL(os.environ["A_DRIVER"])
assert driver.cuInit(0) == 0, "initialised before a fork"
if "libcuda" in os.environ["A_DRIVER"]:
    import cupy
    held = cupy.zeros(1)  # creates a context

@hookimpl
def onyx_engines():
    return [EngineSpec("initialises", "an engine", Schedule, "eager_engine:Engine")]
"""
ENGINE = """
from onyx_fakes_engines import Right
import eager

class Engine(Right):
    def prepare(self, *arguments):
        assert eager.driver.cuInit(0) == 0, "initialised before a fork"
        super().prepare(*arguments)
"""


@pytest.fixture
def environment(tmp_path, harness_environment):
    """Return the variables with which the package is installed."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("needs a C compiler")
    (folder := tmp_path / "installed").mkdir()
    (folder / "driver.c").write_text(DRIVER)
    library = folder / "driver.so"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", str(library), str(folder / "driver.c")], check=True)
    (folder / "eager.py").write_text(PLUGIN)
    (folder / "eager_engine.py").write_text(ENGINE)
    (described := folder / "eager-1.0.dist-info").mkdir()
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: eager\nVersion: 1.0\n")
    (described / "entry_points.txt").write_text("[onyx_harness]\neager = eager\n")
    return {"A_DRIVER": str(library), "PYTHONPATH": os.pathsep.join([str(folder), harness_environment["PYTHONPATH"]])}


@pytest.mark.full
def test_no_cell_is_forked_from_a_process_that_has_imported_the_package(command, environment, tmp_path):
    """The command itself imports it, and so does every cell, of this engine or of another."""
    finished = command("engine=initialises,fake_right", "algorithm=fake_spread", "graph=fake_ring", env=environment)
    check(finished, tmp_path / "results")


@pytest.mark.gpu
def test_cells_on_a_gpu_use_it_after_the_package_has(command, environment, tmp_path):
    environment["A_DRIVER"] = "libcuda.so.1"
    problem = ("algorithm=pagerank", "graph=rmat", "graph.scale=10", "features=8", "device=cuda")
    check(command("engine=onyx,cusparse", *problem, env=environment), tmp_path / "results")


def check(finished, folder):
    """Check that both cells of a sweep have a right answer."""
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert "before a fork" not in finished.stdout + finished.stderr
    found = [record for _, record in read_records(folder)]
    assert [(record["outcome"], record["reason"]) for record in found] == [("ok", "")] * 2
