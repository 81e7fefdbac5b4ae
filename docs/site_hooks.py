"""Hooks of MkDocs: the start page, the generated reference, and links that lead out of ``docs``.

The reference is what ``onyx-harness describe`` shows, for every installed name. The start page is README.md.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
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

    for name, text in generated_pages().items():
        files.append(File.generated(config, name, content=text))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Replace links to files that are not pages of the site by their text."""
    return inside(markdown, page.file.src_uri)


def generated_pages() -> dict[str, str]:
    """Return the text of every generated page by its path in the site."""
    found = {name: _moved(path.read_text(encoding="utf-8"), name) for name, path in FROM_ROOT.items()}
    return found | {f"reference/{name}.md": text for name, text in _reference()}


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
        if "://" in target or not name or path.parts[0] == "docs":
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
