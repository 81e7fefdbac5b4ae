"""Engines of libraries that begin with the inputs that all engines of a group share on a CUDA device."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any
from unittest import mock

import numpy as np
from numpy.typing import NDArray

from engines.libraries import array_engine
from engines.libraries.array_engine import ArrayEngine
from harness.language import Inputs
from harness.language.initial_state import Start
from harness.language.program import Property
from harness.lowering.cuda.layout import DeviceLayout
from tests.benchmarks.cuda_shared import Array, Shared


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
