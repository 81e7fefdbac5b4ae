"""Arrays of the emulated device, and the substitute for CuPy that allocates them."""

from __future__ import annotations

import ctypes
import time
import types
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import DTypeLike, NDArray

GUARD = 256  # bytes before and behind an array
POISON = 0xA5


class DeviceArray(np.ndarray[Any, Any]):
    """An array of the emulated device: with guards around it if it was allocated, without if it is a view."""

    guarded: NDArray[np.uint8] | None = None

    @property
    def data(self) -> Any:
        """The address as ``data.ptr``, as CuPy gives it."""
        return types.SimpleNamespace(ptr=self.__array_interface__["data"][0])

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        """The description by which other libraries share the memory of an array."""
        return dict(self.__array_interface__)

    @property
    def device(self) -> Any:
        """The device as ``device.id``, as CuPy gives it."""
        return types.SimpleNamespace(id=0)

    def __setitem__(self, place: Any, values: Any) -> None:
        Order.written()
        super().__setitem__(place, values)

    def fill(self, value: Any) -> None:
        """Set all elements."""
        Order.written()
        super().fill(value)

    def set(self, values: NDArray[Any]) -> None:
        """Copy values from the host. Raises TypeError for an array of the device, as CuPy does."""
        if isinstance(values, DeviceArray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        self[...] = values

    def get(self, out: NDArray[Any] | None = None, blocking: bool = True) -> NDArray[Any]:
        """Return a copy of the values, or copy them to ``out``."""
        if out is None:
            return np.array(self)
        out[...] = self
        return out

    def unharmed(self) -> bool:
        """Return whether the guards are intact."""
        if self.guarded is None:
            return True
        return bool((self.guarded[:GUARD] == POISON).all() and (self.guarded[GUARD + self.nbytes :] == POISON).all())


def allocated(values: Any, dtype: DTypeLike | None = None) -> DeviceArray:
    """Return a guarded copy, aligned as a device's allocator aligns arrays."""
    given = np.ascontiguousarray(values, dtype)
    guarded = np.full(given.nbytes + 3 * GUARD, POISON, np.uint8)
    guarded = guarded[-guarded.ctypes.data % GUARD :][: given.nbytes + 2 * GUARD]
    array = guarded[GUARD : GUARD + given.nbytes].view(given.dtype).reshape(given.shape).view(DeviceArray)
    array[...] = given
    array.guarded = guarded
    return array


def as_array(values: Any, dtype: DTypeLike | None = None) -> DeviceArray:
    """Return an array of the device in its own memory, also if it is of another library; others are copied to it."""
    if not hasattr(values, "__cuda_array_interface__"):
        return allocated(values, dtype)
    if not isinstance(values, DeviceArray):
        holder = types.SimpleNamespace(__array_interface__=values.__cuda_array_interface__, owner=values)
        values = np.asarray(holder).view(DeviceArray)
    shared: DeviceArray = values if dtype is None else values.astype(dtype, copy=False)
    return shared


class HostArray(DeviceArray):
    """An array in memory of the host that a kernel reads in place: the substitute for ``cupy.ndarray`` on a pointer."""

    owner: object = None

    def __new__(cls, length: int, dtype: DTypeLike, pointer: Pointer) -> Self:
        """Return the array of ``length`` elements at a pointer."""
        buffer = (ctypes.c_char * (length * np.dtype(dtype).itemsize)).from_address(pointer.memory.pointer)
        array: Self = np.frombuffer(memoryview(buffer), np.dtype(dtype)).view(cls)
        array.owner = pointer.memory
        return array


@dataclass(frozen=True)
class UnownedMemory:
    """Memory that CuPy has not allocated; ``owner`` lives as long as it."""

    pointer: int
    size: int
    owner: object
    device: int


@dataclass(frozen=True)
class Pointer:
    """A place in memory, ``offset`` bytes from its beginning."""

    memory: UnownedMemory
    offset: int


class RuntimeFailure(RuntimeError):
    """The substitute for the error that a call of CUDA's runtime raises."""


class Runtime:
    """The substitute for CUDA's runtime, as far as engines call it; any memory can be registered."""

    CUDARuntimeError = RuntimeFailure

    def __init__(self) -> None:
        self.registered: dict[int, int] = {}  # bytes by address

    @staticmethod
    def memGetInfo() -> tuple[int, int]:  # noqa: N802  CUDA's name
        """Return the available and the total memory of the host in bytes."""
        return memory_info()

    @staticmethod
    def getDevice() -> int:  # noqa: N802  CUDA's name
        """Return 0: there is one device."""
        return 0

    @staticmethod
    def deviceGetAttribute(attribute: int, device: int) -> int:  # noqa: N802  CUDA's name
        """Return 1: the device has every capability."""
        return 1

    def hostRegister(self, pointer: int, size: int, flags: int) -> None:  # noqa: N802  CUDA's name
        """Note registered memory."""
        self.registered[pointer] = size

    memcpyHostToDevice = 1  # noqa: N815  CUDA's name

    @staticmethod
    def memcpyAsync(to: int, source: int, size: int, kind: int, stream: int) -> None:  # noqa: N802  CUDA's name
        """Queue a copy on a stream. It is made, and reads its source, once the host waits for it."""
        Stream.known[stream].pending.append(partial(ctypes.memmove, to, source, size))

    def hostUnregister(self, pointer: int) -> None:  # noqa: N802  CUDA's name
        """Forget registered memory."""
        del self.registered[pointer]


class Quiet:
    """A stream, an event, a device or a memory pool, which do nothing where a launch is a call."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> Quiet:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def synchronize(self) -> None:
        """Return at once."""

    record = free_all_blocks = use = synchronize


class Pool(Quiet):
    """The memory pool: NumPy allocates."""

    def free_bytes(self) -> int:
        """Return 0: nothing is pooled."""
        return 0

    used_bytes = get_limit = free_bytes


def memory_info() -> tuple[int, int]:
    """Return the available and the total memory of the host in bytes."""
    fields = dict(line.split(":") for line in Path("/proc/meminfo").read_text(encoding="ascii").splitlines())
    available, total = (1024 * int(fields[name].split()[0]) for name in ("MemAvailable", "MemTotal"))
    return available, total


class Order:
    """The order of work on the default stream and on a stream of a run, which does not wait for it.

    ``streams``: entered streams, the current one last. ``pending``: whether the host has written to the device on the
    default stream since it waited for the device.
    """

    streams: ClassVar[list[object]] = []
    pending: ClassVar[bool] = False

    @staticmethod
    def written() -> None:
        """Note a write by the host."""
        Order.pending = Order.pending or not Order.streams

    @staticmethod
    def unordered() -> bool:
        """Return whether a launch now may begin before writes by the host are done."""
        return bool(Order.streams) and Order.pending


class EmulatedDevice(Quiet):
    """The device."""

    def synchronize(self) -> None:
        """Wait for all work."""
        Order.pending = False


class Graph:
    """The launches recorded while a stream was captured."""

    def __init__(self, launches: list[Callable[[], None]]) -> None:
        self._launches = launches

    def launch(self) -> None:
        """Run the launches in order."""
        for one in self._launches:
            one()


class Event(Quiet):
    """An event; what was queued on its stream before it is in ``pending``."""

    def __init__(self, *_: object, **__: object) -> None:
        self.pending: list[Callable[[], object]] = []
        self.recorded = 0.0

    def record(self, stream: Stream | None = None) -> None:
        """Note what the stream has not done yet."""
        self.pending = list(stream.pending) if stream is not None else []
        self.recorded = time.perf_counter()

    def synchronize(self) -> None:
        """Do what was queued before the event on its stream."""
        for stream in list(Stream.known.values()):
            done = [one for one in stream.pending if one in self.pending]
            stream.pending = [one for one in stream.pending if one not in self.pending]
            for copy in done:
                copy()


class Stream(Quiet):
    """A stream; launches run at once, except for captured ones, and copies when they are waited for.

    ``known``: the streams by their numbers.
    """

    captured: ClassVar[list[Callable[[], None]] | None] = None
    known: ClassVar[WeakValueDictionary[int, Stream]] = WeakValueDictionary()

    def __init__(self, *_: object, **__: object) -> None:
        self.pending: list[Callable[[], object]] = []
        self.ptr = id(self)
        Stream.known[self.ptr] = self

    def __enter__(self) -> Self:
        Order.streams.append(self)
        return self

    def __exit__(self, *_: object) -> None:
        Order.streams.remove(self)

    def wait_event(self, event: Event) -> None:
        """Do what was queued before the event on its stream."""
        event.synchronize()

    def synchronize(self) -> None:
        """Do what is queued."""
        pending, self.pending = self.pending, []
        for copy in pending:
            copy()

    def begin_capture(self) -> None:
        """Record launches instead of running them."""
        assert Stream.captured is None, "a stream is captured already"
        Stream.captured = []

    def end_capture(self) -> Graph:
        """Return the launches recorded since :meth:`begin_capture`."""
        assert Stream.captured is not None, "no stream is captured"
        launches, Stream.captured = Stream.captured, None
        return Graph(launches)


def cupy_of(module: type) -> types.ModuleType:
    """Return a substitute for the module ``cupy``, as far as engines use it; ``module`` loads compiled kernels."""
    cupy = types.ModuleType("cupy")
    cuda = types.SimpleNamespace(
        Stream=Stream, Event=Event, Device=EmulatedDevice, alloc_pinned_memory=bytearray, get_current_stream=Stream,
        function=types.SimpleNamespace(Module=module), runtime=Runtime(), UnownedMemory=UnownedMemory,
        MemoryPointer=Pointer, get_elapsed_time=lambda begin, end: 1000 * (end.recorded - begin.recorded),
    )  # fmt: skip
    made = {
        "ndarray": HostArray,
        "asarray": as_array,
        "full": lambda shape, value, dtype: allocated(np.full(shape, value, dtype)),
        "zeros": lambda shape, dtype: allocated(np.zeros(shape, dtype)),
        "ones": lambda shape, dtype: allocated(np.ones(shape, dtype)),
        "where": np.where,
        "get_default_memory_pool": Pool,
        "cuda": cuda,
    }
    vars(cupy).update(made)
    return cupy
