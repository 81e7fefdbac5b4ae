"""Templates of kernels: text with lines like ``@edge``, where blocks of generated lines are inserted."""

from __future__ import annotations

import re
from dataclasses import dataclass

from harness.lowering.cpu.code import Block

PLACEHOLDER = re.compile(r"^(\s*)@(\w+)$")
LOOP = re.compile(r"^(\s*)for (\w+) in range\((.*)\):$")


@dataclass(frozen=True)
class TemplateLoop:
    """A loop of a template: ``for at in range(first, stop)``.

    ``before``, ``after``: the lines around it. ``body``: its lines, indented from 0 on. ``indent``: of its first line.
    """

    before: list[str]
    indent: str
    first: str
    stop: str
    body: list[str]
    after: list[str]

    @classmethod
    def of(cls, template: str, at: str, block: str) -> TemplateLoop:
        """Return the last loop over ``at`` that begins before a block."""
        lines = template.splitlines()
        place = next(i for i, line in enumerate(lines) if line.strip() == f"@{block}")
        heads = [(i, found) for i in range(place) if (found := LOOP.match(lines[i])) and found[2] == at]
        head, found = heads[-1]
        indent = found[1]
        last = next((i for i in range(head + 1, len(lines)) if _ends(lines[i], indent)), len(lines))
        body = [line[len(indent) + 4 :] for line in lines[head + 1 : last]]
        first, stop = _arguments(found[3])
        return cls(lines[:head], indent, first, stop, body, lines[last:])

    def replaced(self, lines: list[str]) -> str:
        """Return the template with other lines, indented from 0 on, in the place of the loop."""
        return "\n".join([*self.before, *(self.indent + line for line in lines), *self.after])


def _ends(line: str, indent: str) -> bool:
    """Return whether a line is not in the body of a loop with this indentation."""
    return bool(line.strip()) and len(line) - len(line.lstrip()) <= len(indent)


def _arguments(text: str) -> tuple[str, str]:
    """Return the two arguments of a range; commas in parentheses and brackets belong to an argument."""
    depth = 0
    for i, letter in enumerate(text):
        depth += {"(": 1, "[": 1, ")": -1, "]": -1}.get(letter, 0)
        if letter == "," and not depth:
            return text[:i].strip(), text[i + 1 :].strip()
    raise ValueError(f"range({text}) has no two arguments")


def blocks_of_template(template: str) -> dict[str, Block]:
    """Return the blocks of a template.

    The parent of a block is the last block before it that is not deeper and has not ended.
    """
    found: dict[str, Block] = {}
    open_blocks: list[tuple[int, Block]] = []
    for line in filter(str.strip, template.splitlines()):
        indent = len(line) - len(line.lstrip())
        open_blocks = [(depth, block) for depth, block in open_blocks if depth <= indent]
        match = PLACEHOLDER.match(line)
        if match:
            block = found[match[2]] = Block(match[2], open_blocks[-1][1] if open_blocks else None)
            open_blocks.append((indent, block))
    return found


def filled(template: str, blocks: dict[str, Block]) -> str:
    """Return a template with the lines of its blocks; a block may have several places."""
    lines = []
    for line in template.strip("\n").splitlines():
        match = PLACEHOLDER.match(line)
        if match is None:
            lines.append(line)
        elif blocks[match[2]].lines:
            lines.append("\n".join(match[1] + text for text in blocks[match[2]].lines))
    return "\n".join(lines)
