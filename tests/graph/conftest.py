"""Shared fixtures of the graph tests: a separate cache, the folder of real data, files written on the spot."""

import gzip
import os
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch):
    """Give every test a separate cache folder."""
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(folder))
    return folder


@pytest.fixture(scope="session")
def data():
    """Return the folder of published graphs."""
    folder = os.environ.get("HARNESS_DATA")
    if not folder:
        pytest.skip("HARNESS_DATA names no folder of published graphs")
    return Path(folder)


@pytest.fixture
def write(tmp_path):
    """Return a function that writes bytes or text to a file and returns its path; .gz names are compressed."""

    def to_file(name, content):
        raw = content.encode() if isinstance(content, str) else content
        path = tmp_path / name
        path.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        return path

    return to_file
