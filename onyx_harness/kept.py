"""Graphs of a Python process, kept in the cache so that isolated processes can open them."""

from __future__ import annotations

import json
from typing import Any

from harness.cache import cache_folder, filling_cache
from harness.graph import Graph, GraphError
from harness.graph.cache import open_stored, store
from harness.graph.named import caches_itself


def keep_graph(graph: Graph) -> dict[str, Any]:
    """Write a graph to the cache, once for equal content; return the parameters of `kept_graph`. Raises CacheError."""
    with filling_cache():
        store(graph)
    return {"content": graph.content_hash, "title": graph.name, "meta": json.dumps(graph.meta)}


@caches_itself
def kept_graph(content: str, title: str, meta: str) -> Graph:
    """Open the graph with the hash ``content``. Raises GraphError if it is not in the cache any more."""
    try:
        return open_stored(cache_folder() / "graphs" / content, name=title, meta=json.loads(meta))
    except (OSError, ValueError, KeyError) as error:
        raise GraphError(f"graph {title!r} is not in the cache any more ({error}); compare it again") from error
