"""What the engines of a group share on a CUDA device: the graph and the inputs, which no kernel writes, are there once.

Uploading them anew for each of nine engines, edge by edge in another order, takes longer than most runs. What an engine
makes of a graph for itself (virtual nodes, lists, pieces of matrices), and all that it writes, stays its own.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from engines.libraries import array_engine
from engines.libraries.array_engine import ArrayEngine
from harness.contract import Engine
from harness.graph import Graph
from harness.graph.adjacency import Adjacency
from harness.language import Inputs, Program
from harness.language.program import Property
from harness.language.start import Start
from harness.lowering.cuda import engine as cuda_engine
from harness.lowering.cuda.engine import CudaEngine
from harness.lowering.cuda.layout import DeviceLayout
from harness.lowering.cuda.memory import SLACK, DeviceMemory, values_of

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


class Shared:
    """The inputs of a program on the device, packed as kernels take them, each from when it is first asked for.

    ``graph``: as prepared by the algorithm; ``inputs``: arrays of the host or the device, edges in CSR order.
    """

    def __init__(self, program: Program, graph: DeviceGraph, inputs: Inputs, features: int) -> None:
        self.program, self.graph, self.inputs, self.features = program, graph, inputs, features
        self.layout = DeviceLayout(features)
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

        with mock.patch.object(cuda_engine, "DeviceMemory", made):
            yield


def unpadded(flat: Array, prop: Property, graph: Graph, layout: DeviceLayout) -> Array:
    """The view ``[N, *dims]`` of a padded array."""
    dims = layout.dims(prop.shape)
    flat = flat[: values_of(prop, graph, layout)]
    if not dims:
        return flat
    inner = (*dims[:-1], layout.row_stride(dims[-1]))
    return flat.reshape(len(flat) // layout.stride(prop.shape), *inner)[..., : dims[-1]]


class SharedMemory(DeviceMemory):
    """The arrays of a run, but for inputs, which are those shared."""

    def __init__(self, shared: Shared, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.shared = shared

    def _give(self, name: str, prop: Property, start: Start) -> None:
        if prop.role == "input" and prop.place != "graph":
            self.arrays[name] = self.shared.packed(name, prop)
            return
        if not isinstance(prop.start, str):
            super()._give(name, prop, start)
            return
        source = self.program.properties[prop.start]
        size, kind = values_of(prop, self.graph, self.layout), np.bool_ if prop.dtype == "bool" else np.float32
        array = self.arrays[name] if name in self.arrays else self.empty(name, size, kind)
        array[:size] = self.shared.packed(f"{name.partition('_')[0]}_{source.name}", source)[:size]

    def values(self, name: str, array_of: Mapping[str, str]) -> Any:
        """A property where it lies, and in which order: ``([N, *dims] on the device, "csr", "csc" or "vertex")``."""
        prop = self.program.properties[name]
        order = prop.place if prop.place != "edge" else "csr" if f"csr_{name}" in self.arrays else "csc"
        key = f"{order}_{name}"
        return unpadded(self.arrays[array_of.get(key, key)], prop, self.graph, self.layout), order


class OfLibrary(ArrayEngine):
    """To be mixed into an array engine: begins with what is ``shared``, and begins anew with what it began with."""

    shared: Shared

    @property
    def kept(self) -> dict[Any, Any]:
        """What engines of its library keep of the graph."""
        return self.shared.graph.kept.setdefault(self.library, {})

    def _upload_graph(self) -> None:
        names = ("in_sources", "in_destinations", "edge_ids", "_patterns")
        key = ("structure", bool(self.products))
        if key not in self.kept:
            super()._upload_graph()
            self.kept[key] = {name: getattr(self, name) for name in names}
        vars(self).update(self.kept[key])

    def pattern(self, columns: NDArray[Any], offsets: NDArray[Any], width: int) -> Any:
        key = ("pattern", width, len(columns), columns[:1000].tobytes())
        if key not in self.kept:
            self.kept[key] = super().pattern(columns, offsets, width)
        return self.kept[key]

    def reset(self, inputs: Inputs, state: Mapping[str, NDArray[np.generic]] | None = None) -> None:
        if "begun" in vars(self):  # nothing is written in place: a run leaves the arrays that it began with
            self._value = dict(self.begun)
            self._superstep, self._active, self._settled = 0, self.graph.num_vertices, False
            return
        upload: Callable[[Any], Any] = self.arrays.upload

        def starts(*_: Any) -> dict[str, Any]:
            return {name: self._start_of(prop, upload) for name, prop in self.program.properties.items()}

        with (
            mock.patch.object(array_engine, "initial_values", starts),
            mock.patch.object(self.arrays, "upload", lambda v: upload(v) if type(v) is np.ndarray else v),
        ):
            super().reset(inputs, state)
        self.begun = dict(self._value)

    def _in_order(self, name: str, values: Any) -> Any:
        return values  # they are in the order of the CSC already

    def _start_of(self, prop: Property, upload: Callable[[Any], Any]) -> Any:
        """In the library's arrays."""
        import cupy

        if prop.role == "state" and isinstance(prop.start, str):
            return self._start_of(self.program.properties[prop.start], upload)
        if prop.role == "builtin":
            started = Start(self.program, self.graph, self.features, self.shared.inputs, {})
            return upload(started.of(prop).astype(np.float32))
        if prop.role == "input" and prop.place == "graph":
            return upload(np.asarray(self.shared.inputs.properties[prop.name], np.float32)[None])
        if prop.role == "input":
            array = f"{'csc' if prop.place == 'edge' else 'vertex'}_{prop.name}"
            return self.native(cupy.ascontiguousarray(self.shared.rows(array, prop)))
        count = {"vertex": self.graph.num_vertices, "edge": self.graph.num_edges, "graph": 1}[prop.place]
        shape = (count, *DeviceLayout(self.features).dims(prop.shape))
        kind = np.bool_ if prop.dtype == "bool" else np.float32
        blank = False if kind is np.bool_ else np.nan
        if prop.role == "temporary":  # written before it is read
            one = self.native(cupy.full((1,) * len(shape), blank, kind))
            return self.arrays.broadcast(one, shape)
        return self.native(cupy.full(shape, prop.start, kind))

    def close(self) -> None:
        """Drop what it began with, too."""
        vars(self).pop("begun", None)
        super().close()

    def native(self, array: Array) -> Any:
        """An array of CuPy's as one of the library's, in the same memory."""
        if self.library != "torch.sparse":
            return array
        import torch

        if array.dtype == np.bool_:
            return torch.from_dlpack(array.view(np.uint8)).view(torch.bool)
        return torch.from_dlpack(array)


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
            return taken(rows, engine.graph.in_edge_ids[arcs])
    return taken(rows, None)


def holds_nan(engine: Engine, name: str) -> bool:
    """Whether any of a property's values is no number."""
    rows, _ = lying(engine, name)
    return bool((rows != rows).any())
