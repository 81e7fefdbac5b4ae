"""A page with long names at the widths of a phone and a laptop: nothing is cut off, overflows, overlaps or vanishes.

The boxes of its landmarks are compared with ``page_geometry.json``; after an intended change of the page, write it with
``python -m tests.report.test_page_geometry``.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from pathlib import Path

import pytest

from harness.report.layout import Layout
from harness.report.page import write_page
from tests.processes import HANGS_S
from tests.report.conftest import LAPTOP, PHONE
from tests.report.geometry import FAULTS, LANDMARKS, RECORD_LABELS, SETTLE, differences
from tests.report.sweeps import LONG_ENGINE, long_names

REFERENCE = Path(__file__).with_name("page_geometry.json")
PAPER = (720, 1000)  # A4 within its margins
SIZES = {"phone": PHONE, "laptop": LAPTOP}
LAYOUT = Layout.from_plain(
    {
        "title": "Work lists by degree, as in a paper with a long title: milliseconds, and speed-ups over one list",
        "columns": {"one list": {"engine": "slow"}, "two lists, split by degree": {"engine": "fast"}},
        "first": "one list",
    }
)
FIGURE = '<svg xmlns="http://www.w3.org/2000/svg" width="900" height="300"><rect width="900" height="300"/></svg>'
AFTER_CHANGE = "after an intended change: python -m tests.report.test_page_geometry"


def written(folder):
    """Write the page of the fixed sweep into a folder."""
    records = long_names()
    for record in records:
        record["config"].update(schedule={}, algorithm=record["labels"]["algorithm"], graph=record["labels"]["graph"])
    (folder / "layout.svg").write_text(FIGURE)
    return write_page(folder / "report.html", records, "slow", 30, layout=LAYOUT)


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    return written(tmp_path_factory.mktemp("geometry"))


def opened_in(browser, file, size, **options):
    page = browser.new_page(viewport={"width": size[0], "height": size[1]}, **options)
    page.set_default_timeout(1000 * HANGS_S)
    page.add_init_script(RECORD_LABELS)
    page.goto(file.as_uri())
    page.evaluate(SETTLE)
    return page


@pytest.fixture(scope="module")
def pages(browser, file):
    """Open the page in every size, with all comparisons open."""
    opened = {name: opened_in(browser, file, size) for name, size in SIZES.items()}
    yield opened
    for page in opened.values():
        page.close()


@contextmanager
def changed(page, *rules):
    """Add rules to the style sheet of a page, and remove them at the end."""
    sheet = "const [sheet] = document.styleSheets;"
    page.evaluate(
        f"rules => {{ {sheet} rules.forEach((one) => sheet.insertRule(one, sheet.cssRules.length)); }}", rules
    )
    page.evaluate(SETTLE)
    yield
    page.evaluate(f"rules => {{ {sheet} rules.forEach(() => sheet.deleteRule(sheet.cssRules.length - 1)); }}", rules)
    page.evaluate(SETTLE)


@pytest.fixture(params=SIZES)
def name(request):
    return request.param


@pytest.fixture
def page(pages, name):
    return pages[name]


def test_nothing_is_cut_off_overflows_or_overlaps(page):
    assert page.evaluate(FAULTS) == []
    assert LONG_ENGINE in page.inner_text("#close")


def test_nothing_is_cut_off_on_paper(browser, file):
    page = opened_in(browser, file, PAPER)
    page.emulate_media(media="print")
    page.evaluate(SETTLE)
    assert page.evaluate(FAULTS) == []
    assert page.locator(".chart:visible").count() == page.locator(".chart").count()
    page.close()


def test_the_page_without_its_script_has_no_faults_either(browser, file):
    page = browser.new_context(java_script_enabled=False, viewport={"width": PHONE[0], "height": PHONE[1]}).new_page()
    page.set_default_timeout(1000 * HANGS_S)
    page.goto(file.as_uri())
    assert page.evaluate(FAULTS) == []
    page.context.close()


@pytest.mark.parametrize("across", [0.02, 0.5, 0.98])
def test_values_under_the_pointer_fit_into_the_window(page, name, across):
    figure = page.locator("#features figure").last
    figure.scroll_into_view_if_needed()
    area = figure.locator(".u-over").bounding_box()
    page.mouse.move(area["x"] + across * area["width"], area["y"] + 0.5 * area["height"])
    readout = figure.locator(".readout")
    assert LONG_ENGINE in readout.inner_text()
    box, frame = readout.bounding_box(), figure.locator(".plot").bounding_box()
    assert frame["x"] - 1 <= box["x"]
    assert box["x"] + box["width"] <= min(frame["x"] + frame["width"], SIZES[name][0]) + 1
    assert readout.evaluate("one => one.scrollWidth <= one.clientWidth")
    page.mouse.move(0, 0)
    assert readout.is_hidden()


def test_every_landmark_is_where_it_was(page, name):
    expected = json.loads(REFERENCE.read_text())[name]
    assert len(expected) > 50
    assert differences(expected, page.evaluate(LANDMARKS), SIZES[name][0]) == [], AFTER_CHANGE


@pytest.mark.parametrize("family", ["serif", "monospace"])
def test_another_font_is_no_difference(page, name, family):
    with changed(page, f"body, h1, h2 {{ font-family: {family} !important; }}"):
        assert differences(json.loads(REFERENCE.read_text())[name], page.evaluate(LANDMARKS), SIZES[name][0]) == []
        assert page.evaluate(FAULTS) == []


@pytest.mark.parametrize(
    "rule",
    [
        "#features { display: none; }",
        "#features figure:last-of-type { display: none; }",
        "#cells { max-height: 200px; overflow: hidden; }",
        "#environment dl { height: 0; overflow: hidden; }",
        "#standing { width: 60%; }",
        "main { margin-left: 4rem; }",
    ],
)
def test_a_landmark_that_vanishes_moves_or_shrinks_is_a_difference(page, name, rule):
    with changed(page, rule):
        assert differences(json.loads(REFERENCE.read_text())[name], page.evaluate(LANDMARKS), SIZES[name][0])


@pytest.mark.parametrize(
    ("rules", "fault"),
    [
        (["figcaption { height: 9px; overflow: hidden; }"], "cut off: figcaption"),
        ([".legend li { white-space: nowrap; overflow: hidden; text-overflow: ellipsis; }"], "shortened: li"),
        (["main { width: 1700px; }"], "beyond the window"),
        (["h2 { height: 0; margin: 0; }"], "overlap: "),
        ([".scroll { overflow: hidden; }", ".heat { width: 3000px; }"], "cut off: div.scroll"),
    ],
)
def test_faults_are_found(page, rules, fault):
    with changed(page, *rules):
        assert [one for one in page.evaluate(FAULTS) if one.startswith(fault)]


@pytest.mark.parametrize("text", ["one + one + one", "one.padEnd(60, '.')"])
def test_labels_of_plots_that_overlap_or_are_cut_off_are_found(page, text):
    page.evaluate(f"""() => {{
        const canvas = document.querySelector("#features canvas");
        const places = canvas.labels;
        canvas.labels = [];
        for (const {{ text: one, left, bottom }} of places) canvas.getContext("2d").fillText({text}, left, bottom);
    }}""")
    assert [one for one in page.evaluate(FAULTS) if "plot" in one]


def write_reference(folder: Path) -> None:
    """Write the boxes of the landmarks as this browser has them."""
    from playwright.sync_api import sync_playwright

    from tests.report.conftest import executable

    file = written(folder)
    with sync_playwright() as driver:
        running = driver.chromium.launch(executable_path=executable(), args=["--no-sandbox"])
        found = {name: opened_in(running, file, size).evaluate(LANDMARKS) for name, size in SIZES.items()}
        running.close()
    lines = [
        f"{json.dumps(name)}: [\n" + ",\n".join(json.dumps(one) for one in boxes) + "\n]"
        for name, boxes in found.items()
    ]
    REFERENCE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    import tempfile

    with tempfile.TemporaryDirectory() as place:
        write_reference(Path(place))
