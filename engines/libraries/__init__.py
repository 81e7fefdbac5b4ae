"""Library peers: what people would use instead."""

from __future__ import annotations

from engines.libraries.schedules import CusparseSchedule, ScipySchedule, TorchSchedule
from harness.api import EngineSpec, hookimpl


@hookimpl
def onyx_engines() -> list[EngineSpec]:
    """SciPy for the processor, cuSPARSE for CUDA devices, PyTorch for both."""
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
