"""The least work of a superstep, compared with what kernels load and add as the emulated device counts them."""

from __future__ import annotations

import pytest

from harness.campaign.least_work import alike, edge_needs, least_bytes
from harness.contract import Superstep
from harness.emulation.compiler import OLDEST, unavailable
from harness.language import trace
from tests.engines.cuda_schedules import cuda_engine, plan_of
from tests.engines.programs import edges_and_loops
from tests.engines.test_cuda import algorithms

pytestmark = pytest.mark.skipif(bool(unavailable(OLDEST)), reason=unavailable(OLDEST))
FLOATS_OF_SECTOR = 8


@pytest.mark.short_run(rows=2)
@pytest.mark.parametrize(
    ("schedule", "name", "k"),
    [
        ("pull", "als", 8),
        ("pull", "kcore", 1),
        ("tigr", "bfs", 1),
        ("push", "manifold_ranking", 8),
        ("push", "sssp", 1),
        ("gunrock", "label_propagation", 8),
        ("changes-pull", "components", 1),
    ],
)
def test_no_kernels_load_or_add_less_than_the_least_work(schedule, name, k):
    """In the first superstep, which visits every edge with every vertex active."""
    algorithm = algorithms()[name]
    graph = algorithm.prepare_graph(edges_and_loops())
    program, inputs, engine = trace(algorithm), algorithm.inputs(graph, k), cuda_engine(schedule)
    same = alike(program, inputs, graph)
    needs = edge_needs(program, k, same)
    steps = [Superstep(graph.num_vertices, needs.stages * graph.num_edges, "pull")]
    (least,) = least_bytes(program, graph.facts, k, steps, same)
    assert least >= 4 * graph.num_edges + 4
    counted = engine.memory_model(program, graph, k, inputs)
    kernels = counted.kernels.values()
    assert counted.share == 1.0
    assert least <= sum(kernel.loads.bytes for kernel in kernels)
    adds = plan_of(engine, program, graph, k).adds_per_visit * needs.stages * graph.num_edges
    assert (adds > 0) == (name in ("manifold_ranking", "label_propagation"))
    assert adds <= FLOATS_OF_SECTOR * sum(kernel.atomics.sectors for kernel in kernels)
