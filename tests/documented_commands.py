"""The commands that the pages show, in code blocks and between backticks."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGES = (
    *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")),
    *sorted((ROOT / "docs").glob("*.md")),
)
# Words with which lines of shell code begin that are not commands to be checked.
SHELL = {"for", "do", "done", "test", "cd", "eval", "source", "autoload", "bashcompinit", "psub"}
PROGRAMS = {
    ".ci/run", "apt", "git", "mkdocs", "mypy", "onyx-harness", "pip", "pytest", "pytest-benchmark", "python", "python3",
    "ruff", "uv",
}  # fmt: skip
SHELL_BLOCK = re.compile(r"^( *)```(?:sh|bash|console)\n(.*?)^\1```", re.MULTILINE | re.DOTALL)
_ANY_BLOCK = re.compile(r"^ *```.*?^ *```", re.MULTILINE | re.DOTALL)
_VARIABLE = re.compile(r"[A-Za-z_]+=.*")  # a word, without the quotes of the shell
_OPERATORS = set("();<>|&")


def documented_commands() -> dict[str, str]:
    """Return every command, without comments, redirections and variables of the shell, with the pages that show it."""
    found: dict[str, list[str]] = {}
    for page in PAGES:
        text = page.read_text()
        commands = [command for line in _shell_lines(text) for command in segments(line)]
        inline = [" ".join(code.split()) for code in re.findall(r"`([^`]+)`", _ANY_BLOCK.sub("", text))]
        commands += [command for line in inline if _is_shell(line) for command in segments(line)]
        for command in commands:
            if words(command)[0] in PROGRAMS and page.name not in found.setdefault(command, []):
                found[command].append(page.name)
    return {command: ", ".join(pages) for command, pages in found.items()}


def unknown_programs() -> set[str]:
    """Return the first words of commands in the pages' blocks of shell code that are of no known program."""
    lines = [line for page in PAGES for line in _shell_lines(page.read_text())]
    return {words(command)[0] for line in lines for command in segments(line)} - PROGRAMS - SHELL


def _shell_lines(text: str) -> Iterator[str]:
    """Yield the lines of the blocks of shell code of a page, continued lines as one."""
    for block in SHELL_BLOCK.finditer(text):
        yield from (line.strip() for line in block[2].replace("\\\n", " ").splitlines() if line.strip())


def _is_shell(code: str) -> bool:
    """Return whether code between backticks is a command: it begins with a program, or runs one after such a word."""
    first, _, rest = re.sub(r"^([A-Z_]+=('[^']*'|\S+) )+", "", code).partition(" ")
    return first in PROGRAMS or (first in SHELL and any(program in rest for program in PROGRAMS))


def segments(line: str) -> Iterator[str]:
    """Yield the simple commands of a line of shell code, those within ``$(...)`` too."""
    line = re.sub(r"\s+#.*", "", line).replace("\\|", "|")
    for inner in re.findall(r"\$\(([^()]*)\)", line):
        yield from segments(inner)
    tokens = shlex.shlex(re.sub(r"\$\([^()]*\)", "INNER", line), posix=True, punctuation_chars=True)
    tokens.whitespace_split, tokens.commenters = True, ""
    command: list[str] = []
    redirected = False
    for token in [*tokens, ";"]:
        if not set(token) <= _OPERATORS:
            command += [] if redirected else [token]
            redirected = False
        elif set(token) <= {">", "<"}:
            redirected = True
        else:
            yield from _plain(command)
            command = []


def _plain(command: list[str]) -> Iterator[str]:
    """Yield a command without the assignments before it and without the folder of the environment."""
    while command and (_VARIABLE.fullmatch(command[0]) or command[0] in ("do", "then")):
        command = command[1:]
    if command:
        yield shlex.join([command[0].removeprefix(".venv/bin/"), *command[1:]])


def words(command: str) -> list[str]:
    """Return the words of a command as a shell splits them, an ellipsis left out."""
    return [word for word in shlex.split(command) if word != "..."]
