"""Arrays of other libraries, shared on the host and on a device: no copy between the two unless it is requested.

The device is emulated, and CuPy and torch are substitutes; tests with the marker gpu use the libraries themselves.
"""

from __future__ import annotations

import sys
import types

import networkx as nx
import numpy as np
import pytest

from harness.api import Algorithm, Inputs, InvalidInput
from harness.emulation.arrays import DeviceArray, allocated
from harness.language import K, where
from onyx_harness import CampaignError, GraphError, Unsupported, as_graph, run
from tests.api.test_run import KARATE, Spread
from tests.emulation.conftest import emulated  # noqa: F401  a fixture

DEGREES = [("up", 34)]  # out-degrees, which are built in


class Tensor:
    """The used part of torch.Tensor: on the host with DLPack, on a device with ``__cuda_array_interface__``."""

    __module__ = "torch"

    def __init__(self, memory, *, gradient=False):
        self.memory, self.gradient = memory, gradient

    shape = property(lambda self: self.memory.shape)
    dtype = property(lambda self: f"torch.{self.memory.dtype}")

    def detach(self):
        return Tensor(self.memory)

    def cpu(self):
        return Tensor(self.memory.get())

    def reshape(self, shape):
        return Tensor(self.memory.reshape(shape))

    def __dlpack__(self, **options):
        assert not isinstance(self.memory, DeviceArray), "NumPy cannot read the memory of a device"
        if self.gradient:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")
        return self.memory.__dlpack__(**options)

    def __dlpack_device__(self):
        return (2, 0) if isinstance(self.memory, DeviceArray) else (1, 0)

    @property
    def __cuda_array_interface__(self):
        if not isinstance(self.memory, DeviceArray):
            raise AttributeError("Can't get __cuda_array_interface__ on non-CUDA tensor type")
        if self.gradient:
            raise RuntimeError("Can't get __cuda_array_interface__ on Variable that requires grad")
        return self.memory.__cuda_array_interface__


@pytest.fixture
def torch(monkeypatch):
    """Install a substitute for torch."""
    module = types.ModuleType("torch")
    module.as_tensor = Tensor
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


@pytest.fixture
def device(emulated, monkeypatch):  # noqa: F811
    """Let `run` use the emulated device; return the values copied between it and the host, without structure."""
    monkeypatch.setattr("onyx_harness.running.device_refusal", lambda device: "")
    monkeypatch.setattr("onyx_harness.running.memory_refusal", lambda *_: "")
    monkeypatch.setattr("harness.device.synchronizing.synchronize", lambda index: None)
    copied = []
    get, put = DeviceArray.get, DeviceArray.set

    def counted_get(self, *arguments, **options):
        copied.extend([("down", self.size)] * (self.dtype.kind in "fb" and self.size >= 34))
        return get(self, *arguments, **options)

    def counted_set(self, values):
        copied.extend([("up", values.size)] * (values.dtype.kind in "fb" and values.size >= 34))
        put(self, values)

    monkeypatch.setattr(DeviceArray, "get", counted_get)
    monkeypatch.setattr(DeviceArray, "set", counted_set)
    return copied


class Weighing(Spread):
    """Heat along edges with a conductance of their own, from some vertices only."""

    name = "weighing_in_a_test"

    def build(self, p):
        p.vertex("source", K)
        p.vertex("open", dtype=bool)
        p.edge("conductance")
        p.vertex("heat", K, start="source")

        @p.over_edges(into="flow", reduce="sum")
        def flow(src, edge):
            return src.heat * edge.conductance

        @p.over_vertices
        def mix(v):
            return {"heat": self.leak * v.source + (1 - self.leak) * where(v.open, v.flow, 0)}

        p.repeat(self.supersteps)
        p.output("heat", bound=1e-4)

    def inputs(self, graph, features):
        properties = {
            "source": np.ones((graph.num_vertices, features), np.float32),
            "open": np.ones(graph.num_vertices, np.bool_),
            "conductance": np.full(graph.num_edges, 0.1, np.float32),
        }
        return Inputs(properties, self.parameter_values())


def given(edges=156, features=3):
    """Return other inputs of `Weighing` on the karate club."""
    random = np.random.default_rng(5)
    return {
        "source": random.random((34, features), np.float32),
        "open": random.random(34) < 0.7,
        "conductance": random.random(edges, np.float32) / 8,
    }


DIRECTED = nx.DiGraph(nx.gnp_random_graph(34, 0.13, seed=2, directed=True))


@pytest.mark.parametrize("direction", ["pull", "push"])
@pytest.mark.parametrize("graph", [KARATE, DIRECTED], ids=["both directions", "one direction"])
def test_inputs_and_answers_stay_on_the_device(device, graph, direction):
    arrays = given(as_graph(graph).graph.num_edges)
    expected = run("scipy", Weighing, graph, features=3, inputs=arrays).answer()
    there = {name: allocated(value) for name, value in arrays.items()}
    options = {"features": 3, "device": "cuda", "schedule": {"direction": direction}}
    result = run("onyx", Weighing, graph, inputs=there, array="cupy", **options)
    assert device == []
    assert isinstance(result.answer(), DeviceArray)
    assert result.answer().shape == (34, 3)
    assert "download" not in result.seconds
    assert device == []
    np.testing.assert_allclose(result.answer(array="numpy"), expected, rtol=1e-5)
    assert device == [("down", 3 * 34)]
    on_host = run("onyx", Weighing, graph, inputs=arrays, **options).answer()
    assert np.array_equal(on_host, result.answer(array="numpy"))


class Passing(Algorithm):
    """A value of every edge that changes: the share of its source that it passed on."""

    name = "passing_in_a_test"

    def build(self, p):
        p.vertex("stock", start=1.0)
        p.edge("part")
        p.edge("passed", start=0.0)
        p.once.over_vertices(lambda v: {"least": v.in_degree * 0.5})
        p.over_edges(updates="passed")(lambda src, edge: edge.part * src.stock + 0.5 * edge.passed)
        p.over_edges(into="arriving", reduce="sum")(lambda edge: edge.passed)
        p.over_vertices(lambda v: {"stock": v.arriving + v.least})
        p.repeat(3)
        p.output("passed", bound=1e-4)

    def inputs(self, graph, features):
        return Inputs({"part": np.full(graph.num_edges, 0.1, np.float32)})


@pytest.mark.parametrize("graph", [KARATE, DIRECTED], ids=["both directions", "one direction"])
def test_values_of_edges_stay_on_the_device(device, graph):
    part = given(as_graph(graph).graph.num_edges)["conductance"]
    arrays = {"part": allocated(part)}
    result = run("onyx", Passing, graph, device="cuda", inputs=arrays, array="cupy", validate=True)
    expected = run("onyx", Passing, graph, inputs={"part": part}).answer()
    np.testing.assert_allclose(result.answer(array="numpy"), expected, rtol=1e-5)


@pytest.mark.parametrize("engine", ["gunrock", "tigr", "simdx"])
def test_every_engine_on_the_device_shares_arrays(device, engine):
    source = given()["source"]
    result = run(engine, Spread, KARATE, features=3, device="cuda", inputs={"source": allocated(source)}, array="cupy")
    assert device in ([], DEGREES)
    expected = run("scipy", Spread, KARATE, features=3, inputs={"source": source}).answer()
    np.testing.assert_allclose(result.answer(array="numpy"), expected, rtol=1e-3, atol=1e-5)


def test_stages_that_run_once_read_a_copy_on_the_host(device):
    class Halved(Spread):
        """Heat from halved sources."""

        name = "halved_in_a_test"

        def build(self, p):
            p.vertex("source", K)
            p.once.over_vertices(lambda v: {"half": 0.5 * v.source})
            p.vertex("heat", K, start=0.0)
            p.over_edges(into="flow", reduce="sum")(lambda src: src.heat / src.out_degree)
            p.over_vertices(lambda v: {"heat": v.flow + v.half + v.source})
            p.repeat(2)
            p.output("heat", bound=1e-4)

    source = given()["source"]
    result = run("onyx", Halved, KARATE, features=3, device="cuda", inputs={"source": allocated(source)}, array="cupy")
    assert sorted(device) == [("down", 3 * 34), *DEGREES, ("up", 4 * 34)]  # the source; the result, in padded rows
    assert "to_host" in result.seconds
    expected = run("scipy", Halved, KARATE, features=3, inputs={"source": source}).answer()
    np.testing.assert_allclose(result.answer(array="numpy"), expected, rtol=1e-5)


def test_answers_on_the_device_are_the_callers_own(device):
    first = run("onyx", "pagerank", KARATE, device="cuda", array="cupy")
    values = first.answer(array="numpy").copy()
    second = run("onyx", "pagerank", KARATE, device="cuda", array="cupy", alpha=0.5)
    assert np.array_equal(first.answer(array="numpy"), values)
    assert not np.array_equal(second.answer(array="numpy"), values)


def test_a_result_on_the_device_is_read_by_vertex_and_checked_on_the_host(device):
    arrays = {"source": allocated(given()["source"][:, :1])}
    result = run("onyx", Weighing, KARATE, device="cuda", array="cupy", inputs=arrays, validate=True)
    assert result.validation["ok"]
    assert result.by_vertex()[3] == result.answer(array="numpy")[3, 0]
    same = run("onyx", Weighing, KARATE, device="cuda", inputs={"source": given()["source"][:, :1]})
    assert result.record["identity"] == same.record["identity"]
    assert "heat float32[34, 1]" in repr(result)


def test_tensors_are_shared_on_the_device(device, torch):
    arrays = given()
    there = {name: Tensor(allocated(value), gradient=True) for name, value in arrays.items()}
    result = run("onyx", Weighing, KARATE, features=3, device="cuda", inputs=there, array="torch")
    assert device == []
    tensor = result.answer()
    assert isinstance(tensor, Tensor)
    assert result.answer(array="cupy").ctypes.data == tensor.memory.ctypes.data
    assert device == []
    expected = run("scipy", Weighing, KARATE, features=3, inputs=arrays).answer()
    np.testing.assert_allclose(result.answer(array="numpy"), expected, rtol=1e-5)
    assert "heat float32[34, 3]" in repr(result)


def test_invalid_values_are_found_on_the_device(device):
    for name, value, message in (
        ("source", np.full((34, 1), np.nan, np.float32), "input 'source' contains NaN"),
        ("source", np.ones((33, 1), np.float32), r"input 'source' has shape \(33, 1\); the program needs \(34, 1\)"),
        ("open", np.ones(34, np.complex64), "input 'open' is complex64; the program needs bool"),
    ):
        with pytest.raises(InvalidInput, match=message):
            run("onyx", Weighing, KARATE, device="cuda", inputs={name: allocated(value)})
    assert device == []


def test_another_device_and_memory_of_the_host_are_refused(device, monkeypatch):
    arrays = {name: allocated(value) for name, value in given().items()}
    with pytest.raises(InvalidInput, match=r"'source' is on a CUDA device, and the engine runs on the CPU; .*asnumpy"):
        run("scipy", Weighing, KARATE, features=3, inputs=arrays)
    with pytest.raises(Unsupported, match=r"'conductance' is on the device, and edges=mapped keeps arrays of edges in"):
        run("onyx", Weighing, KARATE, features=3, device="cuda", inputs=arrays, schedule={"edges": "mapped"})
    monkeypatch.setattr(DeviceArray, "device", types.SimpleNamespace(id=1))
    with pytest.raises(InvalidInput, match="'source' is on cuda:1, and the engine runs on cuda:0"):
        run("onyx", Weighing, KARATE, features=3, device="cuda", inputs=arrays)
    assert device == []


@pytest.mark.usefixtures("fakes")
def test_an_engine_without_arrays_on_the_device_says_so(device, monkeypatch):
    monkeypatch.setattr("onyx_harness.running.refusal", lambda spec, cell: "")
    for options in ({"array": "cupy"}, {"inputs": {"source": allocated(np.ones((34, 1), np.float32))}}):
        with pytest.raises(Unsupported, match="'fake_right' takes and returns arrays in host memory only"):
            run("fake_right", Spread, KARATE, device="cuda", **options)


def test_arrays_in_host_memory_are_shared(monkeypatch, torch):
    seen = []
    from engines.libraries.scipy_engine import ScipyEngine

    reset = ScipyEngine.reset

    def recorded(self, inputs, state=None):
        seen.append(inputs.properties["source"])
        reset(self, inputs, state)

    monkeypatch.setattr(ScipyEngine, "reset", recorded)
    memory = np.random.default_rng(1).random((34, 2), np.float32)
    for array in (memory, Tensor(memory), Tensor(memory, gradient=True)):
        result = run("scipy", Spread, KARATE, features=2, inputs={"source": array})
        assert np.shares_memory(seen[-1], memory)
        assert not seen[-1].flags.writeable
        assert memory.flags.writeable
    assert np.shares_memory(result.answer(array="torch").memory, result.answer())
    assert run("scipy", Spread, KARATE, array="torch").answer(squeeze=True).shape == (34,)
    with pytest.raises(ValueError, match=r"in host memory; run\(..., device='cuda', array='cupy'\)"):
        result.answer(array="cupy")


def test_graphs_are_copied_to_the_host_once(device, torch):
    src, dst, weight = np.array([0, 1, 2]), np.array([1, 2, 0]), np.array([1.0, 2.0, 3.0], np.float32)
    index = np.stack([src, dst])
    expected = as_graph((src, dst, weight)).graph.content_hash
    for put in (allocated, lambda values: Tensor(allocated(values)), lambda values: Tensor(values, gradient=True)):
        assert as_graph((put(src), put(dst), put(weight))).graph.content_hash == expected
        assert as_graph(put(index), weight=put(weight)).graph.content_hash == expected

    class Matrix:
        """The used part of a sparse matrix of CuPy."""

        __module__ = "cupyx.scipy.sparse._csr"

        def get(self):
            import scipy.sparse as sp

            return sp.csr_array((weight, (src, dst)), shape=(3, 3))

    assert as_graph(Matrix()).graph.content_hash == expected


def test_unreadable_arrays_are_refused():
    class Tiny:
        """A tensor whose elements NumPy does not have."""

        def __dlpack__(self, **options):
            raise BufferError("bfloat16 is not supported")

        def __dlpack_device__(self):
            return (1, 0)

    with pytest.raises(GraphError, match=r"Tiny cannot be read as an array of edges \(bfloat16 is not supported\)"):
        as_graph((Tiny(), Tiny()))
    with pytest.raises(InvalidInput, match="input 'source' is a Tiny that NumPy cannot read"):
        run("scipy", Spread, KARATE, inputs={"source": Tiny()})


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"array": "jax"}, CampaignError, "array is 'jax'; it must be one of numpy, cupy, torch"),
        ({"array": "cupy"}, CampaignError, "array='cupy' is for device='cuda'"),
    ],
)
def test_a_library_that_cannot_have_the_answers_is_refused(options, error, message):
    with pytest.raises(error, match=message):
        run("scipy", "pagerank", KARATE, **options)


def test_a_missing_library_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(ImportError, match=r"array='torch' needs torch: pip install 'onyx-harness\[torch\]'"):
        run("scipy", "pagerank", KARATE, array="torch")


def test_the_axis_of_k_is_kept_unless_it_is_squeezed():
    result = run("scipy", "pagerank", KARATE)
    assert result.answer().shape == (34, 1)
    assert result.answer(squeeze=True).shape == (34,)
    assert np.shares_memory(result.answer(squeeze=True), result.answer())
    assert run("scipy", "pagerank", KARATE, features=2).answer(squeeze=True).shape == (34, 2)
    assert run("scipy", "pagerank", nx.path_graph(1)).answer(squeeze=True).shape == (1,)


def test_an_input_of_the_graph_may_be_a_single_number():
    class Cooled(Spread):
        """Heat that leaks by a number that is an input."""

        name = "cooled_in_a_test"

        def build(self, p):
            p.graph("kept")
            p.vertex("heat", start=1.0)
            p.over_vertices(lambda v, graph: {"heat": v.heat * graph.kept})
            p.repeat(2)
            p.output("heat", bound=1e-5)

        def inputs(self, graph, features):
            return Inputs({"kept": np.array(0.5, np.float32)})

    found = [run("scipy", Cooled, KARATE, inputs=inputs).by_vertex()[0] for inputs in (None, {"kept": 0.25})]
    assert found == [0.25, 0.0625]
