"""The page of a preset's sweep: its table and figure first, its names, links to the files, metrics over the run."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from harness.records import write_record
from harness.records.store import RECORD_FILE
from harness.report.layout import Layout
from harness.report.layout_tables import notes_of, table_of
from harness.report.page import PAGE_FILE, render_page, write_page
from harness.report.page.laid_out import laid_out_table
from harness.report.page.model import page_model
from harness.report.warm import HEADINGS, NUMBERS
from tests.records.samples import warm_record
from tests.report.conftest import LAPTOP, PHONE
from tests.report.sweeps import cell

LAYOUT = Layout.from_plain(
    {
        "title": "Work lists by degree, as in SIMD-X",
        "columns": {"one list": {"engine": "slow"}, "two <lists>": {"engine": "fast"}},
        "names": {"flood": "Flood", "ring": "The Ring"},
    }
)
FIGURE = '<svg xmlns="http://www.w3.org/2000/svg" width="900" height="300"><rect width="900" height="300"/></svg>'
QUALITY = {"metrics_by_superstep": {"rmse": [3.0 * 0.9**n for n in range(12)]}}


def records():
    """Return two engines on two numbers of features; one of them with a metric after every superstep."""
    found = []
    for k in (1, 8):
        found += [cell("slow", "ring", "flood", k, 0.04 * k), cell("fast", "ring", "flood", k, 0.01 * k, **QUALITY)]
    for number, record in enumerate(found):
        record["cell"] = f"{record['config']['engine']}-flood-ring-{number}"
        record["config"]["schedule"] = {}
        record["config"].update(algorithm="flood", graph="ring")
        record["artefacts"] = ["explain.txt", "a picture #1.png"]
    return found


@pytest.fixture(scope="module")
def file(tmp_path_factory):
    """Write the folder of a sweep, with its page; one cell lacks its artefacts."""
    folder = tmp_path_factory.mktemp("sweep")
    for number, record in enumerate(records()):
        write_record(folder / record["cell"], record)
        for name in record["artefacts"] if number else []:
            (folder / record["cell"] / name).write_text("content")
    (folder / "layout.svg").write_text(FIGURE)
    return write_page(folder / PAGE_FILE, records(), "slow", layout=LAYOUT)


@pytest.mark.parametrize("size", [LAPTOP, PHONE], ids=["laptop", "phone"])
def test_the_preset_comes_first_and_nothing_is_cut_off(opened, file, size):
    page = opened(file, size)
    page.eval_on_selector_all("details", "all => all.forEach(one => { one.open = true; })")
    assert page.locator("main h2").first.text_content() == LAYOUT.title
    figure = page.locator("img.layout").bounding_box()
    assert figure["width"] > size[0] / 2
    assert page.evaluate("document.documentElement.scrollWidth") <= size[0]
    table = page.locator("main table").first
    assert table.locator("thead th").all_text_contents() == ["", "graph", "k", "one list", "two <lists>"]
    assert "The Ring" in table.inner_text()
    assert page.locator("#speed-ups h2").inner_text() == "Speed-ups over one list"
    assert "speed-ups over one list" in page.inner_text(".byline")


def test_the_names_of_the_preset_are_used_everywhere(file):
    text = file.read_text()
    main = text.partition("<main>")[2].partition('<section id="environment">')[0]
    assert "two &lt;lists&gt;" in main
    assert "two <lists>" not in main
    assert main.count("The Ring") > 4
    assert ">slow<" not in main
    assert ">fast<" not in main


def test_links_lead_to_the_files_that_exist(opened, file):
    page = opened(file)
    links = page.eval_on_selector_all(".cells td a", "all => all.map(one => one.href)")
    paths = [unquote(urlsplit(link).path) for link in links]
    assert [path.rpartition("/")[2] for path in paths] == [
        RECORD_FILE,
        *3 * [RECORD_FILE, "explain.txt", "a picture #1.png"],
    ]
    for path in paths:
        assert path.startswith(str(file.parent))
        assert Path(path).read_bytes()


def test_links_from_the_folder_of_several_sweeps_and_none_from_elsewhere(file, tmp_path):
    inside = file.parent.parent
    sweep = [{**record, "sweep": file.parent.name} for record in records()]
    page = write_page(inside / "all.html", sweep, "slow").read_text()
    assert f'href="{file.parent.name}/slow-flood-ring-0/record.json"' in page
    assert 'record.json"' not in write_page(tmp_path / PAGE_FILE, records(), "slow").read_text()


def test_a_metric_is_drawn_over_supersteps_and_over_time(opened, file):
    page = opened(file)
    titles = page.locator("#metrics h3").all_text_contents()
    assert titles
    assert all(title.startswith("rmse on ") for title in titles)
    assert page.get_by_role("group", name="rmse over supersteps").count() == len(titles)
    over_time = page.locator("#metrics figure", has=page.get_by_role("group", name="rmse over seconds")).first
    labels = over_time.locator("text.x").all_text_contents()
    assert labels[-2:] == ["10 ms", "seconds"]  # 12 supersteps of a run of 10 ms
    points = over_time.locator("polyline").first.get_attribute("points").split()
    heights = [float(point.split(",")[1]) for point in points]
    assert len(heights) == 12
    assert heights == sorted(heights)  # it falls, and a drawing counts from the top


def test_a_page_without_a_layout_begins_with_the_standing():
    page = render_page(records(), "slow")
    assert 'id="preset"' not in page
    assert page.index('id="standing"') > 0


def test_the_laid_out_table_has_the_texts_the_emphasis_and_the_alignment_of_the_terminal():
    def times(layout):
        found = laid_out_table(layout, records())
        table = table_of(layout, records())
        columns = [[str(cell) for cell in column.cells] for column in table.columns]
        assert [[text for text, _ in line] for line in found.rows] == [
            list(line) for line in zip(*columns, strict=True)
        ]
        assert found.headings == tuple((str(one.header), one.justify == "right") for one in table.columns)
        assert (found.title, found.notes) == (layout.title, tuple(notes_of(layout, records())))
        return found

    found = times(LAYOUT)
    bold = {
        name for line in found.rows for (name, _), (text, strong) in zip(found.headings, line, strict=True) if strong
    }
    assert bold == {"two <lists>"}, "the faster of both"
    assert [name for name, right in found.headings if right] == ["one list", "two <lists>"]
    assert laid_out_table(None, records()) is None
    assert laid_out_table(LAYOUT, []) is None


def test_numbers_of_warm_runs_are_aligned_to_the_right():
    warm = page_model([warm_record()], None, 1)["warm"]
    assert [name for name, right in warm["headings"] if not right] == [
        name for name, text in zip(HEADINGS, warm["rows"][0], strict=True) if name not in NUMBERS
    ]
    texts = dict(zip(HEADINGS, warm["rows"][0], strict=True))
    assert {name for name in texts if dict(warm["headings"])[name]} == set(NUMBERS)
