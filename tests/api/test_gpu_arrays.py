"""CuPy arrays and torch tensors of a real GPU go in and out of every engine on it."""

from __future__ import annotations

import numpy as np
import pytest

from onyx_harness import InvalidInput, as_graph, run
from tests.api.test_device_arrays import DIRECTED, Passing, Weighing, given
from tests.api.test_run import KARATE, Spread

pytestmark = pytest.mark.gpu
ENGINES = ("onyx", "gunrock", "tigr", "simdx", "cusparse", "torch")


@pytest.fixture
def cupy():
    return pytest.importorskip("cupy")


@pytest.fixture
def torch():
    return pytest.importorskip("torch")


@pytest.mark.parametrize("engine", ENGINES)
def test_arrays_of_cupy(engine, cupy):
    if engine == "torch":
        pytest.importorskip("torch")
    source = given()["source"]
    there = cupy.asarray(source)
    result = run(engine, Spread, KARATE, features=3, device="cuda", inputs={"source": there}, array="cupy")
    assert isinstance(result.answer(), cupy.ndarray)
    assert result.answer().dtype == np.float32
    expected = run("scipy", Spread, KARATE, features=3, inputs={"source": source})
    np.testing.assert_allclose(result.answer(array="numpy"), expected.answer(), rtol=1e-3, atol=1e-5)
    assert np.array_equal(cupy.asnumpy(there), source)
    del result, there
    assert run(engine, Spread, KARATE, device="cuda").answer().shape == (34, 1)


@pytest.mark.parametrize("engine", ENGINES)
def test_tensors_of_torch(engine, torch):
    source = given()["source"]
    there = torch.tensor(source, device="cuda", requires_grad=True)
    with torch.cuda.stream(torch.cuda.Stream()):
        torch.cuda._sleep(10_000_000)  # the tensor below is written after the call begins
        moved = there * 2.0
        result = run(engine, Spread, KARATE, features=3, device="cuda", inputs={"source": moved}, array="torch")
    assert result.answer().is_cuda
    assert not result.answer().is_inference()
    expected = run("scipy", Spread, KARATE, features=3, inputs={"source": 2 * source})
    np.testing.assert_allclose(result.answer(array="numpy"), expected.answer(), rtol=1e-3, atol=1e-5)
    weight = torch.ones(3, device="cuda", requires_grad=True)
    (result.answer() * weight).sum().backward()
    assert weight.grad.shape == (3,)


@pytest.mark.parametrize("direction", ["pull", "push"])
@pytest.mark.parametrize("graph", [KARATE, DIRECTED], ids=["both directions", "one direction"])
def test_inputs_of_edges_and_truth_values(cupy, graph, direction):
    arrays = given(as_graph(graph).graph.num_edges)
    there = {name: cupy.asarray(value) for name, value in arrays.items()}
    options = {"features": 3, "device": "cuda", "schedule": {"direction": direction}}
    found = run("onyx", Weighing, graph, inputs=there, array="cupy", validate=True, **options)
    assert found.validation["ok"]
    assert len(found.by_vertex()) == 34
    same = run("onyx", Weighing, graph, inputs=arrays, **options)
    np.testing.assert_allclose(found.answer(array="numpy"), same.answer(), rtol=1e-5)
    assert found.record["identity"] == same.record["identity"]
    part = {"part": there["conductance"]}
    assert run("onyx", Passing, graph, device="cuda", inputs=part, array="cupy", validate=True).validation["ok"]


def test_libraries_share_the_memory_of_an_answer(cupy, torch):
    result = run("onyx", "pagerank", KARATE, device="cuda", array="cupy")
    tensor = result.answer(array="torch")
    assert tensor.data_ptr() == result.answer().data.ptr
    tensor.zero_()
    torch.cuda.synchronize()
    assert float(result.answer().sum()) == 0
    assert run("scipy", "pagerank", KARATE, array="torch").answer().device.type == "cpu"


def test_graphs_on_the_device(cupy):
    from cupyx.scipy import sparse

    src, dst, weight = np.array([0, 1, 2]), np.array([1, 2, 0]), np.array([1.0, 2.0, 3.0], np.float32)
    expected = as_graph((src, dst, weight)).graph.content_hash
    index = cupy.asarray(np.stack([src, dst]))
    assert as_graph(index, weight=cupy.asarray(weight)).graph.content_hash == expected
    matrix = sparse.csr_matrix((cupy.asarray(weight), (index[0], index[1])), shape=(3, 3))
    assert as_graph(matrix).graph.content_hash == expected
    assert as_graph((index[0], index[1], cupy.asarray(weight))).graph.content_hash == expected


def test_values_are_checked_on_the_device(cupy):
    wrong = cupy.full((34, 1), np.nan, np.float32)
    with pytest.raises(InvalidInput, match="input 'source' contains NaN"):
        run("onyx", Weighing, KARATE, device="cuda", inputs={"source": wrong})
