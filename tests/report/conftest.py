"""A headless browser, if one is installed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes import HANGS_S

# Tried in this order; ONYX_HARNESS_BROWSER names another.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Return a Chromium; skip the test, with the reason, if there is none."""
    found = os.environ.get("ONYX_HARNESS_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.skip("no Chromium is installed (apt-get install chromium, or name one in ONYX_HARNESS_BROWSER)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Containers, where tests often run, do not support the browser's sandbox.
        running = driver.chromium.launch(executable_path=found, args=["--no-sandbox"], timeout=1000 * HANGS_S)
        yield running
        running.close()
