"""The page in a real browser: it renders, sorts and filters, is legible, and does not interpret text as markup."""

from __future__ import annotations

import pytest

from harness.report.page import model as page_models
from harness.report.page import render_page, write_page
from harness.report.page.environment import environment
from harness.report.page.model import page_model
from tests.processes import HANGS_S
from tests.records.samples import record, warm_record
from tests.report.conftest import LAPTOP, PHONE, SMALL_PHONE
from tests.report.sweeps import ENGINES, SCRIPT, cell, failed, sweep

SECTIONS = ["standing", "speed-ups", "features", "cells", "close", "failures", "environment"]


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return write_page(tmp_path_factory.mktemp("page") / "report.html", sweep(), "slow", 30)


def rows(page):
    """Return the engine and the solve time of every visible row, from top to bottom."""
    return page.eval_on_selector_all(
        ".cells tbody tr",
        "rows => rows.filter(r => r.offsetParent).map(r => [r.cells[3].textContent, r.cells[5].textContent])",
    )


def values(page, heading):
    """Return the sort keys of a column of the table of cells, from the top."""
    headings = page.eval_on_selector_all(".cells thead th", "all => all.map(th => th.textContent.trim())")
    column = headings.index(heading)
    shown = page.eval_on_selector_all(
        ".cells tbody tr", f"rows => rows.filter(r => r.offsetParent).map(r => r.cells[{column}].dataset.value ?? null)"
    )
    return [None if value is None else float(value) for value in shown]


def test_every_section_exists_and_nothing_is_loaded_from_a_network(opened, file):
    page = opened(file)
    assert page.eval_on_selector_all("main > section", "all => all.map(one => one.id)") == SECTIONS
    assert len(rows(page)) == 28
    assert page.inner_text(".byline").startswith("sweep 0123456789ab · 2026-01-01 · 28 cells · speed-ups over slow")
    assert "Of 7 comparisons, fast is fastest in 6" in page.inner_text(".lede")
    tally = page.inner_text(".tally").split("\n")
    assert tally == ["25 ok", "1 unsupported", "2 failed", "2 not run yet"]


def test_a_run_that_was_stopped_says_so_beside_its_supersteps():
    stopped, done = cell("slow", "ring", "flood", 1, 1.0, settled=False), cell("fast", "ring", "flood", 1, 1.0)
    text = render_page([stopped, done], "slow", 2)
    assert text.count('data-value="30">30 <small>not settled</small>') == 1
    assert "Not settled: stopped at the limit of supersteps" in text
    assert "ot settled" not in render_page([done, cell("fixed", "ring", "flood", 1, 1.0, settled=None)], "fast", 2)


def test_infinity_is_shown_and_sorted_as_it_is():
    validation = {**record()["validation"], "error": float("inf")}
    far = record("far", outcome="wrong", metrics={"farthest": float("inf")}, validation=validation)
    text = render_page([far], None)
    assert '<td data-value="Infinity">inf</td>' in text  # Number("inf") is NaN in the script
    assert "<td>farthest inf</td>" in text


def test_the_time_of_a_wrong_answer_is_not_shown():
    wrong, right = record("wrong", (1.875, 1.75, 2.0), outcome="wrong"), record("right", (1.625, 1.5, 1.75))
    text = render_page([wrong, right], None)
    assert '<td data-value="1.625">' in text
    assert "1.875" not in text
    assert "1.88 s" not in text


def test_values_without_a_number_are_sorted_last(opened, tmp_path):
    validation = record()["validation"]
    errors = [float("nan"), 2.0, float("inf"), 1.0]
    checked = [{**validation, "error": error} for error in errors]
    found = [cell(f"e{n}", "ring", "flood", 1, 1.0, validation=validation) for n, validation in enumerate(checked)]
    page = opened(write_page(tmp_path / "report.html", found, None))
    for direction in ([1.0, 2.0, float("inf"), None], [float("inf"), 2.0, 1.0, None]):
        page.get_by_role("button", name="error").click()
        assert values(page, "error") == direction


def test_warm_runs_stand_beside_cold_ones():
    text = render_page([warm_record(), record("cold")], None, 2)
    for shown in ("warm, 7 vertices reset", "500 ms", "4 s", "8x", "2 / 3", "150 / 29.1 k", "31"):
        assert f">{shown}</td>" in text
    assert 'id="warm"' not in render_page([record("cold")], None, 1)


def test_the_script_is_not_needed_to_read_it(browser, file):
    page = browser.new_context(java_script_enabled=False).new_page()
    page.set_default_timeout(1000 * HANGS_S)
    page.goto(file.as_uri())
    assert page.locator(".cells tbody tr").count() == 28
    assert page.locator("#cells .cells tbody tr").first.is_visible()
    page.context.close()


def test_headings_sort_up_down_and_back(opened, file):
    page = opened(file)
    times = values(page, "solve")
    head = page.locator("#cells").get_by_role("button", name="solve")
    numbers = [value for value in times if value is not None]
    head.click()
    assert values(page, "solve") == [*sorted(numbers), None, None, None]
    assert (
        page.locator(".cells th", has=page.get_by_role("button", name="solve")).get_attribute("aria-sort")
        == "ascending"
    )
    head.click()
    assert values(page, "solve") == [*sorted(numbers, reverse=True), None, None, None]
    head.click()
    assert values(page, "solve") == times
    page.get_by_role("button", name="engine").click()
    names = [name for name, _ in rows(page)]
    assert names == sorted(names)


def test_headings_answer_to_the_keyboard(opened, file):
    page = opened(file)
    page.get_by_role("button", name="speed-up").focus()
    page.keyboard.press("Enter")
    shown = [value for value in values(page, "speed-up") if value is not None]
    assert shown == sorted(shown)


def test_words_and_choices_narrow_the_table(opened, file):
    page = opened(file)
    page.fill("#find", "FAST drain")
    assert {name for name, _ in rows(page)} == {"fast"}
    assert len(rows(page)) == 3
    assert page.inner_text("#shown") == "3 of 28"
    page.fill("#find", "")
    page.select_option("[data-narrow=engine]", "slow")
    page.select_option("[data-narrow=graph]", SCRIPT)
    assert len(rows(page)) == 1
    page.select_option("[data-narrow=outcome]", "crashed")
    assert rows(page) == []
    assert page.is_visible("#nothing")


def test_speed_ups_are_shaded_on_either_side_of_the_baseline(opened, file):
    page = opened(file)
    row = page.locator(".heat tbody tr").nth(1).locator("td")
    assert row.all_inner_texts() == ["8 ms", "4×", "≈ 0.976×", "2×"]
    assert row.nth(1).get_attribute("class") == "faster6"
    assert row.nth(2).get_attribute("class") == "same"
    assert "out" not in " ".join(row.all_inner_texts())
    lost = page.locator(".heat tbody tr").last.locator("td")
    assert lost.all_inner_texts() == ["4 ms", "crashed", "unsupported", "wrong"]


def test_failures_are_reported_with_their_last_lines(opened, file):
    page = opened(file)
    failures = page.inner_text("#failures")
    for text in ("died by SIGSEGV", "<b>the last</b>", "line 99", "stage 'x' has no delta form", "k = 8 · fast"):
        assert text in failures
    assert "line 10\n" not in failures


def test_names_stay_text(opened, file):
    page = opened(file)
    assert page.title() == "Engines compared · 0123456789ab"
    assert page.locator("script").count() == 1
    assert page.locator(".failure b").count() == 0
    assert page.locator(".cells tbody tr", has_text=SCRIPT).count() == 4


def test_no_script_but_ours_would_run(browser, tmp_path):
    """Even if a name were not escaped."""
    text = render_page(sweep(), "slow").replace(
        "</main>", f"{SCRIPT}<img src=x onerror=\"document.title='taken'\"></main>"
    )
    path = tmp_path / "report.html"
    path.write_text(text)
    page = browser.new_page()
    page.set_default_timeout(1000 * HANGS_S)
    page.goto(path.as_uri())
    assert page.title() == "Engines compared · 0123456789ab"
    page.close()


LEGIBLE = """() => {
    const small = [];
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const box = node.parentElement;
        if (!node.textContent.trim() || !box.checkVisibility() || box.closest("script, title, option")) continue;
        const svg = box.closest("svg");
        const scale = svg ? svg.getBoundingClientRect().width / svg.viewBox.baseVal.width : 1;
        const size = parseFloat(getComputedStyle(box).fontSize) * scale;
        if (size < 11.9) small.push(`${size.toFixed(1)}: ${node.textContent.trim().slice(0, 40)}`);
    }
    return small;
}"""


@pytest.mark.parametrize("size", [LAPTOP, PHONE, SMALL_PHONE], ids=["laptop", "phone", "small phone"])
def test_it_fits_and_no_letter_is_small(opened, file, size):
    page = opened(file, size)
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    assert page.evaluate(LEGIBLE) == []
    cut = page.eval_on_selector_all(
        "main p, main h2, main figure, main dl, .filters > *, .cells",
        "(all, width) => all.filter(one => one.getBoundingClientRect().right > width + 0.5 && !one.closest('.scroll'))"
        ".map(one => one.className || one.tagName)",
        size[0],
    )
    assert cut == []
    hidden = page.eval_on_selector_all(
        ".scroll", "all => all.filter(one => one.scrollWidth > one.clientWidth).map(one => one.ariaLabel)"
    )
    assert [label for label in hidden if label != "Heat map of speed-ups"] == []  # one column per engine


OVERLAPS = """() => {
    const met = [];
    for (const svg of document.querySelectorAll(".chart")) {
        const boxes = [...svg.querySelectorAll("text")].map((text) => [text.textContent, text.getBoundingClientRect()]);
        boxes.forEach(([one, a], i) => boxes.slice(i + 1).forEach(([other, b]) => {
            const wide = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const high = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            if (wide > 1 && high > 4) met.push(`${one} over ${other}`);
        }));
    }
    return met;
}"""


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_labels_of_charts_keep_apart(opened, file, size):
    page = opened(file, size)
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
    assert page.locator(".chart").count() == 2 + 2 * 7
    assert page.locator(".bars").count() == 7
    assert page.evaluate(OVERLAPS) == []


def test_a_row_on_a_phone_labels_its_values(opened, file):
    page = opened(file, PHONE)
    assert page.locator(".cells thead").is_hidden()
    cells = page.locator(".cells tbody tr").first.locator("td")
    labels = cells.evaluate_all("all => all.map(one => getComputedStyle(one, '::before').content)")
    assert labels[5] == '"solve"'
    assert labels[0] == '"graph"'
    page.select_option("#sort", "solve")
    shown = [value for value in values(page, "solve") if value is not None]
    assert shown == sorted(shown)


CONTRAST = """() => {
    const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    const rgb = (colour) => {
        canvas.clearRect(0, 0, 1, 1);
        canvas.fillStyle = colour;
        canvas.fillRect(0, 0, 1, 1);
        return [...canvas.getImageData(0, 0, 1, 1).data];
    };
    const light = (colour) => {
        const linear = (c) => (c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4);
        const [r, g, b] = colour.map((part) => linear(part / 255));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const behind = (box) => {
        for (let one = box; one; one = one.parentElement) {
            const colour = rgb(getComputedStyle(one).backgroundColor);
            if (colour[3] === 255) return colour;
        }
        return [255, 255, 255, 255];
    };
    const faint = [];
    for (const box of document.querySelectorAll("td, th, p, li, summary, span, a, dt, dd, button, small, h1, h2, h3")) {
        if (!box.checkVisibility() || !box.textContent.trim()) continue;
        const levels = [light(rgb(getComputedStyle(box).color)), light(behind(box))].sort((a, b) => b - a);
        const ratio = (levels[0] + 0.05) / (levels[1] + 0.05);
        if (ratio < 4.5) faint.push(`${ratio.toFixed(2)}: ${box.className} ${box.textContent.trim().slice(0, 30)}`);
    }
    return faint;
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_text_has_enough_contrast(opened, tmp_path, scheme):
    """4.5 to 1 (WCAG 2, level AA) everywhere, on every shade of the heat map."""
    factors = [8.0, 4.0, 3.2, 2.5, 2.0, 1.6, 1.26, 0.8, 0.63, 0.5, 0.4, 0.31, 0.1]
    shades = [cell(f"e{place}", "ring", "flood", 8, 1 / factor) for place, factor in enumerate(factors)]
    records = [*sweep(), *shades, cell("slow", "ring", "flood", 8, 1.0, sweep="another")]
    path = write_page(tmp_path / "report.html", records, "slow")
    page = opened(path, color_scheme=scheme)
    assert page.evaluate(CONTRAST) == []


def test_shades_reach_both_ends(opened, tmp_path):
    factors = [8.0, 4.0, 3.2, 2.5, 2.0, 1.6, 1.26, 0.8, 0.63, 0.5, 0.4, 0.31, 0.1]
    records = [cell("slow", "ring", "flood", 8, 1.0)]
    records += [cell(f"e{place}", "ring", "flood", 8, 1 / factor) for place, factor in enumerate(factors)]
    page = opened(write_page(tmp_path / "report.html", records, "slow"))
    met = set(page.eval_on_selector_all(".heat td", "all => all.map(one => one.className)"))
    assert {f"{side}{shade}" for side in ("faster", "slower") for shade in (1, 2, 3, 4, 5, 6)} <= met


def test_a_sweep_without_any_answer_has_a_page(opened, tmp_path):
    records = [failed("fast", "ring", "flood", None, "invalid_input", "features=0")]
    page = opened(write_page(tmp_path / "report.html", records, None))
    assert "in none is one engine faster" in page.inner_text(".lede")
    assert "features=0" in page.inner_text("#failures")
    assert len(rows(page)) == 1


def test_a_thousand_cells_stay_small():
    records = [
        cell(f"{engine} with a rather long name", f"graph number {graph}", algorithm, k, k * 1e-3 * factor,
             supersteps=[[1_000_000 - step, 20_000_000, "push"] for step in range(300)])
        for graph in range(10)
        for algorithm in ("label_propagation", "pagerank", "belief_propagation", "components", "als")
        for k in (1, 4, 8, 32, 128)
        for engine, factor in ENGINES.items()
    ]  # fmt: skip
    assert len(records) == 1000
    assert len(render_page(records, "slow with a rather long name").encode()) < 2_000_000


def test_a_thousand_comparisons_stay_small():
    records = [
        cell("slow", f"graph number {graph}", "flood", k, k * 1e-3) for graph in range(250) for k in (1, 2, 3, 4)
    ]
    page = render_page(records, "slow")
    assert len(page.encode()) < 2_000_000
    assert "840 more comparisons are not drawn" in page


@pytest.mark.parametrize(("cells", "missing"), [(4, 0), (5, 1)])
def test_every_round_of_a_cell_counts_as_one_of_those_planned(cells, missing):
    rounds = [{**record(engine), "round": number} for engine in ("fast", "slow") for number in (1, 2)]
    model = page_model(rounds, None, cells)
    assert len(model["rows"]) == 2
    assert model["missing"] == missing


def test_sweeps_are_told_apart_unless_they_are_compared():
    records = [
        cell(engine, "ring", "flood", k, seconds, sweep=sweep, started=f"2026-0{month}-01T00:00:00+00:00")
        for month, (sweep, engine, seconds) in ((5, ("later", "slow", 4.0)), (3, ("first", "fast", 1.0)))
        for k in (1, 8)
    ]
    apart, together = page_model(records, "slow", 4), page_model(records, "slow", 4, across=True)
    assert apart["started"] == together["started"] == "2026-03-01T00:00:00+00:00"
    assert (len(apart["close"]), len(together["close"])) == (4, 2)
    names = ["ring · flood · later", "ring · flood · first"]
    assert [one.title for one in apart["close"]] == [f"{name} · k = {k}" for name in names for k in (1, 8)]
    assert [one.title for one in together["close"]] == ["ring · flood · k = 1", "ring · flood · k = 8"]
    for model, titles in ((apart, names), (together, ["ring · flood"])):
        assert [title for title, _ in model["panels"]] == titles
        assert [block["title"] for block in model["heat"]] == titles


def test_engines_stand_in_the_order_of_their_speed_ups():
    model = page_model(sweep(), "slow", 28)
    assert [one["engine"] for one in model["standings"]] == ["fast", list(ENGINES)[3], "slow", "close"]
    assert [(one["ok"], one["fastest"], one["compared"]) for one in model["standings"]] == [
        ("6 of 7", 6, "6"), ("6 of 7", 0, "6"), ("7 of 7", 0, "7"), ("6 of 7", 0, "6 (6 undecided)"),
    ]  # fmt: skip
    assert [(one["mean"], one["range"]) for one in model["standings"][:2]] == [
        ("4×", "4× to 4×"), ("2×", "2× to 2×"),
    ]  # fmt: skip


def test_the_verdict_of_a_comparison_names_a_decided_speed_up_only():
    def verdicts(*records, baseline="slow"):
        return [one.verdict for one in page_model(records, baseline, len(records))["close"]]

    slow, fast, same = (cell(name, "ring", "flood", 1, s) for name, s in (("slow", 4.0), ("fast", 1.0), ("same", 4.0)))
    assert verdicts(slow, fast) == ["fastest: fast, 4× over the baseline"]
    assert verdicts(slow, fast, baseline="fast") == ["fastest: fast"]
    assert verdicts(slow, fast, baseline=None) == ["fastest: fast"]
    assert verdicts(slow, same) == ["no single fastest engine"]


def test_the_label_of_the_baseline_stands_for_it_if_there_is_one_only():
    wide, narrow = (
        cell(f"slow (width={width})", graph, "flood", 1, 4.0) for width, graph in ((2, "ring"), (1, "path"))
    )
    others = [cell("fast", graph, "flood", 1, 1.0) for graph in ("ring", "path")]
    assert page_model([wide, *others], "slow", 3)["baseline"] == "slow (width=2)"
    assert page_model([wide, narrow, *others], "slow", 4)["baseline"] == "slow"


def test_caveats_are_counted_among_the_times_of_right_answers():
    validation = {**record()["validation"], "ok": False}
    records = [cell("slow", "ring", "flood", 1, 4.0, marks=["busy"]), cell("fast", "ring", "flood", 1, 1.0)]
    wrong = cell("odd", "ring", "flood", 1, 1.0, marks=["busy"], outcome="wrong", validation=validation)
    notes = page_model([*records, wrong], "slow", 3)["marks"]
    assert [note.partition(":")[0] for note in notes if " times are " in note] == ["1 of 2 times are busy"]


@pytest.mark.parametrize(("cells", "left"), [(1, 1), (6, 2), (40, 2)])
def test_charts_of_many_cells_take_the_place_of_more_comparisons(cells, left, monkeypatch):
    """A comparison takes 2 kB and each of its cells 3; the first one is drawn in any case."""
    monkeypatch.setattr(page_models, "_DRAWN_KB", 10)
    records = [cell(f"engine {i}", "ring", "flood", k, k * 1e-3) for k in (1, 2, 3) for i in range(cells)]
    assert page_model(records, None, len(records))["not_close"] == left


def test_the_table_is_filtered_by_the_labels_that_it_shows():
    labels = [{"engine": f"fast (way={way})", "algorithm": "flood", "graph": "ring"} for way in "ab"]
    choices = dict(page_model([record(labels=one) for one in labels], None, 2)["choices"])
    assert choices["engine"] == ["fast (way=a)", "fast (way=b)"]
    assert (choices["algorithm"], choices["graph"], choices["outcome"]) == (["flood"], ["ring"], ["ok"])


def test_the_environment_tells_nothing_from_what_is_not_known():
    facts = [{"other_cores": 0.0, "boost": False, "governor": None}, {"other_cores": 0.0, "governor": "powersave"}]
    shown = dict(environment([record(environment=one) for one in facts]))
    assert shown["other cores"] == "0"
    assert shown["boost"] == "False (1 cells); not known (1 cells)"
    assert shown["governor"] == "not known (1 cells); powersave (1 cells)"
