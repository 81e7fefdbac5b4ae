"""PyTorch's paths for CUDA devices, tested on the CPU, which has the same functions."""

from __future__ import annotations

import pytest

from harness.contract import Device, Phases
from harness.language.reference import ReferenceRun
from harness.language.validation import compare
from tests.engines.problems import new_engine, outputs_of, problem, program
from tests.engines.programs import edges_and_loops, inputs_for, program_named

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


@pytest.mark.parametrize("features", [1, 4])
@pytest.mark.parametrize("name", ["shortest_paths", "largest_label", "several_reductions", "tall_messages"])
def test_extrema_by_index(elsewhere, name, features):
    program_, graph = program_named(name), edges_and_loops()
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
    engine.close()


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
