"""Templates of kernels: text with lines like ``@edge``, where blocks of generated lines are inserted."""

from __future__ import annotations

import re

from harness.lowering.cpu.code import Block

PLACEHOLDER = re.compile(r"^(\s*)@(\w+)$")


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
