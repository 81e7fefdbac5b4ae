"""PyTorch tensors for the evaluation of expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import DTypeLike, NDArray

from harness.api import Arrays

Tensor = torch.Tensor


class TorchArrays(Arrays):
    """Tensors on one device."""

    functions = Arrays.functions | {"pow": "pow", "eq": "eq"}

    def __init__(self, device: str) -> None:
        super().__init__(torch)
        self.device = device
        self.types: dict[Any, Any] = {
            np.dtype(np.float32): torch.float32,
            np.dtype(np.float64): torch.float64,
            np.dtype(np.bool_): torch.bool,
        }

    def upload(self, values: NDArray[Any]) -> Tensor:
        """Return a copy on the device; an array of another library there stays in its memory."""
        if hasattr(values, "__cuda_array_interface__"):
            return torch.as_tensor(values, device=self.device)
        return torch.tensor(values, device=self.device)

    def download(self, array: Tensor) -> NDArray[Any]:
        """Return a copy on the host."""
        return np.array(array.cpu().numpy())

    def copy(self, array: Tensor) -> Tensor:
        """Return a writable copy."""
        return array.clone()

    def cast(self, array: Tensor, dtype: DTypeLike) -> Tensor:
        """Return the tensor converted to a dtype."""
        return array.to(self.types[np.dtype(dtype)])

    def stack(self, arrays: list[Tensor]) -> Tensor:
        """Stack the tensors along a new axis 1."""
        return torch.stack(torch.broadcast_tensors(*arrays), 1)

    def over_rows(self, reducer: str, array: Tensor) -> Tensor:
        """Reduce over the first axis."""
        match reducer:
            case "sum":
                return array.sum(0)
            case "prod":
                return array.prod(0)
        return array.amin(0) if reducer == "min" else array.amax(0)

    def normalized(self, x: Tensor, kind: str) -> Tensor:
        """Normalise over the last axis; softmax is the library's own."""
        return torch.softmax(x, -1) if kind == "softmax" else super().normalized(x, kind)

    def row_sums(self, x: Tensor) -> Tensor:
        """Return the sums over the last axis."""
        return x.sum(-1)

    def solve(self, a: Tensor, b: Tensor) -> Tensor:
        """Solve all systems at once by Cholesky factors; NaN if a matrix is not positive definite."""
        factors, met = torch.linalg.cholesky_ex(a)
        factors, columns = torch.broadcast_tensors(factors, b[:, :, None])[0], b[:, :, None]
        columns = columns.expand(len(factors), *columns.shape[1:])
        found = torch.cholesky_solve(columns, factors)[:, :, 0]
        return torch.where((met == 0)[:, None], found, torch.nan)

    def invert(self, a: Tensor) -> Tensor:
        """Invert all matrices at once; NaN if one is singular."""
        found, met = torch.linalg.inv_ex(a)
        return torch.where((met == 0)[:, None, None], found, torch.nan)

    @staticmethod
    def is_bool(array: Tensor) -> bool:
        """Return whether the dtype is bool."""
        return array.dtype == torch.bool
