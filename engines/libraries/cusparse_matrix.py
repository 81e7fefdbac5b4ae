"""Products of a CSR matrix and dense features stored by rows, by cuSPARSE's generic routines.

Importing this loads cuSPARSE, which a machine without a GPU need not have.
"""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
from cupy.cuda import cusparse
from cupy.cuda.device import get_cusparse_handle

from engines.libraries.schedules import MOST_OF_FIRST

# Of cusparse.h and library_types.h; CuPy has no names for them.
_FLOAT32 = 0  # CUDA_R_32F
_BY_ROWS = 2  # CUSPARSE_ORDER_ROW
_CSR_ALGORITHMS = {1: 4, 2: 6, 3: 12}  # CUSPARSE_SPMM_CSR_ALG1, 2, 3
_PLAIN = cusparse.CUSPARSE_OPERATION_NON_TRANSPOSE
_ONE, _ZERO = np.array(1.0, np.float32), np.array(0.0, np.float32)


class RowMajorCsr:
    """A CSR matrix on the device, float32, that multiplies dense matrices stored by rows.

    ``algorithm``: of the product, 1, 2 or 3; 0: by the number of features.
    """

    def __init__(self, values: Any, columns: Any, offsets: Any, shape: tuple[int, int], algorithm: int) -> None:
        self.shape, self._algorithm = shape, algorithm
        self._parts = (cupy.ascontiguousarray(values, np.float32), columns, offsets)  # the descriptor points to them
        self._sizes: dict[int, int] = {}
        self._unused: Any = None  # columns without an entry
        index = cusparse.CUSPARSE_INDEX_32I if columns.dtype == np.int32 else cusparse.CUSPARSE_INDEX_64I
        pointers = [part.data.ptr for part in reversed(self._parts)]
        base = cusparse.CUSPARSE_INDEX_BASE_ZERO
        self._matrix = cusparse.createCsr(*shape, len(columns), *pointers, index, index, base, _FLOAT32)

    def __matmul__(self, dense: Any) -> Any:
        """Times ``dense [columns, n]``, float32: ``[rows, n]``."""
        n = dense.shape[1]
        if not len(self._parts[0]) or not n:
            return cupy.zeros((self.shape[0], n), np.float32)
        dense, result = cupy.ascontiguousarray(dense), cupy.empty((self.shape[0], n), np.float32)
        if n == 1:
            self._times_vector(dense, result)
        else:
            self._times_matrix(dense, result)
        return result

    def _times_vector(self, dense: Any, result: Any) -> None:
        x, y = (cusparse.createDnVec(a.size, a.data.ptr, _FLOAT32) for a in (dense, result))
        algorithm = cusparse.CUSPARSE_MV_ALG_DEFAULT
        alpha, beta = _ONE.ctypes.data, _ZERO.ctypes.data
        common = (get_cusparse_handle(), _PLAIN, alpha, self._matrix, x, beta, y, _FLOAT32, algorithm)
        try:
            if 1 not in self._sizes:
                self._sizes[1] = cusparse.spMV_bufferSize(*common)
            cusparse.spMV(*common, cupy.empty(self._sizes[1], np.int8).data.ptr)
        finally:
            cusparse.destroyDnVec(x)
            cusparse.destroyDnVec(y)

    def _times_matrix(self, dense: Any, result: Any) -> None:
        n = dense.shape[1]
        dense = self._numbers(dense)
        b, c = (cusparse.createDnMat(len(a), n, n, a.data.ptr, _FLOAT32, _BY_ROWS) for a in (dense, result))
        alpha, beta = _ONE.ctypes.data, _ZERO.ctypes.data
        algorithm = _CSR_ALGORITHMS[self._algorithm or (1 if n <= MOST_OF_FIRST else 2)]
        common = (get_cusparse_handle(), _PLAIN, _PLAIN, alpha, self._matrix, b, beta, c, _FLOAT32, algorithm)
        try:
            if n not in self._sizes:
                self._sizes[n] = cusparse.spMM_bufferSize(*common)
            cusparse.spMM(*common, cupy.empty(self._sizes[n], np.int8).data.ptr)
        finally:
            cusparse.destroyDnMat(b)
            cusparse.destroyDnMat(c)

    def _numbers(self, dense: Any) -> Any:
        """``dense`` with 0 in the rows that no entry is multiplied with, which need not be numbers (a rank over no
        out-edges): algorithm 1 gave NaN for rows of the matrix that are empty where the first of these was NaN."""
        if self._unused is None:
            used = cupy.zeros(self.shape[1], np.bool_)
            used[self._parts[1]] = True
            self._unused = cupy.flatnonzero(~used)
        if not len(self._unused):
            return dense
        dense = dense.copy()
        dense[self._unused] = 0.0
        return dense

    def __del__(self) -> None:
        if hasattr(self, "_matrix"):
            cusparse.destroySpMat(self._matrix)
