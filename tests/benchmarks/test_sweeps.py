"""The cost of a sweep beside the solves: ``pytest tests/benchmarks/test_sweeps.py -m benchmark``.

Processor time is reported beside wall-clock time, because only the former is meaningful on a machine that others
use.
"""

from __future__ import annotations

import resource
import statistics
import subprocess
import sys
import time

import pytest

from harness.records import read_records

pytestmark = pytest.mark.benchmark
TINY = (
    "algorithm=fake_spread", "graph=fake_ring", "engine=fake_right", "measure.repetitions=1", "measure.budget_s=0.001",
    "measure.warmup_s=0.001",
)  # fmt: skip
TINY_ON_GPU = (
    "algorithm=pagerank", "graph=grid", "graph.rows=32", "graph.columns=32", "engine=onyx", "device=cuda",
    "measure.repetitions=1", "measure.budget_s=0.001", "measure.warmup_s=0.001",
)  # fmt: skip
THOUSAND = (*TINY, "features=1,2,3,4", "graph.vertices=range(3,253)")
# Write the record in sys.argv[1] for every cell instead of running it.
PRETEND = """
import sys
from pathlib import Path
import harness.campaign.sweep as sweep
from harness.campaign.application import main
from harness.records import read_record, write_record

[path] = Path(sys.argv[1]).glob("*/*/record.json")
record = read_record(path)

def pretend(plan, todo, launcher, batch):
    for one in todo:
        fields = {name: value for name, value in one.cell.plain().items() if name in record["config"]}
        own = {"sweep": plan.identity, "cell": one.key, "labels": one.cell.labels, "features": one.cell.features}
        write_record(one.folder, {**record, **own, "config": fields})
    return 0

sweep._carry_out = pretend
sys.exit(main(sys.argv[2:]))
"""


def processor_seconds():
    """Return the processor time of all ended children of this process."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


@pytest.mark.parametrize(
    "tiny", [pytest.param(TINY, id="cpu"), pytest.param(TINY_ON_GPU, id="gpu", marks=pytest.mark.gpu)]
)
def test_overhead_of_a_cell(benchmark, command, tmp_path, tiny):
    """Compare ten cells with one, which removes the fixed cost of a sweep; caches are warm.

    On a GPU every cell has a process and a CUDA context of its own, which count.
    """
    ten = (*tiny, f"features={','.join(map(str, range(1, 11)))}", "rerun=all")
    one = (*tiny, "features=1", "rerun=all", "output=one")
    for cells in (ten, one):
        assert command(*cells).returncode == 0
    began = processor_seconds()
    benchmark.pedantic(lambda: command(*ten), rounds=3)
    of_ten = (processor_seconds() - began) / 3
    began, taken = processor_seconds(), []
    for _ in range(3):
        started = time.perf_counter()
        assert command(*one).returncode == 0
        taken.append(time.perf_counter() - started)
    of_one = (processor_seconds() - began) / 3
    solves = [sum(record["solve"]["samples"]) for _, record in read_records(tmp_path / "results")]
    benchmark.group = "sweeps"
    benchmark.extra_info["processor_s_a_cell"] = (of_ten - of_one) / 9 - max(solves)
    benchmark.extra_info["wall_s_a_cell"] = (benchmark.stats.stats.median - statistics.median(taken)) / 9 - max(solves)


def test_a_thousand_cells_on_record(benchmark, command, tmp_path, harness_environment):
    """Run the same command again when nothing is left to do: plan, records, table and page."""
    assert command(*TINY, "features=1", "output=sample").returncode == 0
    pretended = subprocess.run(
        [sys.executable, "-c", PRETEND, str(tmp_path / "sample"), *THOUSAND],
        cwd=tmp_path, env=harness_environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert pretended.returncode == 0, pretended.stderr
    began = processor_seconds()
    finished = benchmark.pedantic(lambda: command(*THOUSAND), rounds=1)
    assert "1000 cells, 1000 on record" in finished.stdout
    benchmark.group = "sweeps"
    benchmark.extra_info["processor_s"] = processor_seconds() - began
    benchmark.extra_info["page_bytes"] = next((tmp_path / "results").glob("*/report.html")).stat().st_size
