"""What stands in for CuPy on a machine without a GPU: NumPy's arrays, of which those that kernels take are guarded."""

from __future__ import annotations

import types
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

GUARD = 256  # bytes before and behind an array
POISON = 0xA5


class DeviceArray(np.ndarray[Any, Any]):
    """An array of the emulated device. One that was allocated has guards around it; its views have none."""

    room: NDArray[np.uint8] | None = None

    def set(self, values: NDArray[Any]) -> None:
        """Take values of the host."""
        self[...] = values

    def get(self, out: NDArray[Any] | None = None, blocking: bool = True) -> NDArray[Any]:
        """The values, for the host."""
        if out is None:
            return np.array(self)
        out[...] = self
        return out

    def unharmed(self) -> bool:
        """Whether nothing was written beside it."""
        if self.room is None:
            return True
        return bool((self.room[:GUARD] == POISON).all() and (self.room[GUARD + self.nbytes :] == POISON).all())


def allocated(values: Any, dtype: DTypeLike = None) -> DeviceArray:
    """A guarded copy, on an address that a device's allocator could give."""
    given = np.ascontiguousarray(values, dtype)
    room = np.full(given.nbytes + 3 * GUARD, POISON, np.uint8)
    room = room[-room.ctypes.data % GUARD :][: given.nbytes + 2 * GUARD]
    array = room[GUARD : GUARD + given.nbytes].view(given.dtype).reshape(given.shape).view(DeviceArray)
    array[...] = given
    array.room = room
    return array


class Quiet:
    """A stream, an event, a device or a memory pool, none of which has anything to do where a launch is a call."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        """All is done."""

    record = free_all_blocks = synchronize


class Graph:
    """What was launched while a stream was captured."""

    def __init__(self, launches: list[Callable[[], None]]) -> None:
        self._launches = launches

    def launch(self) -> None:
        """All of it, in order."""
        for one in self._launches:
            one()


class Stream(Quiet):
    """A stream, of which launches are calls, but for those that are captured."""

    captured: ClassVar[list[Callable[[], None]] | None] = None

    def begin_capture(self) -> None:
        """Launches are kept and not carried out."""
        assert Stream.captured is None, "a stream is captured already"
        Stream.captured = []

    def end_capture(self) -> Graph:
        """What has been kept since."""
        assert Stream.captured is not None, "no stream is captured"
        launches, Stream.captured = Stream.captured, None
        return Graph(launches)


def cupy_of(module: type) -> types.ModuleType:
    """The module ``cupy``, as far as engines that generate kernels use it; ``module`` loads compiled ones."""
    cupy = types.ModuleType("cupy")
    cuda = types.SimpleNamespace(
        Stream=Stream, Event=Quiet, Device=Quiet, alloc_pinned_memory=bytearray, get_current_stream=Stream,
        function=types.SimpleNamespace(Module=module),
    )  # fmt: skip
    made = {
        "asarray": allocated,
        "full": lambda shape, value, dtype: allocated(np.full(shape, value, dtype)),
        "zeros": lambda shape, dtype: allocated(np.zeros(shape, dtype)),
        "ones": lambda shape, dtype: allocated(np.ones(shape, dtype)),
        "where": np.where,
        "get_default_memory_pool": Quiet,
        "cuda": cuda,
    }
    vars(cupy).update(made)
    return cupy
