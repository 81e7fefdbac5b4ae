"""Plots in a real browser: values under the pointer, zoom, legends that hide series, keys, print, and pages offline."""

from __future__ import annotations

import re

import pytest

from harness.report.page import write_page
from harness.report.page.phases import over_phases
from harness.report.units import count, seconds
from tests.processes import HANGS_S
from tests.report.conftest import LAPTOP, PHONE
from tests.report.sweeps import cell, sweep

FIGURE = "#features figure"
# Read a part of a canvas, through a copy, because reading slows a canvas down.
PIXELS = """const pixels = (canvas, width = canvas.width) => {
    const copy = new OffscreenCanvas(width, canvas.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    return copy.getImageData(0, 0, width, canvas.height).data;
};"""
# Count the pixels on which something is drawn.
INK = f"""canvas => {{
    {PIXELS}
    return pixels(canvas).filter((value, place) => place % 4 === 3 && value > 0).length;
}}"""


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Write a page whose engines have equal active vertices, except one."""
    return write_page(tmp_path_factory.mktemp("plots") / "report.html", sweep(), "slow", 28)


@pytest.fixture
def page(opened, file):
    return opened(file)


def settle(page):
    """Wait until the page has drawn two more frames: observers have been called, and their changes drawn."""
    page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")


def area(page, figure=FIGURE):
    """Return the box of the plotting area of the first such figure, scrolled into view."""
    over = page.locator(f"{figure} .u-over").first
    over.scroll_into_view_if_needed()
    return over.bounding_box()


def point_at(page, across, down, figure=FIGURE):
    """Move the pointer to a place given as shares of the plotting area; return the values that are shown there."""
    box = area(page, figure)
    page.mouse.move(box["x"] + across * box["width"], box["y"] + down * box["height"])
    readout = page.locator(f"{figure} .readout").first
    return readout.locator("b").inner_text(), [
        tuple(row.locator("span").all_inner_texts()) for row in readout.locator(".row").all()
    ]


def test_the_pointer_reads_exact_values_with_intervals_and_units(page):
    heading, rows = point_at(page, 0.97, 0.03)
    assert heading == "features k 32"
    assert rows == [
        ("close", "262.4 ms [249.3, 275.5]"),
        ("slow", "256 ms [243.2, 268.8]"),
        ("middling (width=2, direction=push)", "128 ms [121.6, 134.4]"),
        ("fast", "64 ms [60.8, 67.2]"),
    ]
    near = page.locator(f"{FIGURE} .near").first.inner_text()
    assert near.startswith("close")
    heading, rows = point_at(page, 0.03, 0.97)
    assert heading == "features k 1"
    assert rows[-1] == ("fast", "2 ms [1.9, 2.1]")


def test_values_of_coinciding_series_are_all_listed(page):
    heading, rows = point_at(page, 0.0, 0.1, "#close figure")
    assert heading == "superstep 1"
    assert [value for _, value in rows] == ["1,000"] * 4
    remark = page.locator("#close figure .remark").first.inner_text()
    assert remark == "“close” and “middling (width=2, direction=push)” have the same values as “slow”."


def test_the_readout_leaves_with_the_pointer(page):
    point_at(page, 0.5, 0.5)
    assert page.locator(f"{FIGURE} .readout").first.is_visible()
    page.mouse.move(1, 1)
    assert page.locator(f"{FIGURE} .readout").first.is_hidden()


def labels_of(page):
    """Return the labels that the next drawing of any plot writes."""
    return page.evaluate("labels.splice(0)")


RECORD_LABELS = """
    window.labels = [];
    const write = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...rest) {
        labels.push(text);
        return write.call(this, text, ...rest);
    };
"""


@pytest.fixture
def watched(browser, file):
    """Open the page with a record of the labels that plots write."""
    page = browser.new_page(viewport={"width": LAPTOP[0], "height": LAPTOP[1]})
    page.set_default_timeout(1000 * HANGS_S)
    page.add_init_script(RECORD_LABELS)
    page.goto(file.as_uri())
    yield page
    page.close()


def test_dragging_zooms_and_a_double_click_or_the_button_shows_the_whole(watched):
    box = area(watched)
    back = watched.locator(f"{FIGURE} .back").first
    assert back.is_hidden()

    def drag():
        labels_of(watched)
        watched.mouse.move(box["x"] + 0.5 * box["width"], box["y"] + 2)
        watched.mouse.down()
        watched.mouse.move(box["x"] + 0.99 * box["width"], box["y"] + 0.4 * box["height"], steps=4)
        watched.mouse.up()
        settle(watched)

    drag()
    shown = labels_of(watched)
    assert "32" in shown
    assert "1" not in shown  # the left part of the axis
    assert "2 ms" not in shown  # its lower part
    assert back.is_visible()
    watched.mouse.dblclick(box["x"] + 30, box["y"] + 30)
    settle(watched)
    assert {"1", "2 ms"} <= set(labels_of(watched))
    assert back.is_hidden()
    drag()
    labels_of(watched)
    back.click()
    settle(watched)
    assert {"1", "2 ms"} <= set(labels_of(watched))


def test_selecting_a_name_hides_its_series_in_all_plots_of_the_section(page):
    settle(page)
    before = [canvas.evaluate(INK) for canvas in page.locator(f"{FIGURE} canvas").all()]
    other = page.locator("#close figure canvas").first.evaluate(INK)
    toggle = page.locator("#features .legend").get_by_role("button", name="close")
    toggle.click()
    assert toggle.get_attribute("aria-pressed") == "false"
    names = [name for name, _ in point_at(page, 0.97, 0.03)[1]]
    assert names == ["slow", "middling (width=2, direction=push)", "fast"]
    after = [canvas.evaluate(INK) for canvas in page.locator(f"{FIGURE} canvas").all()]
    assert len(after) == 2
    assert all(now < then for now, then in zip(after, before, strict=True))
    assert page.locator("#close figure canvas").first.evaluate(INK) == other
    toggle.click()
    assert len(point_at(page, 0.97, 0.03)[1]) == 4


def test_a_comparison_that_is_opened_later_hides_what_its_legend_hides(page):
    page.locator("#close .legend").first.get_by_role("button", name="slow").click()
    details = page.locator("#close details").nth(1)
    assert details.locator(".uplot").count() == 0  # nothing off the screen is drawn
    details.locator("summary").click()
    details.locator(".uplot").first.wait_for()
    names = [name for name, _ in point_at(page, 0.0, 0.1, "#close details:nth-of-type(2) figure")[1]]
    assert names == ["fast", "close", "middling (width=2, direction=push)"]


def test_hiding_a_phase_scales_the_bars_of_the_others(page):
    bar = page.locator("#close .bar").first
    records = [one for one in sweep() if one["labels"]["graph"] == "ring"][:4]
    phases = dict(over_phases(records).bars[0].parts)
    titles = bar.locator("title").all_text_contents()
    assert titles == [f"{name}: {seconds(spent)}" for name, spent in phases.items()]
    widest = page.locator("#close .bars").first.locator("rect")
    page.locator("#close .phases").get_by_role("button", name="compile").click()
    assert "compile: 800 ms" not in bar.locator("title").all_text_contents()
    ends = widest.evaluate_all("all => all.map(one => one.x.baseVal.value + one.width.baseVal.value)")
    assert max(ends) == pytest.approx(1000, rel=1e-3)  # the longest bar fills the width again


def test_arrow_keys_read_values_and_escape_leaves(page):
    frame = page.locator(f"{FIGURE} .plot").first
    assert "arrow keys" in frame.get_attribute("aria-label")
    frame.focus()
    page.keyboard.press("ArrowRight")
    readout = frame.get_by_role("status")
    assert readout.locator("b").inner_text() == "features k 1"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert readout.locator("b").inner_text() == "features k 8"
    assert readout.locator(".near").inner_text().startswith("fast")
    page.keyboard.press("Escape")
    assert readout.is_hidden()


NUMBERS = [0.0, 3.2e-7, 1.5e-6, 0.00123456, 0.5, 1.0, 61.23, 999.0]


def test_numbers_are_written_as_in_the_tables(page, file):
    """The script and the tables write the same number in the same way."""
    own = re.search(r"// Numbers as people read them.*?(?=// Colours of the style sheet)", file.read_text(), re.S)
    run = f"(pairs) => {{ {own.group()}; return pairs.map(([unit, value]) => valueText({{ unit }}, value, 3)); }}"
    counts = [1, 9999, 10_000, 123_456, 1_046_528, 2.5e9]
    pairs = [["seconds", value] for value in NUMBERS[1:]] + [["count", value] for value in counts]
    wanted = [seconds(value) for value in NUMBERS[1:]] + [count(int(value)) for value in counts]
    assert page.evaluate(run, pairs) == wanted


def test_without_the_script_and_in_print_there_are_drawings(browser, file, page):
    page.emulate_media(media="print")
    assert page.locator(f"{FIGURE} .chart").first.is_visible()
    assert page.locator(f"{FIGURE} .plot").first.is_hidden()
    page.emulate_media(media="screen")
    assert page.locator(f"{FIGURE} .chart").first.is_hidden()
    plain = browser.new_context(java_script_enabled=False).new_page()
    plain.set_default_timeout(1000 * HANGS_S)
    plain.goto(file.as_uri())
    assert plain.locator(f"{FIGURE} .chart").first.is_visible()
    assert plain.locator(f"{FIGURE} polyline").count() == 2 * 4
    assert plain.locator(".hint").count() == 0
    plain.context.close()


def test_plots_follow_the_width_of_the_window(page):
    canvas = page.locator(f"{FIGURE} canvas").first
    wide = canvas.bounding_box()["width"]
    page.set_viewport_size({"width": PHONE[0], "height": PHONE[1]})
    settle(page)
    assert canvas.bounding_box()["width"] <= PHONE[0] < wide


def test_plots_follow_the_colour_scheme(page):
    """The quiet colour of labels is dark on light pages, and light on dark ones."""
    brightest = f"""canvas => {{
        {PIXELS}
        const data = pixels(canvas, 40);
        return Math.max(...data.filter((value, place) => place % 4 === 0 && data[place + 3] > 250));
    }}"""
    labels = page.locator(f"{FIGURE} canvas").first
    light = labels.evaluate(brightest)
    page.emulate_media(color_scheme="dark")
    settle(page)
    assert labels.evaluate(brightest) > light


def test_names_in_plots_stay_text(opened, tmp_path):
    hostile = "<img src=x onerror=alert(1)>'\""
    records = [cell(hostile, "ring", "flood", k, 0.01 * k) for k in (1, 8)]
    page = opened(write_page(tmp_path / "report.html", records, None))
    _, rows = point_at(page, 0.97, 0.05)
    assert [name for name, _ in rows] == [hostile]
    assert page.locator("img").count() == 0
