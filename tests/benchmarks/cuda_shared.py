"""What the engines of a group share on a CUDA device: the graph and the inputs, which no kernel writes, are there once.

Uploading them anew for each of nine engines, edge by edge in another order, takes longer than most runs. What an engine
makes of a graph for itself (virtual nodes, lists, pieces of matrices), and all that it writes, stays its own.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from engines.libraries.array_engine import ArrayEngine
from harness.contract import Engine
from harness.graph import Graph
from harness.graph.adjacency import Adjacency
from harness.language import Algorithm, Inputs, Program
from harness.language.initial_state import Start
from harness.language.program import Property
from harness.lowering.cuda import executor as cuda_executor
from harness.lowering.cuda.buffers import CudaBuffer
from harness.lowering.cuda.device_store import DeviceStore
from harness.lowering.cuda.edge_places import SLACK
from harness.lowering.cuda.engine import CudaEngine
from harness.lowering.cuda.layout import DeviceLayout
from harness.lowering.cuda.memory import DeviceMemory

Array = Any  # of the device


@dataclass(frozen=True, eq=False)
class Rows(Adjacency):
    """One direction of a graph: offsets on the host, where engines plan by them; what every arc has, on the device."""

    rows: Any = None

    @property
    def row_of_arc(self) -> Any:
        """The vertex whose row each arc stands in."""
        return self.rows


class DeviceGraph(Graph):
    """A graph all of whose arcs pair, with what every arc has on the device; ``host`` is the one it was made of.

    ``kept``: what array engines make of its structure alone, for the next of their kind.
    """

    def __init__(self, host: Graph) -> None:
        import cupy

        assert host.has_reverse_edges
        assert host.weights is not None
        assert host.facts  # computed on the host, and kept
        self.__dict__.update(host.__dict__)
        self.host, self.kept = host, dict[Any, Any]()
        neighbours, rows = cupy.asarray(host.csr.neighbours), cupy.asarray(host.csr.row_of_arc)
        self.csr = Rows(host.csr.offsets, neighbours, None, rows)
        self.__dict__["csc"] = Rows(host.csc.offsets, neighbours, cupy.asarray(host.in_edge_ids), rows)
        self._weigh(cupy.asarray(host.weights))

    def with_weights(self, weights: Any) -> DeviceGraph:
        """The same graph with other weights, which are on the device."""
        changed = copy.copy(self)
        changed._weigh(weights)
        return changed

    def _weigh(self, weights: Any) -> None:
        self.weights = weights
        self.__dict__["in_weights"] = weights[self.in_edge_ids]

    @cached_property
    def in_degrees(self) -> NDArray[np.int64]:
        """In-arcs of each vertex, counted once."""
        return self.csc.degrees

    @cached_property
    def out_degrees(self) -> NDArray[np.int64]:
        """Out-arcs of each vertex, counted once."""
        return self.csr.degrees


def values_of(prop: Property, graph: Graph, layout: DeviceLayout) -> int:
    """The number of values in the array of a property, including padding."""
    counts = {"vertex": graph.num_vertices, "edge": graph.num_edges, "graph": 1}
    return counts[prop.place] * layout.stride(prop.shape)


class Shared:
    """The inputs of a program on the device, packed as kernels take them, each from when it is first asked for.

    ``graph``: as prepared by the algorithm; ``inputs``: arrays of the host or the device, edges in CSR order.
    ``store``: engines that are prepared on the graph share it while this exists.
    """

    def __init__(self, program: Program, graph: DeviceGraph, inputs: Inputs, features: int) -> None:
        self.program, self.graph, self.inputs, self.features = program, graph, inputs, features
        self.layout, self.store = DeviceLayout(features), DeviceStore.of(graph)
        self.store.attach()  # its arrays remain when an engine is closed
        self._given: dict[str, Array] = {}
        self._packed: dict[str, Array] = {}

    def given(self, name: str) -> Array:
        """An input ``[N, *dims]`` on the device, edges in CSR order."""
        import cupy

        if name == "weight" and name not in self.inputs.properties:
            return self.graph.weights
        if name not in self._given:
            self._given[name] = cupy.asarray(self.inputs.properties[name])
        return self._given[name]

    def packed(self, array: str, prop: Property) -> Array:
        """An input as an array of kernels, flat and padded: "vertex_seed", "csc_weight"."""
        import cupy

        if array not in self._packed:
            values = self.given(prop.name)
            if array.startswith("csc_"):
                values = values[self.graph.in_edge_ids]
            kind = np.bool_ if prop.dtype == "bool" else np.float32
            count = values_of(prop, self.graph, self.layout) + SLACK // np.dtype(kind).itemsize
            self._packed[array] = cupy.full(count, 0, kind)
            self.rows(array, prop)[...] = values
        return self._packed[array]

    def rows(self, array: str, prop: Property) -> Array:
        """A view of :meth:`packed` without its padding, ``[N, *dims]``."""
        return unpadded(self.packed(array, prop), prop, self.graph, self.layout)

    @contextmanager
    def memory(self) -> Iterator[None]:
        """CUDA engines that are prepared here take their inputs from what is shared."""

        def made(*arguments: Any) -> SharedMemory:
            return SharedMemory(self, *arguments)

        with mock.patch.object(cuda_executor, "DeviceMemory", made):
            yield


def unpadded(flat: Array, prop: Property, graph: Graph, layout: DeviceLayout) -> Array:
    """The view ``[N, *dims]`` of a padded array."""
    dims = layout.dims(prop.shape)
    flat = flat[: values_of(prop, graph, layout)]
    if not dims:
        return flat
    inner = (*dims[:-1], layout.row_stride(dims[-1]))
    return flat.reshape(len(flat) // layout.stride(prop.shape), *inner)[..., : dims[-1]]


def posed(
    algorithm: Algorithm, graph: DeviceGraph, k: int, ahead: Future[list[Path]] | None = None
) -> tuple[DeviceGraph, Inputs]:
    """The algorithm's own graph and inputs. What it computes along edges it computes on the device, as CuPy takes over
    from NumPy there; where it cannot, on the host, which takes longer, and is told. ``ahead``: the files of inputs that
    have been made."""
    import cupy

    try:
        prepared = algorithm.prepare_graph(graph)
        assert isinstance(prepared, DeviceGraph)
        if ahead is not None:
            return prepared, Inputs(dict(map(_read, ahead.result())), algorithm.parameter_values())
        return prepared, algorithm.inputs(prepared, k)
    except (TypeError, ValueError, AttributeError, NotImplementedError) as error:
        print(f"  (inputs of {algorithm.name} are made on the host: {type(error).__name__}: {error})", flush=True)
    on_host = algorithm.prepare_graph(graph.host)
    assert on_host.num_edges == graph.num_edges
    weights = on_host.weights if on_host is not graph.host else None
    prepared = graph if weights is None else graph.with_weights(cupy.asarray(weights))
    return prepared, algorithm.inputs(on_host, k)


def _read(path: Path) -> tuple[str, NDArray[Any]]:
    """A property by its name; its file is gone then."""
    values = np.load(path)
    path.unlink()
    return path.stem, values


class SharedMemory(DeviceMemory):
    """The arrays of a run, but for inputs, which are those shared."""

    def __init__(self, shared: Shared, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.shared = shared

    def _give(self, buffer: CudaBuffer, prop: Property, start: Start) -> None:
        if prop.role == "input" and prop.place != "graph":
            self.arrays[buffer.name] = self.shared.packed(buffer.name, prop)
            return
        if not isinstance(prop.start, str):
            super()._give(buffer, prop, start)
            return
        assert buffer.order is not None
        source, array = self.program.properties[prop.start], self.array(buffer)
        array[: buffer.length] = self.shared.packed(buffer.order.array(source.name), source)[: buffer.length]

    def values(self, name: str, array_of: Mapping[str, str]) -> Any:
        """A property where it lies, and in which order: ``([N, *dims] on the device, "csr", "csc" or "vertex")``."""
        prop = self.program.properties[name]
        order = prop.place if prop.place != "edge" else "csr" if f"csr_{name}" in self.arrays else "csc"
        key = f"{order}_{name}"
        return unpadded(self.arrays[array_of.get(key, key)], prop, self.graph, self.layout), order


# reading what an engine has -------------------------------------------------------------------------------------------
def lying(engine: Engine, name: str) -> tuple[Any, str]:
    """A property where it lies on the device, and in which order."""
    if isinstance(engine, CudaEngine):
        found: Any = engine.values(name)  # of SharedMemory
        return found
    assert isinstance(engine, ArrayEngine)
    place = engine.program.properties[name].place
    return engine._value[name], "csc" if place == "edge" else place


def taken(rows: Any, index: NDArray[Any] | None) -> NDArray[Any]:
    """Some rows (None: all) of an array of CuPy's, PyTorch's or NumPy's, on the host."""
    if hasattr(rows, "cpu"):
        import torch

        at = slice(None) if index is None else torch.as_tensor(index.astype(np.int64), device=rows.device)
        return np.array(rows[at].cpu().numpy())
    if hasattr(rows, "get"):
        import cupy

        return np.array((rows if index is None else rows[cupy.asarray(index)]).get())
    return np.array(rows if index is None else rows[index])


def part_of(engine: Engine, name: str, near: NDArray[Any], arcs: NDArray[Any]) -> NDArray[Any]:
    """What an engine has of a property at some vertices, or along some arcs (places in the CSR); all arcs pair."""
    rows, order = lying(engine, name)
    match order:
        case "vertex":
            return taken(rows, near)
        case "csr":
            return taken(rows, arcs)
        case "csc":  # the places of paired arcs in the one order are the permutation that undoes itself
            graph = engine.executor.store.graph if isinstance(engine, CudaEngine) else engine.graph
            return taken(rows, graph.in_edge_ids[arcs])
    return taken(rows, None)


def holds_nan(engine: Engine, name: str) -> bool:
    """Whether any of a property's values is no number."""
    rows, _ = lying(engine, name)
    return bool((rows != rows).any())
