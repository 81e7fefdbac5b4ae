"""Templates of kernels: bodies in which lines like ``@visit`` are replaced by generated statements."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from harness.lowering.cuda.code import Block

PLACEHOLDER = re.compile(r"^(\s*)@(\w+)$")


def blocks_of(template: str, hoisted: Sequence[str]) -> dict[str, Block]:
    """Return the blocks of a template by name, nested by indentation.

    Declarations in ``fetch`` are members of a struct, which ``visit`` reads.
    """
    found: list[tuple[int, Block]] = []
    for line in template.splitlines():
        match = PLACEHOLDER.match(line)
        if match and match[2] != "fields":
            indent = len(match[1])
            parents = [block for depth, block in found if depth < indent]
            found.append((indent, Block(match[2], parents[-1] if parents else None, hoisted=match[2] in hoisted)))
    blocks = {block.name: block for _, block in found}
    if "fetch" in blocks:
        blocks["fetch"].fields = []
        blocks["visit"].parent = blocks["fetch"]
    return blocks


def filled(template: str, blocks: Mapping[str, Block]) -> str:
    """Return a template with the statements of its blocks; a placeholder without statements is removed."""
    lines = []
    for line in template.strip("\n").splitlines():
        match = PLACEHOLDER.match(line)
        if match is None:
            lines.append(line)
            continue
        texts = blocks["fetch"].fields or [] if match[2] == "fields" else blocks[match[2]].lines
        if texts:
            lines.append("\n".join(match[1] + text for text in texts))
    return "\n".join(lines)
