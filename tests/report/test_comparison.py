from __future__ import annotations

import io

import pytest
from rich.console import Console

from harness.report.comparison import baseline_of, confidence_note, grouped, ratio
from harness.report.page import render_page
from harness.report.series import comparisons, edges_per_second, engine_label, standings
from harness.report.summary import show_sweep
from harness.report.table import comparison_table
from harness.report.units import count, quality, seconds, seconds_range
from harness.report.warm import HEADINGS, NOTE
from tests.records.samples import accurate_record, record, solved, warm_record
from tests.report.sweeps import cell


def shown(records, baseline="slow"):
    out = Console(file=io.StringIO(), width=220)
    out.print(comparison_table(records, baseline))
    return out.file.getvalue()


def row(text, engine):
    [line] = [line for line in text.splitlines() if f" {engine} " in line]
    return line


def test_the_speed_up_is_over_the_baseline_with_an_interval():
    fast, slow = record("fast", (1.0, 0.9, 1.1)), record("slow", (4.0, 3.6, 4.4))
    found = ratio(fast, slow)
    assert found is not None
    assert found.value == 4.0
    assert found.low == pytest.approx(3.6 / 1.1)
    assert found.high == pytest.approx(4.4 / 0.9)
    assert found.decided
    assert found.confidence == pytest.approx(0.984375**2)
    text = shown([fast, slow])
    assert "4x [3.27, 4.89]" in row(text, "fast")
    assert "1 (baseline)" in row(text, "slow")


def test_overlapping_intervals_show_no_difference():
    close = [record("fast", (1.0, 0.9, 1.1)), record("slow", (1.15, 1.05, 1.2))]
    assert "no difference" in row(shown(close), "fast")


@pytest.mark.parametrize("count", [1, 2, 3, 5])
def test_too_few_samples_get_neither_interval_nor_verdict(count, capsys, tmp_path):
    few, slow = record("fast", solve=solved([1.0] * count)), record("slow", (4.0, 3.6, 4.4))
    for records in ([few, slow], [record("fast"), record("slow", solve=solved([4.0] * count))]):
        line = row(shown(records), "fast")
        assert "too few samples" in line
        assert "x [" not in line
        assert f"{count} of 6 samples" in shown(records)
        assert "no difference" not in shown(records)
        assert "too few samples; 1 s" in render_page(records, "slow")
        assert "4×" not in render_page(records, "slow")
    show_sweep([few, slow], 2, "slow", tmp_path)
    output = " ".join(capsys.readouterr().out.split())
    assert "1 of 2 times have fewer than 6 samples" in output
    assert "at least 98.4 % confidence" in output


@pytest.mark.parametrize("mark", ["busy", "throttled", "shared"])
@pytest.mark.parametrize("side", [0, 1])
def test_times_beside_other_work_have_no_verdict_unless_rounds_are_interleaved(mark, side, capsys, tmp_path):
    records = [record("fast"), record("slow", (4.0, 3.6, 4.4))]
    records[side]["marks"] = [mark]
    found = ratio(*records)
    assert (found.value, found.decided, found.conclusive, found.doubt) == (4.0, False, False, "disturbed")
    line = row(shown(records), "fast")
    assert "disturbed" in line
    assert "x [" not in line
    page = render_page(records, "slow")
    assert "disturbed; 1 s" in page
    assert "4×" not in page
    show_sweep(records, 2, "slow", tmp_path)
    assert "disturbed (1 times): other work may have changed" in " ".join(capsys.readouterr().out.split())
    for one in records:
        one["solve"] = in_rounds(one["solve"]["samples"])
    assert ratio(*records).decided
    assert "4x [4, 4]" in row(shown(records), "fast")


def test_the_least_confidence_of_paired_rounds_is_that_of_their_ratio():
    records = [record("fast", solve=in_rounds([1.0] * 6)), record("slow", solve=in_rounds([4.0] * 6))]
    assert "with at least 96.8 % confidence, those of speed-ups with 96.8 %" in confidence_note(records)
    assert ratio(*records).confidence == 1 - 2 / 2**6
    records.append(record("other", solve={**records[0]["solve"], "rounds": None}))
    assert "those of speed-ups with 93.8 %" in confidence_note(records), "that of a ratio with unpaired times"


def in_rounds(samples):
    return {**solved(samples), "rounds": [[sample] for sample in samples]}


def test_load_that_changes_between_rounds_cancels():
    load = [1.0, 5.0, 1.2, 3.0, 1.0, 2.0, 4.0]
    fast, slow = ([time * factor for factor in load] for time in (1.0, 1.5))
    slow[3] *= 1.2  # one round is disturbed in the middle
    found = ratio(record("fast", solve=in_rounds(fast)), record("slow", solve=in_rounds(slow)))
    assert (found.value, found.low, found.decided) == (1.5, 1.5, True)
    assert found.high == pytest.approx(1.8)
    assert found.confidence == pytest.approx(0.984375)
    apart = ratio(record("fast", solve=solved(fast)), record("slow", solve=solved(slow)))
    assert not apart.decided  # the same times without rounds
    other = ratio(record("fast", solve=in_rounds(fast)), record("slow", solve=in_rounds(slow[:6])))
    assert not other.decided


def test_a_noisy_time_keeps_its_verdict():
    assert ratio(record("fast", marks=["noisy", "drifting"]), record("slow", (4.0, 3.6, 4.4))).decided


def test_six_samples_decide_and_the_least_confidence_is_shown(capsys, tmp_path):
    six, seven = record("fast", solve=solved([1.0] * 6)), record("slow", (4.0, 3.6, 4.4))
    assert "4x [3.6, 4.4]" in row(shown([six, seven]), "fast")
    show_sweep([six, seven], 2, "slow", tmp_path)
    assert "at least 96.8 % confidence, those of speed-ups with 93.8 %" in " ".join(capsys.readouterr().out.split())
    assert "95&nbsp;%" not in render_page([six, seven], "slow")


def test_a_converged_run_is_not_compared_with_one_that_did_not():
    done, stopped, fixed = record("done"), record("slow", settled=False), record("fixed", settled=None)
    expected = "not comparable: did not converge"
    assert "not comparable:" in row(shown([done, stopped]), "done")
    assert "did not converge" in shown([done, stopped])
    assert ratio(done, stopped) is None
    assert expected in render_page([done, stopped], "slow")
    also_stopped = record("also", settled=False)
    assert ratio(also_stopped, stopped) is not None
    assert ratio(done, fixed) is not None


def test_speed_ups_compare_times_to_equal_accuracy_where_both_have_one(capsys, tmp_path):
    """One engine continues after it has reached the other's accuracy, so that whole runs compare unequal work."""
    slow = accurate_record("slow", (4.0, 3.6, 4.4), 2, [4.0] * 7)
    fast = accurate_record("fast", (4.0, 3.6, 4.4), 1, [1.0] * 7)
    without = record("without", (2.0, 1.9, 2.1))
    records = [slow, fast, without]
    assert ratio(fast, slow).value == 4.0
    assert ratio(fast, slow, to_accuracy=False).value == 1.0
    assert (ratio(without, fast).value, ratio(fast, without).value) == (2.0, 0.5)  # of complete runs
    line = row(shown(records), "fast")
    for expected in ("1 s (1)", "4x [4, 4]", " 2 s "):  # to accuracy, the speed-up, a superstep of the whole run
        assert expected in line
    assert "to accuracy" not in shown([without, record("slow")])
    show_sweep(records, 3, "slow", tmp_path)
    assert "Speed-ups compare these times if both rows have one" in " ".join(capsys.readouterr().out.split())
    page = render_page(records, "slow")
    assert "superstep 1, [1, 1]" in page
    assert "Speed-ups compare these times if both rows have one" in page
    [group] = comparisons([slow, fast], "slow")
    assert group.fastest() is fast


def test_an_engine_that_counts_no_supersteps_shows_its_tolerance():
    slow = accurate_record("slow", (4.0, 3.6, 4.4), 2, [4.0] * 7)
    whole = accurate_record("whole", (2.0, 1.9, 2.1), 1, [1.0] * 7, supersteps=[])
    whole["accuracy"] |= {"superstep": None, "tolerance": 2.8e-4}
    line = row(shown([slow, whole]), "whole")
    for expected in ("1 s (tolerance 2.8e-04)", "not counted", "4x [4, 4]"):
        assert expected in line
    page = render_page([slow, whole], "slow")
    assert "tolerance 2.8e-04, [1, 1]" in page
    assert "not counted" in page
    assert edges_per_second(whole) is None


def test_a_time_to_accuracy_does_not_make_up_for_a_run_that_did_not_converge():
    slow = accurate_record("slow", (4.0, 3.6, 4.4), 2, [4.0] * 7)
    stopped = accurate_record("fast", (1.0, 0.9, 1.1), 1, [1.0] * 7, settled=False)
    line = row(shown([slow, stopped]), "fast")
    assert "not comparable:" in line
    assert "1 s (1)" in line


def test_an_answer_that_never_comes_so_near_says_so():
    accuracy = {
        "superstep": None, "tolerance": None, "error": 2e-4, "error_before": 0.0, "bound": 1e-4, "against": "",
        "solve": None,
    }  # fmt: skip
    far, near = record("far", accuracy=accuracy), record("near", accuracy={**accuracy, "error": 1e-5})
    text = shown([accurate_record("slow", (4.0, 3.6, 4.4), 2, [4.0] * 7), far, near])
    assert "not reached" in row(text, "far")
    assert "not timed" in row(text, "near")


CONTENTS = [{"name": "ring", "vertices": 1000, "edges": 20_000, "content_hash": f"{letter * 16}"} for letter in "ab"]


def test_contents_of_a_graph_are_compared_separately_and_the_change_is_reported(capsys, tmp_path):
    """The file of a graph changed between the cells of a sweep."""
    slow, fast = record("slow", (4.0, 3.6, 4.4), graph=CONTENTS[0]), record("fast", graph=CONTENTS[1])
    lost = record("lost", None, graph={})
    assert ratio(fast, slow) is None
    assert ratio(fast, slow, forced=True) is None
    records = [slow, fast, lost]
    assert [[one["labels"]["engine"] for one in members] for _, members in grouped(records)] == [
        ["slow", "lost"],
        ["fast"],
    ]
    text = shown(records)
    assert "x [" not in text
    assert "ring (contents aaaaaaaa)" in text
    assert "ring (contents bbbbbbbb)" in text
    show_sweep(records, 3, "slow", tmp_path)
    note = "graph 'ring' had 2 different contents (aaaaaaaa, bbbbbbbb)"
    assert note in " ".join(capsys.readouterr().out.split())
    page = render_page(records, "slow")
    assert "had 2 different contents" in page
    assert "4×" not in page
    assert "(contents" not in shown([slow, record("fast", graph=CONTENTS[0])])


def test_means_are_of_all_speed_ups_with_an_interval_and_say_how_many():
    """A tie counts as a tie; a ratio of too few samples does not count."""
    groups = [(8.0, 1.0), (1.01, 1.0)]
    records = [
        cell(engine, "ring", "flood", k, time)
        for k, times in enumerate(groups, start=1)
        for engine, time in zip(("slow", "fast"), times, strict=True)
    ]
    few = [cell("slow", "ring", "flood", 9, 9.0), cell("fast", "ring", "flood", 9, 1.0, solve=solved([1.0] * 5))]
    [slow, fast] = standings(comparisons([*records, *few], "slow"))
    assert (fast.compared, fast.undecided) == (2, 1)
    assert fast.mean == pytest.approx((8.0 * 1.01) ** 0.5)
    assert (fast.lowest, fast.highest) == (1.01, 8.0)
    assert (slow.compared, slow.undecided, slow.mean) == (3, 0, 1.0)
    page = render_page([*records, *few], "slow")
    assert 'data-title="mean speed-up">2.84×</td>' in page
    assert 'data-title="of speed-ups">2 (1 undecided)</td>' in page


@pytest.mark.parametrize(
    "other",
    [
        record("slow", (4.0, 3.6, 4.4), sweep="another"),
        record("slow", (4.0, 3.6, 4.4), environment={"cpu": "another", "cores": 2}),
        record("slow", (4.0, 3.6, 4.4), outcome="wrong"),
        record("slow", None),
    ],
    ids=["sweep", "machine", "wrong", "crashed"],
)
def test_incomparable_cells_get_no_ratio(other):
    assert ratio(record("fast"), other) is None


def test_a_cell_that_is_not_ok_shows_its_outcome_and_no_time():
    wrong = record("quick", (0.1, 0.1, 0.1), outcome="wrong")
    line = row(shown([wrong, record("slow")]), "quick")
    assert "wrong" in line
    assert "100 ms" not in line
    assert "x [" not in line


def test_the_row_tells_supersteps_edges_error_and_quality():
    line = row(shown([record("fast")]), "fast")
    for expected in ("1 s", "[0.9, 1.1]", " 2 ", "20.1 k", "1.2e-07", "accuracy 0.975"):
        assert expected in line


def test_groups_are_graph_algorithm_and_features():
    eight, nine = record("fast"), record("fast", features=9)
    lost = record("lost", None, features=None)
    groups = grouped([lost, eight, nine, record("slow")])
    assert [[one["labels"]["engine"] for one in members] for _, members in groups] == [
        ["lost", "fast", "slow"],
        ["fast"],
    ]


def test_the_baseline_with_its_default_schedule_goes_first():
    labels = {"engine": "slow (width=2)", "algorithm": "flood", "graph": "ring"}
    variant, default = record("slow", labels=labels), record("slow")
    assert baseline_of([variant, default], "slow") is default
    assert baseline_of([variant], "slow") is variant
    assert baseline_of([variant, default], "absent") is None


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.95712, "0.957"), (12345.6789, "12345.679"), (0.0, "0.000"), (5e-4, "0.001"), (3.71e-6, "3.7e-06"),
     (-2e-5, "-2.0e-05"), (1e300, "1.0e+300"), (float("inf"), "inf")],
)  # fmt: skip
def test_a_small_error_is_not_shown_as_zero(value, expected):
    cell = record("slow", metrics={"marginal_error": value})
    assert quality(value) == expected
    assert f"marginal_error {expected} " in row(shown([cell]), "slow")
    assert f">marginal_error {expected}</td>" in render_page([cell], "slow")


def test_infinity_is_shown_as_it_is():
    validation = {**record()["validation"], "error": float("inf")}
    line = row(
        shown([record("slow", metrics={"farthest": float("inf")}, validation=validation, outcome="wrong")]), "slow"
    )
    assert "farthest inf" in line
    assert line.count(" inf ") == 2


def test_a_run_that_was_stopped_says_so(capsys, tmp_path):
    stopped, done = record("stopped", settled=False, metrics={}), record("done")
    fixed = record("fixed", settled=None)
    text = shown([stopped, done, fixed])
    assert "2, not settled" in row(text, "stopped")
    assert "not settled" not in row(text, "done") + row(text, "fixed")
    show_sweep([stopped, done], 2, None, tmp_path)
    assert "not settled: stopped at the limit of supersteps" in capsys.readouterr().out
    show_sweep([done, fixed], 2, None, tmp_path)
    assert "not settled" not in capsys.readouterr().out


def test_warm_runs_have_a_separate_table(capsys, tmp_path):
    wrong = warm_record("wrong", outcome="wrong")
    show_sweep([warm_record(), record("cold"), wrong], 3, None, tmp_path)
    whole = capsys.readouterr().out
    assert NOTE[:60] in " ".join(whole.split())
    text = whole.partition("Warm / cold")[2]
    headings = [part.strip() for part in next(line for line in text.splitlines() if "┃" in line).split("┃")[1:-1]]
    assert headings[0] == HEADINGS[0]
    for expected in ("warm, 7 vertices reset", "500 ms", "4 s", "8x", "2 / 3", "150 / 29.1 k", "31"):
        assert expected in row(text, "fast")
    assert "│ cold " not in text
    assert "│ wrong " not in text
    show_sweep([record("cold")], 1, None, tmp_path)
    assert "Warm / cold" not in capsys.readouterr().out


def test_names_are_shown_as_they_are(capsys, tmp_path):
    labels = {"engine": "[red]x[/red]", "algorithm": "[/]", "graph": "g\x1b[2Jh"}
    failed = record("x", None, labels=labels, reason="because of [bold]this[/bold]", output="[blink]last line")
    show_sweep([failed], 1, None, tmp_path)
    text = capsys.readouterr().out
    for name in ("[red]x[/red]", "[/]", "because of [bold]this[/bold]", "[blink]last line"):
        assert name in text
    assert "\x1b[2J" not in text


def test_long_lines_of_output_are_cut(capsys, tmp_path):
    show_sweep([record("a", None, reason="died by SIGSEGV", output="x" * 20_000)], 1, None, tmp_path)
    assert 300 < capsys.readouterr().out.count("x") < 500


def test_failures_are_listed_again_each_reason_once(capsys, tmp_path):
    records = [
        record("fast"),
        record("a", None, outcome="invalid_input", reason="features=0"),
        record("b", None, outcome="invalid_input", reason="features=0"),
        record("c", None, reason="died by SIGSEGV", output="one\ntwo"),
    ]
    show_sweep(records, 6, "fast", tmp_path)
    text = capsys.readouterr().out
    assert text.count("invalid_input: features=0") == 1
    assert "ring · flood · k=8 · a" in text
    assert "ring · flood · k=8 · b" in text
    assert "crashed: died by SIGSEGV" in text
    assert "| two" in text
    assert "2 of 6 cells have not been run" in text


@pytest.mark.parametrize(
    ("value", "expected"), [(12.3456, "12.3 s"), (0.0123456, "12.3 ms"), (1.2e-5, "12 us"), (0.0, "0 us")]
)
def test_times_have_a_unit(value, expected):
    assert seconds(value) == expected


def test_an_interval_is_shown_in_the_unit_of_its_value():
    assert seconds_range(0.0009, 2.5, 0.001) == "[0.9, 2500]"


@pytest.mark.parametrize(
    ("value", "expected"), [(9_999, "9,999"), (12_345, "12.3 k"), (1_234_567, "1.23 M"), (2e9, "2 G")]
)
def test_counts_are_abbreviated(value, expected):
    assert count(int(value)) == expected


def test_a_time_taken_while_something_else_ran_is_marked(capsys, tmp_path):
    quiet, noisy = record("quiet"), record("noisy", marks=["busy"])
    assert "1.1] *" in row(shown([quiet, noisy]), "noisy")
    assert "*" not in row(shown([quiet, noisy]), "quiet")
    show_sweep([quiet, noisy], 2, None, tmp_path)
    assert "* busy (1 of 2 times): other work" in capsys.readouterr().out
    show_sweep([quiet], 1, None, tmp_path)
    assert "*" not in capsys.readouterr().out


def test_sweeps_are_compared_with_each_other_only_when_that_is_forced():
    records = [record("slow", (4.0, 3.6, 4.4), sweep="a"), record("fast", (1.0, 0.9, 1.1), sweep="b")]
    assert [group.ratio(one) for group in comparisons(records, "slow") for one in group.records] == [None, None]
    [group] = comparisons(records, "slow", forced=True)
    assert group.ratio(records[1]).value == 4.0
    assert group.fastest() is records[1]
    expected = "compared across sweeps and machines"
    assert expected in render_page(records, "slow", across=True)
    assert expected not in render_page(records, "slow")


@pytest.mark.parametrize("width", [80, 90, 100, 120, 140, 180])
def test_names_outcomes_times_and_speed_ups_fit_any_terminal(width):
    same = {"algorithm": "label_propagation", "graph": "photograph"}
    records = [
        record("slow", (1.0, 0.9, 1.1), labels={"engine": "slow", **same}),
        record("fast", (0.5, 0.45, 0.55), labels={"engine": "gunrock (balance=merge_path)", **same}),
    ]
    out = Console(width=width, file=io.StringIO(), highlight=False)
    out.print(comparison_table(records, "slow", width))
    lines = out.file.getvalue().splitlines()
    assert max(map(len, lines)) <= width
    text = "\n".join(lines)
    for expected in ("slow", "gunrock", "photogr", "ok", "1 s", "500 ms", "2x"):
        assert expected in text, expected
    everything = width >= 180
    assert ("not shown at this width" in text) is not everything
    assert ("edges" in lines[1]) is everything


def test_a_subset_of_the_cores_is_recorded():
    cores = {"cpu": "a processor", "cores": 4, "usable_cores": 4}
    made = record("fast", environment=cores)
    labels = []
    for threads in (1, 2, 4):
        config = {**made["config"], "device": {"kind": "cpu", "index": 0, "threads": threads}}
        labels.append(engine_label({**made, "config": config}))
    assert labels == ["fast on 1 thread", "fast on 2 threads", "fast"]
    of_two = {**made, "config": {**made["config"], "device": {"kind": "cpu", "threads": 2}}}
    assert engine_label({**of_two, "environment": {"cpu": "a processor", "cores": 4}}) == "fast", (
        "before it has started"
    )
    assert engine_label({**of_two, "config": {**made["config"], "device": {"kind": "cuda"}}}) == "fast on cuda"


@pytest.mark.parametrize(("limit", "expected"), [(None, False), (30, True)])
def test_a_limit_of_supersteps_is_shown_if_there_is_one(limit, expected):
    one = record()
    limited = {**one, "config": {**one["config"], "max_supersteps": limit}}
    text = " ".join(shown([limited]).split())
    assert ("at most" in text) is expected
    assert ("30" in text) is expected
