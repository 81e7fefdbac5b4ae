"""Library peers: the libraries that a user would otherwise choose."""

from __future__ import annotations

from engines.libraries.schedules import CusparseSchedule, ScipySchedule, TorchSchedule
from harness.api import EngineSpec, hookimpl


@hookimpl
def onyx_engines() -> list[EngineSpec]:
    """Return SciPy for the CPU, cuSPARSE for CUDA devices, and PyTorch for both."""
    return [
        EngineSpec(
            "scipy",
            "SciPy sparse matrix times dense, NumPy for the rest; one thread",
            ScipySchedule,
            "engines.libraries.scipy_engine:ScipyEngine",
            requires=("scipy",),
        ),
        EngineSpec(
            "cusparse",
            "cuSPARSE through CuPy: sparse matrix times dense, CuPy's kernels for the rest",
            CusparseSchedule,
            "engines.libraries.cusparse_engine:CusparseEngine",
            requires=("cupy",),
            devices=("cuda",),
        ),
        EngineSpec(
            "torch",
            "PyTorch: sparse CSR times dense, gather and reduce where the message is no product",
            TorchSchedule,
            "engines.libraries.torch_engine:TorchEngine",
            requires=("torch",),
            devices=("cpu", "cuda"),
        ),
    ]
