"""Arrays of other libraries, in host memory or on a CUDA device.

Nothing is copied between the two unless a function says so. Memory is shared through DLPack on the host and through
``__cuda_array_interface__`` on a device. No library is imported before an array of it is given or requested.
"""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

from harness.contract import Device
from harness.language.initial_state import on_device

LIBRARIES = {"numpy": "", "cupy": "cuda13", "torch": "torch"}  # with the extra that installs each


def is_of(data: Any, library: str) -> bool:
    """Return whether the class of ``data``, or a base of it, is defined in ``library``."""
    modules = [str(getattr(one, "__module__", "")) for one in type(data).__mro__]
    return any(module == library or module.startswith(f"{library}.") for module in modules)


def detached(array: Any) -> Any:
    """Return a tensor without its gradient, in the same memory; other arrays unchanged."""
    return array.detach() if is_of(array, "torch") else array


def host_view(array: Any) -> NDArray[Any]:
    """Return an array in host memory as a NumPy array in the same memory, if the library can share it; else a copy.

    Raises TypeError, BufferError or ValueError for an array that NumPy cannot represent.
    """
    array = detached(array)
    if not isinstance(array, np.ndarray) and hasattr(array, "__dlpack__"):
        return np.from_dlpack(array)
    return np.asarray(array)


def host_copy(array: Any) -> NDArray[Any]:
    """Return a NumPy array: a copy of an array on a device; for others `host_view`."""
    array = detached(array)
    if not on_device(array):
        return host_view(array)
    if is_of(array, "torch"):
        return host_view(array.cpu())
    copied: NDArray[Any] = np.array(device_view(array).get())
    return copied


def device_view(array: Any) -> Any:
    """Return an array on a CUDA device as a CuPy array in the same memory, after the work queued on its device."""
    import cupy

    found = cupy.asarray(detached(array))
    cupy.cuda.Device(found.device.id).synchronize()  # the caller's work may be on any stream
    return found


def as_library(array: Any, library: str) -> Any:
    """Return an array as one of ``LIBRARIES``, in the same memory; "numpy" copies an array on a device to the host.

    Raises ValueError for "cupy" and an array in host memory.
    """
    if library == "numpy":
        return host_copy(array)
    if library == "torch":
        import torch

        return array if is_of(array, "torch") else torch.as_tensor(array)
    if not on_device(array):
        raise ValueError("the answer is in host memory; run(..., device='cuda', array='cupy') leaves it on the device")
    return device_view(array)


def placed(values: NDArray[Any], library: str, device: Device) -> Any:
    """Return a copy of a NumPy array as one of ``LIBRARIES``: on a CUDA device, unless it is "numpy"."""
    if library == "numpy" or device.kind == "cpu":
        return as_library(np.array(values), library)
    if library == "torch":
        import torch

        return torch.as_tensor(np.array(values), device=f"cuda:{device.index}")
    import cupy

    with cupy.cuda.Device(device.index):
        return cupy.asarray(values)


def require(library: str, what: str) -> None:
    """Raise ImportError, with the extra to install, if a library that ``what`` needs cannot be imported."""
    try:
        importlib.import_module(library)
    except ImportError as error:
        install = f"pip install 'onyx-harness[{LIBRARIES[library]}]'"
        raise ImportError(f"{what} needs {library}: {install} ({error})") from error
