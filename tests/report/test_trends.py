"""Times over commits: which cells have a trend, the order of commits, steps, and the page."""

from __future__ import annotations

import pytest

from harness.records import write_record
from harness.report.__main__ import main
from harness.report.page.trend_page import _panels, write_trends
from harness.report.trends import steps, trends
from tests.records.samples import record
from tests.report.conftest import LAPTOP, PHONE
from tests.report.geometry import FAULTS, SETTLE

COMMITS = ["aaaaaaaa1", "bbbbbbbb2", "cccccccc3"]


def at(commit, day, median, engine="fast", host="alpha", **changes):
    """Return a record of a cell that ran at a commit on a day of May."""
    environment = {**record("fast", None)["environment"], "commit": commit, "host": host, "cpu": "a processor"}
    times = None if median is None else (median, 0.95 * median, 1.05 * median)
    return record(engine, times, environment=environment, started=f"2026-05-{day:02}T00:00:00+00:00", **changes)


@pytest.fixture
def history():
    return [
        at(COMMITS[2], 3, 2.0), at(COMMITS[0], 1, 1.0), at(COMMITS[1], 2, 1.01),  # slower at the third
        at(COMMITS[0], 1, 3.0, "slow"), at(COMMITS[2], 3, 3.0, "slow"),
        at(COMMITS[0], 1, 1.0, host="beta"), at(COMMITS[1], 2, None), at(None, 4, 9.0),
    ]  # fmt: skip


def test_a_trend_is_one_cell_on_one_machine_in_the_order_of_time(history):
    found = {(one.engine, one.machine): [(p.commit, p.median) for p in one.points] for one in trends(history)}
    assert found == {
        ("fast", "alpha, a processor"): [(COMMITS[0], 1.0), (COMMITS[1], 1.01), (COMMITS[2], 2.0)],
        ("slow", "alpha, a processor"): [(COMMITS[0], 3.0), (COMMITS[2], 3.0)],
    }


def test_a_commit_keeps_its_place_when_it_runs_again_and_has_the_latest_time(history):
    (fast, _) = trends([*history, at(COMMITS[0], 9, 1.5)])
    assert next((p.commit, p.median) for p in fast.points) == (COMMITS[0], 1.5)


@pytest.mark.parametrize("change", [{"graph": {**record()["graph"], "content_hash": "other"}}, {"features": 4}])
def test_another_graph_or_problem_is_another_cell(history, change):
    assert len(trends([at(COMMITS[0], 1, 1.0), at(COMMITS[1], 2, 1.0, **change)])) == 0


def test_steps_are_where_intervals_do_not_overlap(history):
    (step,) = steps(trends(history))
    assert (step.engine, step.before, step.after) == ("fast", COMMITS[1], COMMITS[2])
    assert step.ratio == pytest.approx(2.0 / 1.01)


@pytest.mark.parametrize(
    "other",
    [{"outcome": "wrong"}, {"gpu": "another card"}, {"gpu": None}, {"host": "beta"}, {"limit": 5}, {"threads": 1}],
)
def test_only_right_answers_of_one_problem_on_one_machine_have_a_trend(other):
    """A trend needs two of them; the software and the load of the machine may change."""

    def made(commit, day, *, gpu="a card", limit=None, threads=2, outcome="ok", **fields):
        one = at(commit, day, 1.0, outcome=outcome, **fields)
        config = {**one["config"], "max_supersteps": limit, "device": {"kind": "cpu", "threads": threads}}
        environment = {
            **one["environment"], "usable_cores": 2, "gpu": gpu and {"name": gpu, "clock": day},
            "packages": {"numba": str(day)},
        }  # fmt: skip
        return {**one, "config": config, "environment": environment}

    first = made(COMMITS[0], 1)
    [found] = trends([first, made(COMMITS[1], 2)])
    assert (found.problem, found.engine, found.machine) == (
        "ring · flood · k = 8",
        "fast",
        "alpha, a processor, a card",
    )
    assert trends([first, made(COMMITS[1], 2, **other)]) == []
    [limited] = trends([made(commit, 1, limit=5) for commit in COMMITS])
    assert limited.problem == "ring · flood, at most 5 supersteps · k = 8"


def test_commits_stand_in_the_order_of_their_first_measurement():
    """The names fall and a commit was measured again; another machine has other commits."""
    records = [
        at("c3", 1, 1.0), at("b2", 2, 2.0), at("a1", 3, 3.0), at("c3", 4, 1.5),
        at("a1", 5, 4.0, "slow"), at("b2", 6, 4.0, "slow"),
        at("a1", 1, 1.0, host="beta"), at("d4", 2, 1.0, host="beta"),
    ]  # fmt: skip
    (_, own), (title, other) = _panels(trends(records), ["fast", "slow"])
    assert own.plot.x.names == ("c3", "b2", "a1")
    assert [[point[:2] for point in one.points] for one in own.plot.series] == [
        [(0.0, 1.5), (1.0, 2.0), (2.0, 3.0)], [(1.0, 4.0), (2.0, 4.0)],  # in the order of the axis
    ]  # fmt: skip
    assert title.endswith("beta, a processor")
    assert other.plot.x.names == ("a1", "d4")


def test_the_largest_change_comes_first_be_it_slower_or_faster():
    medians = {"a": (1.0, 1.5), "b": (1.0, 0.25), "c": (1.0, 3.0), "d": (1.0, 0.96), "e": (1.0, 1.08)}
    records = [at(COMMITS[n], n + 1, median, name) for name, pair in medians.items() for n, median in enumerate(pair)]
    found = [(step.engine, pytest.approx(step.ratio)) for step in steps(trends(records))]
    assert found == [("b", 0.25), ("c", 3.0), ("a", 1.5)]


@pytest.mark.parametrize(
    ("before", "after", "found"),
    [
        ((1.0, 2.0), (2.0, 3.0), False), ((1.0, 2.0), (2.001, 3.0), True),
        ((2.0, 3.0), (1.0, 2.0), False), ((2.0, 3.0), (1.0, 1.999), True), ((1.0, 4.0), (2.0, 3.0), False),
    ],
)  # fmt: skip
def test_intervals_that_touch_are_no_step(before, after, found):
    records = [at(COMMITS[0], 1, 1.0), at(COMMITS[1], 2, 1.0)]
    for one, (low, high) in zip(records, (before, after), strict=True):
        one["solve"].update(low=low, median=(low + high) / 2, high=high)
    assert bool(steps(trends(records))) is found


def test_too_few_samples_are_no_step():
    for before, after in ((1.0, 5.0), (0.05, 0.01)):
        few = [at(COMMITS[0], 1, before), at(COMMITS[1], 2, after)]
        few[1]["solve"]["confidence"] = 0.75
        assert steps(trends(few)) == []
        few[0]["solve"]["confidence"], few[1]["solve"]["confidence"] = 0.75, 1.0
        assert steps(trends(few)) == []


def test_a_time_without_an_interval_is_a_point_of_the_chart(tmp_path):
    few = [at(COMMITS[0], 1, 1.0), at(COMMITS[1], 2, 2.0), at(COMMITS[2], 3, 3.0)]
    few[1]["solve"]["confidence"] = 0.75
    [(_, chart)] = _panels(trends(few), ["fast"])
    [line] = chart.plain["series"]
    assert (line["y"], line["low"], line["high"]) == ([1, 2, 3], [0.95, 2, 2.85], [1.05, 2, 3.15])
    assert chart.strokes[0].whiskers.count("M") == 2
    assert write_trends(tmp_path / "trends.html", few).is_file()


def test_the_page_has_a_chart_for_every_problem_and_fits(history, tmp_path, opened, capsys):
    for number, one in enumerate(history):
        write_record(tmp_path / f"sweep-{number}" / "cell", one)
    assert main(["trends", str(tmp_path)]) == 0
    assert capsys.readouterr().out.strip() == str(tmp_path / "trends.html")
    page = opened(tmp_path / "trends.html", LAPTOP)
    assert page.locator("figure").count() == 1
    assert page.locator(".chart g title").all_text_contents() == ["fast", "slow"]
    assert page.locator("figure .uplot").count() == 1
    assert page.locator(".chart text.x").all_text_contents()[::2][0] == COMMITS[0][:7]
    assert "bbbbbbbb" in page.locator("tbody tr").text_content()
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    page.evaluate(SETTLE)
    assert page.locator("canvas").bounding_box()["width"] <= PHONE[0]
    assert [fault for fault in page.evaluate(FAULTS) if "a plot with" not in fault] == []


def test_a_plot_of_trends_reads_medians_with_intervals_at_a_commit(history, tmp_path, opened):
    page = opened(write_trends(tmp_path / "trends.html", history))
    area = page.locator(".u-over").bounding_box()
    page.mouse.move(area["x"] + area["width"] - 2, area["y"] + area["height"] / 2)
    heading, *values = page.locator(".readout").inner_text().split("\n")
    assert heading == f"commit {COMMITS[2][:7]}"
    assert values == ["slow", "3 s [2.85, 3.15]", "fast", "2 s [1.9, 2.1]"]


def test_a_single_commit_has_no_trend(tmp_path, capsys):
    write_record(tmp_path / "sweep" / "cell", at(COMMITS[0], 1, 1.0))
    assert main(["trends", str(tmp_path)]) == 2
    assert "no cell has times at two commits" in capsys.readouterr().err
