"""The process of a cell, run in this one: its stages in order, its artefacts, its marks, and errors of any stage."""

from __future__ import annotations

import errno
from pathlib import Path

import pytest

from harness.campaign.child_report import ChildReport, StoreError
from harness.records import Mark
from tests.campaign.one_cell import report_of  # noqa: F401  a fixture
from tests.campaign.test_guarded_engine import Right

STEPS = ["plugins", "open graph", "trace", "inputs"]
CHECKS = ["solve", "download", "run on other inputs", "run in a known order"]


@pytest.fixture
def cell(report_of, monkeypatch):  # noqa: F811
    """Return a function that runs a cell of PageRank, or of BFS if it is ``warm``: its stages and its report."""
    stages = []
    tell = ChildReport.tell

    def told(report, **fields):
        stages.extend([fields["stage"]] if "stage" in fields else [])
        tell(report, **fields)

    monkeypatch.setattr(ChildReport, "tell", told)

    def run(engine=Right, warm=False, **changes):
        stages.clear()
        config = {
            "features": 2, "algorithm": {"name": "bfs" if warm else "pagerank"},
            "graph": {"name": "grid", "rows": 4, "columns": 5}, "validate": False,
            "measure": {"repetitions": 2, "budget_s": 1e-6, "warmup_s": 1e-6, "accuracy": False},
        }  # fmt: skip
        if warm:
            config["warm"] = {"change": 0.1, "kind": "insert", "seed": 3}
        fields = report_of(engine, "scipy", config | changes)
        assert fields["stage"] == stages[-1]
        return [name for name in stages if not name.startswith("import of plugin") and name != "wait"], fields

    return run


def once(stages):
    """Return stages without those that continue after a wait."""
    return [name for number, name in enumerate(stages) if not number or name != stages[number - 1]]


def test_a_cell_names_each_of_its_stages_in_order(cell):
    stages, fields = cell()
    assert (fields["outcome"], fields["reason"]) == ("ok", "")
    found = once(stages)
    assert found[: len(STEPS)] == STEPS
    assert [name for name in found if name in CHECKS] == CHECKS
    assert found.index("reference") < found.index("engine") < found.index("build") < found.index("prepare")
    assert found.index("prepare") < found.index("solve")


def test_a_warm_cell_runs_before_the_change_and_cold_after_it(cell):
    stages, fields = cell(warm=True)
    assert (fields["outcome"], fields["reason"]) == ("ok", "")
    found = once(stages)
    order = ["inputs", "change the graph", "run before the change", "reference", "cold run", "solve"]
    assert [name for name in found if name in order] == order
    assert (fields["warm"]["change"], fields["warm"]["seed"]) == (0.1, 3)


class Failing(Right):
    error: BaseException = ValueError("a kernel was refused")

    def run(self, max_supersteps):
        raise self.error


@pytest.mark.parametrize(
    ("engine", "limit", "outcome", "reason"),
    [
        (Right, 3, "invalid_input", "the run before the change has not settled in 3 supersteps"),
        (Failing, None, "engine_error", "ValueError: a kernel was refused"),
    ],
)
def test_a_cell_whose_run_before_the_change_fails_ends_there(cell, engine, limit, outcome, reason):
    stages, fields = cell(engine, warm=True, max_supersteps=limit)
    assert fields["outcome"] == outcome
    assert fields["reason"].startswith(reason)
    assert "cold run" not in stages
    assert "solve" not in fields


@pytest.mark.parametrize("message", ["no room for 8 arrays", ""])
@pytest.mark.parametrize("warm", [False, True])
def test_memory_that_runs_out_is_the_outcome(cell, message, warm):
    engine = type("Hungry", (Failing,), {"error": MemoryError(message)})
    stages, fields = cell(engine, warm=warm)
    assert fields["outcome"] == "out_of_memory"
    assert fields["reason"] == (f"memory ran out: {message}" if message else "memory ran out")
    assert stages[-1] == ("run before the change" if warm else "solve")


@pytest.mark.parametrize("caveats", [[], [Mark.NOISY, Mark.BUSY]])
def test_the_caveats_of_the_timed_runs_and_of_the_gpu_are_marks(cell, monkeypatch, caveats):
    monkeypatch.setattr("harness.campaign.measurement.marks_of", lambda *_, **__: list(caveats))
    monkeypatch.setattr("harness.campaign.gpu.gpu_marks", lambda facts: [Mark.THROTTLED])
    assert cell()[1]["marks"] == [*caveats, Mark.THROTTLED]


def test_the_explanation_is_an_artefact_and_what_the_engine_resolved_is_on_record(cell, monkeypatch):
    written = {}
    write = Path.write_text

    def writing(path, text, **options):
        written[path.name] = text
        return write(path, text, **options)

    monkeypatch.setattr(Path, "write_text", writing)

    class Explained(Right):
        def explain(self):
            return "it does what it says"

        def resolved_options(self):
            return {"threads": 3} if "threads" in self.schedule.__dataclass_fields__ else {}

    _, fields = cell(Explained)
    assert fields["outcome"] == "ok"
    text = written["explain.txt"]
    assert text.startswith("program pagerank")
    assert text.endswith("\n\nit does what it says\n")


@pytest.mark.parametrize("full", [True, False])
def test_an_explanation_that_does_not_fit_on_the_disk_is_no_fault_of_the_cell(cell, monkeypatch, full):
    write = Path.write_text

    def refused(path, text, **options):
        if path.name != "explain.txt":
            return write(path, text, **options)
        raise OSError(errno.ENOSPC if full else errno.EACCES, "refused")

    monkeypatch.setattr(Path, "write_text", refused)
    if full:
        with pytest.raises(StoreError, match="refused"):
            cell()
    else:
        assert cell()[1]["outcome"] == "engine_error"
