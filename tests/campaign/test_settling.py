"""The record's facts about runs that settled, runs that were stopped, and runs with a fixed number of supersteps."""

from __future__ import annotations

from harness.records import read_records

GRID = ("engine=fake_right", "baseline=fake_right", "graph=grid", "graph.rows=12", "graph.columns=12")


def only_record(folder):
    [(_, record)] = read_records(folder / "results")
    return record


def test_a_settled_run_is_compared_with_a_library_and_rated(command_here, tmp_path):
    finished = command_here(*GRID, "algorithm=components")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    record = only_record(tmp_path)
    assert record["settled"] is True
    assert record["validation"]["against"] == "scipy.sparse.csgraph.connected_components"
    assert record["validation"]["error"] == 0
    assert set(record["metrics"]) == {"components", "largest"}
    assert "not settled" not in finished.stdout


def test_a_run_that_was_stopped_is_marked_and_not_rated(command_here, tmp_path):
    finished = command_here(*GRID, "algorithm=components", "max_supersteps=3")
    assert finished.returncode == 0, finished.stdout + finished.stderr
    record = only_record(tmp_path)
    assert record["settled"] is False
    assert record["validation"]["against"] == "the float64 reference"
    assert record["metrics"] == {}
    assert "3, not settled" in finished.stdout
    assert "not settled: stopped at the limit of supersteps" in finished.stdout


def test_quality_that_any_answer_has_is_given_of_a_stopped_run_too(command_here, tmp_path):
    arguments = ("engine=fake_right", "algorithm=label_propagation", "graph=digits", "max_supersteps=3")
    finished = command_here(*arguments)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert only_record(tmp_path)["settled"] is False
    assert 0 < only_record(tmp_path)["metrics"]["accuracy"] < 1
    assert "3, not settled" in finished.stdout


def test_a_fixed_number_of_supersteps_settles_nothing(command_here, tmp_path):
    command_here("engine=fake_right", "algorithm=fake_spread", "graph=fake_ring")
    assert only_record(tmp_path)["settled"] is None


def test_an_infinite_parameter_reaches_the_algorithm_as_it_is(command_here, tmp_path):
    command_here(
        "algorithm=label_propagation", "algorithm.tolerance=inf", "graph=grid", "features=2", "engine=fake_right"
    )
    record = only_record(tmp_path)
    assert record["config"]["parameters"]["tolerance"] == "Infinity"
    assert record["outcome"] == "invalid_input"
    assert "inf" in record["reason"]
