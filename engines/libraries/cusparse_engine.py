"""cuSPARSE through CuPy: sparse matrix times dense features on a CUDA device, formulas by CuPy's kernels.

``csr_matrix @ dense`` of CuPy wants the dense matrix by columns and copies it to be so; here cuSPARSE's generic
routines are called directly with features stored by rows (:mod:`engines.libraries.cusparse_matrix`).
"""

from __future__ import annotations

from typing import Any

import cupy

from engines.libraries.array_engine import ArrayEngine
from engines.libraries.cupy_arrays import CupyArrays
from engines.libraries.schedules import MOST_OF_FIRST, CusparseSchedule
from harness.api import Device, cuda_unavailable


class CusparseEngine(ArrayEngine):
    """Sparse times dense by cuSPARSE; what is no product is unsupported."""

    library = "cuSPARSE"
    schedule: CusparseSchedule

    def open(self, device: Device) -> None:
        """CuPy's arrays on the device."""
        cupy.cuda.Device(device.index).use()
        self.arrays = CupyArrays()

    def refused_device(self, device: Device) -> str:
        """A processor, or a machine without a device."""
        return cuda_unavailable(device.index) if device.kind == "cuda" else "cuSPARSE runs on CUDA devices only"

    def csr(self, values: Any, columns: Any, offsets: Any, shape: tuple[int, int]) -> Any:
        """A CSR matrix of cuSPARSE."""
        from engines.libraries.cusparse_matrix import RowMajorCsr

        return RowMajorCsr(values, columns, offsets, shape, self.schedule.algorithm)

    def told(self, stage: Any) -> str:
        """The path of one stage."""
        if stage.name in self.products:
            chosen = self.schedule.algorithm or f"1 up to {MOST_OF_FIRST} features and 2 beyond"
            width = f"SpMM, algorithm {chosen} of CSR, or SpMV for one feature"
            return f"{super().told(stage)}: {width}"
        return "kernels that CuPy generates, one a formula, and its reductions"

    def close(self) -> None:
        """Release the device's memory."""
        super().close()
        self.__dict__.pop("arrays", None)
        cupy.get_default_memory_pool().free_all_blocks()
