"""PyTorch's paths for CUDA devices, tested on the CPU, which has the same functions."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from harness.contract import Device, Phases
from harness.graph import Graph
from harness.language.program import EdgeReduce
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.problems import new_engine, outputs_of, problem, program
from tests.engines.programs import graph_for, inputs_for, program_named
from tests.engines.test_operations import NO_PRODUCT

torch = pytest.importorskip("torch")


@pytest.fixture
def elsewhere(monkeypatch):
    """Return engines that take the path of a CUDA device."""
    from engines.libraries.torch_engine import TorchEngine

    plain = TorchEngine.open

    def open_as_if_elsewhere(self, device):
        plain(self, device)
        self.on_cpu = False

    monkeypatch.setattr(TorchEngine, "open", open_as_if_elsewhere)


GATHERED = sorted(NO_PRODUCT - {"sides_settle", "a_product_of_itself"})


@pytest.mark.parametrize("short", [0, 32], ids=["by index or matrix", "by segments"])
@pytest.mark.parametrize("name", GATHERED)
def test_gathered_messages(elsewhere, monkeypatch, name, short):
    monkeypatch.setattr("engines.libraries.torch_engine.SHORT", short)
    program_, graph = program_named(name), graph_for(name)
    features = (1, 4)[(GATHERED.index(name) + (short == 0)) % 2]
    engine, run = new_engine("torch"), ReferenceRun(program_, graph, features)
    engine.prepare(program_, graph, features, Device(threads=1), Phases())
    inputs = inputs_for(program_, graph, features)
    engine.reset(inputs)
    run.reset(inputs)
    for _ in range(3):
        engine.run(1)
        run.run(1)
        found = compare(program_, outputs_of(engine, program_), outputs_of(run, program_))
        assert found.ok, found.detail
    for output in program_.outputs:
        assert np.array_equal(engine.rows(output, np.array([1, 0])), engine.values(output)[[1, 0]])
    engine.close()


@pytest.mark.parametrize(("most", "segments"), [(32, True), (33, False)])
def test_short_rows_are_reduced_by_segments_on_a_gpu_and_need_no_matrix(most, segments):
    ends = np.zeros(most, np.int64)
    graph = Graph.from_edges(np.arange(1, most + 1), ends, num_vertices=most + 2, name="star")
    program_ = program_named("shortest_paths")
    for device, cut in ((Device("cuda"), not segments), (Device(threads=1), True)):
        engine = new_engine("torch")
        engine.build(program_, graph, 2, device, Phases())
        assert len(engine._hosted_sums) == cut
        engine.on_cpu = device.kind == "cpu"
        (text,) = {engine.described(stage) for stage in program_.stages if isinstance(stage, EdgeReduce)}
        way = "segment_reduce, or torch.sparse.mm with a reduction where k > 1," if engine.on_cpu else "index_reduce_"
        way = "segment_reduce" if segments and not engine.on_cpu else way
        assert text == f"torch.index_select along all edges, then torch.{way} (min)"


@pytest.mark.parametrize("shape", [(5, 3), (5,), (1, 2), (4, 2, 3)], ids=str)
@pytest.mark.parametrize("reducer", ["sum", "prod", "min", "max"])
def test_rows_are_folded(shape, reducer):
    from engines.libraries.torch_arrays import TorchArrays

    x = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    arrays = TorchArrays("cpu")
    found = arrays.download(arrays.over_rows(reducer, arrays.upload(x)))
    np.testing.assert_allclose(found, getattr(x, reducer)(0), rtol=1e-5)


def test_arrays_are_on_the_device_of_the_engine_and_cast_to_its_types():
    from engines.libraries.torch_arrays import TorchArrays

    assert TorchArrays("meta").upload(np.ones(3, np.float32)).device.type == "meta"
    arrays, x = TorchArrays("cpu"), torch.tensor([0.0, 2.0])
    for kind, wanted in ((np.float32, torch.float32), (np.float64, torch.float64), (np.bool_, torch.bool)):
        assert arrays.cast(x, kind).dtype == wanted
    assert arrays.cast(x, bool).tolist() == [False, True]
    assert (arrays.is_bool(x), arrays.is_bool(x > 1)) == (False, True)


def test_systems_are_solved_with_one_matrix_or_one_right_side_for_all():
    from engines.libraries.torch_arrays import TorchArrays

    arrays, random = TorchArrays("cpu"), np.random.default_rng(3)
    a, b = random.normal(size=(4, 3, 3)), random.normal(size=(4, 3)).astype(np.float32)
    a = (a @ a.transpose(0, 2, 1) + np.eye(3)).astype(np.float32)
    for left, right in ((a, b), (a[:1], b), (a, b[:1])):
        wanted = np.einsum("nij,nj->ni", np.linalg.inv(left.astype(np.float64)), right)
        found = arrays.download(arrays.solve(arrays.upload(left), arrays.upload(right)))
        np.testing.assert_allclose(found, wanted, rtol=1e-3)
    a[1] = 0.0
    found = arrays.download(arrays.solve(arrays.upload(a), arrays.upload(b)))
    inverse = arrays.download(arrays.invert(arrays.upload(a)))
    assert np.isnan(found).all(1).tolist() == np.isnan(inverse).all((1, 2)).tolist() == [False, True, False, False]
    np.testing.assert_allclose(inverse[2], np.linalg.inv(a[2].astype(np.float64)), rtol=1e-3)


def test_named_vertices_outside_of_the_graph_are_no_vertices():
    from engines.libraries.torch_engine import TorchEngine

    numbers = torch.tensor([3.0, -1.0, 4.0, 0.0])  # of four vertices
    message = torch.tensor([5.0, 9.0, 8.0, -2.0])
    held = SimpleNamespace(
        graph=SimpleNamespace(num_vertices=4), _value={"x": torch.tensor([10.0, 11.0, 12.0, 13.0])},
        gather=lambda values, index: values[index], vertex_evaluator=lambda: lambda one: one,
    )  # fmt: skip
    assert TorchEngine.at(held, "x", numbers).tolist() == [13.0, 11.0, 12.0, 10.0]
    assert TorchEngine.at(held, "x", numbers[:1]).tolist() == [13.0] * 4
    for reducer, nothing in (("min", np.inf), ("max", -np.inf)):
        stage = SimpleNamespace(expressions=lambda: (message, numbers), reducer=reducer)
        assert TorchEngine.reduced_at(held, stage).tolist() == [-2.0, nothing, nothing, 5.0]
        message[0] = np.nan
        assert TorchEngine.reduced_at(held, stage).tolist() == [-2.0, nothing, nothing, nothing]
        message[0] = 5.0
    stage = SimpleNamespace(expressions=lambda: (message, torch.tensor([2.0])), reducer="max")
    assert TorchEngine.reduced_at(held, stage).tolist() == [-np.inf, -np.inf, 9.0, -np.inf]


def test_memory_that_runs_out_is_a_memory_error(monkeypatch):
    import torch

    graph, inputs = problem("pagerank", "rmat", 1)
    engine = new_engine("torch")
    engine.prepare(program("pagerank"), graph, 1, Device(threads=1), Phases())
    engine.reset(inputs)
    monkeypatch.setattr(engine, "_vertices", lambda *_: torch.empty(1 << 50))
    with pytest.raises(MemoryError, match="allocate"):
        engine.run(1)
    engine.close()


@pytest.mark.parametrize("shape", [(), (1,), (2,), (3,), (4,), (6,), (8,), (2, 4), (3, 3), (100,)])
def test_rows_gathered_by_wide_elements_are_the_rows(shape):
    from engines.libraries.torch_engine import gathered_wide

    values, index = torch.rand(9, *shape), torch.tensor([3, 0, 8, 8, 1], dtype=torch.int32)
    assert torch.equal(gathered_wide(values, index), values[index.long()])
    assert torch.equal(gathered_wide(values[1:-1], index % 7), values[1:-1][(index % 7).long()])  # not aligned
    assert torch.equal(gathered_wide(values > 0.5, index), (values > 0.5)[index.long()])


def test_no_rows_are_gathered_from_an_array_without_a_stride():
    from engines.libraries.torch_engine import gathered_wide

    none = torch.as_strided(torch.empty(0), (0, 4), (0, 0))  # what the initial values of no edges may be
    assert gathered_wide(none, torch.empty(0, dtype=torch.int64)).shape == (0, 4)
