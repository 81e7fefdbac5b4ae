from __future__ import annotations

import os

import pytest

from onyx_harness.requests import installed
from tests.conftest import FAKES, ROOT


@pytest.fixture
def fakes(monkeypatch):
    """Install the plugin of fakes in this process and in those that it starts."""
    monkeypatch.syspath_prepend(str(FAKES))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(ROOT), str(FAKES), os.environ.get("PYTHONPATH", "")]))
    installed.cache_clear()
    yield
    installed.cache_clear()
