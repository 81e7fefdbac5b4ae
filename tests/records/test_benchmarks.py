"""Records in the form of pytest-benchmark, which its own command reads; and which benchmarks became slower."""

from __future__ import annotations

import datetime as dt
import json
import math
import random
import subprocess
import sys
from collections import Counter

import pytest

from harness.records import write_record
from harness.records.__main__ import main
from harness.records.benchmarks import exported, read_benchmarks
from harness.records.regressions import Turn, changes, read_turns
from harness.records.schema import RecordError
from harness.records.statistics import median_interval
from tests.records.samples import record

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


def solved(engine, samples, **changed):
    """Return a record with the given samples."""
    made = record(engine, (sorted(samples)[len(samples) // 2], min(samples), max(samples)), **changed)
    made["solve"]["samples"] = list(samples)
    return made


def times(median, noise, seed, count=15):
    """Return samples around a median."""
    draw = random.Random(seed)
    return [median * draw.uniform(1 - noise, 1 + noise) for _ in range(count)]


def saved(path, **samples):
    """Return a file as pytest-benchmark saves one with its samples."""
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


def test_the_form_is_complete():
    environment = {
        "host": "box", "system": "Linux", "python": "3.12.1", "cpu": "a processor", "cores": 4, "gpu": {"name": "card"},
        "packages": {"numpy": "2.0"}, "commit": "abc+",
    }  # fmt: skip
    first = solved("fast", [3.0, 1.0, 2.0], environment=environment, marks=["busy"], features=None, supersteps=[])
    last = solved("slow", [4.0], environment=environment, started="2026-01-03T00:00:00+00:00")
    data = exported([last, first, solved("wrong", [1.0], outcome="wrong", environment=environment)])
    slow, fast = data.pop("benchmarks")
    assert data == {
        "machine_info": {
            "node": "box", "system": "Linux", "python_version": "3.12.1",
            "cpu": {"brand_raw": "a processor", "count": 4}, "gpu": {"name": "card"}, "packages": {"numpy": "2.0"},
        },
        "commit_info": {"id": "abc+", "dirty": True},
        "datetime": "2026-01-03T00:00:00+00:00",
        "version": "5.0.0",
    }  # fmt: skip
    assert slow["name"] == "solve[flood-ring-k=8-slow]"
    assert slow["extra_info"]["supersteps"] == 2
    assert fast == {
        "group": "flood, ring, k=None",
        "name": "solve[flood-ring-k=None-fast]",
        "fullname": "solve[flood-ring-k=None-fast]",
        "params": {"engine": "fast", "algorithm": "flood", "graph": "ring", "features": None},
        "param": "fast-flood-ring-None",
        "extra_info": {
            "supersteps": 0, "marks": ["busy"], "sweep": "0123456789ab", "rounds": None, "contents": "h",
        },
        "options": {"disable_gc": False, "timer": "perf_counter", "min_rounds": 1, "warmup": True},
        "stats": {
            "min": 1.0, "max": 3.0, "mean": 2.0, "stddev": 1.0, "rounds": 3, "median": 2.0, "q1": 1.5, "q3": 2.5,
            "iqr": 1.0, "iqr_outliers": 0, "stddev_outliers": 0, "outliers": "0;0", "ld15iqr": 1.0, "hd15iqr": 3.0,
            "ops": 0.5, "total": 6.0, "data": [3.0, 1.0, 2.0], "iterations": 1,
        },
    }  # fmt: skip


def test_a_wheel_has_no_commit():
    assert exported([solved("fast", [1.0])])["commit_info"] == {"id": "unversioned", "dirty": False}


def test_outliers_are_counted_beyond_the_deviation_and_beyond_the_quartiles():
    samples = [1.0, 5.0, 5.0, 5.0, 6.0, 6.0, 6.0, 9.0]
    [one] = exported([solved("fast", samples)])["benchmarks"]
    found = {name: one["stats"][name] for name in ("q1", "q3", "ld15iqr", "hd15iqr", "outliers", "iqr_outliers")}
    assert found == {"q1": 5.0, "q3": 6.0, "ld15iqr": 5.0, "hd15iqr": 6.0, "outliers": "2;2", "iqr_outliers": 2}
    assert one["stats"]["stddev_outliers"] == 2


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


def test_cells_that_differ_elsewhere_keep_separate_names():
    first = solved("fast", [1.0], cell="a" * 24, config={**record()["config"], "max_supersteps": 3})
    names = {one["fullname"] for one in exported([first, solved("fast", [2.0])])["benchmarks"]}
    assert names == {"solve[flood-ring-k=8-fast]@aaaaaaaa", "solve[flood-ring-k=8-fast]@cccccccc"}
    names = {one["fullname"] for one in exported([first, *map(solved, ("fast", "slow"), ([2.0], [3.0]))])["benchmarks"]}
    assert "solve[flood-ring-k=8-slow]" in names, "the only one of its name keeps it"


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
    assert "nowhere is not a folder" in capsys.readouterr().err


# what became slower ---------------------------------------------------------------------------------------------------
def turns(factor, noise, seed, side, count=7, **changed):
    """Return the turns of one side, a minute each; the sides alternate."""
    return [
        Turn(tuple(times(factor, noise, seed + number)), START + dt.timedelta(minutes=2 * number + side), **changed)
        for number in range(count)
    ]


@pytest.mark.parametrize(
    ("factor", "noise", "verdict"),
    [
        (1.2, 0.02, "slower"),
        (1.2, 0.9, "no difference"),  # only a threshold would report it
        (1.0, 0.02, "no difference"),
        (1.03, 0.002, "within the threshold"),
        (0.97, 0.002, "within the threshold"),
        (0.953, 0.0002, "within the threshold"),  # a speed-up of less than 1.05
        (0.951, 0.0002, "faster"),  # and of more
        (0.94, 0.002, "faster"),
        (0.7, 0.02, "faster"),
    ],
)
def test_a_change_is_reported_if_it_is_large_and_significant(factor, noise, verdict):
    before, after = {"a": turns(1.0, noise, 10, side=0)}, {"a": turns(factor, noise, 200, side=1)}
    [change] = changes(before, after, threshold=0.05)
    assert change.verdict == verdict
    assert change.ratio.low <= change.ratio.median <= change.ratio.high


def test_turns_are_paired_by_their_time_and_contents_that_are_not_known_are_no_other_ones():
    """The time of both sides rises; pairs of other turns would hide the change."""
    slow = [2.0**number for number in range(7)]
    before, after = (
        [
            Turn((factor * seconds,) * 3, START + dt.timedelta(minutes=2 * number + side), contents=contents)
            for number, seconds in enumerate(slow)
        ]
        for side, factor, contents in ((0, 1.0, None), (1, 1.25, "a"))
    )
    expected = changes({"a": before}, {"a": after})
    assert [(one.verdict, one.ratio.low, one.ratio.high) for one in expected] == [("slower", 1.25, 1.25)]
    assert changes({"a": before[::-1]}, {"a": after}) == changes({"a": before}, {"a": after[::-1]}) == expected


def test_the_slowest_is_first_and_what_has_no_pair_is_last():
    factors = {"same": 1.0, "slower": 1.5, "faster": 0.5, "slowest": 3.0}
    before = {name: turns(1.0, 0.001, 1, side=0) for name in ("without", *factors)}
    after = {name: turns(factor, 0.001, 90, side=1) for name, factor in factors.items()}
    after["without"] = turns(9.0, 0.001, 90, side=1, marks=frozenset({"busy"}))
    found = changes({**before, "before": []}, {**after, "after": []})
    assert [one.name for one in found] == ["slowest", "slower", "same", "faster", "without"]


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_a_few_turns_cannot_tell(count):
    before, after = turns(1.0, 0.01, 1, side=0, count=count), turns(2.0, 0.01, 90, side=1, count=count)
    [change] = changes({"a": before}, {"a": after})
    assert change.verdict == "cannot tell"
    assert change.doubt == f"{count} of 6 pairs of turns"


@pytest.mark.parametrize("mark", ["busy", "throttled", "shared"])
def test_disturbed_turns_do_not_count(mark):
    before = turns(1.0, 0.01, 1, side=0)
    after = turns(1.0, 0.01, 90, side=1)
    disturbed = turns(1.5, 0.01, 90, side=1, marks=frozenset({mark}))
    [change] = changes({"a": before}, {"a": disturbed})
    assert (change.verdict, change.ratio) == ("cannot tell", None)
    assert "all 7 pairs" in change.doubt
    assert changes({"a": before}, {"a": [*after[:6], disturbed[6]]})[0].verdict == "no difference"
    [change] = changes({"a": before}, {"a": [*after[:5], *disturbed[5:]]})
    assert (change.verdict, change.doubt) == ("cannot tell", "5 of 6 pairs of turns, 2 more were disturbed")


def test_sides_that_were_not_measured_in_turns_cannot_tell():
    """Otherwise a drift over an hour would count as a change of the code."""
    before = turns(1.0, 0.01, 1, side=0)
    later = [Turn(turn.samples, turn.ended + dt.timedelta(hours=1)) for turn in turns(1.3, 0.01, 90, side=1)]
    [change] = changes({"a": before}, {"a": later})
    assert (change.verdict, change.doubt) == ("cannot tell", "the measurements of the two sides were not interleaved")


def test_other_contents_of_a_graph_are_not_a_change_of_the_code():
    before = turns(1.0, 0.01, 1, side=0, contents="a")
    [change] = changes({"a": before}, {"a": turns(1.3, 0.01, 90, side=1, contents="b")})
    assert (change.verdict, change.doubt) == ("cannot tell", "the content of its graph changed")


class Load:
    """The factor by which other work slows the runs of a machine: a slow drift, a random walk, and bursts."""

    def __init__(self, seed):
        self.draw = random.Random(seed)
        self.now, self.walk, self.busy = 0.0, 0.0, 0
        self.period, self.phase = self.draw.uniform(100, 600), self.draw.uniform(0, 6.28)

    def turn(self, seconds, count=11):
        """Return a turn of ``count`` runs that take ``seconds`` on a quiet machine."""
        found = []
        for _ in range(count):
            self.busy = max(0, self.busy - 1) or (self.draw.randrange(5, 25) if self.draw.random() < 0.015 else 0)
            self.walk = 0.98 * self.walk + self.draw.gauss(0, 0.01)
            drift = 0.3 * math.sin(6.28 * self.now / self.period + self.phase)
            slowed = self.draw.uniform(1.2, 2.0) if self.busy else 1.0
            found.append(seconds * math.exp(drift + self.walk + self.draw.gauss(0, 0.02)) * slowed)
            self.now += found[-1]
        return Turn(tuple(found), START + dt.timedelta(seconds=self.now))


def compared(seed, factor, count=9):
    """Return the verdict on code that takes ``factor`` times as long, measured in turns under a varying load."""
    load = Load(seed)
    pairs = [(load.turn(1.0), load.turn(factor)) for _ in range(count)]
    [change] = changes({"a": [b for b, _ in pairs]}, {"a": [a for _, a in pairs]})
    return change.verdict


def test_identical_code_under_varying_load_is_rarely_reported_as_changed():
    verdicts = Counter(compared(seed, 1.0) for seed in range(20))
    assert verdicts["slower"] + verdicts["faster"] <= 1
    assert verdicts["cannot tell"] == 0


def test_the_load_would_mislead_a_comparison_of_single_turns():
    """The noise model is strong enough for the test above: single turns of the same code differ beyond their spread."""
    misled = 0
    for seed in range(20):
        load = Load(seed)
        before, after = (median_interval(load.turn(1.0).samples) for _ in range(2))
        misled += before.high < after.low or after.high < before.low
    assert misled >= 3


def test_a_true_change_under_the_same_load_is_found():
    verdicts = Counter(compared(seed, 1.3) for seed in range(20))
    assert verdicts["slower"] >= 15
    assert verdicts["faster"] == 0


def in_turns(folder, count=6, **sides):
    """Return files of the two sides in turns; a side gives the median of every benchmark."""
    found = {side: [] for side in sides}
    for number in range(count):
        for place, (side, medians) in enumerate(sides.items()):
            samples = {name: times(one, 0.01, 7 * number + place) for name, one in medians.items()}
            path = saved(folder / f"{side}-{number}.json", **samples)
            ended = (START + dt.timedelta(minutes=2 * number + place)).isoformat()
            path.write_text(json.dumps({**json.loads(path.read_text()), "datetime": ended}))
            found[side].append(str(path))
    return ["--before", *found["before"], "--after", *found["after"]]


def test_the_command_fails_for_slower_benchmarks(tmp_path, capsys):
    given = in_turns(tmp_path, before={"fast": 1.0, "slow": 4.0}, after={"fast": 1.3, "slow": 4.0, "other": 1.0})
    assert main(["regressions", *given]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("slower")
    assert lines[0].endswith("solve[flood-ring-k=8-fast]")
    assert lines[1].startswith("no difference")
    assert lines[-1] == "1 of 2 became slower; 0 are undecided; 1 are on one side only"
    assert main(["regressions", *given, "--threshold", "0.5"]) == 0


def test_the_command_requires_several_turns(tmp_path, capsys):
    given = in_turns(tmp_path, count=1, before={"fast": 1.0}, after={"fast": 1.3})
    assert main(["regressions", *given]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("cannot tell")
    assert lines[0].endswith("solve[flood-ring-k=8-fast]: 1 of 6 pairs of turns")
    assert lines[-1] == "0 of 1 became slower; 1 are undecided; 0 are on one side only"


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
    assert "not a file of pytest-benchmark" in capsys.readouterr().err


@pytest.mark.parametrize("changed", [{"node": "b"}, {"cpu": {"brand_raw": "b"}}, {"python_version": "b"}])
def test_a_machine_is_its_host_its_processor_and_its_python(tmp_path, changed):
    first, second = (saved(tmp_path / name, fast=[1.0]) for name in ("a.json", "b.json"))
    data = json.loads(second.read_text())
    for facts, allowed in ((changed, False), ({"packages": {"numpy": "1"}, "system": "b"}, True)):
        second.write_text(json.dumps({**data, "machine_info": {**data["machine_info"], **facts}}))
        if allowed:
            assert read_turns([first, second])[1] == ", a processor, "
        else:
            with pytest.raises(RecordError, match=r"several machines cannot be combined: .* \| "):
                read_turns([first, second])


def test_turns_hold_what_a_file_says(tmp_path):
    path = saved(tmp_path / "a.json", fast=[1.0, 2.0])
    data = json.loads(path.read_text())
    data["benchmarks"][0]["extra_info"]["marks"] = ["busy"]
    path.write_text(json.dumps({**data, "datetime": "2026-01-01T02:00:00"}))
    other = saved(tmp_path / "b.json", fast=[3.0])
    other.write_text(json.dumps({**json.loads(other.read_text()), "datetime": "2026-01-01T03:00:00+02:00"}))
    (name, (first, second)), *rest = read_turns([path, other])[0].items()
    assert (name, rest) == ("solve[flood-ring-k=8-fast]", [])
    assert first == Turn((1.0, 2.0), START + dt.timedelta(hours=2), frozenset({"busy"}), "h")
    assert second == Turn((3.0,), START + dt.timedelta(hours=1), frozenset(), "h")


def test_sides_without_a_common_benchmark_are_refused(tmp_path, capsys):
    before, after = saved(tmp_path / "a.json", fast=[1.0]), saved(tmp_path / "b.json", slow=[1.0])
    assert main(["regressions", "--before", str(before), "--after", str(after)]) == 1
    assert "no benchmark in common" in capsys.readouterr().err


def test_a_threshold_is_a_share(tmp_path, capsys):
    write_record(tmp_path / "s" / "a", record("fast"))
    assert main(["regressions", "--before", str(tmp_path), "--after", str(tmp_path), "--threshold", "-1"]) != 0
    assert "it must be at least 0" in capsys.readouterr().err
