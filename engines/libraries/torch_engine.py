"""PyTorch as an engine, on the CPU or a CUDA device, without gradients.

A product is the sparse CSR matrix of in-edges times dense features. Other messages are gathered along the edges and
reduced by the fastest of these functions (times in ms for the numbers of features in parentheses):

    one thread, 100,000 vertices, 2 M edges (1 / 8 / 32)    sum               min
      CSR incidence matrix of vertices and in-edges         2.3 / 6.5 / 22
      torch.sparse.mm that reduces                          6.6 / 13 / 27     10 / 13 / 29
      segment_reduce                                        2.0 / 15 / 66     3.7 / 25 / 111
      index_add_ | scatter_reduce_                          6.0 / 23 / 92     7.7 / 48 / 93
    H100, 1 M vertices with large hubs, 31 M edges (1 / 4 / 8)
      CSR incidence matrix of vertices and in-edges         0.20 / 1.7 / 2.4
      index_add_ | index_reduce_                            0.74 / 1.3 / 2.1  1.1 / 3.1 / 5.5
      segment_reduce                                        2.5 / 5.9 / 6.2
      scatter_add_ | scatter_reduce_                        0.75 / 1.6 / 2.4  1.5 / 3.4 / 6.1
    H100, a grid of 4 M vertices, 9.6 M edges (1 / 4 / 8)
      CSR incidence matrix of vertices and in-edges         0.11 / 0.99 / 1.1
      index_add_ | index_reduce_                            0.11 / 0.46 / 0.69  0.22 / 0.69 / 1.0
      segment_reduce                                        0.10 / 0.24 / 0.39

embedding_bag, which gathers and reduces at once, takes 9 to 13 ms there. index_add_ sums hubs sequentially in float32.
Rows of 2 or more floats take 19 ms to gather along those 31 M edges on the H100, by index_select, embedding, gather or
an index; as single elements of 16 bytes each they take 0.35 ms (k = 4).
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from engines.libraries.array_engine import ArrayEngine
from engines.libraries.array_stages import Side
from engines.libraries.matrix import HostPattern, Pattern
from engines.libraries.torch_arrays import TorchArrays
from harness.api import (
    Device,
    EdgeReduce,
    EdgeUpdate,
    Graph,
    Inputs,
    No,
    Phases,
    Program,
    RunStatistics,
    Stage,
    Yes,
    concrete,
    cuda_unavailable,
    products_as_sums,
    reads,
    walk,
)
from harness.api.library import VertexReduce, too_many_vertices

Tensor = torch.Tensor
IDENTITY = {"sum": 0.0, "min": float("inf"), "max": float("-inf")}
WIDE = {4: torch.complex128, 2: torch.complex64, 1: torch.float32}  # complex elements of this many floats
MOST_WIDE = 64  # the most floats of a row that is gathered by elements
SHORT = 32  # the most in-edges of a vertex for which segment_reduce, with a thread each, is the fastest


@contextmanager
def inference(*, lasting: bool = False) -> Iterator[None]:
    """Disable gradients; raise MemoryError if memory runs out on the device or on the CPU.

    ``lasting``: tensors made within are ordinary ones, which programs of others may compute gradients from.
    """
    try:
        with torch.no_grad() if lasting else torch.inference_mode():
            yield
    except torch.cuda.OutOfMemoryError as error:
        raise MemoryError(str(error)) from error
    except RuntimeError as error:  # the CPU allocator raises no error class of its own
        if "can't allocate memory" not in str(error):
            raise
        raise MemoryError(str(error)) from error


def _silence_index_reduce(device: str) -> None:
    """Trigger and suppress PyTorch's warning, once for each kind of device, that index_reduce is in beta."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="index_reduce", category=UserWarning)
        one, where = torch.ones(1, device=device), torch.zeros(1, dtype=torch.int64, device=device)
        one.index_reduce_(0, where, one.clone(), "amin")


def gathered_wide(values: Tensor, index: Tensor) -> Tensor:
    """Return ``values[index]`` for float32 rows, gathered by single elements of up to 16 bytes.

    CUDA's index_select has a fast path for numbers and none for short rows (see the module).
    """
    shape = values.shape[1:]
    width = shape.numel()
    if width <= 1 or width > MOST_WIDE or values.dtype != torch.float32 or not values.numel():
        return values.index_select(0, index)
    rows = values.reshape(len(values), width).contiguous()
    lengths = [n for n in (4, 2, 1) if width % n == 0 and rows.storage_offset() % n == 0]
    elements = rows.view(WIDE[lengths[0]]).reshape(-1)
    parts = width // lengths[0]
    if parts > 1:
        index = index if elements.numel() < 2**31 else index.long()
        index = (index[:, None] * parts + torch.arange(parts, dtype=index.dtype, device=index.device)).reshape(-1)
    return elements.index_select(0, index).view(torch.float32).reshape(-1, *shape)


class TorchEngine(ArrayEngine):
    """Sparse times dense, or gather and reduce; products of messages become sums of logarithms."""

    library = "torch.sparse"

    def open(self, device: Device) -> None:
        """Select the device and set its number of threads."""
        self.on_cpu = self.on_host = device.kind == "cpu"
        if self.on_cpu:
            torch.set_num_threads(device.threads)
        torch.sparse.check_sparse_tensor_invariants.disable()  # the graph's structure is checked when it is created
        self.arrays = TorchArrays("cpu" if self.on_cpu else f"cuda:{device.index}")

    def refused_device(self, device: Device) -> str:
        """Return why the device is unavailable: PyTorch was built without CUDA, or no GPU is present."""
        if device.kind == "cpu":
            return ""
        if not torch.backends.cuda.is_built():
            return f"this build of PyTorch ({torch.__version__}) has no CUDA; install another"
        return cuda_unavailable(device.index)

    def csr(self, values: Tensor, columns: Tensor, offsets: Tensor, shape: tuple[int, int]) -> Tensor:
        """Return a sparse CSR tensor."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta", category=UserWarning)
            # contiguous: CUDA's products read a broadcast value as an array
            return torch.sparse_csr_tensor(offsets, columns, values.contiguous(), shape)

    def rewritten(self, program: Program) -> Program:
        """Rewrite products of messages as sums of logarithms, which stay within the range of floats for hubs."""
        return products_as_sums(program)

    def other_message(self, program: Program, stage: EdgeReduce, reason: str) -> str:
        """Return an empty string: every message can be gathered."""
        return ""

    def other_stage(self, stage: EdgeUpdate) -> str:
        """Return an empty string: edge properties can be updated."""
        return ""

    def naming_stage(self, stage: Stage, graph: Graph) -> str:
        """Return why values cannot name vertices: float32 has no number for more than 2^24."""
        problem = too_many_vertices(graph.num_vertices)
        return f"{stage.name} names vertices by values, and {problem}" if problem else ""

    def supports(self, program: Program, graph: Graph, features: int, device: Device) -> Yes | No:
        """Return whether the engine can run the program; only missing reverse edges are unsupported."""
        if not graph.has_reverse_edges:
            for stage in program.stages:
                if any(space == "reverse" for space, _ in reads(stage)):
                    return No(f"{stage.name} reads reverse edges, but some edges of the graph have none")
        return super().supports(program, graph, features, device)

    def bytes_needed(self, program: Program, graph: Graph, features: int) -> int:
        """Return the bytes needed; messages and their operands exist for all edges at once."""
        most = 0
        for stage in program.stages:
            if isinstance(stage, EdgeUpdate) or (isinstance(stage, EdgeReduce) and self._gathers(program, stage)):
                values = [node for node in walk(*stage.expressions()) if node.op not in ("const", "param")]
                most = max(most, sum(int(np.prod(concrete(v.shape, features), dtype=np.int64)) for v in values))
        return super().bytes_needed(program, graph, features) + 4 * graph.num_edges * (most + 2)

    @staticmethod
    def _gathers(program: Program, stage: EdgeReduce) -> bool:
        from engines.libraries.products import as_product

        return isinstance(as_product(program, stage), str)

    def build(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Convert the structure on the host, with a separate matrix for the sums of gathered messages."""
        super().build(program, graph, features, device, phases)
        with phases("transform"):
            self._most_in_edges = int(graph.in_degrees.max(initial=0))
            by_matrix = self._gathered and (device.kind == "cpu" or self._most_in_edges > SHORT)
            self._hosted_sums = [self._host_sums(side) for side in self.sides if by_matrix]

    @property
    def _gathered(self) -> list[EdgeReduce]:
        """The reductions of messages that are gathered."""
        return [s for s in self.program.stages if isinstance(s, EdgeReduce) and s.name not in self.products]

    def _host_sums(self, side: Side) -> HostPattern:
        """Return the matrix of vertices and in-edges."""
        count = int(side.offsets[-1])
        columns, offsets = np.arange(count, dtype=self.index), side.offsets.astype(self.index)
        return HostPattern.of(columns, offsets, count, self.run_length)

    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Upload the structure, with a separate matrix for the sums of gathered messages."""
        with inference():
            super().prepare(program, graph, features, device, phases)
            with phases("upload"):
                self._prepare_gathered()

    def _prepare_gathered(self) -> None:
        gathered = self._gathered
        self._offsets = [self.arrays.upload(side.offsets) for side in self.sides]
        self._empty = [self.arrays.upload(np.diff(side.offsets) == 0) for side in self.sides]
        extrema = any(stage.reducer != "sum" for stage in gathered)
        self._destinations: list[Tensor] = []
        if extrema and not self.on_cpu:
            homes = [np.repeat(np.arange(len(side.offsets) - 1), np.diff(side.offsets)) for side in self.sides]
            self._destinations = [self.arrays.upload(home) for home in homes]
            _silence_index_reduce(self.arrays.device)
        self._incidence: list[Any] = []
        self._whole: list[Tensor] = []  # the same matrix with unsplit hub rows, for extrema
        for side, host in zip(self.sides, self._hosted_sums, strict=False):  # there may be none
            count, rows = int(side.offsets[-1]), len(side.offsets) - 1
            ones = torch.ones(count, device=self.arrays.device)
            self._incidence.append(Pattern.uploaded(host, self.arrays, self.csr).matrix(ones))
            if extrema and self.on_cpu:
                columns = self.arrays.upload(np.arange(count, dtype=self.index))
                offsets = self.arrays.upload(side.offsets.astype(self.index))
                self._whole.append(self.csr(ones, columns, offsets, (rows, count)))
        self._hosted_sums = []

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        """Reset all properties to their initial state."""
        with inference():
            super().reset(inputs, state)

    def run(self, max_supersteps: int) -> RunStatistics:
        """Run until settled or for ``max_supersteps`` more supersteps."""
        with inference():
            return super().run(max_supersteps)

    def values(self, name: str) -> NDArray[Any]:
        """Return a property in float32."""
        with inference():
            return super().values(name)

    def rows(self, name: str, index: NDArray[np.integer[Any]]) -> NDArray[Any]:
        """Return some rows of a property in float32."""
        with inference():
            return super().rows(name, index)

    def device_values(self, name: str) -> Tensor | None:
        """Return a property in float32 on a CUDA device; None on the CPU."""
        with inference(lasting=True):
            return super().device_values(name)

    def gather(self, values: Tensor, index: Tensor) -> Tensor:
        """Return the rows with the given numbers."""
        return values.index_select(0, index) if self.on_cpu else gathered_wide(values, index)

    def reduced(self, stage: EdgeReduce, at: int) -> Tensor:
        """Return the messages of the side's in-edges, reduced by destination."""
        side = self.sides[at]
        messages = self.edge_evaluator(side.edges)(stage.message)
        count = side.edges.stop - side.edges.start
        shape = messages.shape[1:]
        rows = messages.expand(count, *shape).reshape(count, int(np.prod(shape, dtype=int)))
        if not self.on_cpu and self._most_in_edges <= SHORT:
            total = self._segments(rows, stage.reducer, at)
        elif stage.reducer == "sum":
            total = self._incidence[at] @ rows
        elif not self.on_cpu:
            total = torch.full((len(self._empty[at]), rows.shape[1]), IDENTITY[stage.reducer], device=rows.device)
            total.index_reduce_(0, self._destinations[at], rows, f"a{stage.reducer}")
        elif rows.shape[1] > 1 and count:
            total = torch.sparse.mm(self._whole[at], rows, f"a{stage.reducer}")
            total.masked_fill_(self._empty[at][:, None], IDENTITY[stage.reducer])
        else:
            total = self._segments(rows, stage.reducer, at)
        return total.reshape(-1, *shape)

    def _segments(self, rows: Tensor, reducer: str, at: int) -> Tensor:
        """Return the rows reduced by destination, each segment sequentially."""
        return torch.segment_reduce(
            rows.contiguous(), reducer, offsets=self._offsets[at], unsafe=True, initial=IDENTITY[reducer]
        )

    def at(self, name: str, numbers: Tensor) -> Tensor:
        """Return a property at the vertices that numbers name; a vertex's own where none is named."""
        count = self.graph.num_vertices
        own = torch.arange(count, device=numbers.device)
        known = (numbers >= 0) & (numbers < count)
        return self.gather(self._value[name], torch.where(known, numbers, own).to(torch.int64))

    def reduced_at(self, stage: VertexReduce) -> Tensor:
        """Return the values of all vertices reduced at the vertices that they name; NaN is ignored."""
        count = self.graph.num_vertices
        evaluate = self.vertex_evaluator()
        message, numbers = (evaluate(one).expand(count) for one in stage.expressions())
        known = (numbers >= 0) & (numbers < count)
        nothing = torch.full_like(message, IDENTITY[stage.reducer])
        sent = torch.where(known & ~torch.isnan(message), message, nothing)
        index = torch.where(known, numbers, 0.0).to(torch.int64)
        return nothing.scatter_reduce(0, index, sent, f"a{stage.reducer}")

    def update(self, stage: EdgeUpdate) -> None:
        """Compute the new values of an edge property, for all edges at once."""
        old = self._value[stage.updates]
        value = self.edge_evaluator(slice(0, self.graph.num_edges))(stage.value)
        self._value[stage.updates] = value.expand(old.shape)

    def described(self, stage: Any) -> str:
        """Return the implementation of one stage as text."""
        if isinstance(stage, EdgeUpdate):
            return "torch.index_select along all edges"
        if isinstance(stage, EdgeReduce) and stage.name not in self.products:
            how = "torch.sparse CSR of incidence"
            if stage.reducer != "sum":
                how = "torch.segment_reduce, or torch.sparse.mm with a reduction where k > 1,"
                how = how if self.on_cpu else "torch.index_reduce_"
            if not self.on_cpu and self._most_in_edges <= SHORT:
                how = "torch.segment_reduce"
            return f"torch.index_select along all edges, then {how} ({stage.reducer})"
        return super().described(stage).replace("torch.sparse array functions", "torch functions")

    def close(self) -> None:
        """Release all tensors and the device's memory."""
        super().close()
        self._incidence, self._offsets, self._empty, self._destinations, self._whole = [], [], [], [], []
        with contextlib.suppress(RuntimeError):  # the failure of a kernel has already been reported
            torch.cuda.empty_cache()
