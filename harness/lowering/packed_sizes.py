"""The most bytes of packed ids (:mod:`harness.lowering.packed_ids`), known from the numbers of edges and vertices."""

from __future__ import annotations

from harness.facts import GraphFacts

BLOCK = 32  # ids
HEAD_BYTES = 8  # of a block
MOST_WORDS = 1 << 32  # positions of words take 32 bits


def blocks_of(length: int) -> int:
    """Return the number of blocks of some ids."""
    return -(-length // BLOCK)


def most_block_bytes(num_ids: int) -> int:
    """Return the bytes of a block, at most. ``num_ids``: ids are smaller."""
    return HEAD_BYTES + 4 * most_width(num_ids)


def most_width(num_ids: int) -> int:
    """Return the bits of an id, at most: those of the difference from the least id of its block."""
    return max(0, num_ids - 1).bit_length()


def most_bytes(length: int, num_ids: int) -> int:
    """Return the bytes of ``length`` ids, at most; those of the one head behind the last block included."""
    return blocks_of(length) * most_block_bytes(num_ids) + HEAD_BYTES


def most_window_bytes(edges: int, num_ids: int) -> int:
    """Return the bytes of any ``edges`` consecutive ids, at most: those of all blocks with one of them."""
    return most_bytes(edges + 2 * BLOCK, num_ids)


def refusal(facts: GraphFacts) -> str:
    """Return why the ids of a graph cannot be packed; empty if they can."""
    if facts.num_vertices >= 1 << 31:
        return "codes=packed packs ids below 2^31, and the graph has more vertices; give codes=plain"
    if blocks_of(facts.num_edges) * most_width(facts.num_vertices) >= MOST_WORDS:
        return (
            "codes=packed has positions of 32 bits, which may not suffice for the edges of the graph; give codes=plain"
        )
    return ""
