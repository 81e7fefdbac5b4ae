"""Kernels that differ only in names, or do not depend on k, are compiled once."""

from __future__ import annotations

import pytest

from harness.lowering.cpu import module_source
from harness.lowering.cpu.canonical import canonical
from harness.lowering.cpu.kernels import Kernel
from tests.engines.problems import prepared
from tests.engines.programs import edges_and_loops, program_named

ONE = """
@njit(nogil=True)
def _spread_part(t, worker, bounds, vertex_x, nogil):
    for v in range(bounds[t], bounds[t + 1]):  # every vertex
        x_1 = at(vertex_x, v)
        store(vertex_x, v, x_1 + nogil.shape[0])

@njit(int64(int64), cache=True)
def run_spread(threads, bounds, vertex_x, nogil):
    return launch(_spread_part, threads, (bounds, vertex_x, nogil))
"""
RENAMED = ONE.replace("spread", "gather").replace("vertex_x", "shape").replace("x_1", "value").replace("(t,", "(p,")
RENAMED = RENAMED.replace("[t]", "[p]").replace("[t + 1]", "[p + 1]").replace("  # every vertex", "")


def test_names_have_no_part_in_a_kernel_and_everything_else_has():
    text, names = canonical(ONE)
    assert canonical(RENAMED)[0] == text
    assert names["run_spread"] in text
    assert not [name for name in names.values() if name[-1].isdigit()]  # Numba appends offsets to them
    assert "nogil=True" in text  # a keyword is not a variable of the same name
    assert ".shape[0]" in text  # nor is an attribute
    for kept in ("at(", "store(", "launch(", "int64", "range("):
        assert kept in text
    for old, new in (("+ nogil", "- nogil"), ("v, x_1", "t, x_1"), ("bounds[t + 1]", "bounds[t]"), ("int64(i", "i(i")):
        assert canonical(ONE.replace(old, new))[0] != text, old


def test_a_kernel_that_swaps_its_arguments_is_another_one():
    swapped = ONE.replace("(bounds, vertex_x, nogil)", "(bounds, nogil, vertex_x)")
    assert canonical(swapped)[0] != canonical(ONE)[0]


@pytest.fixture
def loaded(monkeypatch):
    """Load the modules of engines; return their sources."""
    sources, load = [], module_source.load_module

    def noting(source, stem):
        sources.append(source)
        return load(source, stem)

    monkeypatch.setattr(module_source, "load_module", noting)
    return sources


def test_programs_whose_properties_have_other_names_share_modules(loaded):
    source = "@njit(int64({}[::1]), cache=True)\ndef run_{}({}):\n    return {}.shape[0]\n"
    for name, argument, kind in (("one", "a", "float32"), ("two", "b", "float32"), ("two", "b", "int64")):
        run = module_source.compiled(Kernel(name, source.format(kind, name, argument, argument), (argument,), 0))
        assert run.py_func.__module__.startswith("kernel_")
    assert loaded[0] == loaded[1] != loaded[2]


def test_kernels_independent_of_the_number_of_features_are_compiled_once(loaded):
    found = []
    for features in (3, 5):
        loaded.clear()
        prepared("onyx", {"direction": "push"}, program_named("shortest_paths"), edges_and_loops(), features).close()
        found.append(set(loaded))
    assert found[0] & found[1]
    assert found[0] - found[1]
