"""Files, functions and commands named by the pages exist."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest
import yaml

from harness import __version__
from harness.report.paper_table import PaperTable, read_paper_table
from harness.report.publication import named_papers, named_sweeps, rendered

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted(ROOT.glob("C*.md")), *sorted((ROOT / "docs").glob("*.md"))]
HAND_WRITTEN = [page for page in PAGES if not re.search("^(Generated|Written) by", page.read_text(), re.MULTILINE)]
LINK = re.compile(r"\[[^\]]+\]\((?P<target>[^)\s]+)\)")
TOKEN = re.compile(rf"`(?:struct )?(?P<name>[A-Za-z_]\w*)`|{LINK.pattern}")
CODE = (".py", ".cuh", ".cu")
ON_CUDA = (ROOT / "docs" / "onyx-on-cuda.md").read_text()
WORDS = (ROOT / "docs" / "words.md").read_text()


def headings(page: str) -> set[str]:
    """Return the anchors of a page."""
    titles = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for found in LINK.finditer(page.read_text()):
        target, _, anchor = found["target"].partition("#")
        if "://" in target:
            continue
        path = page.parent / target if target else page
        assert path.exists(), f"{page.name} links to {target}, which does not exist"
        assert not anchor or anchor in headings(path.read_text()), f"{page.name} links to #{anchor} of {path.name}"


def test_every_page_is_linked_from_another():
    linked = {
        (page.parent / found["target"].partition("#")[0]).resolve()
        for page in PAGES
        for found in LINK.finditer(page.read_text())
        if found["target"].partition("#")[0] not in ("", page.name)
    }
    assert [page.name for page in PAGES[1:] if page not in linked] == []


def test_tables_agree_with_the_published_records():
    pytest.importorskip("duckdb", reason="published records need the extra 'query'")
    for page in PAGES[1:]:
        text = page.read_text()
        assert rendered(text, page.parent / "figures") == text, f"{page.name}: run python -m harness.report publish"


def test_every_published_sweep_is_shown_once():
    shown = [name for page in PAGES[1:] for name in named_sweeps(page.read_text())]
    published = {path.stem for path in (ROOT / "docs" / "figures").iterdir()}
    assert len(shown) == len(set(shown))
    assert published
    assert published <= set(shown)


def paper_table(name: str) -> PaperTable:
    """Return a table of a paper."""
    return read_paper_table(ROOT / "docs" / "papers" / f"{name}.toml")


def test_every_table_of_a_paper_is_shown_once():
    shown = [name for page in PAGES[1:] for name in named_papers(page.read_text())]
    assert sorted(shown) == sorted(path.stem for path in (ROOT / "docs" / "papers").iterdir())


@pytest.mark.parametrize("name", sorted(path.stem for path in (ROOT / "docs" / "papers").iterdir()))
def test_a_table_of_a_paper_has_the_names_of_its_preset(name):
    """Otherwise none of our times would ever appear beside it."""
    table = paper_table(name)
    path = ROOT / "conf" / "experiment" / f"{table.sweep}.yaml"
    layout = yaml.safe_load(path.read_text())["layout"]
    known = set(layout.get("names", yaml.safe_load((ROOT / "conf" / "paper" / "vaz2021.yaml").read_text())).values())
    assert set(table.ours) <= set(layout["columns"])
    assert set(table.rows) <= known
    assert {graph for graphs in table.rows.values() for graph in graphs} & known


def test_the_tables_of_the_thesis_agree_with_its_text():
    """The text has the extremes of the tables (sections 7.5.1, 7.5.2 and 8.1)."""
    speed_ups = [cells for graphs in paper_table("vaz2021-table-7.2").rows.values() for cells in graphs.values()]
    for column, extremes in {1: (1.2, 3.2), 2: (1.1, 9.3), 3: (1.6, 20.3)}.items():
        assert (min(row[column] for row in speed_ups), max(row[column] for row in speed_ups)) == extremes
    times = [cells for graphs in paper_table("vaz2021-table-7.4").rows.values() for cells in graphs.values()]
    for column, largest in {1: 51.2, 2: 17.1, 3: 6.8}.items():
        assert round(max(row[column] / row[0] for row in times if row[column] != "X"), 1) == largest
    assert len(speed_ups) == len(times) == 40


def test_words_are_sorted_and_defined_once():
    terms = [entry.lower() for entry in re.findall(r"^- \*\*(.+?)\*\*: ", WORDS, re.MULTILINE)]
    assert len(terms) == len(re.findall("^- ", WORDS, re.MULTILINE)) > 50
    assert terms == sorted(set(terms))


def test_every_term_in_a_definition_has_an_entry():
    text = " ".join(WORDS.partition("\n- ")[2].split())
    terms = {term.lower() for entry in re.findall(r"\*\*(.+?)\*\*", text) for term in entry.split(", ")}
    used = {term.lower() for term in re.findall(r"(?<!\*)\*([^*]+)\*(?!\*)", text)}
    assert len(used) > 20
    assert {term for term in used if term not in terms and term.removesuffix("s") not in terms} == set()


@pytest.mark.parametrize("page", HAND_WRITTEN, ids=lambda page: page.name)
def test_prose_says_edge(page):
    rendered = "<!-- sweep: .*?<!-- end of sweep -->"  # quotes messages of engines
    prose = re.sub(rf"{rendered}|```.*?```|`[^`]*`|\]\([^)]*\)", "", page.read_text(), flags=re.DOTALL)
    assert not re.search(r"\barcs?\b", prose, re.IGNORECASE), "say edge: docs/words.md"


def test_code_says_edge():
    # the field's name in records before version 7; a file of published counts
    known = (
        "harness/records/versions.py",
        "tests/records/test_schema.py",
        "tests/records/test_upgrades.py",
        "tests/graph/test_published_counts.py",
    )
    files = [path for folder in ("harness", "engines", "tests") for path in (ROOT / folder).rglob("*.*")]
    files = [path for path in files if path.suffix in CODE and path != Path(__file__)]
    word = re.compile(r"(?<![A-Za-z])(arc|Arc|ARC)s?(?![A-Za-z])")
    assert len(files) > 300
    assert {str(path.relative_to(ROOT)) for path in files if word.search(path.read_text())} == set(known)


def test_the_citation_and_the_changelog_are_of_this_version():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors", "license"} <= cited.keys()
    assert cited["version"] == __version__
    assert re.search(rf"^## {re.escape(__version__)} \(", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)


def test_every_paper_with_a_page_is_cited():
    references = yaml.safe_load((ROOT / "CITATION.cff").read_text())["references"]
    titles = {reference["title"] for reference in references}
    pages = [page for page in PAGES if page.name.startswith("paper-")]
    assert len(pages) == 5
    for page in pages:
        first = " ".join(page.read_text().split("\n\n")[1].split())
        assert any(f'"{title}"' in first.replace(',"', '"') for title in titles), page.name
        assert f"({page.name})" in (ROOT / "docs" / "papers.md").read_text()


def test_the_page_of_the_installation_names_every_extra():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    rows = re.findall(r"^\| (`.*?`) \|", (ROOT / "docs" / "install.md").read_text(), re.MULTILINE)
    assert sorted(re.findall(r"`(\w+)`", " ".join(rows))) == sorted(extras)


def test_the_map_names_every_folder_of_code():
    named = set(re.findall(r"`([\w/]+)`", (ROOT / "CONTRIBUTING.md").read_text().partition("## Map")[2]))
    folders = {str(path.parent.relative_to(ROOT)) for path in ROOT.glob("*/*/__init__.py")}
    folders = {folder for folder in folders if folder.startswith(("harness/", "engines/"))}
    assert len(folders) > 12
    assert {folder for folder in folders if not any(name.startswith(folder) for name in named)} == set()


def clauses(page: str):
    """Return paragraphs, and cells of tables except the first of a row, each on one line."""
    for block in re.sub(r"```.*?```", "", page, flags=re.DOTALL).split("\n\n"):
        if block.startswith("|"):
            for line in block.splitlines():
                yield from line.strip("| ").split(" | ")[1:]
        else:
            yield block.replace("\n", " ")


def test_functions_are_in_the_files_that_are_named_with_them():
    checked = 0
    for clause in clauses(ON_CUDA):
        names = []
        for token in TOKEN.finditer(clause):
            if token["name"]:
                names.append(token["name"])
                continue
            path = ROOT / "docs" / token["target"].partition("#")[0]
            if path.suffix in CODE:
                text = path.read_text()
                for name in names:
                    assert re.search(rf"\b{name}\b", text), f"{path.name} has no {name}, which the page names"
                    checked += 1
            names = []
    assert checked > 40, "the test does not recognise the page's form"


def test_named_variants_match_the_page():
    rows = re.findall(r"engine=(\w+)` \| `([^`]+)` \|", ON_CUDA)
    variants = [path for path in (ROOT / "conf" / "engine").glob("onyx_*.yaml") if "thesis" in path.read_text()]
    assert {name for name, _ in rows} == {path.stem for path in variants}
    assert len(rows) == 6
    for name, options in rows:
        given = yaml.safe_load((ROOT / "conf" / "engine" / f"{name}.yaml").read_text())["engine"]
        wanted = {key: value == "true" for key, _, value in (option.partition("=") for option in options.split())}
        assert wanted.items() <= given.items()
        assert set(given) == {"name", "direction", "balance", *wanted}
