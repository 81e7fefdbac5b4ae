"""The linear system of an affine program on the CPU: its operator is a superstep of the program, run by its own plan.

A superstep computes S(x) = A x + b. For any vector p, A p = S(p) - S(0), so that the solvers need no matrix. All
vectors have the layout of the state: float32, a row for each vertex, a column for each feature. The columns are
independent systems, with coefficients of their own.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from harness.api import EngineFailure
from harness.api.cpu import Run, Step

Vector: TypeAlias = NDArray[np.float32]  # [V * stride], in the layout of the state
Columns: TypeAlias = NDArray[np.float64]  # [width], a number for each feature
SCALE = 2.0**12  # of a residual beside the right side
VECTORS = ("right", "residual", "direction", "image", "second", "shadow", "solution")


def buffer_of(vector: str) -> str:
    """Return the name of the array of a vector."""
    return f"krylov_{vector}"


@dataclass
class System:
    """The system of one run.

    ``state``: the property that is solved for. ``stride``, ``width``: of its rows, in floats. ``limit``: on products.
    ``kernels``: of the vectors, compiled. ``weight``: of the inner product of conjugate gradients, a vector; one number
    if all weights are equal. ``products``, ``edges``, ``iterations``: what the run has done so far.
    """

    run: Run
    steps: Sequence[Step]
    state: str
    stride: int
    width: int
    limit: int
    kernels: Sequence[Callable[..., int]]
    weight: Vector
    products: int = 0
    edges: int = 0
    iterations: int = 0
    _bounds: NDArray[np.int64] = field(init=False)

    def __post_init__(self) -> None:
        threads = self.run.threads
        self._bounds = np.linspace(0, self.run.rules.graph.num_vertices, threads + 1).astype(np.int64)
        self._found = np.zeros((threads, 2 * self.width))
        self._ones = np.ones(self.width, np.float32)
        self._product, self._shorten, self._advance, self._turn = self.kernels

    @property
    def start(self) -> Vector:
        """The values that the next superstep reads; afterwards those that it made. Supersteps may swap arrays."""
        return self.run.memory.arrays[f"vertex_{self.state}"]

    def vector(self, name: str) -> Vector:
        """Return a vector of the solvers."""
        return self.run.memory.arrays[buffer_of(name)]

    def superstep(self) -> None:
        """Run one superstep. Raises EngineFailure beyond the limit."""
        if self.products >= self.limit:
            raise EngineFailure(
                f"the solver did not meet the program's criterion within {self.limit} products, as many as the program "
                "has supersteps; allow more supersteps, give a larger tolerance, or leave solver unset"
            )
        self.products += 1
        self.run.begin_superstep()
        for step in self.steps:
            step()
        self.edges += self.run.edges
        self.run.end_superstep()

    def _sums(self) -> tuple[Columns, Columns]:
        """Return the two sums of products that a kernel has computed for every column."""
        both = self._found.sum(axis=0)
        return both[: self.width], both[self.width :]

    def _call(self, kernel: Callable[..., int], *arguments: Any) -> None:
        threads = self.run.threads
        failed = kernel(threads, threads, self._bounds, self.stride, *arguments)
        if failed:
            raise EngineFailure(f"{failed} parts of a kernel of the solver's vectors failed")

    def _weights(self, *, weighted: bool) -> tuple[Vector, int]:
        """Return the weights of an inner product, and the floats from one vertex's to the next one's."""
        if weighted and len(self.weight) > self.width:
            return self.weight, self.stride
        return self._ones, 0

    # operations -------------------------------------------------------------------------------------------------------
    def product(self, vector: str, out: str, left: str, *, weighted: bool = False) -> tuple[Columns, Columns]:
        """Set ``out`` to (I - A) ``vector``, whose values have been written to :attr:`start`.

        Return the products of ``left`` and ``out``, and the squares of ``out``.
        """
        self.superstep()
        arrays = (self.vector(vector), self.start, self.vector("right"), self.vector(out))
        self._call(self._product, *arrays, self.vector(left), *self._weights(weighted=weighted), self._found)
        return self._sums()

    def shorten(self, share: Columns) -> None:
        """Subtract ``share`` times the image from the residual, and write it to :attr:`start`."""
        self._call(self._shorten, self.vector("residual"), self.vector("image"), self.start, _float32(share))

    def advance(
        self, along: Columns, across: Columns, image: str, share: Columns, left: str, *, weighted: bool = False
    ) -> tuple[Columns, Columns]:
        """Add multiples of direction and residual to the solution, and subtract ``share`` times ``image`` from the
        residual.

        Return the products of ``left`` and the new residual, and the squares of the latter.
        """
        arrays = (self.vector("solution"), self.vector("direction"), self.vector("residual"), self.vector(image))
        coefficients = (_float32(along), _float32(across), _float32(share))
        weights = self._weights(weighted=weighted)
        self._call(self._advance, *arrays, *coefficients, self.vector(left), *weights, self._found)
        return self._sums()

    def turn(self, share: Columns, across: Columns) -> None:
        """Turn the direction: to the residual plus ``share`` times what remains of it; write it to :attr:`start`."""
        arrays = (self.vector("direction"), self.vector("residual"), self.vector("image"))
        self._call(self._turn, *arrays, self.start, _float32(share), _float32(across))

    def find_right_side(self) -> None:
        """Set the right side b to a superstep of zero; the state is unchanged."""
        right, residual, zero = self.vector("right"), self.vector("residual"), np.zeros(self.width)
        right[:] = self.start
        self.start[:] = 0.0
        self.superstep()
        residual[:] = self.start
        self.start[:] = right
        right[:] = residual
        _, self._size = self.advance(zero, zero, "image", zero, "residual")

    def begin(self, before: Vector) -> None:
        """Begin to solve for the correction of ``before``, whose superstep is in :attr:`start`.

        The residual is multiplied by a power of two, so that it is ``SCALE`` times as large as b. The rounding of
        S(p) = A p + b is then relative to A p, also where p is small beside b.
        """
        residual, zero = self.vector("residual"), np.zeros(self.width)
        np.subtract(self.start, before, out=residual)
        self.vector("solution")[:] = 0.0
        _, square = self.advance(zero, zero, "image", zero, "residual")
        usable = (square > 0.0) & (self._size > 0.0) & np.isfinite(square)
        ratio = np.divide(self._size, square, out=np.ones_like(square), where=usable)
        self._scale = np.exp2(np.where(usable, np.round(np.log2(SCALE * np.sqrt(ratio))), 0.0)).astype(np.float32)
        self._rows(residual)[...] *= self._scale
        for vector in (self.vector("direction"), self.vector("shadow"), self.start):
            vector[:] = residual

    def end(self, before: Vector, kept: NDArray[np.bool_]) -> None:
        """Add the solution to ``before`` in the columns that are kept; the result is in :attr:`start`."""
        solution = self._rows(self.vector("solution"))
        solution[:, ~kept] = 0.0
        solution /= self._scale
        np.add(self._rows(before), solution, out=self._rows(self.start))

    def _rows(self, vector: Vector) -> NDArray[np.float32]:
        """Return a vector as [V, width], without padding."""
        return vector.reshape(len(vector) // self.stride, self.stride)[:, : self.width]


def _float32(columns: Columns) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # a column that grows without bound is dropped at the end
        return columns.astype(np.float32)
