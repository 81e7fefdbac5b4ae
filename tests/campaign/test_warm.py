"""Warm runs as a user requests them: on a graph that changes, next to a cold run, in the record and in the table."""

from __future__ import annotations

import pytest

from harness.records import read_records

CELL = ("graph=grid", "graph.rows=24", "graph.columns=20", "features=2", "measure.repetitions=1",
        "measure.budget_s=0.01")  # fmt: skip


def only_record(folder):
    [(_, record)] = list(read_records(folder / "results"))
    return record


@pytest.mark.slow
def test_a_warm_run_and_a_cold_one_are_on_record_and_in_the_table(command_here, tmp_path):
    finished = command_here(
        *CELL, "engine=onyx", "algorithm=bfs", "warm.change=0.01", "warm.kind=delete", "warm.seed=3", "baseline=onyx"
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    record = only_record(tmp_path)
    warm = record["warm"]
    assert (warm["change"], warm["kind"], warm["seed"]) == (0.01, "delete", 3)
    assert warm["start"] == f"warm, {warm['vertices_reset']} vertices reset"
    assert warm["cold"]["median"] > 0
    assert warm["cold_validation"]["ok"]
    assert record["validation"]["ok"]
    assert record["settled"]
    cold, mine = (sum(step[1] for step in steps) for steps in (warm["cold_supersteps"], record["supersteps"]))
    assert mine < cold
    assert record["labels"]["graph"].endswith(" after delete, change=0.01, seed=3")
    supersteps = f"{len(record['supersteps'])} / {len(warm['cold_supersteps'])}"
    for heading in ("Warm / cold", "start", "cold over warm", supersteps):
        assert heading in finished.stdout


@pytest.mark.slow
def test_one_of_several_answers_is_compared_with_its_next_superstep(command_here, tmp_path):
    finished = command_here(
        "graph=ratings_random", "graph.users=30", "graph.items=20", "graph.num_ratings=250", "features=2",
        "measure.repetitions=1", "measure.budget_s=0.01", "engine=scipy,onyx", "algorithm=als",
        "algorithm.supersteps=1000", "warm.change=0.01",
    )  # fmt: skip
    assert "its own next superstep" in str([r["validation"] for _, r in read_records(tmp_path / "results")])
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_a_run_that_does_not_settle_is_not_a_warm_start(command_here, tmp_path):
    finished = command_here("engine=fake_right", "algorithm=fake_spread", "graph=fake_ring", "warm.change=0.2")
    assert finished.returncode == 1
    record = only_record(tmp_path)
    assert record["outcome"] == "invalid_input"
    assert "has not settled in 10 supersteps" in record["reason"]
    assert record["warm"] is None


def test_impossible_changes_are_invalid_input(command_here, tmp_path):
    finished = command_here(*CELL, "engine=onyx", "algorithm=bfs", "graph.rows=1", "graph.columns=1", "warm.change=0.5")
    assert finished.returncode == 1
    assert only_record(tmp_path)["outcome"] == "invalid_input"
    assert "no edges" in finished.stdout


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("warm.change=2", "warm.change is 2"),
        ("warm.change=0", "warm.change is 0; it must be a number above 0"),
        ("warm.kind=insrt", "did you mean 'insert'"),
        ("warm.seed=-1", "warm.seed is -1"),
        ("warm.kint=insert", "kint"),
    ],
)
def test_senseless_changes_are_refused_before_anything_runs(command_here, option, message):
    finished = command_here("engine=fake_right", "algorithm=fake_spread", "graph=fake_ring", "warm.change=0.5", option)
    assert finished.returncode == 2
    assert message in finished.stderr
