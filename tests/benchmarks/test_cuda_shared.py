"""What engines share on a CUDA device, without one: the algorithms' own inputs are made of arrays that lie there."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest

from harness.graph.generators import rmat
from harness.language import trace
from tests.benchmarks.cuda_checks import Checker
from tests.benchmarks.cuda_shared import DeviceGraph, posed
from tests.benchmarks.thesis_plan import ORDER, preset
from tests.benchmarks.thesis_problems import AHEAD


class OfDevice(np.lib.mixins.NDArrayOperatorsMixin):
    """An array as CuPy's: NumPy's functions take it, but neither mix it with arrays of the host nor make it one."""

    def __init__(self, values):
        self.values = values.values if isinstance(values, OfDevice) else values

    dtype, shape = (property(lambda self, name=name: getattr(self.values, name)) for name in ("dtype", "shape"))
    T = property(lambda self: OfDevice(self.values.T))

    def __array_ufunc__(self, ufunc, method, *inputs, **kwargs):
        out = tuple(one.values for one in kwargs.pop("out", ()))
        if method != "__call__" or any(isinstance(one, np.ndarray) for one in (*inputs, *out[1:])):
            raise TypeError("implicit conversion of an array of the host")
        found = ufunc(*map(bare, inputs), **kwargs, **({"out": out} if out else {}))
        return OfDevice(found)

    def __array_function__(self, func, types, args, kwargs):
        return OfDevice(func(*map(bare, args), **kwargs))

    def __array__(self, *_, **__):
        raise TypeError("implicit conversion to an array of the host")

    def __getitem__(self, index):
        return OfDevice(self.values[bare(index)])

    def __setitem__(self, index, given):
        self.values[bare(index)] = bare(given)

    def __len__(self):
        return len(self.values)

    def __bool__(self):
        return bool(self.values)

    def __float__(self):
        return float(self.values)

    def __getattr__(self, name):
        if name not in ("min", "any", "sum", "astype"):
            raise AttributeError(name)
        return lambda *args, **kwargs: OfDevice(getattr(self.values, name)(*args, **kwargs))


def bare(one):
    return [bare(item) for item in one] if isinstance(one, list) else one.values if isinstance(one, OfDevice) else one


@pytest.mark.parametrize("name", ORDER)
def test_inputs_along_edges_are_made_on_the_device(name, monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=OfDevice))
    graph = rmat(scale=7, edge_factor=6, symmetric=True, max_weight=3)
    assert graph.has_reverse_edges
    algorithm, device = preset().algorithms[name], DeviceGraph(graph)
    made = posed(algorithm, device, 8)[1]
    expected = algorithm.inputs(algorithm.prepare_graph(graph), 8)
    edges = [
        prop.name for prop in trace(algorithm).properties.values() if prop.place == "edge" and prop.role == "input"
    ]
    assert [edge for edge in edges if not isinstance(made.properties.get(edge), OfDevice)] == ["weight"] * (
        name == "LP"
    )
    for key, values in expected.properties.items():
        np.testing.assert_array_equal(bare(made.properties[key]), values)


def test_inputs_of_vertices_are_made_ahead(monkeypatch):
    monkeypatch.setitem(sys.modules, "cupy", SimpleNamespace(asarray=OfDevice))
    graph, algorithm = rmat(scale=7, edge_factor=6, symmetric=True, max_weight=3), preset().algorithms["BP"]
    assert graph.has_reverse_edges
    assert algorithm.name in AHEAD
    checker = Checker(0)
    ahead = checker.inputs_ahead(algorithm, graph.num_vertices, 4)
    made, expected = posed(algorithm, DeviceGraph(graph), 4, ahead)[1], algorithm.inputs(graph, 4)
    assert made.parameters == expected.parameters
    assert set(made.properties) == set(expected.properties)
    for key, values in expected.properties.items():
        np.testing.assert_array_equal(made.properties[key], values)
    assert not any(path.exists() for path in ahead.result())
    checker.close()
