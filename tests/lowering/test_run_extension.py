"""The state of a run on a device: the host and the device agree on it, and engines add fields to it."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from harness.lowering.cuda import run_state
from harness.lowering.cuda.plan import CudaPlan
from harness.lowering.cuda.run_extension import RunExtension, RunField, RunStart
from harness.lowering.cuda.run_start import start_fields
from harness.lowering.cuda.run_state import RUN_FIELDS
from tests.engines.cuda_modules import DECLARED, TABLES, problem
from tests.engines.programs import graph_for, program_named

HEADER = Path(run_state.__file__).with_name("run.cuh").read_text(encoding="utf-8")


@dataclass(frozen=True)
class Counting(RunExtension):
    """An extension of three fields."""

    added = (RunField("seen", "seen so far"), RunField("most", "at most, of each side", of_sides=True))

    def start_fields(self, start):
        """Return one field of the extension and one of every run."""
        return {"most_odd": start.sides, "dense_edges": start.edges + int(start.cold)}


def test_the_host_names_the_fields_of_the_device_in_their_order():
    body = HEADER.partition("struct Run : Extension {")[2].partition("// Supersteps")[0]
    members = re.findall(r"^    Count (\w+)(\[2\])?;", body, re.MULTILINE)
    assert tuple(name for one, two in members for name in ((one, f"{one}_odd") if two else (one,))) == RUN_FIELDS
    assert "Count frontier[GROUPS][2];" in body.split("\n")[-3]  # after all of them


def test_an_extension_declares_its_fields_for_both():
    assert Counting().names == ("seen", "most", "most_odd")
    assert Counting().declaration == (
        "struct Extension {\n    long long seen;  // seen so far\n    long long most[2];  // at most, of each side\n};"
        "  // what the engine adds to the state of a run\n"
    )
    assert RunExtension().declaration.startswith("struct Extension {};")
    assert (RunExtension().names, RunExtension().end, RunExtension().dense) == ((), "end_superstep", "dense")


@pytest.mark.parametrize("state", [{}, {"rank": None}])
def test_a_run_starts_with_the_fields_of_the_extension(state):
    program, graph = problem("pagerank")
    plan = DECLARED["gunrock"].build(()).plan(program, graph.facts, 4)
    assert isinstance(plan, CudaPlan)
    usual = start_fields(plan, graph, {})
    assert set(usual) == set(RUN_FIELDS)
    found = start_fields(replace(plan, extension=Counting()), graph, state)
    assert list(found) == ["seen", "most", "most_odd", *RUN_FIELDS]
    assert (found["seen"], found["most"], found["most_odd"]) == (0, 0, 1)
    assert found["dense_edges"] == graph.num_edges + (not state)
    assert found["rebuild_edges"] == usual["rebuild_edges"] == int(0.9 * graph.num_edges)


def test_a_superstep_of_a_side_has_the_edges_into_it_and_rebuilds_from_a_share_of_half_of_all():
    program, graph = program_named("sides"), graph_for("sides")
    edges = graph.num_edges
    plans = [DECLARED[name].build(()).plan(program, graph.facts, 3) for name in ("gunrock", "tigr")]
    tracked, full = (start_fields(plan, graph, {}) for plan in plans)
    assert {one["sides"] for one in (tracked, full)} == {2}
    assert tracked["rebuild_edges"] == int(0.9 * edges / 2)
    assert (full["always"], full["always_odd"]) == (edges // 2, edges // 2)
    assert (tracked["always"], tracked["always_odd"]) == (0, 0)


@pytest.mark.parametrize("table", list(TABLES))
def test_only_engines_that_add_fields_have_them(table):
    program, graph = problem("bfs")
    engine = TABLES[table].build((("direction", "adaptive"), ("change_driven", True)) if "adaptive" in table else ())
    plan = engine.plan(program, graph.facts, 4)
    assert isinstance(plan, CudaPlan)
    added, usual = plan.extension.names, set(RUN_FIELDS)
    assert bool(added) == (TABLES[table].engine == "onyx")
    assert not usual & set(added)
    assert len(set(added)) == len(added)
    assert plan.extension.declaration in plan.source
    assert f"    {plan.extension.end}(run, past);\n" in plan.source
    start = plan.extension.start_fields(RunStart(graph.num_edges, 1, (5, 5), cold=True))
    assert set(start) <= {*added, *usual}
    assert ("rebuild_edges" in start) == (plan.extension.dense == "pull") == ("adaptive" in table)
