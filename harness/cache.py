"""The cache folder: graphs, references, generated source and machine code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE_VARIABLE = "ONYX_HARNESS_CACHE"


_fixed: dict[str, Path] = {}  # folders that no longer depend on the environment, by variable


class CacheError(OSError):
    """The cache cannot be written. Neither the graph nor the engine is the cause."""


def cache_folder() -> Path:
    """Return the root of all caches: ONYX_HARNESS_CACHE, or the user's cache folder. It may not exist yet."""
    return chosen_folder(CACHE_VARIABLE) or user_cache_folder()


def chosen_folder(variable: str) -> Path | None:
    """Return the folder that an environment variable names, absolute; None if the variable is not set."""
    if variable in _fixed:
        return _fixed[variable]
    chosen = os.environ.get(variable)
    return Path(chosen).expanduser().absolute() if chosen else None


def fix_folder(variable: str, folder: Path) -> None:
    """Make ``chosen_folder`` return this folder in this process, even if an engine changes the environment."""
    _fixed[variable] = folder


def user_cache_folder() -> Path:
    """Return the user's cache folder for this program, ignoring ONYX_HARNESS_CACHE. It may not exist yet."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("onyx-harness"))


@contextmanager
def filling_cache() -> Iterator[None]:
    """Convert an OSError raised in the block to a CacheError that names the folder and the remedy."""
    try:
        yield
    except CacheError:
        raise
    except OSError as error:
        met = f"{cache_folder()}: the cache cannot be written ({error})"
        raise CacheError(f"{met}; free some space or set {CACHE_VARIABLE}") from error
