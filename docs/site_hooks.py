"""Hooks of MkDocs: the start page, the generated reference, the gallery, and links that lead out of ``docs``.

The reference is what ``onyx-harness describe`` shows, for every installed name. The start page is README.md.
"""

from __future__ import annotations

import functools
import inspect
import io
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from harness.records.published import read_published
from harness.report.figures import figures_of, settings
from harness.report.layout import Layout, named
from harness.report.layout_figure import write_layout_figure

ROOT = Path(__file__).parents[1]
PUBLISHED = sorted((ROOT / "docs" / "figures").glob("*.parquet"))
MOST_FIGURES = 4  # of a sweep
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
FROM_ROOT = {
    "index.md": ROOT / "README.md",
    "project/contributing.md": ROOT / "CONTRIBUTING.md",
    "project/changelog.md": ROOT / "CHANGELOG.md",
}
PAGE_OF = {path.name: page for page, path in FROM_ROOT.items()}


def on_files(files: Any, config: Any) -> Any:
    """Add the generated pages."""
    from mkdocs.structure.files import File

    for name, text in {**generated_pages(), **gallery_figures()}.items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace links to files that are not pages of the site by their text."""
    return inside(markdown, page.file.src_uri)


def generated_pages() -> dict[str, str]:
    """Return the text of every generated page by its path in the site."""
    found = {name: _moved(path.read_text(encoding="utf-8"), name) for name, path in FROM_ROOT.items()}
    return found | {f"reference/{name}.md": text for name, text in _reference()} | {"gallery.md": _gallery()}


def _moved(text: str, place: str) -> str:
    """Return the text of a page of the root with links from its place in the site."""
    up = "../" * place.count("/")

    def link(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        name, hash_, anchor = target.partition("#")
        if "://" in target or not name:
            return found[0]
        name = PAGE_OF.get(name, name.removeprefix("docs/") if name.startswith("docs/") else f"../{name}")
        return f"{image}[{label}]({up}{name}{hash_}{anchor})"

    return LINK.sub(link, text)


def inside(markdown: str, place: str) -> str:
    """Return a page with links to other pages only; a link out of ``docs`` becomes its text."""
    folder = Path("docs", place).parent

    def link(found: re.Match[str]) -> str:
        image, label, target = found.groups()
        name, hash_, anchor = target.partition("#")
        path = Path(*_plain(folder / name))
        if "://" in target or not name or (path.parts[0] == "docs" and path.suffix != ".py"):
            return found[0]
        page = PAGE_OF.get(str(path))
        return f"{image}[{label}]({'../' * place.count('/')}{page}{hash_}{anchor})" if page else label

    return LINK.sub(link, markdown)


def _plain(path: Path) -> list[str]:
    """Return the parts of a path, with ``..`` resolved."""
    parts: list[str] = []
    for part in path.parts:
        if part == "..":
            parts.pop()
        else:
            parts.append(part)
    return parts


def _reference() -> Iterator[tuple[str, str]]:
    from harness.campaign.discovery import Names, describe, list_names
    from harness.plugins import load_plugins

    names = Names(load_plugins())
    for group, word in (("engine", "engines"), ("algorithm", "algorithms"), ("graph", "graphs")):
        sections = [_section(name, describe(names, f"{group}={name}")) for name in names.of(group)]
        yield word, f"# {word.capitalize()}\n\nGenerated from `onyx-harness describe`.\n\n" + "\n".join(sections)
    presets = [_section(name, describe(names, f"preset={name}")) for name in names.files["experiment"]]
    yield "presets", "# Reference of presets\n\nGenerated from `onyx-harness describe`.\n\n" + "\n".join(presets)
    keys = list_names(names, ["key"])
    yield "keys", f"# Keys\n\nGenerated from `onyx-harness list keys`.\n\n```text\n{keys}\n```\n"
    yield "python", _python_api()


def _gallery() -> str:
    """Return the page of all published sweeps: the command of each, its figures, and the page with its tables."""
    lines = ["# Gallery", "", "Figures drawn from the records of the published sweeps when the site is built.", ""]
    pages = {path.name: path.read_text(encoding="utf-8") for path in sorted((ROOT / "docs").glob("*.md"))}
    drawn = gallery_figures()
    for path in PUBLISHED:
        sweep = read_published(path)
        title = str((sweep.layout or {}).get("title") or sweep.sweep)
        shown = next(name for name, text in pages.items() if f"<!-- sweep: {path.stem} -->" in text)
        lines += [f"## {title}", "", f"[Tables and conditions]({shown}).", "", "```text", sweep.command, "```", ""]
        lines += [f"![{title}]({name})\n" for name in drawn if name.startswith(f"gallery/{path.stem}-")]
    return "\n".join(lines)


@functools.cache
def gallery_figures() -> dict[str, str]:
    """Return the figures of the gallery as SVG, by their paths in the site."""
    return {f"gallery/{path.stem}-{number}.svg": text for path in PUBLISHED for number, text in enumerate(_drawn(path))}


def _drawn(path: Path) -> list[str]:
    """Draw a published sweep: the figure of its layout, or times over features, speed-ups, or parts of a run."""
    sweep = read_published(path)
    layout = Layout.from_plain(sweep.layout) if sweep.layout else None
    with tempfile.TemporaryDirectory() as folder:
        if layout is not None and layout.kind != "table":
            files = write_layout_figure(Path(folder, "layout"), layout, sweep.records)
            if files:  # a layout of ratios has none
                return [one.read_text(encoding="utf-8") for one in files if one.suffix == ".svg"]
        found: dict[str, list[str]] = {}
        with settings():
            for kind, _, figure in figures_of(named(layout, sweep.records), sweep.baseline):
                if kind not in ("features", "speed-ups") and len(found) > 0:
                    break  # the others follow, one or two for each comparison
                text = io.StringIO()
                figure.savefig(text, format="svg", bbox_inches="tight", metadata={"Date": None})
                found.setdefault(kind, []).append(text.getvalue())
    return next((found[kind] for kind in ("features", "speed-ups", "supersteps", "phases") if kind in found), [])[
        :MOST_FIGURES
    ]


def _section(name: str, text: str) -> str:
    return f"## {name}\n\n```text\n{text}\n```\n"


def _python_api() -> str:
    import onyx_harness

    lines = ["# Python API by name", "", "Generated from the docstrings of `onyx_harness`.", ""]
    for name in sorted(onyx_harness.__all__):
        value = getattr(onyx_harness, name)
        if not (inspect.isclass(value) or inspect.isroutine(value)):
            continue
        lines += [f"## {name}", "", *_documented(name, value)]
        if inspect.isclass(value):
            for member, one in inspect.getmembers(value):
                if not member.startswith("_") and (inspect.isfunction(one) or isinstance(one, property)):
                    lines += [f"### {name}.{member}", "", *_documented(member, one)]
    return "\n".join(lines)


def _documented(name: str, value: Any) -> list[str]:
    plain = isinstance(value, property) or (inspect.isclass(value) and issubclass(value, Exception))
    signature = "" if plain else str(inspect.signature(value))
    return ["```text", f"{name}{signature}", "", inspect.getdoc(value) or "", "```", ""]
