"""cuSPARSE through CuPy: sparse matrix times dense features on a CUDA device, formulas by CuPy's kernels.

``csr_matrix @ dense`` of CuPy supports one way only; here cuSPARSE's generic routines are called directly, in the way
that is fastest for the matrix (:mod:`engines.libraries.cusparse_matrix`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import cupy
import numpy as np

from engines.libraries.array_engine import ArrayEngine
from engines.libraries.cupy_arrays import CupyArrays
from engines.libraries.matrix import RUN, Matrix, Pattern
from engines.libraries.products import Product
from engines.libraries.schedules import CusparseSchedule
from harness.api import Device, Graph, Phases, Program, concrete, cuda_unavailable, options_of

if TYPE_CHECKING:
    from engines.libraries.cusparse_matrix import Choices, Way


class CusparseEngine(ArrayEngine):
    """Sparse times dense by cuSPARSE; what is no product is unsupported."""

    library = "cuSPARSE"
    schedule: CusparseSchedule
    choices: Choices
    split: list[str]  # yes or no for each side of the graph
    splits: list[str]

    def open(self, device: Device) -> None:
        """CuPy's arrays on the device."""
        from engines.libraries.cusparse_matrix import Choices

        cupy.cuda.Device(device.index).use()
        self.arrays = CupyArrays()
        self.choices, self.split, self.splits = Choices(self._allowed), [], []

    def refused_device(self, device: Device) -> str:
        """A processor, or a machine without a device."""
        return cuda_unavailable(device.index) if device.kind == "cuda" else "cuSPARSE runs on CUDA devices only"

    def _allowed(self, way: Way) -> bool:
        """Whether the schedule allows a way."""
        schedule = self.schedule
        return (
            schedule.algorithm in (0, way.algorithm)
            and schedule.order in ("auto", way.order)
            and schedule.preprocess in ("auto", "yes" if way.preprocess else "no")
        )

    def csr(self, values: Any, columns: Any, offsets: Any, shape: tuple[int, int]) -> Any:
        """A CSR matrix of cuSPARSE."""
        from engines.libraries.cusparse_matrix import CsrMatrix

        return CsrMatrix(values, columns, offsets, shape, self.choices)

    # the choice -------------------------------------------------------------------------------------------------------
    def prepare(self, program: Program, graph: Graph, features: int, device: Device, phases: Phases) -> None:
        """Upload the structure of the matrices, and choose how to multiply."""
        super().prepare(program, graph, features, device, phases)
        if self.products and graph.num_edges:
            with phases("tune"):
                widths = [self.width(product) for product in self.products.values()]
                csc = graph.csc
                for at, side in enumerate(self.sides):
                    columns = csc.neighbours[side.arcs].astype(self.index)
                    self._patterns[at] = self._fastest(columns, side.offsets, self._patterns[at], widths)

    def width(self, product: Product) -> int:
        """The columns of a product's dense operand."""
        return int(np.prod(concrete(product.dense.shape, self.features), dtype=np.int64))

    def _fastest(self, columns: Any, offsets: Any, given: Pattern, widths: Sequence[int]) -> Pattern:
        """The pattern whose products take the least time in all: with long rows cut into runs, or whole."""
        candidates = {"no": given}
        if given.runs is not None:
            whole = Pattern.of(columns, offsets.astype(self.index), given.shape[1], self.arrays, self.csr, None)
            candidates = {"yes": given, "no": whole}
            asked = self.schedule.split
            candidates = candidates if asked == "auto" else {asked: candidates[asked]}
        ms = {
            name: sum(self._milliseconds(pattern, len(columns), n) for n in widths)
            for name, pattern in candidates.items()
        }
        best = min(ms, key=ms.__getitem__)
        for name in candidates.keys() - {best}:
            for structure in candidates[name].structures():
                self.choices.forget(structure)
        self.split.append(best)
        told = ", ".join(f"{name} {taken:.3g} ms" for name, taken in ms.items())
        self.splits.append(f"rows of more than {RUN} entries cut into runs: {best} ({told})")
        return candidates[best]

    def _milliseconds(self, pattern: Pattern, entries: int, n: int) -> float:
        """What a product takes with a matrix of ones, in the fastest way for each of its parts."""
        from engines.libraries.cusparse_matrix import Way, timed

        matrix = pattern.matrix(cupy.ones(entries, np.float32))
        dense = cupy.random.random((pattern.shape[1], n), dtype=np.float32)
        any_way = Way("SpMM", 0)  # each part chooses its own
        return timed([any_way], lambda _: matrix @ dense)[any_way]

    def _filled(self, product: Product) -> list[Matrix]:
        """A product's matrix for each side, for which cuSPARSE has done what it does beforehand."""
        made = super()._filled(product)
        for matrix in made:
            for part in (matrix.rows, matrix.runs):
                if part is not None:
                    part.ready(self.width(product))
        return made

    # ------------------------------------------------------------------------------------------------------------------
    def resolved_options(self) -> dict[str, Any]:
        """Return what the phase *tune* chose.

        An option is a list where matrices, numbers of features or sides of the graph differ, in the order in which
        ``explain`` shows them. Options left open are left out if nothing was multiplied.
        """
        made = getattr(self, "choices", None)
        ways = [choice.way for choice in made.made.values()] if made else []
        if not ways:
            return {name: value for name, value in options_of(self.schedule).items() if value not in (0, "auto")}
        chosen: dict[str, list[Any]] = {
            "algorithm": [way.algorithm for way in ways],
            "order": [way.order for way in ways],
            "preprocess": ["yes" if way.preprocess else "no" for way in ways],
            "split": self.split,
        }
        return {name: values[0] if len(set(values)) == 1 else values for name, values in chosen.items()}

    def explain(self) -> str:
        """Which path each stage takes, and how cuSPARSE multiplies."""
        chosen = [
            f"  {rows:,} x {columns:,} with {choice.entries:,} entries times {n} columns: {choice}"
            for (_, (rows, columns), n), choice in self.choices.made.items()
        ]
        return "\n".join([super().explain(), *(f"  {line}" for line in self.splits), *chosen])

    def told(self, stage: Any) -> str:
        """The path of one stage."""
        if stage.name in self.products:
            return super().told(stage)
        return "kernels that CuPy generates, one a formula, and its reductions"

    def close(self) -> None:
        """Release the device's memory."""
        super().close()
        if hasattr(self, "choices"):
            self.choices.clear()
        self.__dict__.pop("arrays", None)
        cupy.get_default_memory_pool().free_all_blocks()
