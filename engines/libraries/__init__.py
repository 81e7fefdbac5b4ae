"""Library peers: the libraries that a user would otherwise choose."""

from __future__ import annotations

from engines.libraries.schedules import (
    CusparseSchedule,
    LibmfSchedule,
    ScipySchedule,
    SolverSchedule,
    SurpriseSchedule,
    TorchSchedule,
)
from harness.api import EngineSpec, hookimpl

PEERS = "pip install 'onyx-harness[peers]'"
SGD = "pip install 'onyx-harness[sgd]'"
NATIVE_SGD = f"CXXFLAGS='-O3 -march=native -DUSEAVX' {SGD}"


@hookimpl
def onyx_engines() -> list[EngineSpec]:
    """Return the libraries that multiply sparse matrices, superstep by superstep, and those that solve the whole
    problem."""
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
            install="pip install 'onyx-harness[cuda13]'",
        ),
        EngineSpec(
            "torch",
            "PyTorch: sparse CSR times dense, gather and reduce if the message is not a product",
            TorchSchedule,
            "engines.libraries.torch_engine:TorchEngine",
            requires=("torch",),
            devices=("cpu", "cuda"),
            install="pip install 'onyx-harness[torch]'",
        ),
        *_solvers(),
        EngineSpec(
            "libmf",
            "LIBMF: factorisation of ratings by SGD in parallel blocks, all sweeps",
            LibmfSchedule,
            "engines.libraries.libmf_engine:LibmfEngine",
            requires=("libmf",),
            install=NATIVE_SGD,
        ),
        EngineSpec(
            "surprise",
            "Surprise's SVD: factorisation of ratings by SGD in float64; one thread",
            SurpriseSchedule,
            "engines.libraries.surprise_engine:SurpriseEngine",
            requires=("surprise",),
            install=SGD,
        ),
    ]


def _solvers() -> list[EngineSpec]:
    """Return the libraries that solve the whole problem."""
    return [
        EngineSpec(
            "scipy_graph",
            "SciPy's graph routines (csgraph), the whole problem; one thread",
            SolverSchedule,
            "engines.libraries.scipy_graph_engine:ScipyGraphEngine",
            requires=("scipy",),
        ),
        EngineSpec(
            "krylov",
            "SciPy's Krylov solvers, for programs whose fixed point solves a linear system; one thread",
            SolverSchedule,
            "engines.libraries.krylov_engine:KrylovEngine",
            requires=("scipy",),
        ),
        *(
            EngineSpec(
                name, f"{summary}, the whole problem", SolverSchedule, f"engines.libraries.{name}_engine:{cls}",
                requires=(module,), install=PEERS,
            )
            for name, summary, cls, module in (
                ("networkit", "NetworKit", "NetworkitEngine", "networkit"),
                ("scikit_network", "scikit-network; one thread", "ScikitNetworkEngine", "sknetwork"),
                ("networkx", "networkx; one thread, in Python", "NetworkxEngine", "networkx"),
                ("igraph", "igraph; one thread", "IgraphEngine", "igraph"),
                ("graphblas", "SuiteSparse:GraphBLAS through python-graphblas", "GraphblasEngine", "graphblas"),
            )
        ),
    ]  # fmt: skip
