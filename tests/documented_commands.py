"""The commands that README.md and docs/*.md show, in code blocks and between backticks."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md")))
_BLOCK = re.compile(r"^( *)```(?:sh|bash|console)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_ANY_BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_COMMAND = re.compile(r"(onyx-harness|pytest|pytest-benchmark|python3? -m [\w.]+)(\s|$)")


def documented_commands() -> dict[str, str]:
    """Return every command as one line without comments and redirections, with the pages that show it."""
    found: dict[str, list[str]] = {}
    for page in PAGES:
        text = page.read_text()
        lines = [line for block in _BLOCK.finditer(text) for line in block[2].replace("\\\n", " ").splitlines()]
        lines += [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", _ANY_BLOCK.sub("", text))]
        for line in lines:
            command = re.sub(r"\s+(#|> ).*", "", line.strip())
            if _COMMAND.match(command) and page.name not in found.setdefault(command, []):
                found[command].append(page.name)
    return {command: ", ".join(pages) for command, pages in found.items()}


def words(command: str) -> list[str]:
    """Return the words of a command as a shell splits them, an ellipsis left out."""
    return [word for word in shlex.split(command) if word != "..."]
