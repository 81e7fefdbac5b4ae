"""Importing is fast: descriptions never load what they describe."""

from __future__ import annotations

import subprocess
import sys

import pytest

HEAVY = ("numba", "cupy", "scipy", "torch", "hydra", "rich", "sklearn", "skimage")


@pytest.mark.parametrize("module", ["harness.api", "harness.plugins", "harness.records", "harness.__main__"])
def test_a_light_module_loads_nothing_heavy(module):
    source = f"import sys, {module}; print([m for m in {HEAVY!r} if m in sys.modules])"
    finished = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"


def test_loading_every_plugin_loads_nothing_heavy():
    source = f"import sys, harness.plugins as p; p.load_plugins(); print([m for m in {HEAVY!r} if m in sys.modules])"
    finished = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, check=True)
    assert finished.stdout.strip() == "[]"
