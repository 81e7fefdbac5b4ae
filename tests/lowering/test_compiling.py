"""Modules are compiled in another process than the tests, which load them."""

from __future__ import annotations

import pytest

from harness.lowering.cpu import module_source, modules
from tests import compiling

SOURCE = """
from numba import int64, njit

@njit(int64(int64), cache=True)
def triple(value):
    return 3 * value
"""


@pytest.fixture
def compiler(tmp_path, monkeypatch):
    """Return a compiler with a separate cache that is replaced after every module."""
    monkeypatch.setenv("ONYX_HARNESS_CACHE", str(tmp_path))
    monkeypatch.setattr(compiling, "MODULES_OF_A_PROCESS", 1)
    made = compiling.Compiler()
    yield made
    made.close()


def test_a_module_is_compiled_elsewhere_and_loaded_here(compiler):
    module = compiler(SOURCE, "triple")
    assert module.triple(4) == 12
    assert sum(module.triple.stats.cache_hits.values()) == 1
    assert not sum(module.triple.stats.cache_misses.values())
    assert compiler(SOURCE, "triple") is module
    assert compiler.compiled == 1


def test_errors_are_met_here(compiler):
    with pytest.raises(ZeroDivisionError):
        compiler("value = 1 / 0\n", "failing")
    assert compiler.compiled == 1


def test_engines_of_the_tests_compile_so():
    assert isinstance(module_source.load_module, compiling.Compiler)
    assert modules.load_module is not module_source.load_module
