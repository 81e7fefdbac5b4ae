"""Estimate the counts of kernels from samples of their blocks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class SampledKernel:
    """The counts of a random sample of ``n`` of a kernel's ``blocks`` blocks.

    ``quantities``: float64[n, q]. ``covered``: float64[n], the elements of the array named ``array`` that each block
    reads and no other one does; ``array`` is empty if there is none.
    """

    name: str
    blocks: int
    quantities: NDArray[np.float64]
    covered: NDArray[np.float64]
    array: str = ""

    @property
    def factor(self) -> float:
        """The number of blocks that each sampled block represents."""
        return self.blocks / len(self.covered)


def estimated(kernels: Sequence[SampledKernel], elements: Mapping[str, int]) -> list[NDArray[np.float64]]:
    """Return the estimated quantities of each kernel, float64[q].

    Degrees are skewed, so a sample of blocks has too many edges or too few. However, the kernels together read each
    element of an array equally often, and ``elements`` has the number of elements by the name of the array. The
    estimates are corrected for the difference between this number and its own estimate, by the regression of the
    quantities on the elements covered (optimal estimator; Montanari 1987, International Statistical Review 55).
    """
    totals = [one.factor * one.quantities.sum(axis=0) for one in kernels]
    for array, count in elements.items():
        those = [number for number, one in enumerate(kernels) if one.array == array]
        covered = sum(kernels[number].factor * kernels[number].covered.sum() for number in those)
        variances = {number: _covariances(kernels[number]) for number in those}
        variance = sum(one[-1] for one in variances.values())
        if not count or not covered or not variance:
            continue
        missing = max(1, round(covered / count)) * count - covered
        for number, found in variances.items():
            totals[number] = np.maximum(totals[number] + found[:-1] / variance * missing, 0.0)
    return totals


def _covariances(kernel: SampledKernel) -> NDArray[np.float64]:
    """Return the covariances of the estimated totals with the one of the elements covered, and its variance last."""
    count = len(kernel.covered)
    if count in (1, kernel.blocks):
        return np.zeros(kernel.quantities.shape[1] + 1)
    both = np.column_stack([kernel.quantities, kernel.covered])
    deviations = both - both.mean(axis=0)
    within = deviations.T @ deviations[:, -1] / (count - 1)
    return np.asarray(kernel.blocks**2 / count * (1 - count / kernel.blocks) * within)
