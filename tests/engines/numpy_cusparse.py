"""CuPy's arrays and cuSPARSE's generic routines in NumPy, as far as the engine *cusparse* calls them.

Products read and write memory through the descriptors: addresses, leading dimensions, storage orders and integer
types. Time is a clock that a product advances (:attr:`Cusparse.cost`), so that tests decide which way is the fastest.
"""

from __future__ import annotations

import ctypes
import importlib
import itertools
import re
import sys
import types
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse

from harness.emulation.arrays import DeviceArray
from harness.language.arrays import Arrays

HANDLE = 77
SPMM, SPMV = {4: 1, 6: 2, 12: 3}, {2: 1, 3: 2}  # the numbers of algorithms in cusparse.h
MODULES = ("cupy_rows", "cupy_arrays", "cusparse_matrix", "cusparse_engine")


def on_device(found):
    """Return NumPy arrays as arrays of the device, anything else as it is."""
    return found.view(DeviceArray) if isinstance(found, np.ndarray) else found


def at(address, count, kind):
    """Return the ``count`` elements in memory from an address."""
    kind = np.dtype(kind)
    return np.frombuffer((ctypes.c_char * (count * kind.itemsize)).from_address(int(address)), kind)


class Refused(RuntimeError):
    """The error of cuSPARSE."""


class Cusparse:
    """The generic routines. They fail for what cuSPARSE fails for; ``refused``: ways that this version lacks.

    ``loaded``: whether the handle was requested. ``calls``: the names of the routines called. ``alive``: the
    descriptors that exist. ``analysed``: the matrix descriptors and ways that were preprocessed. ``cost``: milliseconds
    of a product by routine, algorithm, order and preprocessing. ``spilled``: ways that read rows of the operand that no
    entry multiplies: "first" or "all". ``spoiled``: functions that change the result of a preprocessed or other way.
    """

    CUSPARSE_OPERATION_NON_TRANSPOSE, CUSPARSE_INDEX_32I, CUSPARSE_INDEX_64I, CUSPARSE_INDEX_BASE_ZERO = 0, 2, 3, 0
    CuSparseError = Refused

    def __init__(self):
        self.loaded = False
        self.alive, self.calls, self.analysed, self.refused, self.numbers = {}, [], set(), set(), itertools.count(1)
        self.cost, self.spilled, self.clock, self.multiplied = (lambda *way: 1.0), {}, 0.0, []
        self.spoiled = {}

    def handle(self):
        self.loaded = True
        return HANDLE

    def _made(self, kind, *what):
        number = next(self.numbers)
        self.alive[number] = (kind, *what)
        return number

    def createCsr(self, rows, columns, entries, offsets, indices, values, offset_type, index_type, base, kind):
        assert (base, kind, offset_type) == (0, 0, index_type)
        wide = {2: np.int32, 3: np.int64}[index_type]
        parts = at(values, entries, np.float32), at(indices, entries, wide), at(offsets, rows + 1, wide)
        assert parts[2][0] == 0 <= np.diff(parts[2]).min(initial=0), "offsets of another integer type"
        assert parts[2][-1] == entries == np.count_nonzero((parts[1] >= 0) & (parts[1] < columns))
        assert entries <= rows * columns, "cuSPARSE refuses more entries than places"
        return self._made("csr", scipy.sparse.csr_array(parts, shape=(rows, columns)))

    def createDnMat(self, rows, columns, stride, address, kind, order):
        assert kind == 0
        assert stride == (columns if order == 2 else rows), "the engine passes whole arrays"
        outer, inner = (rows, columns) if order == 2 else (columns, rows)
        found = at(address, outer * stride, np.float32).reshape(outer, stride)[:, :inner]
        return self._made("dense", found if order == 2 else found.T, "row" if order == 2 else "column")

    def createDnVec(self, size, address, kind):
        assert kind == 0
        return self._made("vector", at(address, size, np.float32).reshape(-1, 1), "row")

    def _destroy(self, kind, number):
        assert self.alive.pop(number)[0] == kind

    def destroySpMat(self, number):
        self._destroy("csr", number)

    def destroyDnMat(self, number):
        self._destroy("dense", number)

    def destroyDnVec(self, number):
        self._destroy("vector", number)

    def _way(self, name, handle, operations, alpha, matrix, b, beta, c, kind, algorithm):
        """Return the way of a call, its matrix and its operands. Raises Refused where cuSPARSE lacks the way."""
        self.calls.append(name)
        assert (handle, operations, kind) == (HANDLE, (0,) * len(operations), 0)
        assert (at(alpha, 1, np.float32)[0], at(beta, 1, np.float32)[0]) == (1.0, 0.0)
        routine = name[:4]
        (held, csr), (shape, dense, order), (same, result, to) = (self.alive[one] for one in (matrix, b, c))
        assert (held, shape, same, order) == ("csr", *["vector" if routine == "spMV" else "dense"] * 2, to)
        assert (csr.shape[1], csr.shape[0], dense.shape[1]) == (*(len(one) for one in (dense, result)), result.shape[1])
        way = (routine, (SPMV if routine == "spMV" else SPMM)[algorithm], order)
        if way in self.refused:
            raise Refused(f"{way} is not supported")
        return way, csr, dense, result

    def _product(self, name, *arguments):
        *arguments, buffer = arguments
        head, tail = (2, 1) if name == "spMV" else (3, 1)
        arguments = arguments[0], tuple(arguments[tail:head]), *arguments[head:]
        way, csr, dense, result = self._way(name, *arguments)
        assert at(buffer, 16, np.int8).shape == (16,)
        analysed = (arguments[3], way) in self.analysed
        before = result.copy()
        with np.errstate(invalid="ignore"):
            result[...] = csr @ dense
            if (*way, analysed) in self.spoiled:
                self.spoiled[(*way, analysed)](csr, dense, result, before)
        spilled = self.spilled.get(way, "none")
        if spilled != "none":
            with np.errstate(invalid="ignore"):
                result[...] += 0 * (dense[0] if spilled == "first" else dense.sum(0))
        self.multiplied.append((*way, analysed))
        self.clock += self.cost(*way, analysed)

    def spMM(self, *arguments):
        self._product("spMM", *arguments)

    def spMV(self, *arguments):
        self._product("spMV", *arguments)

    def spMM_bufferSize(self, handle, *arguments):
        self._way("spMM_bufferSize", handle, arguments[:2], *arguments[2:])
        return 16

    def spMV_bufferSize(self, handle, *arguments):
        self._way("spMV_bufferSize", handle, arguments[:1], *arguments[1:])
        return 16

    def preprocess(self, routine):
        """Return the C function that analyses a matrix."""
        count = 1 if routine == "spMV" else 2
        number, pointer = ctypes.c_int, ctypes.c_void_p

        def analyse(*given):
            kinds = [pointer, *[number] * count, *[pointer] * 5, number, number, pointer]
            assert [type(one) for one in given] == kinds
            handle, *rest, buffer = (one.value or 0 for one in given)
            arguments = handle, tuple(rest[:count]), *rest[count:]
            way, *_ = self._way(f"{routine}_preprocess", *arguments)
            assert at(buffer, 16, np.int8).shape == (16,)
            self.analysed.add((arguments[3], way))
            return 0

        return analyse


class Event:
    """An event of the clock; its time is known once the host has waited for it."""

    def __init__(self, cusparse):
        self.cusparse, self.time, self.known = cusparse, None, False

    def record(self):
        self.time = self.cusparse.clock

    def synchronize(self):
        self.known = self.time is not None


def elapsed(start, stop):
    """Return the milliseconds between events; the later one must have been waited for."""
    assert stop.known, "CUDA raises for an event that may not have happened"
    return stop.time - start.time


def python_of(text):
    """Return an expression of one operation of CUDA C as Python."""
    inner = text[1:-1] if text.startswith("(") and text.endswith(")") else text
    if found := re.fullmatch(r"(.+) \? (.+) : (.+)", inner):
        return f"where({python_of(found[1])}, {found[2]}, {found[3]})"
    for symbol, name in (("||", "logical_or"), ("&&", "logical_and")):
        if f" {symbol} " in inner:
            return f"{name}({', '.join(inner.split(f' {symbol} '))})"
    return f"logical_not({inner[1:]})" if inner.startswith("!") else text.removeprefix("(float)")


class ElementwiseKernel:
    """A formula in CUDA C, one operation a statement, that NumPy computes in float32."""

    def __init__(self, arguments, output, body, name):
        self.arguments = [one.split() for one in arguments.split(", ")]
        self.kind, self.output = output.split()
        number = r"\b(\d[\d.]*(?:e[+-]?\d+)?)f\b"
        body = body.replace("__int_as_float(0x7f800000)", "inf").replace("__int_as_float(0x7fffffff)", "nan")
        self.statements = [
            (*left.split()[-2:], re.sub(number, r"float32(\1)", python_of(right.removesuffix(";"))))
            for left, right in (f"{self.kind} {line}".split(" = ", 1) for line in body.splitlines())
        ]

    def __call__(self, *arrays):
        known = {"true": np.True_, "false": np.False_, "inf": np.float32(np.inf), "nan": np.float32(np.nan)}
        known |= {name: getattr(np, name) for name in ("where", "logical_or", "logical_and", "logical_not", "isnan")}
        known |= {"powf": np.power, "fabsf": np.abs, "floorf": np.floor, "float32": np.float32}
        known |= {f"{name}f": getattr(np, name) for name in ("sqrt", "exp", "log")}
        for (kind, name), array in zip(self.arguments, arrays, strict=True):
            assert (array.dtype, type(array)) == (np.dtype(kind), DeviceArray)
            known[name] = array
        with np.errstate(all="ignore"):
            for kind, name, text in self.statements:
                value = eval(text, {}, known)  # noqa: S307 - the text of the kernel under test
                known[name] = np.asarray(value, "bool" if kind == "bool" else "float32")
        shape = np.broadcast_shapes(*(array.shape for array in arrays))
        return on_device(np.array(np.broadcast_to(known[self.output], shape), self.kind))


def singular_as_nan(function):
    """Return a function of stacked matrices that has NaN for singular ones, as cuBLAS has non-finite values."""

    def found(*given):
        assert all(one.dtype == np.float32 for one in given)
        assert len({len(one) for one in given}) == 1, "every system needs its own right side"
        made = np.full(given[-1].shape, np.nan, np.float32)
        for place, one in enumerate(zip(*given, strict=True)):
            if np.linalg.det(one[0]) != 0:
                made[place] = function(*one)
        return on_device(made)

    return found


def cupy_on(cusparse):
    """Return the modules of CuPy that the engine imports, by name."""
    cupy, cuda, device = (types.ModuleType(name) for name in ("cupy", "cupy.cuda", "cupy.cuda.device"))

    def function(name):
        plain = getattr(np, name)
        return (lambda *a, **b: on_device(plain(*a, **b))) if callable(plain) and not isinstance(plain, type) else plain

    def empty(shape, dtype, order="C"):
        return on_device(np.full(shape, np.nan if np.dtype(dtype).kind == "f" else 99, dtype, order))

    def drawn(shape, dtype):
        return on_device(np.random.default_rng(2).random(shape, dtype))

    vars(device).update(get_cusparse_handle=cusparse.handle, Device=lambda index: SimpleNamespace(use=lambda: None))
    vars(cuda).update(
        cusparse=cusparse, device=device, Device=device.Device, Event=lambda: Event(cusparse), get_elapsed_time=elapsed,
        memory=SimpleNamespace(OutOfMemoryError=MemoryError),
    )  # fmt: skip
    vars(cupy).update(
        cuda=cuda, empty=empty, asnumpy=lambda array: array.view(np.ndarray), ElementwiseKernel=ElementwiseKernel,
        random=SimpleNamespace(random=drawn),
        linalg=SimpleNamespace(solve=singular_as_nan(np.linalg.solve), inv=singular_as_nan(np.linalg.inv)),
        __getattr__=function,
    )  # fmt: skip
    cupy.get_default_memory_pool = lambda: SimpleNamespace(free_all_blocks=lambda: None)
    return {"cupy": cupy, "cupy.cuda": cuda, "cupy.cuda.device": device}


@pytest.fixture
def cusparse(monkeypatch):
    """Import the engine's modules on the stand-in; ``modules`` of the fixture has them by name."""
    made = Cusparse()
    package = importlib.import_module("engines.libraries")
    for name, module in cupy_on(made).items():
        monkeypatch.setitem(sys.modules, name, module)
    made.modules = SimpleNamespace()
    for name in MODULES:  # both are undone after the test
        monkeypatch.setitem(sys.modules, f"engines.libraries.{name}", None)
        monkeypatch.setattr(package, name, None, raising=False)
        del sys.modules[f"engines.libraries.{name}"], vars(package)[name]
    for name in MODULES:
        setattr(made.modules, name, importlib.import_module(f"engines.libraries.{name}"))
    plain = Arrays()  # the kernels of rows have tests of their own

    def numbers(*arrays):
        """Return arrays of float32 as they are; the kernels of rows would convert others."""
        assert {array.dtype for array in arrays} == {np.dtype(np.float32)}
        return arrays

    rows = {
        "reduced": lambda x, op: plain.reduce({"max": "reduce_max", "min": "reduce_min"}.get(op, op), x),
        "row_sums": lambda x: x.sum(-1), "normalized": lambda x, kind: plain.normalized(*numbers(x), kind),
        "moved": lambda old, new, *allowed: plain.moved(*numbers(old, new), *allowed),
        "over_rows": lambda x, reducer: on_device(plain.over_rows(reducer, *numbers(x))),
    }  # fmt: skip
    for name, function in rows.items():
        monkeypatch.setattr(made.modules.cupy_rows, name, function)
    functions = {f"cusparseSp{name}_preprocess": made.preprocess(f"sp{name}") for name in ("MM", "MV")}
    made.library = made.modules.cusparse_matrix._library.__wrapped__
    monkeypatch.setattr(made.modules.cusparse_matrix, "_library", lambda: SimpleNamespace(**functions))
    return made
