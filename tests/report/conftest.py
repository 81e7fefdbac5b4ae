"""A headless browser, if one is installed, and the pages that it opens."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from typing import Any

import pytest

from tests.processes import HANGS_S

LAPTOP, PHONE, SMALL_PHONE = (1400, 900), (400, 844), (360, 740)
# Tried in this order; ONYX_HARNESS_BROWSER names another.
NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def executable() -> str | None:
    """Return the path of a Chromium, or None."""
    return os.environ.get("ONYX_HARNESS_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Return a Chromium; skip the test, with the reason, if there is none."""
    found = executable()
    if found is None:
        pytest.skip("no Chromium is installed (apt-get install chromium, or name one in ONYX_HARNESS_BROWSER)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        # Containers, where tests often run, do not support the browser's sandbox.
        running = driver.chromium.launch(executable_path=found, args=["--no-sandbox"], timeout=1000 * HANGS_S)
        yield running
        running.close()


@pytest.fixture
def opened(browser):
    """Open a file: ``opened(file, size)``; any request or error message of the page fails the test."""
    pages, met = [], []

    def load(path, size=LAPTOP, **options):
        page = browser.new_page(viewport={"width": size[0], "height": size[1]}, **options)
        page.set_default_timeout(1000 * HANGS_S)
        pages.append(page)
        page.on("request", lambda request: met.append(request.url) if _elsewhere(request.url, path) else None)
        page.on("console", lambda message: met.append(message.text))
        page.on("pageerror", lambda error: met.append(str(error)))
        page.goto(path.as_uri())
        return page

    yield load
    for page in pages:
        page.close()
    assert met == []


def _elsewhere(address, path):
    """Return whether a request is for neither the page nor data within it."""
    return address != path.as_uri() and not address.startswith("data:")
