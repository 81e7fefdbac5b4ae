"""LIBMF's shared object: its functions by ctypes, and which build it is.

The Python package passes ids as float32, copies the ratings twice more and never frees a model; the object's own C
functions do none of that.
"""

from __future__ import annotations

import ctypes
import importlib.util
import os
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.api import EngineFailure

Array: TypeAlias = NDArray[Any]
NATIVE = "CXXFLAGS='-O3 -march=native -DUSEAVX' pip install --no-cache-dir --force-reinstall --no-deps libmf"
# The scalar build takes inverse square roots by this constant; builds with -DUSEAVX or -DUSESSE by an instruction.
_SCALAR = (0x5F375A86).to_bytes(4, "little")
_NODE = np.dtype([("u", np.int32), ("v", np.int32), ("r", np.float32)])
_FLOATS = ctypes.POINTER(ctypes.c_float)


class _Problem(ctypes.Structure):
    _fields_ = [("m", ctypes.c_int), ("n", ctypes.c_int), ("nnz", ctypes.c_longlong), ("R", ctypes.c_void_p)]


class _Parameter(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int) for name in ("fun", "k", "nr_threads", "nr_bins", "nr_iters")),
        *((name, ctypes.c_float) for name in ("lambda_p1", "lambda_p2", "lambda_q1", "lambda_q2", "eta")),
        *((name, ctypes.c_bool) for name in ("do_nmf", "quiet", "copy_data")),
    ]


class _Model(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int) for name in ("fun", "m", "n", "k")), ("b", ctypes.c_float), ("P", _FLOATS),
        ("Q", _FLOATS),
    ]  # fmt: skip


def object_path() -> Path:
    """Return LIBMF's shared object: LIBMF_OBJ, or that of the installed package. Raises EngineFailure without one."""
    given = os.environ.get("LIBMF_OBJ")
    if given:
        return Path(given)
    found = importlib.util.find_spec("libmf")
    folder = Path(found.origin).parents[1] if found is not None and found.origin else None
    objects = sorted(folder.glob("libmf*.so")) if folder is not None else []
    if not objects:
        raise EngineFailure(f"the package libmf has no shared object in {folder}; install it again, or set LIBMF_OBJ")
    return objects[0]


def build_of(path: Path) -> str:
    """Return "vector" for an object built with vector instructions, else "scalar"."""
    return "scalar" if _SCALAR in path.read_bytes() else "vector"


class Libmf:
    """The functions of an object. Raises EngineFailure for a file that is not LIBMF as the package has it."""

    def __init__(self, path: Path) -> None:
        try:
            self._functions = ctypes.CDLL(str(path))
            self._functions.mf_get_default_param.restype = _Parameter
            self._functions.mf_train.argtypes = [ctypes.POINTER(_Problem), _Parameter]
            self._functions.mf_train.restype = ctypes.POINTER(_Model)
            self._functions.mf_destroy_model.argtypes = [ctypes.POINTER(ctypes.POINTER(_Model))]
            default = self._functions.mf_get_default_param()
        except (OSError, AttributeError) as error:
            raise EngineFailure(f"{path} is not LIBMF's shared object: {error}") from error
        met = (default.k, default.nr_iters, round(default.lambda_p2, 3), round(default.eta, 3), default.copy_data)
        if met != (8, 20, 0.1, 0.1, True):
            raise EngineFailure(f"{path} has other parameters than LIBMF of the package libmf 0.9.2; install that")

    def train(
        self, ratings: Array, shape: tuple[int, int], features: int, sweeps: int, *, rate: float, lam: float,
        threads: int, bins: int,
    ) -> Factors:  # fmt: skip
        """Return the factors after ``sweeps`` of ``ratings`` (:func:`nodes`) with L2 regularisation and loss."""
        parameter = _Parameter(
            0, features, threads, bins, sweeps, 0.0, lam, 0.0, lam, rate, False, True, True
        )  # fmt: skip
        problem = _Problem(*shape, len(ratings), ratings.ctypes.data)
        model = self._functions.mf_train(ctypes.byref(problem), parameter)
        if not model:
            raise EngineFailure("LIBMF refused its parameters, or ran out of memory; its message is above")
        return Factors(self._functions, model)


def nodes(users: Array, items: Array, ratings: Array) -> Array:
    """Return ratings as LIBMF takes them."""
    found = np.empty(len(ratings), _NODE)
    found["u"], found["v"], found["r"] = users, items, ratings
    return found


class Factors:
    """A trained model; it is destroyed with this object."""

    def __init__(self, functions: ctypes.CDLL, model: Any) -> None:
        self._functions, self._model = functions, model

    def read(self) -> Array:
        """Return the factors of users, then of items, float32 [m + n, k]; NaN for those without ratings."""
        model = self._model.contents
        parts = [
            np.ctypeslib.as_array(part, (rows, model.k)) for part, rows in ((model.P, model.m), (model.Q, model.n))
        ]
        return np.concatenate(parts)

    def __del__(self) -> None:
        self._functions.mf_destroy_model(ctypes.byref(self._model))
