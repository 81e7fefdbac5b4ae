"""The folder that keeps what was made once: graphs, references, generated source, machine code, compositions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

CACHE_VARIABLE = "ONYX_HARNESS_CACHE"


class CacheError(OSError):
    """The cache cannot be written, which is no fault of a graph's or an engine's."""


def cache_folder() -> Path:
    """The folder of all caches: ONYX_HARNESS_CACHE or the user's cache folder; it may not exist yet."""
    chosen = os.environ.get(CACHE_VARIABLE)
    return Path(chosen).expanduser().absolute() if chosen else user_cache_folder()


def user_cache_folder() -> Path:
    """Return the user's cache folder for this program, whatever ONYX_HARNESS_CACHE says; it may not exist yet."""
    import platformdirs

    return Path(platformdirs.user_cache_dir("onyx-harness"))


@contextmanager
def filling_cache() -> Iterator[None]:
    """While entered, an OSError is the cache's: it becomes a CacheError that names the folder and the mend."""
    try:
        yield
    except CacheError:
        raise
    except OSError as error:
        met = f"{cache_folder()}: the cache cannot be written ({error})"
        raise CacheError(f"{met}; free some space or set {CACHE_VARIABLE}") from error
