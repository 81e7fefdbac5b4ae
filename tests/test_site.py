"""The site: every page is in its navigation, every link leads to a page, and the reference has every name."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from harness.plugins import load_plugins
from tests.test_docs import LINK, ROOT, headings

pytestmark = pytest.mark.full  # .ci/run builds the site, which finds most of what these find
DOCS = ROOT / "docs"
SPECIFICATION = importlib.util.spec_from_file_location("site_hooks", DOCS / "site_hooks.py")
HOOKS = importlib.util.module_from_spec(SPECIFICATION)
SPECIFICATION.loader.exec_module(HOOKS)


@pytest.fixture(scope="module")
def pages():
    """Return the Markdown of every page of the site by its path, with one figure that is not drawn for each sweep."""
    written = {path.name: path.read_text() for path in DOCS.glob("*.md")}
    pytest.importorskip("duckdb", reason="published records need the extra 'query'")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(HOOKS, "gallery_figures", lambda: {f"gallery/{one.stem}-0.svg": "" for one in HOOKS.PUBLISHED})
        generated = HOOKS.generated_pages()
    assert not set(written) & set(generated)
    return {name: HOOKS.inside(text, name) for name, text in {**written, **generated}.items()}


def navigation(entry):
    """Yield the pages of a part of the navigation."""
    if isinstance(entry, str):
        yield entry
        return
    for part in entry.values() if isinstance(entry, dict) else entry:
        yield from navigation(part)


def test_every_page_is_in_the_navigation_once(pages):
    listed = list(navigation(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert sorted(listed) == sorted(pages)


def test_links_lead_to_pages_of_the_site(pages):
    checked = 0
    for name, text in pages.items():
        for found in LINK.finditer(re.sub("```.*?```", "", text, flags=re.DOTALL)):
            target, _, anchor = found["target"].partition("#")
            if "://" in target:
                continue
            path = "/".join(HOOKS._plain(Path(name).parent / target)) if target else name
            known = path in pages or (DOCS / path).is_file() or path in HOOKS.gallery_figures()
            assert known, f"{name} links to {target}"
            assert not anchor or anchor in headings(pages[path]), f"{name} links to #{anchor} of {path}"
            checked += 1
    assert checked > 80


def test_a_link_to_code_becomes_its_text():
    text = "See [the map](../CONTRIBUTING.md#map), [one](../harness/plan.py) and [words](words.md)."
    assert HOOKS.inside(text, "api.md") == "See [the map](project/contributing.md#map), one and [words](words.md)."


def test_the_reference_has_every_name(pages):
    registry = load_plugins()
    for page, named in (
        ("engines", registry.engines),
        ("algorithms", registry.algorithms),
        ("graphs", registry.graphs),
    ):
        assert named.keys() <= set(re.findall("^## (.*)$", pages[f"reference/{page}.md"], re.MULTILINE))
    assert "measure.cap_s" in pages["reference/keys.md"]
    assert "### Result.by_vertex" in pages["reference/python.md"]
    assert "## table_7_2" in pages["reference/presets.md"]


def test_the_readme_is_short_and_has_a_picture():
    readme = (ROOT / "README.md").read_text()
    assert len(readme.splitlines()) < 150
    assert len(re.findall(r"!\[", readme)) == 1


@pytest.mark.full  # .ci/run builds it
def test_the_site_is_built_without_the_network(tmp_path):
    pytest.importorskip("material", reason="the site needs the extra 'docs'")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    html = (tmp_path / "index.html").read_text()
    assert "Where next" in html
    loaded = re.findall(r"<(?:script|link)[^>]*(?:src|href)=\"(https?://[^\"]+)\"", html)
    assert loaded == []


def test_the_gallery_shows_every_published_sweep(pages):
    assert pages["gallery.md"].count("![") == len(HOOKS.PUBLISHED) > 3
    assert "](thesis-tables.md)" in pages["gallery.md"]


@pytest.mark.full
def test_the_figures_of_the_gallery_are_drawn():
    """Matplotlib's warnings, such as of labels that leave no room for the axes, are errors."""
    figures = HOOKS.gallery_figures()
    assert {name.partition("/")[2].rpartition("-")[0] for name in figures} == {path.stem for path in HOOKS.PUBLISHED}
    assert all(text.lstrip().startswith("<?xml") and "</svg>" in text for text in figures.values())
