"""The arrays that a call gives in the place of inputs of the algorithm, on the host or on the engine's device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import Device, Phases
from harness.graph import Graph
from harness.language import Inputs, InvalidInput, Program
from harness.language.initial_state import on_device
from harness.language.phase_inputs import check_given
from harness.language.results_once import with_results
from harness.plugins import closest
from onyx_harness.arrays import detached, device_view, host_copy, host_view, require

Arrays = Mapping[str, Any]


def with_arrays(
    program: Program, graph: Graph, features: int, inputs: Inputs, arrays: Arrays, device: Device, phases: Phases
) -> Inputs:
    """Return inputs with other arrays by name, checked; the results of stages that run once are computed again.

    Arrays in host memory become read-only views, arrays on ``device`` CuPy views. Both are copied only to convert them
    to float32 or bool. Stages that run once are evaluated on the host; arrays on the device are copied to it for them,
    in the phase "to_host". Raises InvalidInput, and ImportError if CuPy is missing.
    """
    given = {name: _given(program, inputs, name, value, device) for name, value in arrays.items()}
    first = program.phases[0]  # the inputs that later phases compute do not exist yet
    stale = {name for stage in first.setup for name in stage.writes} - set(given)
    kept = {name: value for name, value in {**inputs.properties, **given}.items() if name not in stale}
    found = Inputs(kept, inputs.parameters)
    if stale:
        with phases("to_host"):
            hosted = on_host(found)
        found = Inputs({**with_results(first, graph, features, hosted).properties, **given}, inputs.parameters)
    check_given(program, graph, features, found)
    return found


def on_host(inputs: Inputs) -> Inputs:
    """Return inputs with copies of the arrays on a device in host memory, and the other arrays themselves."""
    properties = {name: host_copy(value) if on_device(value) else value for name, value in inputs.properties.items()}
    return Inputs(properties, inputs.parameters)


def devices_in(inputs: Inputs) -> list[str]:
    """Return the names of the inputs that are on a device."""
    return [name for name, value in inputs.properties.items() if on_device(value)]


def _given(program: Program, inputs: Inputs, name: str, value: Any, device: Device) -> Any:
    """Return an array for an input, in the input's dtype; a missing last axis of k = 1 is added."""
    declared = {one.name for phase in program.phases for one in phase.properties.values() if one.role == "input"}
    known = [name for name in inputs.properties if name in declared]
    if name not in known:
        raise InvalidInput(
            f"{program.name} has no input {name!r}{closest(name, known)} (it has: {', '.join(known) or 'none'})"
        )
    like = inputs.properties[name]
    array = detached(value)
    array = _on(device, name, array) if on_device(array) else _in_host_memory(name, array)
    if array.dtype.kind not in "fiub":
        raise InvalidInput(f"input {name!r} is {array.dtype}; the program needs {like.dtype}")
    array = array.astype(like.dtype, copy=False)
    if tuple(array.shape) == like.shape[:-1] and like.shape[-1:] == (1,):
        array = array[..., np.newaxis]
    if not on_device(array):
        array = array.view()
        array.flags.writeable = False
    return array


def _in_host_memory(name: str, array: Any) -> NDArray[Any]:
    try:
        return host_view(array)
    except (TypeError, ValueError, BufferError, RuntimeError) as error:
        kind = type(array).__name__
        raise InvalidInput(f"input {name!r} is a {kind} that NumPy cannot read ({error}); give an array") from error


def _on(device: Device, name: str, array: Any) -> Any:
    """Return a CuPy view of an array on a device. Raises InvalidInput if that is not the engine's device."""
    if device.kind == "cpu":
        raise InvalidInput(
            f"input {name!r} is on a CUDA device, and the engine runs on the CPU; copy it with cupy.asnumpy(array) or "
            "tensor.cpu()"
        )
    require("cupy", f"input {name!r} on a CUDA device")
    found = device_view(array)
    if found.device.id != device.index:
        raise InvalidInput(f"input {name!r} is on cuda:{found.device.id}, and the engine runs on cuda:{device.index}")
    return found
