from __future__ import annotations

import statistics

import pytest

from harness.records import Mark, merge_rounds, superseded
from harness.records.statistics import Interval, median_interval, rounds_interval, trend
from tests.records.samples import accurate_record, record, warm_record


def in_round(number, times=(1.0, 0.9, 1.1), engine="fast", **changes):
    made = record(engine, times, round=number, **changes)
    return {**made, "config": {**made["config"], "round": number}}


def test_the_rounds_of_a_cell_become_one_record():
    rounds = [in_round(1), in_round(2, (1.2, 1.1, 1.3)), in_round(3, (1.1, 1.0, 1.2))]
    [merged] = merge_rounds(rounds)
    assert merged["solve"]["rounds"] == [one["solve"]["samples"] for one in rounds]
    assert sorted(merged["solve"]["samples"]) == sorted(sample for one in rounds for sample in one["solve"]["samples"])
    assert merged["solve"]["median"] == 1.1
    assert merged["solve"]["low"] <= 1.0
    assert merged["solve"]["high"] >= 1.2
    assert merged["solve"]["confidence"] == median_interval([1.0] * 21).confidence
    assert merged["seconds"] == pytest.approx(4.5)


def test_the_times_to_accuracy_of_all_rounds_are_taken_together():
    rounds = [
        {**in_round(number), "accuracy": accurate_record("a", (1.0, 0.9, 1.1), step, times)["accuracy"]}
        for number, step, times in ((1, 40, [0.5] * 7), (2, 41, [0.6] * 7))
    ]
    [merged] = merge_rounds(rounds)
    assert merged["accuracy"]["superstep"] == 41
    assert merged["accuracy"]["solve"]["rounds"] == [[0.5] * 7, [0.6] * 7]
    [merged] = merge_rounds([rounds[0], in_round(2)])
    assert merged["accuracy"] is None


def test_a_record_of_one_round_stays_as_it_is():
    alone = in_round(1)
    assert merge_rounds([alone]) == [alone]


def test_engines_stay_apart_and_in_their_order():
    records = [in_round(r, engine=engine) for r in (1, 2) for engine in ("b", "a")]
    assert [one["config"]["engine"] for one in merge_rounds(records)] == ["b", "a"]


GPU = {"gpu": {"name": "a card", "driver": "1", "clock": 1000}}


@pytest.mark.parametrize(
    "other",
    [
        {"sweep": "another"}, {"environment": {"cpu": "another"}}, {"environment": {"packages": {"numba": "2"}}},
        {"environment": GPU}, {"labels": {"engine": "another", "algorithm": "flood", "graph": "ring"}},
    ],
    ids=["sweep", "machine", "software", "card", "options"],
)  # fmt: skip
def test_nothing_is_merged_over_sweeps_or_machines(other):
    assert len(merge_rounds([in_round(1), in_round(2, **other)])) == 2


@pytest.mark.parametrize(
    ("name", "value", "count"),
    [
        ("host", "b", 2), ("system", "b", 2), ("cpu", "b", 2), ("cores", 3, 2), ("python", "3.9", 2),
        ("packages", {"numba": "2"}, 2), ("commit", "b", 1), ("other_cores", 3.0, 1),
    ],
)  # fmt: skip
def test_a_machine_is_its_host_its_processor_and_its_software(name, value, count):
    facts = {"host": "a", "system": "a", "cpu": "a", "cores": 2, "python": "3.12", "packages": {"numba": "1"}}
    rounds = [in_round(1, environment=facts), in_round(2, environment={**facts, name: value})]
    assert len(merge_rounds(rounds)) == count


def test_a_cell_that_failed_in_one_round_has_failed():
    [merged] = merge_rounds([in_round(1), in_round(2, None, reason="the process died"), in_round(3)])
    assert merged["outcome"] == "crashed"
    assert merged["reason"] == "in round 2 of 3: the process died"


def test_the_marks_of_all_rounds_are_kept():
    [merged] = merge_rounds([in_round(1, marks=["noisy"]), in_round(2, marks=["busy", "noisy"])])
    assert merged["marks"] == [Mark.BUSY, Mark.NOISY]


def test_a_time_is_noisy_if_the_interval_of_all_rounds_is_wide():
    alike = [in_round(number, (1.0, 0.9, 1.1), marks=["noisy"]) for number in range(1, 8)]
    assert merge_rounds(alike)[0]["marks"] == []  # all rounds have the same median
    apart = [in_round(number, (1 + number / 10,) * 3) for number in range(1, 8)]
    assert merge_rounds(apart)[0]["marks"] == [Mark.NOISY]


def test_one_round_has_the_interval_of_its_samples():
    samples = [1.0, 1.1, 1.2, 1.3, 1.05, 1.15, 1.25]
    assert rounds_interval([samples]) == median_interval(samples)


def test_differences_between_rounds_widen_the_interval():
    narrow = [1.0, 1.001, 0.999, 1.0005, 0.9995, 1.0, 1.0]
    rounds = [[factor * sample for sample in narrow] for factor in (1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6)]
    pooled = median_interval([sample for samples in rounds for sample in samples])
    found = rounds_interval(rounds)
    assert found.median == pytest.approx(1.3)
    assert found.high - found.low > pooled.high - pooled.low
    assert (found.low, found.high, found.confidence) == (1.0, 1.6, 0.984375)  # the range of seven medians


def test_a_few_rounds_are_never_narrower_than_their_medians():
    steady = [1.0] * 7
    rounds = [[factor * sample for sample in steady] for factor in (1.0, 1.1, 1.2)]
    found = rounds_interval(rounds)
    assert (found.low, found.high) == (1.0, 1.2)
    assert found.confidence >= 0.975


def test_every_round_counts_alike_for_the_median_however_long_it_was():
    assert rounds_interval([[3.0] * 20, [1.0] * 3, [2.0] * 3]).median == 2.0


def test_the_interval_of_few_rounds_includes_the_median_of_every_round():
    found = rounds_interval([[2.0] * 40, [1.0] * 3, [5.0] * 3])
    assert (found.low, found.median, found.high) == (1.0, 2.0, 5.0)


def test_a_trend_is_seen_and_noise_is_none():
    assert trend([1.0 + 0.01 * i for i in range(20)]) == pytest.approx(0.1, rel=0.1)
    assert trend([1.0 - 0.01 * i for i in range(20)]) == pytest.approx(-0.1, rel=0.2)
    assert trend([1.0, 1.1, 0.9, 1.05, 0.95, 1.02, 0.98, 1.07, 0.93, 1.01, 1.0, 0.99]) == 0.0
    assert trend([1.0, 2.0, 3.0]) == 0.0
    assert trend([1.0] * 50) == 0.0


@pytest.mark.parametrize(("count", "increase"), [(9, 0.0), (10, 8 / 3 - 1), (11, 9 / 3 - 1), (12, 9.5 / 3.5 - 1)])
def test_a_trend_is_between_the_medians_of_both_halves(count, increase):
    rising = [float(value) for value in range(1, count + 1)]
    assert trend(rising) == pytest.approx(increase)


@pytest.mark.parametrize(("swaps", "significant"), [(0, True), (7, True), (8, False), (22, False)])
def test_a_trend_of_ten_samples_needs_most_pairs_in_its_order(swaps, significant):
    """Of 45 pairs, 7 may be in the other order: (45 - 14 - 1) / sqrt(10 * 9 * 25 / 18) > 2.576."""
    samples, left = [float(value) for value in range(1, 11)], swaps
    for end in range(9, 0, -1):  # each exchange of neighbours puts one more pair into the other order
        for place in range(end):
            if left and samples[place] < samples[place + 1]:
                samples[place : place + 2] = samples[place + 1], samples[place]
                left -= 1
    assert (trend(samples) != 0.0) == (trend(samples[::-1]) != 0.0) == significant


def at(hour, number=1, times=(1.0, 0.9, 1.1), **changes):
    return in_round(number, times, started=f"2026-01-01T{hour:02}:00:00+00:00", **changes)


OTHER_GRAPH = {"graph": {"name": "ring", "vertices": 3, "edges": 3, "content_hash": "another"}}


@pytest.mark.parametrize(
    "older", [{"sources": "o" * 32}, OTHER_GRAPH, {"reason": "it raised", "sources": "o" * 32, "times": None}]
)
def test_rounds_of_other_code_or_another_graph_are_not_combined(older):
    before = [at(1, 1, **older), at(2, 2, **older), at(2, 3, **older)]  # the third is not run again
    now = [at(3, 1, (5.0, 4.9, 5.1)), at(4, 2, (5.2, 5.1, 5.3))]
    for records in (before + now, now + before):
        [merged] = merge_rounds(records)
        assert merged["outcome"] == "ok"
        assert [min(samples) for samples in merged["solve"]["rounds"]] == [4.9, 5.1]
        assert superseded(records) == before


def test_the_newest_record_of_a_round_counts():
    [merged] = merge_rounds([at(1, times=None, reason="it raised"), at(2)])
    assert merged["outcome"] == "ok"


def test_a_round_that_never_had_its_graph_counts():
    [merged] = merge_rounds([at(1, 1), at(2, 2, None, reason="no such file", graph={})])
    assert merged["reason"] == "in round 2 of 2: no such file"
    [merged] = merge_rounds([at(1, 1, None, reason="no such file", graph={}), at(2, 2)])
    assert merged["reason"] == "in round 1 of 2: no such file"


def test_failures_of_all_rounds_are_reported_once():
    [merged] = merge_rounds([in_round(n, None, reason="it raised") for n in (1, 2)])
    assert merged["reason"] == "it raised"
    [merged] = merge_rounds([in_round(1, None, reason="it raised"), in_round(2, None, reason="it died")])
    assert merged["reason"] == "in round 1 of 2: it raised"


@pytest.mark.parametrize(("name", "value", "count"), [("driver", "2", 2), ("name", "another", 2), ("clock", 900, 1)])
def test_rounds_on_one_card_with_one_driver_are_merged(name, value, count):
    first = in_round(1, environment=GPU)
    second = in_round(2, environment={"gpu": {**GPU["gpu"], name: value}})
    assert len(merge_rounds([first, second])) == count


def test_the_parts_of_merged_rounds_are_those_of_all_rounds():
    times = [1.0, 1.0, 7.0]
    rounds = []
    for number, seconds in enumerate(times, 1):
        made = warm_record(round=number, phases={"open": seconds, **({"wait": seconds} if number > 1 else {})})
        cold = {**made["warm"]["cold"], "samples": [seconds] * 7, "minimum": seconds}
        rounds.append({**made, "config": {**made["config"], "round": number}, "warm": {**made["warm"], "cold": cold}})
    [merged] = merge_rounds(rounds)
    assert merged["phases"] == {"open": 1.0}  # the median, of the phases of the first round
    assert merged["warm"]["cold"]["rounds"] == [[seconds] * 7 for seconds in times]
    assert (merged["warm"]["cold"]["median"], merged["warm"]["cold"]["minimum"]) == (1.0, 1.0)
    assert merged["warm"]["vertices_reset"] == 7


@pytest.mark.parametrize(
    ("stops", "stopped"),
    [(["precise"] * 3, "precise"), (["precise", "budget", "precise"], "budget"), (["count", "precise"], "count")],
)
def test_merged_rounds_stopped_as_the_first_that_was_not_precise(stops, stopped):
    rounds = [in_round(number) for number in range(1, len(stops) + 1)]
    rounds = [{**one, "solve": {**one["solve"], "stopped": stop}} for one, stop in zip(rounds, stops, strict=True)]
    assert merge_rounds(rounds)[0]["solve"]["stopped"] == stopped


def test_an_accuracy_that_one_round_could_not_time_has_no_time():
    rounds = [
        {**in_round(number), "accuracy": accurate_record("a", (1.0, 0.9, 1.1), 9, [0.5] * 7)["accuracy"]}
        for number in (1, 2)
    ]
    rounds[1]["accuracy"] = {**rounds[1]["accuracy"], "superstep": None, "solve": None}
    assert merge_rounds(rounds)[0]["accuracy"] == rounds[1]["accuracy"]


@pytest.mark.parametrize("order", [1, -1])
def test_the_newest_record_of_a_round_counts_in_any_order(order):
    """Folders are merged and read by name: the order of records is not that of time."""
    older, newer = (in_round(1, (x, x, x), started=f"2026-01-0{day}T00:00:00+00:00") for day, x in ((1, 9.0), (2, 1.0)))
    [merged] = merge_rounds([older, newer][::order])
    assert merged["solve"]["median"] == 1.0
    assert superseded([older, newer][::order]) == [older]


@pytest.mark.parametrize("count", [1, 2, 5, 6, 7, 8])
def test_from_six_rounds_on_the_samples_are_their_medians(count):
    rounds = [[10.0 * number + shift for shift in (-1.0, 0.0, 1.0)] for number in range(1, count + 1)]
    found = rounds_interval(rounds)
    medians = [10.0 * number for number in range(1, count + 1)]
    if count >= 6:
        assert found == Interval(statistics.median(medians), medians[0], medians[-1], 1 - 2.0 ** (1 - count))
    else:
        pooled = median_interval([sample for samples in rounds for sample in samples])
        low, high = min(pooled.low, medians[0]), max(pooled.high, medians[-1])
        assert found == Interval(statistics.median(medians), low, high, pooled.confidence)


def test_the_order_of_the_names_in_a_configuration_makes_no_other_cell():
    one, other = in_round(1), in_round(2)
    other = {name: dict(reversed(value.items())) if isinstance(value, dict) else value for name, value in other.items()}
    assert list(one["config"]) != list(other["config"])
    assert len(merge_rounds([one, other])) == 1


@pytest.mark.parametrize("order", [1, -1])
def test_phases_of_rounds_are_their_medians_and_a_missing_one_took_no_time(order):
    spent = [{"open": 1.0, "compile": 9.0}, {"open": 4.0, "compile": 3.0}, {"open": 2.0, "late": 5.0}]
    rounds = [in_round(number, phases=phases) for number, phases in enumerate(spent, 1)]
    [merged] = merge_rounds(rounds[::order])
    assert merged["phases"] == {"open": 2.0, "compile": 3.0}


@pytest.mark.parametrize("least", [0, 1, 2])
def test_the_minimum_of_rounds_is_the_least_of_all(least):
    rounds = [in_round(number, (1.0, 0.5 if number == least + 1 else 0.9, 1.1)) for number in (1, 2, 3)]
    assert merge_rounds(rounds)[0]["solve"]["minimum"] == 0.5


@pytest.mark.parametrize(("high", "noisy"), [(1.125, False), (1.0625, False), (1.1251, True)])
def test_merged_rounds_are_noisy_if_their_interval_is_wider_than_requested(high, noisy):
    """The width that was requested is an eighth; marks of noise of single rounds do not count."""
    rounds = [in_round(number, (1.0, 1.0, high), marks=["noisy"]) for number in (1, 2)]
    rounds = [{**one, "config": {**one["config"], "measure": {"width": 0.125}}} for one in rounds]
    assert merge_rounds(rounds)[0]["solve"]["high"] == high
    assert merge_rounds(rounds)[0]["marks"] == ([Mark.NOISY] if noisy else [])


def test_merged_rounds_have_the_marks_of_every_round_once_in_their_order():
    marks = [["drifting", "busy"], ["shared"], ["busy", "throttled"]]
    rounds = [in_round(number, (1.0, 1.0, 1.0), marks=own) for number, own in enumerate(marks, 1)]
    assert merge_rounds(rounds)[0]["marks"] == [Mark.BUSY, Mark.THROTTLED, Mark.SHARED, Mark.DRIFTING]
