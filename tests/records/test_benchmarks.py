"""Records in the form of pytest-benchmark, which its own command reads; and what became slower."""

from __future__ import annotations

import json
import random
import subprocess
import sys

import pytest

from harness.records import write_record
from harness.records.__main__ import main
from harness.records.benchmarks import exported, read_benchmarks
from harness.records.regressions import changes
from harness.records.schema import RecordError
from tests.records.samples import record


def solved(engine, samples, **changed):
    """A record whose samples are given."""
    made = record(engine, (sorted(samples)[len(samples) // 2], min(samples), max(samples)), **changed)
    made["solve"]["samples"] = list(samples)
    return made


def times(median, noise, seed, count=15):
    """Samples around a median."""
    draw = random.Random(seed)
    return [median * draw.uniform(1 - noise, 1 + noise) for _ in range(count)]


def saved(path, **samples):
    """A file as pytest-benchmark saves one with its samples."""
    data = exported([solved(name, drawn) for name, drawn in samples.items()])
    path.write_text(json.dumps(data))
    return path


# the form -------------------------------------------------------------------------------------------------------------
def test_every_ok_record_is_a_benchmark_of_its_problem():
    data = exported([solved("fast", [1.0, 2.0, 3.0]), solved("slow", [5.0]), record("broken", None)])
    fast, slow = data["benchmarks"]
    assert fast["group"] == slow["group"] == "flood, ring, k=8"
    assert fast["name"] == "solve[flood-ring-k=8-fast]"
    assert fast["stats"]["median"] == 2.0
    assert fast["stats"]["data"] == [1.0, 2.0, 3.0]
    assert fast["extra_info"]["edges_per_s"] == 20_100 / 2.0
    assert fast["extra_info"]["gb_per_s"] == pytest.approx(20_100 * 40 / 2.0 / 1e9)
    assert data["machine_info"]["cpu"]["brand_raw"] == "a processor"


@pytest.mark.parametrize("count", range(1, 12))
def test_the_figures_are_those_of_pytest_benchmark(count):
    from pytest_benchmark.stats import Stats

    samples = times(1.0, 0.5, seed=count, count=count)
    theirs = Stats()
    for sample in samples:
        theirs.update(sample)
    [mine] = exported([solved("fast", samples)])["benchmarks"]
    for name in ("min", "max", "mean", "stddev", "median", "rounds", "total"):
        assert mine["stats"][name] == pytest.approx(getattr(theirs, name)), name
    assert set(theirs.as_dict()) <= {*mine["stats"]}


def test_its_own_command_shows_sweeps_side_by_side(tmp_path):
    one = saved(tmp_path / "0001_before.json", fast=[1.0, 1.1], slow=[4.0, 4.1])
    other = saved(tmp_path / "0002_after.json", fast=[2.0, 2.1], slow=[4.0, 4.1])
    shown = subprocess.run(
        [sys.executable, "-m", "pytest_benchmark", "compare", str(one), str(other), "--columns=median,rounds"],
        capture_output=True, text=True, check=False, cwd=tmp_path,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert "benchmark 'flood, ring, k=8': 4 tests" in shown.stdout
    for engine in ("fast", "slow"):
        assert shown.stdout.count(f"solve[flood-ring-k=8-{engine}]") == 2


def test_cells_that_differ_elsewhere_keep_names_of_their_own():
    first = solved("fast", [1.0], cell="a" * 24, config={**record()["config"], "max_supersteps": 3})
    names = {one["fullname"] for one in exported([first, solved("fast", [2.0])])["benchmarks"]}
    assert names == {"solve[flood-ring-k=8-fast]@aaaaaaaa", "solve[flood-ring-k=8-fast]@cccccccc"}


def test_machines_are_not_mixed():
    other = solved("fast", [1.0], environment={"cpu": "another"})
    with pytest.raises(RecordError, match="2 machines"):
        exported([solved("fast", [1.0]), other])


def test_the_command_exports_a_folder(tmp_path, capsys):
    write_record(tmp_path / "sweep" / "one", solved("fast", [1.0, 2.0]))
    assert main(["benchmark", str(tmp_path)]) == 0
    data = json.loads(capsys.readouterr().out)
    assert [one["name"] for one in data["benchmarks"]] == ["solve[flood-ring-k=8-fast]"]
    assert read_benchmarks(tmp_path) == data
    (tmp_path / "empty").mkdir()
    assert main(["benchmark", str(tmp_path / "empty")]) == 1
    assert "no ok record" in capsys.readouterr().err
    assert main(["benchmark", str(tmp_path / "nowhere")]) == 1
    assert "nowhere is no folder" in capsys.readouterr().err


# what became slower ---------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(
    ("factor", "noise", "verdict"),
    [
        (1.2, 0.02, "slower"),
        (1.2, 0.5, "no difference"),  # a threshold alone would cry out
        (1.0, 0.02, "no difference"),
        (1.03, 0.002, "within the threshold"),
        (0.7, 0.02, "faster"),
    ],
)
def test_a_change_is_told_when_it_is_large_and_no_chance(factor, noise, verdict):
    before, after = {"a": [times(1.0, noise, seed=1)]}, {"a": [times(factor, noise, seed=2)]}
    [change] = changes(before, after, threshold=0.05)
    assert change.verdict == verdict
    assert change.low <= change.ratio <= change.high


def test_what_differs_between_runs_of_the_same_code_is_no_regression():
    """Each run is precise in itself, and lies elsewhere: one run of each would be told as a regression."""
    before = [times(median, 0.01, seed) for seed, median in enumerate((1.0, 1.2, 1.1))]
    after = [times(median, 0.01, seed + 9) for seed, median in enumerate((1.18, 1.02, 1.12))]
    assert changes({"a": before[:1]}, {"a": after[:1]})[0].verdict == "slower"
    assert changes({"a": before}, {"a": after})[0].verdict == "no difference"


def test_the_command_fails_for_what_became_slower(tmp_path, capsys):
    before = saved(tmp_path / "before.json", fast=times(1.0, 0.01, 1), slow=times(4.0, 0.01, 2))
    after = saved(tmp_path / "after.json", fast=times(1.3, 0.01, 3), slow=times(4.0, 0.01, 4), other=times(1.0, 0.1, 5))
    assert main(["regressions", "--before", str(before), "--after", str(after)]) == 1
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("slower")
    assert told[0].endswith("solve[flood-ring-k=8-fast]")
    assert told[1].startswith("no difference")
    assert told[-1] == "1 of 2 became slower; 1 are on one side only"
    assert main(["regressions", "--before", str(before), "--after", str(after), "--threshold", "0.5"]) == 0


def test_other_machines_and_files_without_samples_are_refused(tmp_path, capsys):
    before, after = (saved(tmp_path / name, fast=times(1.0, 0.01, 1)) for name in ("a.json", "b.json"))
    data = json.loads(after.read_text())
    after.write_text(json.dumps({**data, "machine_info": {"node": "elsewhere"}}))
    assert main(["regressions", "--before", str(before), "--after", str(after)]) == 1
    assert "--force" in capsys.readouterr().err
    assert main(["regressions", "--before", str(before), "--after", str(after), "--force"]) == 0
    del data["benchmarks"][0]["stats"]["data"]
    after.write_text(json.dumps(data))
    assert main(["regressions", "--before", str(before), "--after", str(after)]) == 1
    assert "--benchmark-save-data" in capsys.readouterr().err
    after.write_text("[]")
    assert main(["regressions", "--before", str(before), "--after", str(after)]) == 1
    assert "no file of pytest-benchmark" in capsys.readouterr().err


def test_a_threshold_is_a_share(tmp_path, capsys):
    write_record(tmp_path / "s" / "a", record("fast"))
    assert main(["regressions", "--before", str(tmp_path), "--after", str(tmp_path), "--threshold", "-1"]) != 0
    assert "give a share of 0 or more" in capsys.readouterr().err
