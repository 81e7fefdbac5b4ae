"""Run one cell in this process, as its child process does; make its record, as the parent does, or only its report."""

from __future__ import annotations

import copy
import dataclasses
import datetime as dt
import os
import sys
from contextlib import closing, nullcontext
from importlib.metadata import EntryPoint
from types import ModuleType

import pytest

from harness.campaign import child, job
from harness.campaign.cell import resolve_cell
from harness.campaign.child_report import ChildReport
from harness.campaign.process import Ending
from harness.campaign.reference import compute
from harness.campaign.work_folder import WorkFolder
from harness.plugins import load_plugins
from harness.records import read_record
from tests.campaign.test_cell import CONFIG
from tests.conftest import FAKES

_MODULE = "onyx_engine_under_test"
_GIGABYTE = 1 << 30


@pytest.fixture
def record_of(monkeypatch, tmp_path):
    """Return the record of a cell with the given engine class: ``record_of(Engine, key=value, ...)``."""
    monkeypatch.syspath_prepend(str(FAKES))
    # The process that computes references imports the same plugins.
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(FAKES), os.environ.get("PYTHONPATH", "")]))
    monkeypatch.setattr("harness.campaign.device_use.device_lock", lambda *_, **__: nullcontext())
    registry = load_plugins(found=[_fakes()])
    spec = registry.engine("fake_right")
    registry.engines["fake_right"] = dataclasses.replace(spec, factory=f"{_MODULE}:Engine")
    module = ModuleType(_MODULE)
    monkeypatch.setitem(sys.modules, _MODULE, module)
    monkeypatch.setattr(child, "load_plugins", lambda *_, **__: registry)
    config = copy.deepcopy(CONFIG)
    config["measure"] = {"repetitions": 2, "budget_s": 1e-6, "warmup_s": 1e-6}
    config["device"]["threads"] = 1
    known = resolve_cell(config, load_plugins(found=[_fakes()]))
    number = 0

    def run(engine, **changes):
        nonlocal number
        number += 1
        work = WorkFolder(tmp_path / f"work-{number}")
        module.Engine = engine
        cell = dataclasses.replace(known, **changes)
        _run(cell, work)
        assignment = job.Assignment(cell, "sweep", "key", tmp_path / f"cell-{number}", "none")
        ending = Ending(0, None, 1.0, 0)
        fields, damaged = work.reported()
        fields = job._concluded(fields, ending, assignment, damaged=damaged)
        job._keep(assignment, work, fields, dt.datetime.now(dt.UTC), ending)
        work.close()
        return read_record(assignment.folder / "record.json")

    yield run
    for name in [name for name in sys.modules if name.startswith("onyx_fakes")]:
        del sys.modules[name]


@pytest.fixture
def report_of(monkeypatch, tmp_path, fresh_cache):
    """Return the report of a cell's process, run in this process: ``report_of(Engine, name, config, key=value)``.

    The class takes the place of the installed engine ``name``. ``config`` is added to that of the tests of cells, and
    the fields ``key=value`` to the cell.
    """
    monkeypatch.setattr("harness.campaign.device_use.device_lock", lambda *_, **__: nullcontext())
    registry = load_plugins()
    monkeypatch.setattr(child, "load_plugins", lambda *_, **__: registry)
    monkeypatch.setattr(
        "harness.campaign.reference_process.Referee.__call__", lambda self, problem, kind: compute(problem, kind)
    )
    module = ModuleType(_MODULE)
    monkeypatch.setitem(sys.modules, _MODULE, module)

    def run(engine, name, config, **changes):
        module.Engine = engine
        known = registry.engine(name)
        cell = resolve_cell(copy.deepcopy(CONFIG) | {"engine": {"name": name}} | config, registry)
        monkeypatch.setitem(registry.engines, name, dataclasses.replace(known, factory=f"{_MODULE}:Engine"))
        work = WorkFolder(tmp_path / f"work-{len(list(tmp_path.iterdir()))}")
        with closing(work):
            _run(dataclasses.replace(cell, **changes), work)
            fields, damaged = work.reported()
        monkeypatch.setitem(registry.engines, name, known)
        assert not damaged
        return fields

    return run


def _run(cell, work):
    """Run a cell's process in this one."""
    with work.report.open("ab", buffering=0) as file:
        child.run_cell(cell, ChildReport(file), work.made, _GIGABYTE)


def _fakes():
    return EntryPoint(name="fakes", value="onyx_fakes", group="onyx_harness")
