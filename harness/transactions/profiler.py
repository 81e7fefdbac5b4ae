"""Hardware counters of kernels, from NVIDIA Nsight Compute (``ncu``).

``ncu`` runs a process and profiles the kernels launched between ``cupy.cuda.profiler.start`` and ``stop``. It replays
each kernel as often as the counters need. It prints CSV with one row per kernel launch and metric.
"""

from __future__ import annotations

import csv
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from harness.transactions.behaviour import Atomics, Behaviour, KernelBehaviour, Loads

LOADS = {
    "requests": ("l1tex__t_requests_pipe_lsu_mem_global_op_ld.sum",),
    "sectors": ("l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",),
    "bytes": ("smsp__sass_data_bytes_mem_global_op_ld.sum",),
}
# Reductions without a return value (red), and atomic operations that return the previous value (atom).
ATOMICS = {
    "requests": (
        "l1tex__t_requests_pipe_lsu_mem_global_op_red.sum", "l1tex__t_requests_pipe_lsu_mem_global_op_atom.sum",
    ),
    "sectors": (
        "l1tex__t_sectors_pipe_lsu_mem_global_op_red.sum", "l1tex__t_sectors_pipe_lsu_mem_global_op_atom.sum",
    ),
    # atomic_transactions in nvprof
    "transactions": (
        "l1tex__t_set_accesses_pipe_lsu_mem_global_op_red.sum", "l1tex__t_set_accesses_pipe_lsu_mem_global_op_atom.sum",
    ),
}  # fmt: skip
METRICS = tuple(name for part in (LOADS, ATOMICS) for names in part.values() for name in names)
BOUNDARY = "behind_what_was_profiled"  # a kernel of this name ends each profiled run
_LAST_LINES = 12


class ProfilerError(RuntimeError):
    """The profiler is missing or returned no counters; the message gives the remedy."""


def find_profiler() -> str:
    """Return the path of ``ncu``. Raises ProfilerError."""
    found = shutil.which("ncu")
    if found is None:
        raise ProfilerError(
            "hardware counters need ncu (NVIDIA Nsight Compute, part of the CUDA toolkit), which is not on the PATH: "
            "install it, or set memory=model, which needs no profiler"
        )
    return found


def profile(command: Sequence[str], log: Path, timeout_s: float | None = None) -> list[Behaviour]:
    """Run ``command`` under the profiler and return one behaviour per profiled run. The profiler writes to ``log``.

    Raises ProfilerError if the profiler is missing, the command fails, or nothing was counted.
    """
    whole = [
        find_profiler(), "--csv", "--log-file", str(log), "--print-units", "base", "--profile-from-start", "off",
        "--clock-control", "none", "--cache-control", "none", "--metrics", ",".join(METRICS), *command,
    ]  # fmt: skip
    finished = subprocess.run(whole, capture_output=True, text=True, errors="replace", timeout=timeout_s, check=False)
    text = log.read_text(encoding="utf-8", errors="replace") if log.exists() else ""
    words = [line for line in (text + finished.stdout + finished.stderr).splitlines() if not line.startswith('"')]
    last_lines = "\n".join(words[-_LAST_LINES:])  # the last lines of the command name its failure
    if "ERR_NVGPUCTRPERM" in last_lines + text:
        raise ProfilerError(
            "only an administrator may read hardware counters (ERR_NVGPUCTRPERM): run as root, or load the driver with "
            "NVreg_RestrictProfilingToAdminUsers=0"
        )
    if finished.returncode:
        raise ProfilerError(f"ncu exited with status {finished.returncode}:\n{last_lines}")
    return read_counters(text)


def read_counters(text: str) -> list[Behaviour]:
    """Parse the output of ``ncu --csv`` into one behaviour per profiled run; launches of one kernel are summed.

    Raises ProfilerError if the output has no counters or a metric is missing.
    """
    lines = text.splitlines()
    start = next((number for number, line in enumerate(lines) if line.startswith('"ID",')), None)
    if start is None:
        raise ProfilerError("ncu counted nothing; the end of its output:\n" + "\n".join(lines[-_LAST_LINES:]))
    launches: dict[int, tuple[str, dict[str, float]]] = {}
    for row in csv.DictReader(line for line in lines[start:] if line.startswith('"')):
        name = row["Kernel Name"].partition("(")[0]
        counters = launches.setdefault(int(row["ID"]), (name, {}))[1]
        counters[row["Metric Name"]] = _number(row["Metric Name"], name, row["Metric Value"])
    found: list[Behaviour] = []
    kernels: dict[str, KernelBehaviour] = {}
    for _, (name, counters) in sorted(launches.items()):
        if name == BOUNDARY:
            found.append(Behaviour("counters", kernels))
            kernels = {}
        else:
            counted = KernelBehaviour(
                Loads(**_summed(name, counters, LOADS)), Atomics(**_summed(name, counters, ATOMICS))
            )
            kernels[name] = kernels.get(name, KernelBehaviour()) + counted
    return [*found, Behaviour("counters", kernels)] if kernels else found


def _summed(kernel: str, counters: Mapping[str, float], metrics: Mapping[str, Sequence[str]]) -> dict[str, float]:
    missing = [name for names in metrics.values() for name in names if name not in counters]
    if missing:
        message = (
            f"ncu reported no {missing[0]} for kernel {kernel!r}; it may not support this GPU: install a newer ncu"
        )
        raise ProfilerError(message)
    return {field: sum(counters[name] for name in names) for field, names in metrics.items()}


def _number(metric: str, kernel: str, text: str) -> float:
    try:
        return float(text.replace(",", ""))
    except ValueError as error:
        raise ProfilerError(f"ncu reported {text!r} for {metric} of kernel {kernel!r}, not a number") from error
